//! Checks the limits on open files and mappings of a process.

use super::finding::Finding;
use super::machine::MachineFacts;
use crate::text::units::exact;

/// Files that a program has open beside lanes.
const OTHER_FILES: u64 = 64;
/// Files that a process may have open by default on most systems.
const USUAL_FILES: u64 = 1_024;
/// Mappings of an interpreter and its libraries.
const OTHER_MAPS: u64 = 2_000;
/// Mappings of a lane beside those of columns.
const MAPS_BESIDE_COLUMNS: u64 = 3;
/// Columns of a typical ring.
const TYPICAL_COLUMNS: u64 = 8;

/// Lanes and columns of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingExtent {
    pub(crate) name: String,
    pub(crate) lanes: u64,
    pub(crate) columns: u64,
}

impl RingExtent {
    /// Returns the mappings of a process that writes every lane.
    fn maps(&self) -> u64 {
        self.lanes.saturating_mul(maps_per_lane(self.columns))
    }
}

/// Returns the mappings that a writer needs for a lane, which it maps twice: for reading and for
/// writing.
fn maps_per_lane(columns: u64) -> u64 {
    columns.saturating_add(MAPS_BESIDE_COLUMNS).saturating_mul(2)
}

/// Checks that a process can open the files of all lanes of the largest ring.
pub(crate) fn open_files(machine: &dyn MachineFacts, rings: &[RingExtent]) -> Finding {
    const CHECK: &str = "open_files";
    let Some((soft, hard)) = limit(machine, "Max open files") else {
        return Finding::unknown(CHECK, "cannot tell how many files a process may open");
    };
    let (soft, hard) = (soft.unwrap_or(u64::MAX), hard.unwrap_or(u64::MAX));
    let lanes = soft.saturating_sub(OTHER_FILES);
    let largest = rings.iter().max_by_key(|ring| ring.lanes);
    let finding = match largest.filter(|ring| ring.lanes > lanes) {
        Some(ring) => {
            let needed = ring.lanes + OTHER_FILES;
            Finding::found(
                CHECK,
                format!(
                    "a process may open {} files, too few to write all {} lanes of `{}`",
                    exact(soft),
                    exact(ring.lanes),
                    ring.name
                ),
                if needed <= hard {
                    format!("raise the limit where writers are started: `ulimit -n {needed}`")
                } else {
                    format!(
                        "raise the limit for this user (LimitNOFILE of a service, limits.conf) to \
                         {needed} at least, or spread the lanes over several processes"
                    )
                },
            )
        }
        None if lanes == 0 => Finding::found(
            CHECK,
            format!(
                "a process may open {} files; one that writes a single lane needs {}",
                exact(soft),
                exact(OTHER_FILES + 1)
            ),
            if USUAL_FILES <= hard {
                format!("raise the limit where programs are started: `ulimit -n {USUAL_FILES}`")
            } else {
                format!(
                    "raise the limit for this user (LimitNOFILE of a service, limits.conf) to \
                     {USUAL_FILES}"
                )
            },
        ),
        None => Finding::ok(
            CHECK,
            format!("a process may open {}: enough to write {} lanes", of(soft), of(lanes)),
        ),
    };
    let finding = finding.with("soft_limit_files", soft).with("hard_limit_files", hard);
    match largest {
        Some(ring) => finding.with("largest_ring_lanes", ring.lanes),
        None => finding,
    }
}

/// Checks that a process can map all lanes of all rings.
pub(crate) fn mappings(machine: &dyn MachineFacts, rings: &[RingExtent]) -> Finding {
    const CHECK: &str = "mappings";
    let Some(limit) = machine.number("/proc/sys/vm/max_map_count") else {
        return Finding::unknown(CHECK, "cannot tell how many mappings a process may have");
    };
    let room = limit.saturating_sub(OTHER_MAPS);
    let needed = rings.iter().map(RingExtent::maps).fold(0, u64::saturating_add);
    let finding = if needed > room {
        Finding::found(
            CHECK,
            format!(
                "a process may have {} mappings; one that writes every lane of all rings here \
                 needs {}",
                exact(limit),
                exact(needed + OTHER_MAPS)
            ),
            format!(
                "`sysctl -w vm.max_map_count={}`, or use fewer lanes",
                (needed + OTHER_MAPS) * 2
            ),
        )
    } else {
        Finding::ok(
            CHECK,
            format!(
                "a process may have {}: enough to write {} lanes of {TYPICAL_COLUMNS} columns",
                exact(limit),
                exact(room / maps_per_lane(TYPICAL_COLUMNS))
            ),
        )
    };
    finding.with("limit_mappings", limit).with("needed_mappings", needed)
}

