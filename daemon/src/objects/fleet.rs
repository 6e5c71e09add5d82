//! Statistics of a fleet, which its parent writes into the directory of its ring of reports.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// File in the ring's directory, as `backcast.Fleet` writes it.
const FILE: &str = "fleet.json";
/// Maximum bytes of the file.
const MAX_BYTES: u64 = 64 << 10;

/// Statistics of a fleet: some of those of `Fleet.stats()`, under the same names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct FleetReport {
    /// Ring that the actors fill, if the fleet knows it.
    pub(crate) buffer: Option<String>,
    pub(crate) n: u32,
    pub(crate) running: u32,
    pub(crate) restarts: u64,
    pub(crate) rows_per_s: Option<f64>,
    pub(crate) updates: u64,
    pub(crate) updates_per_s: f64,
    pub(crate) samples_per_insert: Option<f64>,
    pub(crate) policy_version: Option<u64>,
    pub(crate) policy_age_versions: Option<f64>,
    pub(crate) policy_age_s: Option<f64>,
    pub(crate) episodes: u64,
    pub(crate) return_mean: Option<f64>,
    /// Time of the report by the wall clock.
    pub(crate) updated_unix_ns: u64,
}

impl FleetReport {
    /// Reads the report in the directory of a ring of reports. Returns `None` for other rings, and
    /// if the file cannot be read or is not a report.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let mut text = Vec::new();
        let file = File::open(dir.join(FILE)).ok()?;
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_and_other_bytes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FleetReport::read(dir.path()), None);
        let report = FleetReport { n: 4, return_mean: Some(-1.5), ..FleetReport::default() };
        let text = serde_json::to_string(&report).unwrap();
        for (written, read) in [
            (text.clone(), Some(report)),
            (text[..text.len() - 1].to_owned(), None),
            (text.replace("\"n\":4", "\"n\":-4"), None),
            ("9".repeat(100_000), None),
        ] {
            std::fs::write(dir.path().join(FILE), written).unwrap();
            assert_eq!(FleetReport::read(dir.path()), read);
        }
    }
}
