//! Checks of memory for rings: the file system, memory, control groups, swap.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::machine::MachineFacts;
use crate::text::units::bytes;

/// Memory is nearly full if less than the total divided by this number is available.
const NEARLY_FULL: u64 = 20;
/// Minimum swap in use that is a finding.
const SWAPPED_BYTES: u64 = 64 << 20;

/// Checks whether the directory of the rings lies in memory.
pub(crate) fn directory(machine: &dyn MachineFacts, dir: &Path) -> Finding {
    const CHECK: &str = "directory";
    let shown = dir.display();
    let Some(kind) = file_system(machine, dir) else {
        return Finding::unknown(CHECK, format!("cannot tell what file system {shown} is on"))
            .with("path", dir.display().to_string());
    };
    let finding = if in_memory(&kind) {
        Finding::ok(CHECK, format!("{shown} is a {kind}: rings lie in memory"))
    } else {
        Finding::found(
            CHECK,
            format!("{shown} is on {kind}: what is written to rings also goes to its disk"),
            "use a tmpfs such as /dev/shm, with --dir or BACKCAST_DIR",
        )
    };
    finding.with("path", dir.display().to_string()).with("file_system", kind)
}

/// Checks whether memory can hold what the file system promises.
pub(crate) fn memory(machine: &dyn MachineFacts, dir: &Path) -> Finding {
    const CHECK: &str = "memory";
    let (Some(total), Some(available)) =
        (meminfo(machine, "MemTotal"), meminfo(machine, "MemAvailable"))
    else {
        return Finding::unknown(CHECK, "cannot tell how much memory there is");
    };
    let free = machine.space(dir).map_or(0, |space| space.free);
    let tmpfs = file_system(machine, dir).is_some_and(|kind| in_memory(&kind));
    let finding = if available < total / NEARLY_FULL {
        Finding::found(
            CHECK,
            format!("{} of {} are available", bytes(available), bytes(total)),
            "end what uses it, or make smaller rings: a process that finds no memory is killed",
        )
    } else if tmpfs && available < free {
        Finding::found(
            CHECK,
            format!(
                "{} are available, but {} promises {}: a ring may be granted that does not fit",
                bytes(available),
                dir.display(),
                bytes(free)
            ),
            format!(
                "keep rings below {} together, or make the file system smaller",
                bytes(available)
            ),
        )
    } else {
        Finding::ok(CHECK, format!("{} of {} are available", bytes(available), bytes(total)))
    };
    finding
        .with("total_bytes", total)
        .with("available_bytes", available)
        .with("promised_bytes", free)
}

/// Checks whether rings may have been swapped out.
pub(crate) fn swap(machine: &dyn MachineFacts) -> Finding {
    const CHECK: &str = "swap";
    let (Some(total), Some(free)) = (meminfo(machine, "SwapTotal"), meminfo(machine, "SwapFree"))
    else {
        return Finding::unknown(CHECK, "cannot tell whether there is swap");
    };
    let used = total.saturating_sub(free);
    let finding = if used >= SWAPPED_BYTES {
        Finding::found(
            CHECK,
            format!("{} of memory lie in swap: rows that do are slow to read", bytes(used)),
            "make smaller rings, add memory, or lower vm.swappiness",
        )
    } else if total == 0 {
        Finding::ok(CHECK, "there is none: rings stay in memory")
    } else {
        Finding::ok(CHECK, format!("{} of {} are used", bytes(used), bytes(total)))
    };
    finding.with("total_bytes", total).with("used_bytes", used)
}

/// Checks whether a control group of version 1 grants less memory than the file system promises.
/// `create` checks the limit of version 2 itself.
pub(crate) fn cgroup(machine: &dyn MachineFacts, dir: &Path) -> Finding {
    const CHECK: &str = "cgroup";
    let Some(groups) = machine.read("/proc/self/cgroup") else {
        return Finding::unknown(CHECK, "cannot tell whether a control group limits memory");
    };
    let Some(Group { path, limit, room, version }) = tightest(machine, &groups) else {
        return Finding::ok(CHECK, "no control group limits memory");
    };
    let free = machine.space(dir).map_or(0, |space| space.free);
    let says = format!("the control group grants {} and has {} left", bytes(limit), bytes(room));
    let finding = if version == 1 && room < free {
        Finding::found(
            CHECK,
            format!(
                "{says}, less than the {} that are free in {}: rings beyond that end the process \
                 that touches them",
                bytes(free),
                dir.display()
            ),
            "raise the limit (of a container: --memory), or make smaller rings",
        )
    } else {
        Finding::ok(CHECK, says)
    };
    finding
        .with("path", path)
        .with("version", version)
        .with("limit_bytes", limit)
        .with("room_bytes", room)
        .with("free_bytes", free)
}

