//! Checks the kernel: features, huge pages, clock.

use super::finding::Finding;
use super::machine::MachineFacts;
use crate::text::units::bytes;

/// Features of Linux that are used: name, first version, and cost if the feature is missing.
const USED: [(&str, (u32, u32), &str); 2] = [
    ("locks of open files", (3, 15), "no ring can be made or attached to"),
    ("expedited membarrier", (4, 16), "every publication costs a fence"),
];
/// First version that collapses pages of shared memory into huge ones on request.
const COLLAPSE: (u32, u32) = (6, 1);
const SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Clocks that are read without a system call.
const FAST_CLOCKS: [&str; 3] = ["tsc", "kvm-clock", "arch_sys_counter"];
/// 1 January 2025; every valid clock is later.
const BORN_UNIX_S: u64 = 1_735_689_600;

/// Bytes of all rings, and those on huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageBytes {
    pub(crate) allocated: u64,
    pub(crate) huge: u64,
}

/// Checks that the kernel has the features and grants them.
pub(crate) fn features(machine: &dyn MachineFacts) -> Finding {
    const CHECK: &str = "kernel";
    let Some((release, version)) = release(machine) else {
        return Finding::unknown(CHECK, "cannot tell the version of the kernel");
    };
    let missing: Vec<String> = USED
        .iter()
        .filter(|(_, since, _)| version < *since)
        .map(|(what, (major, minor), cost)| format!("{what} (Linux {major}.{minor}): {cost}"))
        .collect();
    let finding = if !missing.is_empty() {
        Finding::found(
            CHECK,
            format!("Linux {release} lacks {}", missing.join("; ")),
            "use a newer kernel; 6.1 has everything",
        )
    } else if machine.has_membarrier() == Some(false) {
        Finding::found(
            CHECK,
            format!(
                "Linux {release} refuses membarrier to this process: publications cost a fence"
            ),
            "allow the system call `membarrier` in the sandbox or container (seccomp)",
        )
    } else {
        Finding::ok(CHECK, format!("Linux {release} has all features that are used"))
    };
    finding.with("release", release).with("membarrier", machine.has_membarrier())
}

/// Checks that rings get huge pages, which make draws faster.
pub(crate) fn huge_pages(machine: &dyn MachineFacts, rings: PageBytes) -> Finding {
    const CHECK: &str = "huge_pages";
    let (Some(setting), Some((release, version))) = (machine.read(SHMEM), release(machine)) else {
        return Finding::unknown(CHECK, "cannot tell whether shared memory gets huge pages");
    };
    let chosen = setting.split('[').nth(1).and_then(|rest| rest.split(']').next());
    let chosen = chosen.unwrap_or("").to_owned();
    let finding = if chosen == "deny" {
        Finding::found(
            CHECK,
            "shared memory is denied huge pages: draws are slower",
            format!("`echo advise > {SHMEM}`, then make the rings again"),
        )
    } else if version < COLLAPSE && matches!(chosen.as_str(), "never" | "advise") {
        Finding::found(
            CHECK,
            format!("Linux {release} gives no huge pages on request (6.1 does): draws are slower"),
            format!("`echo always > {SHMEM}`, then make the rings again; or use a newer kernel"),
        )
    } else if rings.allocated == 0 {
        Finding::ok(CHECK, format!("rings may get them (shmem_enabled: {chosen})"))
    } else {
        Finding::ok(
            CHECK,
            format!("{} of {} of the rings are on them", bytes(rings.huge), bytes(rings.allocated)),
        )
    };
    finding
        .with("shmem_enabled", chosen)
        .with("rings_bytes", rings.allocated)
        .with("rings_huge_bytes", rings.huge)
}