fn of(files: u64) -> String {
    if files >= u64::MAX - OTHER_FILES { "any number".to_owned() } else { exact(files) }
}

/// Returns soft and hard limit of a line of `/proc/self/limits`; an inner `None` is "unlimited".
pub(crate) fn limit(machine: &dyn MachineFacts, name: &str) -> Option<(Option<u64>, Option<u64>)> {
    let text = machine.read("/proc/self/limits")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut numbers = rest.split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        word => word.parse().ok().map(Some),
    });
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status::{self, Finding as Found, Ok as Well, Unknown};
    use super::super::machine::fake::FakeMachine;
    use super::*;

    fn ring(lanes: u64, columns: u64) -> RingExtent {
        RingExtent { name: "pong".to_owned(), lanes, columns }
    }

    #[track_caller]
    fn says(finding: &Finding, status: Status, words: &[&str]) {
        let text = format!("{} {:?} {:?}", finding.summary, finding.remedy, finding.evidence);
        assert_eq!(finding.status, status, "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing: {text}");
        }
    }

    #[test]
    fn a_writer_needs_a_file_for_each_lane() {
        const LIMITS: &str = "/proc/self/limits";
        let unlimited =
            "Max open files            unlimited            unlimited            files\n";
        for (machine, rings, status, words) in [
            (FakeMachine::sound(), vec![], Well, &["1,024", "960 lanes"][..]),
            (FakeMachine::sound(), vec![ring(960, 1), ring(8, 1)], Well, &["960"]),
            (
                FakeMachine::sound(),
                vec![ring(961, 1)],
                Found,
                &["961 lanes", "`pong`", "ulimit -n 1025"],
            ),
            (
                FakeMachine::sound().with(LIMITS, "Max open files            1024  1024  files\n"),
                vec![ring(4096, 1)],
                Found,
                &["LimitNOFILE", "4160"],
            ),
            (
                FakeMachine::sound().with(LIMITS, "Max open files            6  4096  files\n"),
                vec![],
                Found,
                &["6 files", "65", "ulimit -n 1024"],
            ),
            (
                FakeMachine::sound().with(LIMITS, "Max open files            64  64  files\n"),
                vec![],
                Found,
                &["64 files", "LimitNOFILE", "1024"],
            ),
            (
                FakeMachine::sound().with(LIMITS, "Max open files            65  65  files\n"),
                vec![ring(1, 1)],
                Well,
                &["1 lanes"],
            ),
            (
                FakeMachine::sound().with(LIMITS, unlimited),
                vec![ring(4096, 1)],
                Well,
                &["any number"],
            ),
            (FakeMachine::sound().with(LIMITS, ""), vec![], Unknown, &[]),
            (FakeMachine::sound().with(LIMITS, "Max open files   many"), vec![], Unknown, &[]),
        ] {
            says(&open_files(&machine, &rings), status, words);
        }
    }

    #[test]
    fn each_lane_takes_mappings() {
        const COUNT: &str = "/proc/sys/vm/max_map_count";
        for (machine, rings, status, words) in [
            (FakeMachine::sound(), vec![], Well, &["65,530", "2,887 lanes of 8 columns"][..]),
            (FakeMachine::sound(), vec![ring(4096, 4)], Well, &["Number(57344)"]),
            (
                FakeMachine::sound(),
                vec![ring(4096, 4), ring(1024, 4)],
                Found,
                &["73,680", "vm.max_map_count=147360"],
            ),
            (FakeMachine::sound().with(COUNT, "12\n"), vec![ring(1, 1)], Found, &["12"]),
            (FakeMachine::sound().with(COUNT, ""), vec![], Unknown, &[]),
            (FakeMachine::sound().with(COUNT, "-1"), vec![], Unknown, &[]),
        ] {
            says(&mappings(&machine, &rings), status, words);
        }
    }
}