/// Returns the limit of the tightest control group above this process and what is left of it, in
/// bytes.
pub(crate) fn memory_group(machine: &dyn MachineFacts) -> Option<(u64, u64)> {
    let groups = machine.read("/proc/self/cgroup")?;
    tightest(machine, &groups).map(|group| (group.limit, group.room))
}

/// A control group with a limit.
struct Group {
    path: String,
    limit: u64,
    room: u64,
    version: u8,
}

/// Returns the cgroup with the least memory left, among those of this process and their ancestors,
/// of either cgroup version.
fn tightest(machine: &dyn MachineFacts, groups: &str) -> Option<Group> {
    // Version 1 writes "unlimited" as the largest number of whole pages.
    const UNLIMITED: u64 = 1 << 62;
    let places = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            Some((2_u8, "/sys/fs/cgroup", path, "memory.max", "memory.current"))
        } else if controllers.split(',').any(|name| name == "memory") {
            let root = "/sys/fs/cgroup/memory";
            Some((1, root, path, "memory.limit_in_bytes", "memory.usage_in_bytes"))
        } else {
            None
        }
    });
    places
        .flat_map(|(version, root, path, limit, used)| {
            let above = Path::new(root).join(path);
            let above: Vec<PathBuf> = above
                .ancestors()
                .take_while(|dir| dir.starts_with(root))
                .map(Path::to_path_buf)
                .collect();
            above.into_iter().filter_map(move |dir| {
                let path = dir.to_str()?.to_owned();
                let limit = machine.number(&format!("{path}/{limit}"))?;
                let used = machine.number(&format!("{path}/{used}")).unwrap_or(0);
                let stat = machine.read(&format!("{path}/memory.stat")).unwrap_or_default();
                let used = used.saturating_sub(file_cache(&stat));
                let room = limit.saturating_sub(used);
                (limit < UNLIMITED).then_some(Group { path, limit, room, version })
            })
        })
        .min_by_key(|group| group.room)
}

/// Returns the bytes of file cache, which the kernel reclaims before it kills.
fn file_cache(stat: &str) -> u64 {
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(key, _)| matches!(*key, "inactive_file" | "active_file"))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

/// Returns a line of `/proc/meminfo` in bytes.
fn meminfo(machine: &dyn MachineFacts, key: &str) -> Option<u64> {
    let text = machine.read("/proc/meminfo")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn in_memory(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs" | "hugetlbfs")
}

/// Returns the type of the file system that a path is on: of the deepest mount above it.
fn file_system(machine: &dyn MachineFacts, dir: &Path) -> Option<String> {
    let mounts = machine.read("/proc/self/mountinfo")?;
    let found = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(mount.split(' ').nth(4)?));
        let kind = file_system.split(' ').next()?;
        dir.starts_with(&point).then(|| (point.components().count(), kind.to_owned()))
    });
    // Of two mounts at one place the later one hides the other.
    found.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// Decodes the octal escapes of blanks and backslashes in mount points.
