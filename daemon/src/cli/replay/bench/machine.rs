//! Describes the machine of a measurement.

use std::fs;

use serde::Serialize;

/// JSON of a machine. A field is `None` if the system does not tell it.
#[derive(Debug, Serialize)]
pub(super) struct MachineReport {
    version: &'static str,
    pub(super) optimised: bool,
    cpu: Option<String>,
    cpu_count: u64,
    kernel: Option<String>,
    load_1min: Option<f64>,
}

impl MachineReport {
    pub(super) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let load = read("/proc/loadavg");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            cpu: read("/proc/cpuinfo").as_deref().and_then(model),
            cpu_count: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            load_1min: load.and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }

    /// Returns whether the load of the last minute leaves fewer than 1.5 processors idle. A single
    /// processor is busy above a load of 0.5. Returns false if the load is unknown.
    pub(super) fn is_busy(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "few processors")]
        let spare = self.cpu_count as f64 - 2.0;
        self.load_1min.is_some_and(|load| load > spare.max(0.0) + 0.5)
    }

    pub(super) fn line(&self) -> String {
        let unknown = || "unknown".to_owned();
        format!(
            "backcast {} on {} ({} cores), kernel {}, load {}",
            self.version,
            self.cpu.clone().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            self.cpu_count,
            self.kernel.clone().unwrap_or_else(unknown),
            self.load_1min.map_or_else(unknown, |load| format!("{load:.2}")),
        )
    }
}

/// Returns the name of the first processor.
fn model(cpuinfo: &str) -> Option<String> {
    let named = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(named.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found_where_there_is_one() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0: GHz\nmodel name\t: other\n";
        assert_eq!(model(text).as_deref(), Some("Some CPU @ 2.0: GHz"));
        assert_eq!(model("processor\t: 0\n"), None);
        assert!(MachineReport::look().line().starts_with("backcast "));
    }
}
