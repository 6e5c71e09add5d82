//! Finds the processes that hold an object, through `/proc`.

use std::fs;
use std::path::Path;

/// Names the holders, such as "pid 123 (python3), pid 456 (actor)".
pub(crate) fn describe(object: &Path) -> String {
    let holders = pids(object);
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