fn unescaped(text: &str) -> String {
    ["\\040 ", "\\011\t", "\\012\n", "\\134\\"].iter().fold(text.to_owned(), |text, pair| {
        let (code, plain) = pair.split_at(4);
        text.replace(code, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status::{self, Finding as Found, Ok as Well, Unknown};
    use super::super::machine::fake::FakeMachine;
    use super::*;

    const SHM: &str = "/dev/shm";
    const MOUNTS: &str = "/proc/self/mountinfo";

    #[track_caller]
    fn says(finding: &Finding, status: Status, words: &[&str]) {
        let text = format!("{} {:?} {:?}", finding.summary, finding.remedy, finding.evidence);
        assert_eq!(finding.status, status, "{text}");
        assert_eq!(finding.remedy.is_some(), status == Found, "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing: {text}");
        }
    }

    #[test]
    fn the_directory_is_judged_by_the_mount_it_lies_on() {
        for (dir, status, words) in [
            (SHM, Well, &["tmpfs", "in memory"][..]),
            ("/dev/shm/deeper", Well, &["tmpfs"]),
            ("/mnt/my disk/rings", Found, &["xfs", "BACKCAST_DIR"]),
            ("/home", Found, &["ext4", "disk"]),
        ] {
            says(&directory(&FakeMachine::sound(), Path::new(dir)), status, words);
        }
        says(&directory(&FakeMachine::sound().with(MOUNTS, ""), Path::new(SHM)), Unknown, &[SHM]);
        let again = "25 24 0:23 / /dev/shm rw - tmpfs a rw\n26 24 0:24 / /dev/shm rw - ext4 b rw\n";
        says(
            &directory(&FakeMachine::sound().with(MOUNTS, again), Path::new(SHM)),
            Found,
            &["ext4"],
        );
    }

    #[test]
    fn memory_must_hold_what_the_file_system_promises() {
        let with = |available: &str| {
            let text = format!("MemTotal: 16777216 kB\nMemAvailable: {available} kB\n");
            FakeMachine::sound().with("/proc/meminfo", &text)
        };
        for (machine, dir, status, words) in [
            (FakeMachine::sound(), SHM, Well, &["12 GiB of 16 GiB"][..]),
            (with("4194304"), SHM, Found, &["4 GiB", "promises 8 GiB", "below 4 GiB"]),
            (with("4194304"), "/home", Well, &["4 GiB of 16 GiB"]),
            (with("102400"), "/home", Found, &["100 MiB of 16 GiB", "killed"]),
            (FakeMachine::sound().with("/proc/meminfo", ""), SHM, Unknown, &[]),
            (FakeMachine::sound().with("/proc/meminfo", "MemTotal: x kB\n"), SHM, Unknown, &[]),
        ] {
            says(&memory(&machine, Path::new(dir)), status, words);
        }
    }

    #[test]
    fn swap_in_use_is_found_and_swap_that_waits_is_not() {
        let with = |total: u64, free: u64| {
            let text = format!("SwapTotal: {total} kB\nSwapFree: {free} kB\n");
            FakeMachine::sound().with("/proc/meminfo", &text)
        };
        says(&swap(&with(0, 0)), Well, &["none"]);
        says(&swap(&with(1 << 20, 1 << 20)), Well, &["0 B of 1 GiB"]);
        says(&swap(&with(1 << 20, 1 << 19)), Found, &["512 MiB", "vm.swappiness"]);
        says(&swap(&with(1, 2)), Well, &["0 B"]);
        says(&swap(&FakeMachine::sound().with("/proc/meminfo", "")), Unknown, &[]);
    }

    #[test]
    fn the_tightest_control_group_counts_in_both_versions() {
        let v2 = |file: &str| format!("/sys/fs/cgroup/{file}");
        let v1 = |file: &str| format!("/sys/fs/cgroup/memory/job/{file}");
        let two = || {
            let machine = FakeMachine::sound().with("/proc/self/cgroup", "0::/a/b\n");
            machine.with(&v2("a/b/memory.max"), "max\n").with(&v2("a/b/memory.current"), "5\n")
        };
        let one = FakeMachine::sound().with("/proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/\n");
        for (machine, status, words) in [
            (FakeMachine::sound(), Well, &["no control group"][..]),
            (two(), Well, &["no control group"]),
            (
                two()
                    .with(&v2("a/memory.max"), "4294967296\n")
                    .with(&v2("a/memory.current"), "3221225472\n")
                    .with(&v2("a/memory.stat"), "inactive_file 536870912\nactive_file 536870912\n"),
                Well,
                &["grants 4 GiB", "2 GiB left", "/sys/fs/cgroup/a\""],
            ),
            (
                two()
                    .with(&v2("a/memory.max"), "17179869184\n")
                    .with(&v2("a/memory.current"), "4096\n"),
                Well,
                &["grants 16 GiB"],
            ),
            (
                one.with(&v1("memory.limit_in_bytes"), "1073741824\n")
                    .with(&v1("memory.usage_in_bytes"), "0\n"),
                Found,
                &["1 GiB", "\"version\": Number(1)"],
            ),
            (
                FakeMachine::sound()
                    .with("/proc/self/cgroup", "4:memory:/\n")
                    .with("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                Well,
                &["no control group"],
            ),
            (FakeMachine::sound().with("/proc/self/cgroup", ""), Unknown, &[]),
        ] {
            says(&cgroup(&machine, Path::new(SHM)), status, words);
        }
    }
}
