//! What the checks may ask of a machine, and this machine's answers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Room in a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) size: u64,
    pub(crate) free: u64,
}

/// Whose a directory is and who else may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    /// The lower twelve bits: set-id, sticky, permissions.
    pub(crate) mode: u32,
}

/// A machine that can be asked. The tests' one is made of paper.
pub(crate) trait Machine {
    /// A text file, of `/proc` and `/sys` mostly; `None` where it is not there or not readable.
    fn read(&self, path: &str) -> Option<String>;
    /// Room where a path leads to.
    fn space(&self, path: &Path) -> Option<Space>;
    /// Whose a path is.
    fn owner(&self, path: &Path) -> Option<Owner>;
    /// Whether this process may make files there.
    fn writable(&self, path: &Path) -> bool;
    /// The user that this process acts for.
    fn uid(&self) -> u32;
    /// Whether the barrier that sleeping readers ask for is granted; `None` where there is none.
    fn has_membarrier(&self) -> Option<bool>;
    /// Wall clock, seconds since 1970.
    fn unix_s(&self) -> u64;

    /// The first word of a file, as a number.
    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.split_whitespace().next()?.parse().ok()
    }
}

/// The machine that this runs on.
pub(crate) struct Here;

impl Machine for Here {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn space(&self, path: &Path) -> Option<Space> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Space { size: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    fn owner(&self, path: &Path) -> Option<Owner> {
        let metadata = fs::metadata(path).ok()?;
        Some(Owner { uid: metadata.uid(), mode: metadata.permissions().mode() & 0o7777 })
    }

    fn writable(&self, path: &Path) -> bool {
        use rustix::fs::Access;
        rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }

    fn uid(&self) -> u32 {
        rustix::process::geteuid().as_raw()
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

/// A machine written down: what is not in it is not there.
#[cfg(test)]
pub(crate) mod paper {
    use std::collections::BTreeMap;

    use super::*;

    pub(crate) struct Paper {
        pub(crate) files: BTreeMap<String, String>,
        pub(crate) space: Option<Space>,
        pub(crate) owners: BTreeMap<String, Owner>,
        pub(crate) writable: bool,
        pub(crate) membarrier: Option<bool>,
        pub(crate) unix_s: u64,
    }

    impl Paper {
        /// A machine without faults: 16 GiB of memory, half of it a tmpfs.
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
                owners: BTreeMap::from([
                    ("/dev/shm".to_owned(), Owner { uid: 0, mode: 0o1777 }),
                    ("/dev/shm/backcast-7".to_owned(), Owner { uid: 7, mode: 0o700 }),
                ]),
                writable: true,
                membarrier: Some(true),
                unix_s: 1_800_000_000,
            }
        }

        /// The same with other words in a file; an empty text takes it away.
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

    impl Machine for Paper {
        fn read(&self, path: &str) -> Option<String> {
            self.files.get(path).cloned()
        }

        fn space(&self, _: &Path) -> Option<Space> {
            self.space
        }

        fn owner(&self, path: &Path) -> Option<Owner> {
            self.owners.get(path.to_str()?).copied()
        }

        fn writable(&self, _: &Path) -> bool {
            self.writable
        }

        fn uid(&self) -> u32 {
            7
        }

        fn has_membarrier(&self) -> Option<bool> {
            self.membarrier
        }

        fn unix_s(&self) -> u64 {
            self.unix_s
        }
    }
}
