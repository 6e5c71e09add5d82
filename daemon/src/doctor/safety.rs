//! Who else gets to see rings: other users, and files left by a crash.

use std::path::Path;

use super::finding::Finding;
use super::limits;
use super::machine::Machine;

/// Directories where everybody may write must have it, or anybody may rename ours.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
const OTHERS_USE: u32 = 0o077;
/// Bit of the filter: shared mappings of files, which rings are, go into core files.
const DUMP_SHARED_FILES: u64 = 1 << 3;

/// Whether others may look into, or take away, the directory of the rings.
pub(crate) fn permissions(machine: &dyn Machine, dir: &Path, base: &Path) -> Finding {
    const CHECK: &str = "permissions";
    let Some(parent) = machine.owner(dir) else {
        return Finding::unknown(CHECK, format!("cannot tell who may use {}", dir.display()));
    };
    let ours = machine.owner(base);
    let (shown, inner, uid) = (dir.display(), base.display(), machine.uid());
    let finding = match ours {
        Some(owner) if owner.uid != uid => Finding::found(
            CHECK,
            format!("{inner} belongs to user {}, not to {uid}", owner.uid),
            "have its owner or the administrator remove it, or use another directory with --dir \
             or BACKCAST_DIR",
        ),
        Some(owner) if owner.mode & OTHERS_USE != 0 => Finding::found(
            CHECK,
            format!("{inner} has mode {:03o}: other users may look into it", owner.mode & 0o777),
            format!("`chmod 700 {inner}`"),
        ),
        _ if parent.mode & OTHERS_WRITE != 0 && parent.mode & STICKY == 0 => Finding::found(
            CHECK,
            format!(
                "{shown} has mode {:04o}: whoever may write there may take rings away",
                parent.mode
            ),
            format!("`chmod +t {shown}`, or use another directory with --dir or BACKCAST_DIR"),
        ),
        None if !machine.writable(dir) => Finding::found(
            CHECK,
            format!("user {uid} may not make files in {shown}"),
            "use a directory of your own with --dir or BACKCAST_DIR",
        ),
        Some(_) if !machine.writable(base) => Finding::found(
            CHECK,
            format!("user {uid} may not make files in {inner}"),
            format!("`chmod 700 {inner}`; if that changes nothing, it is mounted read-only"),
        ),
        Some(_) => Finding::ok(CHECK, format!("{inner} is this user's alone")),
        None => Finding::ok(CHECK, format!("{inner} will be made for this user alone")),
    };
    let finding = finding.with("uid", uid).with("directory_mode", format!("{:04o}", parent.mode));
    match ours {
        Some(owner) => {
            finding.with("base_mode", format!("{:04o}", owner.mode)).with("base_uid", owner.uid)
        }
        None => finding,
    }
}

/// Whether a process that crashes writes the rings it has open into its core file.
pub(crate) fn core_files(machine: &dyn Machine) -> Finding {
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
    use super::super::machine::Owner;
    use super::super::machine::paper::Paper;
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
    fn only_this_user_may_use_the_directory() {
        let (dir, base) = (Path::new("/dev/shm"), Path::new("/dev/shm/backcast-7"));
        let with = |parent: Option<u32>, ours: Option<(u32, u32)>, writable: bool| {
            let mut machine = Paper { writable, ..Paper::sound() };
            machine.owners.clear();
            if let Some(mode) = parent {
                machine.owners.insert("/dev/shm".into(), Owner { uid: 0, mode });
            }
            if let Some((uid, mode)) = ours {
                machine.owners.insert("/dev/shm/backcast-7".into(), Owner { uid, mode });
            }
            machine
        };
        for (machine, status, words) in [
            (Paper::sound(), Well, &["this user's alone"][..]),
            (with(Some(0o1777), None, true), Well, &["will be made"]),
            (with(Some(0o755), None, true), Well, &["will be made"]),
            (with(Some(0o1777), Some((8, 0o700)), true), Found, &["user 8, not to 7", "--dir"]),
            (with(Some(0o1777), Some((7, 0o750)), true), Found, &["750", "chmod 700"]),
            (with(Some(0o777), Some((7, 0o700)), true), Found, &["0777", "chmod +t /dev/shm"]),
            (with(Some(0o755), None, false), Found, &["may not make files in /dev/shm\""]),
            (with(Some(0o1777), Some((7, 0o700)), false), Found, &["backcast-7", "read-only"]),
            (with(None, None, true), Unknown, &["/dev/shm"]),
        ] {
            // The sentence ends where the path does.
            let mut finding = permissions(&machine, dir, base);
            finding.summary.push('"');
            says(&finding, status, words);
        }
    }

    #[test]
    fn rings_in_core_files_are_found() {
        let with = |limit: &str, pattern: &str, filter: &str| {
            Paper::sound()
                .with(
                    "/proc/self/limits",
                    &format!("Max core file size  {limit}  unlimited bytes\n"),
                )
                .with("/proc/sys/kernel/core_pattern", pattern)
                .with("/proc/self/coredump_filter", filter)
        };
        for (machine, status, words) in [
            (Paper::sound(), Well, &["no core files", "0x33"][..]),
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
