//! `backcast doctor`: checks the machine for what rings need.

mod finding;
mod kernel;
mod limits;
mod machine;
mod objects;
mod room;
mod safety;

use backcast_core::Base;

use crate::cli::console::Console;
use crate::cli::exit_status::Exit;
use finding::{Finding, Status};
pub(crate) use machine::{MachineFacts, ThisMachine};
use objects::ObjectSummary;
pub(crate) use room::memory_group;

/// Check the machine: memory, limits, permissions, huge pages, leftovers.
///
/// Each check is ok, a finding with its remedy, or unknown where the system does not tell. Nothing
/// is changed. What `backcast create` checks itself is not repeated. Exit status 1 if there is a
/// finding.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast doctor
  backcast doctor --dir /mnt/big
  backcast --json doctor | jq 'select(.status == \"finding\") | .check, .remedy'")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, base: &Base, console: &mut Console<'_>) -> Exit {
    let findings = examine(&ThisMachine, base, &ObjectSummary::take(base));
    for finding in &findings {
        print(finding, console);
    }
    let found = findings.iter().filter(|finding| finding.status == Status::Finding).count();
    if found == 0 {
        return Exit::Done;
    }
    console.note(&format!("{found} of {} checks found something to do", findings.len()));
    Exit::FoundProblems
}

/// Runs every check, the most important first.
fn examine(machine: &dyn MachineFacts, base: &Base, summary: &ObjectSummary) -> Vec<Finding> {
    // Mount points are absolute paths.
    let base = std::path::absolute(base.path()).unwrap_or_else(|_| base.path().to_owned());
    let dir = base.parent().unwrap_or(&base);
    vec![
        room::directory(machine, dir),
        room::memory(machine, dir),
        room::cgroup(machine, dir),
        room::swap(machine),
        safety::permissions(machine, dir),
        objects::stale(summary),
        kernel::huge_pages(machine, summary.pages),
        limits::open_files(machine, &summary.rings),
        limits::mappings(machine, &summary.rings),
        kernel::features(machine),
        safety::core_files(machine),
        kernel::clock(machine),
    ]
}

fn print(finding: &Finding, console: &mut Console<'_>) {
    if console.json() {
        return console.object(finding);
    }
    console.text(&format!("{:<8} {:<14} {}", finding.status, finding.check, finding.summary));
    if let Some(remedy) = &finding.remedy {
        console.text(&format!("{:<8} {:<14} remedy: {remedy}", "", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::machine::fake::FakeMachine;
    use super::*;

    #[test]
    fn a_sound_machine_has_no_findings_and_every_check_speaks_once() {
        // The fake machine has a tmpfs mounted at this directory.
        let base = Base::at("/dev/shm");
        let findings = examine(&FakeMachine::sound(), &base, &ObjectSummary::default());
        let mut checks: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
        let found: Vec<&Finding> =
            findings.iter().filter(|finding| finding.status != Status::Ok).collect();
        assert!(found.is_empty(), "{found:?}");
        let count = checks.len();
        checks.sort_unstable();
        checks.dedup();
        assert_eq!(checks.len(), count);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_no_finding() {
        let mut machine = FakeMachine { space: None, membarrier: None, ..FakeMachine::sound() };
        machine.files.clear();
        machine.modes.clear();
        let findings = examine(&machine, &Base::at("/dev/shm"), &ObjectSummary::default());
        let known: Vec<&Finding> =
            findings.iter().filter(|finding| finding.status != Status::Unknown).collect();
        // This check reads the directory and not the machine.
        assert_eq!(known.len(), 1, "{known:?}");
        assert_eq!(known[0].check, "stale_objects");
    }
}
