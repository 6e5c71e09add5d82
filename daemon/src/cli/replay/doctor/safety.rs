//! Checks of who else can reach rings: other users, and core files of a crash.

use std::path::Path;

use super::finding::Finding;
use super::limits;
use super::machine::MachineFacts;

/// Sticky bit of a directory's mode. If others may write to the directory, only this bit keeps them
/// from renaming files of this user.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
/// Bit of the filter that puts shared file mappings, such as rings, into core files.
const DUMP_SHARED_FILES: u64 = 1 << 3;

/// Checks whether other users may rename or remove the directory of the rings. `create` itself
/// refuses one whose owner or mode is wrong.
pub(crate) fn permissions(machine: &dyn MachineFacts, dir: &Path) -> Finding {
    const CHECK: &str = "permissions";
    let Some(mode) = machine.mode(dir) else {
        return Finding::unknown(CHECK, format!("cannot tell who may use {}", dir.display()));
    };
    let shown = dir.display();
    let finding = if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        Finding::found(
            CHECK,
            format!("{shown} has mode {mode:04o}: other users may take rings away"),
            format!("`chmod +t {shown}`, or use another directory with --dir or BACKCAST_DIR"),
        )
    } else {
        Finding::ok(CHECK, format!("other users cannot take rings away from {shown}"))
    };
    finding.with("directory_mode", format!("{mode:04o}"))
}

/// Checks whether a process that crashes writes the rings it has open into its core file.
pub(crate) fn core_files(machine: &dyn MachineFacts) -> Finding {
    const CHECK: &str = "core_files";
    let filter = machine
        .read("/proc/self/coredump_filter")
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let (Some(filter), Some((limit, _)), Some(pattern)) = (
        filter,
        limits::limit(machine, "Max core file size"),
        machine.read("/proc/sys/kernel/core_pattern"),
    ) else {
        return Finding::unknown(CHECK, "cannot tell what a crash leaves behind");
    };
    let pattern = pattern.trim().to_owned();
    // A program that takes core files gets them whatever the limit says.
    let written = limit != Some(0) || pattern.starts_with('|');
    let finding = if written && filter & DUMP_SHARED_FILES != 0 {
        Finding::found(
            CHECK,
            format!("a process that crashes writes all its rings into its core file ({pattern})"),
            "leave shared files out before starting it: `echo 0x33 > /proc/self/coredump_filter`",
        )
    } else if written {
        Finding::ok(CHECK, "core files are written without the rings that have a name")
    } else {
        Finding::ok(CHECK, "no core files are written")
    };
    finding
        .with("limit_bytes", limit)
        .with("pattern", pattern)
        .with("filter", format!("{filter:#04x}"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status::{self, Finding as Found, Ok as Well, Unknown};
    use super::super::machine::fake::FakeMachine;
    use super::*;

    #[track_caller]
    fn says(finding: &Finding, status: Status, words: &[&str]) {
        let text = format!("{} {:?} {:?}", finding.summary, finding.remedy, finding.evidence);
        assert_eq!(finding.status, status, "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing: {text}");
        }
    }

    #[test]
    fn a_directory_that_others_may_write_has_to_be_sticky() {
        let with = |mode: Option<u32>| {
            let mut machine = FakeMachine::sound();
            machine.modes.clear();
            machine.modes.extend(mode.map(|mode| ("/dev/shm".to_owned(), mode)));
            machine
        };
        for (machine, status, words) in [
            (FakeMachine::sound(), Well, &["/dev/shm", "1777"][..]),
            (with(Some(0o755)), Well, &["0755"]),
            (with(Some(0o777)), Found, &["0777", "chmod +t /dev/shm", "--dir"]),
            (with(Some(0o775)), Found, &["0775"]),
            (with(None), Unknown, &["/dev/shm"]),
        ] {
            says(&permissions(&machine, Path::new("/dev/shm")), status, words);
        }
    }

    #[test]
    fn rings_in_core_files_are_found() {
        let with = |limit: &str, pattern: &str, filter: &str| {
            FakeMachine::sound()
                .with(
                    "/proc/self/limits",
                    &format!("Max core file size  {limit}  unlimited bytes\n"),
                )
                .with("/proc/sys/kernel/core_pattern", pattern)
                .with("/proc/self/coredump_filter", filter)
        };
        for (machine, status, words) in [
            (FakeMachine::sound(), Well, &["no core files", "0x33"][..]),
            (with("unlimited", "core", "00000033"), Well, &["without the rings"]),
            (with("unlimited", "core", "0000003b"), Found, &["(core)", "coredump_filter"]),
            (with("0", "core", "0000003b"), Well, &["no core files"]),
            (with("0", "|/usr/lib/collect %p", "0000007f"), Found, &["|/usr/lib/collect"]),
            (with("4096", "/var/core.%p", "ff"), Found, &["Number(4096)"]),
            (with("0", "core", "zz"), Unknown, &[]),
            (with("0", "", "33"), Unknown, &[]),
        ] {
            says(&core_files(&machine), status, words);
        }
    }
}
