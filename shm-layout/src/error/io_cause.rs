//! Causes of errors of the system. All crates take the class of such an error, and the advice, from
//! here. Such an error says nothing about the content of a file.

use std::io::{self, ErrorKind};

/// Cause of an error of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoCause {
    /// The file system has no bytes, files (inodes) or quota left.
    Space,
    /// This process has as many open files as it may have.
    OpenFiles,
    /// The machine has as many open files as it may have.
    AllOpenFiles,
    /// Memory or address space is short.
    Memory,
    /// A signal interrupted the call.
    Interrupted,
    /// The limit on the size of files is reached.
    FileSize,
    /// This user may not do it.
    Access,
    /// The file system is mounted for reading only.
    ReadOnly,
    /// The device failed.
    Device,
    /// A network file system lost the file.
    Stale,
    /// The path cannot lead to a file: a name is too long, links form a circle, or a part of it is
    /// no directory.
    Path,
    /// There is no such file.
    Missing,
    /// Anything else.
    Other,
}

impl IoCause {
    /// Returns the cause of an error.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE) => return Self::OpenFiles,
            Some(libc::ENFILE) => return Self::AllOpenFiles,
            Some(libc::EIO | libc::ENXIO | libc::ENODEV) => return Self::Device,
            Some(libc::ELOOP) => return Self::Path,
            _ => {}
        }
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Space,
            ErrorKind::OutOfMemory => Self::Memory,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::FileTooLarge => Self::FileSize,
            ErrorKind::PermissionDenied => Self::Access,
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::StaleNetworkFileHandle => Self::Stale,
            ErrorKind::InvalidFilename | ErrorKind::NotADirectory => Self::Path,
            ErrorKind::NotFound => Self::Missing,
            _ => Self::Other,
        }
    }

    /// Returns whether the process or the machine ran out of something, or a signal interrupted the
    /// call. Such an error says nothing about the file.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        matches!(self, Self::OpenFiles | Self::AllOpenFiles | Self::Memory | Self::Interrupted)
    }

    /// Returns whether the path that was given may be the reason.
    #[must_use]
    pub fn is_of_path(self) -> bool {
        matches!(self, Self::Missing | Self::Path | Self::Other)
    }

    /// Returns `path` if the path that was given may be the reason, and the
    /// [`remedy`](Self::remedy) otherwise. `path` says what to check about that path.
    #[must_use]
    pub fn remedy_or(self, path: &str) -> String {
        if self.is_of_path() { path.to_owned() } else { self.remedy() }
    }

    /// Returns what to do about the cause. Never advises to remove anything that was stored.
    #[must_use]
    pub fn remedy(self) -> String {
        let text = match self {
            Self::OpenFiles => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
                let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
                return format!(
                    "this process may have {limit} files open: raise that limit (`ulimit -n`), \
                     close some, or use fewer lanes in a memfd ring"
                );
            }
            Self::AllOpenFiles => {
                "the machine has as many files open as it may have: end programs, or raise the \
                 limit (`sysctl fs.file-max`)"
            }
            Self::Memory => {
                "address space or memory is short: raise the limit if there is one (`ulimit -v`), \
                 end other programs, or ask for fewer rows"
            }
            Self::Interrupted => "a signal interrupted the call: try again",
            Self::FileSize => {
                "raise the limit on the size of files (`ulimit -f`), or ask for fewer rows"
            }
            Self::Space => "free some space, or choose another directory",
            Self::ReadOnly => {
                "the file system is mounted for reading only: mount it for writing, or choose \
                 another directory"
            }
            Self::Device => "check the disk and the kernel's log (`dmesg`), then try again",
            Self::Stale => "the network file system lost the file: mount it again, then try again",
            Self::Path => "check the path: the length of its names, and where its links lead",
            Self::Missing => "check the path, and create the directory if it is missing",
            Self::Access | Self::Other => "check that the directory is yours and writable",
        };
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_number_has_a_cause_and_advice_that_destroys_nothing() {
        for (errno, cause, of_process, word) in [
            (libc::EMFILE, IoCause::OpenFiles, true, "ulimit -n"),
            (libc::ENFILE, IoCause::AllOpenFiles, true, "fs.file-max"),
            (libc::ENOMEM, IoCause::Memory, true, "ulimit -v"),
            (libc::EINTR, IoCause::Interrupted, true, ""),
            (libc::ENOSPC, IoCause::Space, false, ""),
            (libc::EDQUOT, IoCause::Space, false, ""),
            (libc::EFBIG, IoCause::FileSize, false, "ulimit -f"),
            (libc::EACCES, IoCause::Access, false, ""),
            (libc::EPERM, IoCause::Access, false, ""),
            (libc::EROFS, IoCause::ReadOnly, false, ""),
            (libc::EIO, IoCause::Device, false, ""),
            (libc::ESTALE, IoCause::Stale, false, ""),
            (libc::ELOOP, IoCause::Path, false, ""),
            (libc::ENAMETOOLONG, IoCause::Path, false, ""),
            (libc::ENOTDIR, IoCause::Path, false, ""),
            (libc::ENOENT, IoCause::Missing, false, "create"),
            (libc::ETXTBSY, IoCause::Other, false, ""),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            let found = IoCause::of(&error);
            assert_eq!((found, found.is_of_process()), (cause, of_process), "{error}");
            let remedy = found.remedy();
            assert!(!remedy.is_empty() && remedy.contains(word), "{error}: {remedy}");
            for wrong in ["backup", "remove", "backcast rm", "damaged", "anew"] {
                assert!(!remedy.contains(wrong), "{error}: {remedy}");
            }
        }
        assert_eq!(IoCause::of(&ErrorKind::OutOfMemory.into()), IoCause::Memory);
    }

    #[test]
    fn the_limit_on_open_files_is_named() {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
        assert!(IoCause::OpenFiles.remedy().contains(&limit.to_string()));
    }
}
