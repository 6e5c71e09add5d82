//! What objects there are, and what can be told of them from outside.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{
    BUILDING_PREFIX, DEAD_PREFIX, HOLD_BYTE, KEEP_BYTE, PERSISTENT_FILE, is_in_memfds, partial,
};
use crate::error::SegmentError;
use crate::memfd;
use crate::name::{Base, Kind};
use crate::sys::file;
use crate::sys::lock::LockFile;
use crate::sys::map::Access;

/// One named object as the file system and the kernel's locks show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct ObjectInfo {
    /// Name, or what a partial ring is to be called; empty for another remnant of a creator or remover that
    /// died.
    pub name: String,
    /// Ring or panel.
    pub kind: Kind,
    /// The object's directory.
    pub path: PathBuf,
    /// Bytes allocated.
    pub bytes: u64,
    /// Stays when nobody holds it.
    pub persistent: bool,
    /// Some process has a handle on it.
    pub held: bool,
    /// Not named yet, or not any more: a remnant, unless held.
    pub building: bool,
    /// It lies in sealed memfds, not in files.
    pub memfd: bool,
}

impl ObjectInfo {
    /// Whether it is a ring that is being filled, or was when its maker died: the next one can go on with
    /// it ([`PartialRing`](super::PartialRing)).
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.building && !self.name.is_empty()
    }
}

/// Every object below `base`, damaged ones included, by kind and name. A base that does not exist
/// has none.
pub fn list(base: &Base) -> Result<Vec<ObjectInfo>, SegmentError> {
    let path = base.path();
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(SegmentError::io("list", path))?,
    };
    let mut found: Vec<_> =
        entries.filter_map(Result::ok).filter_map(|entry| describe(&entry.path())).collect();
    found.sort_by(|a, b| (a.kind, &a.name, &a.path).cmp(&(b.kind, &b.name, &b.path)));
    Ok(found)
}

/// The error for a name that is not there, with the name that may have been meant.
pub(super) fn missing(base: &Base, kind: Kind, name: &str) -> SegmentError {
    let near = list(base)
        .unwrap_or_default()
        .into_iter()
        .filter(|info| info.kind == kind && info.name != name && !info.building)
        .map(|info| (strsim::damerau_levenshtein(&info.name, name), info.name))
        .min()
        .filter(|(edits, near)| *edits <= 2.min(near.len() / 2))
        .map(|(_, near)| near);
    SegmentError::NotFound { kind, name: name.to_owned(), base: base.path().to_owned(), near }
}

pub(super) fn describe(path: &Path) -> Option<ObjectInfo> {
    let file_name = path.file_name()?.to_str()?;
    let partial = partial::ring_of(file_name);
    let building = partial.is_some() || is_remnant(path);
    let (name, kind) = if let Some(name) = partial {
        (name, Kind::Ring)
    } else if building {
        let panel = path.join(Kind::Panel.lock_file()).exists();
        ("", if panel { Kind::Panel } else { Kind::Ring })
    } else {
        let (name, suffix) = file_name.rsplit_once('.')?;
        (name, Kind::ALL.into_iter().find(|kind| kind.as_str() == suffix)?)
    };
    if !path.symlink_metadata().ok()?.is_dir() {
        return None;
    }
    let dir = file::open_dir(path);
    let memfd = dir.as_ref().is_ok_and(is_in_memfds);
    let lock = dir.as_ref().map_err(drop).and_then(|dir| lock_of(dir, path, kind));
    // What cannot be told counts as held: nothing live is ever collected.
    let locked = |byte| match &lock {
        Ok(Some(lock)) => lock.held_elsewhere(byte).unwrap_or(true),
        Ok(None) => false,
        Err(()) => true,
    };
    let held = locked(HOLD_BYTE);
    let mut bytes = bytes_of(path)?;
    if partial.is_some() {
        bytes = bytes.saturating_add(bytes_of(&partial::ring_in(path)).unwrap_or(0));
    }
    if memfd {
        bytes = bytes.saturating_add(dir.as_ref().map_or(0, memfd::allocated_bytes));
    }
    // Memory that nobody keeps is gone, whatever was asked for.
    let persistent = path.join(PERSISTENT_FILE).exists() && (!memfd || held || locked(KEEP_BYTE));
    Some(ObjectInfo {
        name: name.to_owned(),
        kind,
        path: path.to_owned(),
        bytes,
        persistent,
        held,
        building,
        memfd,
    })
}

/// Bytes of the files in a directory.
fn bytes_of(path: &Path) -> Option<u64> {
    let blocks = |entry: fs::DirEntry| entry.metadata().map_or(0, |m| m.blocks() * 512);
    Some(fs::read_dir(path).ok()?.filter_map(Result::ok).map(blocks).sum())
}

/// Whether a directory is one that is being made or removed, and has no object's name.
pub(super) fn is_remnant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [BUILDING_PREFIX, DEAD_PREFIX].iter().any(|prefix| name.starts_with(prefix))
}

/// The lock file of a directory of ours; `None` when there is none, an error when it cannot be
/// told.
pub(super) fn lock_of(dir: &OwnedFd, path: &Path, kind: Kind) -> Result<Option<LockFile>, ()> {
    match file::open(dir, kind.lock_file(), path, Access::ReadWrite, None) {
        Ok(fd) => Ok(Some(LockFile::new(fd))),
        Err(SegmentError::Corrupt { .. }) => Ok(None),
        Err(_) => Err(()),
    }
}
