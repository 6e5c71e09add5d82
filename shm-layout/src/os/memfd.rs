//! Anonymous memory files, whose size can be sealed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::SegmentError;
use crate::os::mapping::Access;

/// Creates a file without a name in any file system, whose size can be sealed.
#[cfg(target_os = "linux")]
pub(crate) fn anonymous(name: &str) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, fchmod, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux < 6.3 rejects `MFD_NOEXEC_SEAL`; retry without it.
        Err(rustix::io::Errno::INVAL) => memfd_create(name, flags),
        other => other,
    }?;
    fchmod(&made, Mode::from_raw_mode(0o600))?;
    Ok(made)
}

/// Seals the size of an anonymous file, and the set of its seals.
#[cfg(target_os = "linux")]
pub(crate) fn seal(file: &File) -> rustix::io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

/// Returns the size of an open file in bytes, after checking that only this user can open it and
/// that its size is sealed.
#[cfg(target_os = "linux")]
pub(crate) fn check_sealed(fd: &OwnedFd, path: &Path) -> Result<u64, SegmentError> {
    use rustix::fs::{FileType, SealFlags, fcntl_get_seals};
    let len = super::files::check_owner(fd, path, FileType::RegularFile)?;
    let sealed = fcntl_get_seals(fd).unwrap_or(SealFlags::empty());
    if sealed.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Ok(len);
    }
    Err(SegmentError::Permission {
        path: path.to_owned(),
        reason: "the memory that it leads to is not sealed".to_owned(),
    })
}

/// Fails: only Linux has memfds.
#[cfg(not(target_os = "linux"))]
pub(crate) fn anonymous(_: &str) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::NOSYS)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn seal(_: &File) -> rustix::io::Result<()> {
    Err(rustix::io::Errno::NOSYS)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check_sealed(_: &OwnedFd, path: &Path) -> Result<u64, SegmentError> {
    Err(SegmentError::io("open", path)(rustix::io::Errno::NOSYS.into()))
}

/// Opens an anonymous file through the descriptor of a process that has it.
pub(crate) fn open_anonymous(at: &Path, access: Access) -> rustix::io::Result<OwnedFd> {
    let flags = access.flags() | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(at, flags, Mode::empty())
}
