//! Facts of a machine that the checks use: a trait, this machine, and a fake one for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Size and free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) size: u64,
    pub(crate) free: u64,
}

/// Source of facts about a machine.
pub(crate) trait MachineFacts {
    /// Reads a text file, mostly of `/proc` and `/sys`. Returns `None` if it is missing or
    /// unreadable.
    fn read(&self, path: &str) -> Option<String>;
    /// Returns the space of the file system of a path.
    fn space(&self, path: &Path) -> Option<Space>;
    /// Returns the lower twelve bits of a file's mode: set-id, sticky, permissions. Returns `None`
    /// if the system does not tell.
    fn mode(&self, path: &Path) -> Option<u32>;
    /// Returns whether the kernel grants expedited membarrier, or `None` on other systems than
    /// Linux.
    fn has_membarrier(&self) -> Option<bool>;
    /// Returns the wall clock in seconds since 1970.
    fn unix_s(&self) -> u64;

    /// Returns the first word of a file as a number.
    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.split_whitespace().next()?.parse().ok()
    }
}

/// This machine.
pub(crate) struct ThisMachine;

impl MachineFacts for ThisMachine {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn space(&self, path: &Path) -> Option<Space> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Space { size: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        Some(fs::metadata(path).ok()?.permissions().mode() & 0o7777)
    }

    #[cfg(target_os = "linux")]
    fn has_membarrier(&self) -> Option<bool> {
        use rustix::thread::MembarrierQuery;
        Some(rustix::thread::membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED))
    }

    #[cfg(not(target_os = "linux"))]
    fn has_membarrier(&self) -> Option<bool> {
        None
    }

    fn unix_s(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.as_secs())
    }
}

/// A fake machine with given facts; everything else is missing.
#[cfg(test)]
pub(crate) mod fake {
    use std::collections::BTreeMap;

    use super::*;

    pub(crate) struct FakeMachine {
        pub(crate) files: BTreeMap<String, String>,
        pub(crate) space: Option<Space>,
        pub(crate) modes: BTreeMap<String, u32>,
        pub(crate) membarrier: Option<bool>,
        pub(crate) unix_s: u64,
    }

    impl FakeMachine {
        /// Returns a machine without faults: 16 GiB of memory, half of it a tmpfs.
        pub(crate) fn sound() -> Self {
            let files = [
                ("/proc/self/mountinfo", MOUNTS),
                ("/proc/self/cgroup", "0::/user\n"),
                ("/proc/meminfo", MEMORY),
                ("/proc/self/limits", LIMITS),
                ("/proc/sys/vm/max_map_count", "65530\n"),
                ("/proc/sys/kernel/osrelease", "6.8.0-48-generic\n"),
                ("/proc/sys/kernel/core_pattern", "core\n"),
                ("/proc/self/coredump_filter", "00000033\n"),
                ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                (
                    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                    "always within_size advise [never] deny force\n",
                ),
                ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ];
            Self {
                files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).into(),
                space: Some(Space { size: 8 << 30, free: 8 << 30 }),
                modes: BTreeMap::from([("/dev/shm".to_owned(), 0o1777)]),
                membarrier: Some(true),
                unix_s: 1_800_000_000,
            }
        }

        /// Replaces the text of a file; an empty text removes the file.
        pub(crate) fn with(mut self, path: &str, text: &str) -> Self {
            if text.is_empty() {
                self.files.remove(path);
            } else {
                self.files.insert(path.to_owned(), text.to_owned());
            }
            self
        }
    }

    const MOUNTS: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
24 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=8190000k
25 24 0:23 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw
26 22 254:2 / /mnt/my\\040disk rw,relatime shared:4 - xfs /dev/vdb rw
";
    const MEMORY: &str = "\
MemTotal:       16777216 kB
MemFree:          984500 kB
MemAvailable:   12582912 kB
Shmem:            102400 kB
SwapTotal:             0 kB
SwapFree:              0 kB
";
    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max core file size        0                    unlimited            bytes
Max open files            1024                 524288               files
";

    impl MachineFacts for FakeMachine {
        fn read(&self, path: &str) -> Option<String> {
            self.files.get(path).cloned()
        }

        fn space(&self, _: &Path) -> Option<Space> {
            self.space
        }

        fn mode(&self, path: &Path) -> Option<u32> {
            self.modes.get(path.to_str()?).copied()
        }

        fn has_membarrier(&self) -> Option<bool> {
            self.membarrier
        }

        fn unix_s(&self) -> u64 {
            self.unix_s
        }
    }
}
