//! Finds the processes that hold an object, through `/proc`.

use std::fs;
use std::path::Path;

use super::catalogue::ObjectState;

/// Names the processes that have a file of the object open.
pub(crate) fn describe(object: &Path) -> String {
    named(&pids(object))
}

/// Returns the holders of an object in words, or a dash for an object that is not held.
pub(crate) fn held_by(state: ObjectState, holders: &[u32]) -> String {
    if state == ObjectState::Held { named(holders) } else { "-".to_owned() }
}

/// Names processes, such as "pid 123 (python3), pid 456 (actor)".
fn named(holders: &[u32]) -> String {
    if holders.is_empty() {
        return "a process that this user cannot see".to_owned();
    }
    let names: Vec<String> = holders
        .iter()
        .map(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("pid {pid} ({})", command.trim())
        })
        .collect();
    names.join(", ")
}

/// Returns the processes that have a file of the object open. Every holder has one, since a lock
/// ends with its descriptor. `/proc` hides processes of other users.
pub(crate) fn pids(object: &Path) -> Vec<u32> {
    let object = object.canonicalize().unwrap_or_else(|_| object.to_owned());
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<u32> = processes
        .flatten()
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|pid| has_open(*pid, &object))
        .collect();
    pids.sort_unstable();
    pids
}

fn has_open(pid: u32, object: &Path) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|descriptors| {
        descriptors
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|target| target.starts_with(object))
    })
}
