//! Files of a segment, opened relative to their directory and checked before use.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};

use crate::error::SegmentError;
use crate::os::mapping::Access;

impl Access {
    pub(super) fn flags(self) -> OFlags {
        match self {
            Self::ReadOnly => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
        }
    }
}

/// Creates a file that only this user can read and write.
pub(crate) fn make(dir: impl AsFd, name: &str, path: &Path) -> Result<File, SegmentError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::from_raw_mode(0o600))
        .map_err(|e| SegmentError::io("create", &path.join(name))(e.into()))?;
    Ok(File::from(fd))
}

/// Opens a file that only this user can access. If `len` is given, the file must have exactly that
/// number of bytes.
pub(crate) fn open(
    dir: impl AsFd,
    name: &str,
    path: &Path,
    access: Access,
    len: Option<u64>,
) -> Result<OwnedFd, SegmentError> {
    let path = path.join(name);
    let flags = access.flags() | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat(dir, name, flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::LOOP => {
            SegmentError::Permission { path: path.clone(), reason: "it is a symbolic link".into() }
        }
        rustix::io::Errno::NOENT => SegmentError::corrupt(&path, "the file is missing"),
        e => SegmentError::io("open", &path)(e.into()),
    })?;
    let found = check_owner(&fd, &path, FileType::RegularFile)?;
    if let Some(len) = len
        && found != len
    {
        return Err(SegmentError::corrupt(&path, format!("it has {found} bytes, not {len}")));
    }
    Ok(fd)
}

/// Opens a directory that only this user can access.
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, SegmentError> {
    open_dir_at(rustix::fs::CWD, path.as_os_str(), path)
}

/// Opens a directory in another one, if only this user can access it. `path` is for messages.
pub(crate) fn open_dir_at(
    dir: impl AsFd,
    name: &OsStr,
    path: &Path,
) -> Result<OwnedFd, SegmentError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let refuse =
        |reason: &str| SegmentError::Permission { path: path.into(), reason: reason.into() };
    let fd = openat(&dir, name, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => {
            let found = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_symlink();
            let is_link = found.is_ok_and(|stat| is_link(&stat));
            refuse(if is_link { "it is a symbolic link" } else { "it is not a directory" })
        }
        error => SegmentError::io("open", path)(error.into()),
    })?;
    check_owner(&fd, path, FileType::Directory)?;
    Ok(fd)
}

/// Refuses an open directory that is not this user's, or to which other users have any access.
pub(crate) fn check_dir(dir: &OwnedFd, path: &Path) -> Result<(), SegmentError> {
    check_owner(dir, path, FileType::Directory).map(drop)
}

/// Refuses an open file that is not this user's, or to which other users have any access.
pub(crate) fn check_file(file: &OwnedFd, path: &Path) -> Result<(), SegmentError> {
    check_owner(file, path, FileType::RegularFile).map(drop)
}

/// Checks kind, owner and mode of an open file, and returns its size in bytes.
pub(super) fn check_owner(fd: &OwnedFd, path: &Path, kind: FileType) -> Result<u64, SegmentError> {
    let stat = rustix::fs::fstat(fd).map_err(|e| SegmentError::io("look at", path)(e.into()))?;
    let refuse = |reason: String| Err(SegmentError::Permission { path: path.to_owned(), reason });
    let uid = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return refuse(format!(
            "it is not a {}",
            if kind == FileType::Directory { "directory" } else { "regular file" }
        ));
    }
    if stat.st_uid != uid {
        return refuse(format!("it belongs to user {}, not to user {uid}", stat.st_uid));
    }
    if stat.st_mode & 0o077 != 0 {
        return refuse(format!("its mode {:o} lets other users in", stat.st_mode & 0o777));
    }
    u64::try_from(stat.st_size).map_err(|_| SegmentError::corrupt(path, "its size is negative"))
}