/// Checks that the clock is fast and plausible.
pub(crate) fn clock(machine: &dyn MachineFacts) -> Finding {
    const CHECK: &str = "clock";
    let now = machine.unix_s();
    let source = machine.read(CLOCK).map(|text| text.trim().to_owned());
    let finding = if now < BORN_UNIX_S {
        Finding::found(
            CHECK,
            format!("the wall clock stands at {now} s after 1970: ages are wrong"),
            "set the clock, or let it be set (`timedatectl set-ntp true`)",
        )
    } else {
        match source.as_deref() {
            None => Finding::unknown(CHECK, "cannot tell what clock the kernel uses"),
            Some(name) if FAST_CLOCKS.contains(&name) || name.starts_with("hyperv") => {
                Finding::ok(CHECK, format!("{name} is read without a system call"))
            }
            Some(name) => Finding::found(
                CHECK,
                format!("{name} is read by a system call: waits and measurements cost more"),
                format!("where the processor's is sound: `echo tsc > {CLOCK}`"),
            ),
        }
    };
    finding.with("source", source).with("unix_s", now)
}

/// Returns the kernel's release and its version.
fn release(machine: &dyn MachineFacts) -> Option<(String, (u32, u32))> {
    let release = machine.read("/proc/sys/kernel/osrelease")?.trim().to_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((release, version))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status::{self, Finding as Found, Ok as Well, Unknown};
    use super::super::machine::fake::FakeMachine;
    use super::*;

    const RELEASE: &str = "/proc/sys/kernel/osrelease";

    #[track_caller]
    fn says(finding: &Finding, status: Status, words: &[&str]) {
        let text = format!("{} {:?} {:?}", finding.summary, finding.remedy, finding.evidence);
        assert_eq!(finding.status, status, "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing: {text}");
        }
    }

    #[test]
    fn a_kernel_is_judged_by_its_version_and_by_what_it_grants() {
        let of = |release: &str| FakeMachine::sound().with(RELEASE, release);
        for (machine, status, words) in [
            (FakeMachine::sound(), Well, &["6.8.0-48-generic", "Bool(true)"][..]),
            (of("4.16.0"), Well, &[]),
            (of("4.15.18"), Found, &["membarrier (Linux 4.16)", "fence", "6.1"]),
            (of("3.10.0-1160.el7"), Found, &["Linux 3.15"]),
            (FakeMachine { membarrier: Some(false), ..of("6.8") }, Found, &["seccomp"]),
            (FakeMachine { membarrier: None, ..of("6.8") }, Well, &["Null"]),
            (of("plan 9"), Unknown, &[]),
            (of(""), Unknown, &[]),
        ] {
            says(&features(&machine), status, words);
        }
    }

    #[test]
    fn huge_pages_follow_from_the_version_and_the_setting() {
        let with = |release: &str, chosen: &str| {
            let words = "always within_size advise never deny force";
            let text = words.replace(chosen, &format!("[{chosen}]"));
            FakeMachine::sound().with(RELEASE, release).with(SHMEM, &text)
        };
        let rings = PageBytes { allocated: 8 << 20, huge: 6 << 20 };
        for (machine, pages, status, words) in [
            (FakeMachine::sound(), PageBytes::default(), Well, &["may get them", "never"][..]),
            (FakeMachine::sound(), rings, Well, &["6 MiB of 8 MiB"]),
            (with("6.8", "deny"), rings, Found, &["echo advise", "6291456"]),
            (with("5.15.0", "never"), rings, Found, &["5.15.0", "echo always"]),
            (with("5.15.0", "always"), PageBytes::default(), Well, &["always"]),
            (FakeMachine::sound().with(SHMEM, ""), rings, Unknown, &[]),
            (FakeMachine::sound().with(RELEASE, ""), rings, Unknown, &[]),
        ] {
            says(&huge_pages(&machine, pages), status, words);
        }
    }

    #[test]
    fn a_slow_or_wrong_clock_is_found() {
        for (machine, status, words) in [
            (FakeMachine::sound(), Well, &["tsc"][..]),
            (FakeMachine::sound().with(CLOCK, "kvm-clock\n"), Well, &["kvm-clock"]),
            (FakeMachine::sound().with(CLOCK, "hyperv_clocksource_tsc_page"), Well, &["hyperv"]),
            (FakeMachine::sound().with(CLOCK, "hpet\n"), Found, &["hpet", "echo tsc"]),
            (FakeMachine { unix_s: 86_400, ..FakeMachine::sound() }, Found, &["86400 s"]),
            (FakeMachine::sound().with(CLOCK, ""), Unknown, &[]),
        ] {
            says(&clock(&machine), status, words);
        }
    }
}
