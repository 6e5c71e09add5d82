//! Error of reading a file of a store: damage of the file, or a failure of the system.

use std::io;
use std::path::{Path, PathBuf};

use backcast_core::IoCause;

use crate::damage::{Damage, DamageKind};
use crate::error::{NotFilled, StoreError};

/// Error of reading a file of a store: the file is damaged, or the system did not read it, which
/// says nothing about its bytes.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    Damaged(Damage),
    Unread { file: PathBuf, source: io::Error },
}

impl ReadFailure {
    /// Returns the failure of opening or reading a file.
    pub(crate) fn of(file: &Path, source: io::Error) -> Self {
        let kind = match (source.raw_os_error(), source.kind()) {
            (_, io::ErrorKind::NotFound) => DamageKind::Missing,
            // `Storage::open` reports a file that is not regular by an error without a number.
            (None, io::ErrorKind::InvalidInput) => DamageKind::NotAFile,
            _ => return Self::Unread { file: file.to_owned(), source },
        };
        Self::Damaged(Damage { file: file.to_owned(), kind })
    }

    /// Returns what is wrong with the file: that it is damaged, or that it was not read. Fails if
    /// the process ran out of something, so that every other file would fail too.
    pub(crate) fn of_file(self) -> Result<Damage, StoreError> {
        match self {
            Self::Damaged(damage) => Ok(damage),
            Self::Unread { file, source } if IoCause::of(&source).is_of_process() => {
                Err(StoreError::io("read", &file)(source))
            }
            Self::Unread { file, source } => {
                let kind = DamageKind::Unreadable { problem: source.to_string() };
                Ok(Damage { file, kind })
            }
        }
    }
}

impl From<Damage> for ReadFailure {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<ReadFailure> for NotFilled {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Damaged(damage) => Self::Damaged(damage),
            ReadFailure::Unread { file, source } => {
                Self::Other(StoreError::io("read", &file)(source).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LoadError;

    fn of(errno: rustix::io::Errno) -> ReadFailure {
        ReadFailure::of(Path::new("chunk"), errno.into())
    }

    #[test]
    fn only_a_missing_file_is_damage_by_its_error_number() {
        use rustix::io::Errno;
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ACCESS,
            Errno::PERM,
            Errno::IO,
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::ROFS,
            Errno::NOMEM,
            Errno::INTR,
            Errno::NOTDIR,
            Errno::LOOP,
            Errno::NAMETOOLONG,
            Errno::STALE,
        ] {
            let error = NotFilled::from(of(errno)).of("pong@a");
            assert!(matches!(error, LoadError::Store(_)), "{errno}: {error}");
            let told = error.to_string();
            for wrong in ["damaged", "backup", "remove it"] {
                assert!(!told.contains(wrong), "{errno}: {told}");
            }
        }
        let error = NotFilled::from(of(Errno::NOENT)).of("pong@a");
        let LoadError::Damaged { snapshot, damage } = &error else { panic!("{error}") };
        assert_eq!((&**snapshot, &damage.kind), ("pong@a", &DamageKind::Missing));
    }

    #[test]
    fn an_error_of_the_process_ends_a_check_and_one_of_a_file_does_not() {
        assert!(matches!(of(rustix::io::Errno::MFILE).of_file(), Err(StoreError::Io { .. })));
        let unread = of(rustix::io::Errno::IO).of_file().unwrap();
        assert!(matches!(unread.kind, DamageKind::Unreadable { .. }), "{unread}");
        let other: ReadFailure = ReadFailure::of(
            Path::new("chunk"),
            io::Error::new(io::ErrorKind::InvalidInput, "a directory"),
        );
        assert_eq!(other.of_file().unwrap().kind, DamageKind::NotAFile);
    }
}
