//! Which processes hold an object: the kernel's locks say that it is held, `/proc` says by whom.

use std::fs;
use std::path::Path;

/// "pid 123 (python3), pid 456 (actor)", or a general word where the system does not tell.
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

/// Processes with a file of the object open: a lock lives as long as its descriptor, so a holder
/// always has one. `/proc` hides those of other users.
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
