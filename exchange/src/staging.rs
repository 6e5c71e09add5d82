//! Staging folder in which an export is written until it is complete.
//!
//! ```text
//! walk.parquet.backcast-partial/
//!   export.lock   locked by the exporting process; the kernel releases it when the process ends
//!   new           the incomplete file or folder
//!   old           a folder that is being replaced, between two renames
//! ```
//!
//! The lock is created before the other entries of the folder and removed after them. So a folder
//! with entries and no lock was not made by an export.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backcast_core::IoCause;
use rustix::fs::{FlockOperation, flock};

use crate::error::ExportError;
use crate::format::Format;
use crate::minari;

const SUFFIX: &str = ".backcast-partial";
const LOCK: &str = "export.lock";
const NEW: &str = "new";
const OLD: &str = "old";
/// Maximum attempts to lock a folder that other exports create and remove.
const ATTEMPTS: u32 = 64;

/// Exclusive right to export to a path, and the folder in which the export is made.
#[derive(Debug)]
pub(crate) struct Staging {
    to: PathBuf,
    format: Format,
    folder: PathBuf,
    _lock: StagingLock,
}

impl Staging {
    /// Locks the path for this export and removes the files that a killed one left.
    pub(crate) fn open(to: &Path, format: Format, overwrite: bool) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Write { path: to.to_owned(), source };
        check_replaceable(to, format)?;
        let folder = folder_of(to).map_err(failed)?;
        if !overwrite && exists(to) && !exists(&folder) {
            return Err(ExportError::Exists { path: to.to_owned() });
        }
        let lock = lock(to, &folder)?;
        let staging = Self { to: to.to_owned(), format, folder, _lock: lock };
        match staging.begin(overwrite) {
            Ok(()) => Ok(staging),
            Err(error) => Err(error.and_left(staging.discard())),
        }
    }

    fn begin(&self, overwrite: bool) -> Result<(), ExportError> {
        let failed = |source| ExportError::Write { path: self.to.clone(), source };
        if restore_old(&self.folder, &self.to).map_err(failed)? {
            check_replaceable(&self.to, self.format)?;
        }
        if !overwrite && exists(&self.to) {
            return Err(ExportError::Exists { path: self.to.clone() });
        }
        clear(&self.folder).map_err(failed)
    }

    /// Returns the path at which the file or folder is made.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(NEW)
    }

    /// Renames the complete file or folder to the path, and removes the rest in any case.
    pub(crate) fn commit(self) -> Result<(), ExportError> {
        let renamed = self.rename();
        let left = self.discard();
        renamed.map_err(|error| error.and_left(left))
    }

    fn rename(&self) -> Result<(), ExportError> {
        point("whole");
        // Another program may have put something there meanwhile.
        check_replaceable(&self.to, self.format)?;
        replace(&self.path(), &self.to, &self.folder.join(OLD))
            .map_err(|source| ExportError::Write { path: self.to.clone(), source })?;
        point("renamed");
        if let Ok(parent) = File::open(parent_of(&self.to)) {
            let _ = parent.sync_all();
        }
        Ok(())
    }

    /// Removes the folder. Returns it if that failed.
    pub(crate) fn discard(self) -> Option<PathBuf> {
        (!remove_staging(&self.folder, &self.to)).then_some(self.folder)
    }
}

/// A folder that a killed export left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedExport {
    /// The folder, beside the path of the export.
    pub path: PathBuf,
    /// Bytes of the files in the folder.
    pub bytes: u64,
}

/// Finds the staging folders that killed exports left in a folder, without those of exports that
/// are running.
pub fn unfinished_exports(folder: &Path) -> io::Result<Vec<UnfinishedExport>> {
    visit_unfinished(folder, |staging, _| {
        if !exists(&staging.join(NEW)) && !exists(&staging.join(OLD)) {
            // The folder was empty until the lock file was created in it.
            let _ = fs::remove_file(staging.join(LOCK));
        }
        true
    })
}

/// Removes the staging folders that killed exports left in a folder and returns them. A dataset
/// that was being replaced gets its name back.
pub fn collect_exports(folder: &Path) -> io::Result<Vec<UnfinishedExport>> {
    visit_unfinished(folder, |staging, to| {
        restore_old(staging, to).is_ok() && remove_staging(staging, to)
    })
}

/// Locks every abandoned staging folder of this user in turn and lists those for which `work`
/// returns true.
fn visit_unfinished(
    folder: &Path,
    mut work: impl FnMut(&Path, &Path) -> bool,
) -> io::Result<Vec<UnfinishedExport>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(to) = target_of(&name) else { continue };
        let (staging, to) = (folder.join(&name), folder.join(to));
        let owner = staging.symlink_metadata().map(|found| found.uid());
        if !owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw()) {
            continue;
        }
        let _lock = match try_lock(&staging) {
            Ok(Some(lock)) => lock,
            // Nothing is known about this folder, nor about those after it.
            Err(NotLocked::Io(error)) if IoCause::of(&error).is_of_process() => return Err(error),
            // The folder was removed meanwhile, is in use, was not made by an export, or cannot be
            // opened.
            Ok(None) | Err(_) => continue,
        };
        let bytes = bytes_below(&staging);
        if work(&staging, &to) {
            found.push(UnfinishedExport { path: staging, bytes });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Lock of a staging folder, released on drop.
#[derive(Debug)]
struct StagingLock(File);

impl Drop for StagingLock {
    fn drop(&mut self) {
        // Closing alone is too late: a child between fork and exec has the descriptor open too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Creates the folder if needed and locks it.
fn lock(to: &Path, folder: &Path) -> Result<StagingLock, ExportError> {
    let failed = |source| ExportError::Write { path: to.to_owned(), source };
    for _ in 0..ATTEMPTS {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        match try_lock(folder) {
            Ok(Some(lock)) => return Ok(lock),
            // The folder's last owner removed it in between.
            Ok(None) => {}
            Err(NotLocked::Foreign) => {
                return Err(ExportError::NotPartial { folder: folder.to_owned() });
            }
            Err(NotLocked::Busy) => return Err(ExportError::Busy { path: to.to_owned() }),
            Err(NotLocked::Io(source)) => return Err(failed(source)),
        }
    }
    Err(ExportError::Busy { path: to.to_owned() })
}

/// Error of locking a staging folder.
enum NotLocked {
    /// Another process or thread has locked the folder.
    Busy,
    /// The folder is not a staging folder.
    Foreign,
    Io(io::Error),
}

impl From<io::Error> for NotLocked {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Locks a folder. Returns `None` if it was removed meanwhile.
fn try_lock(folder: &Path) -> Result<Option<StagingLock>, NotLocked> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match is_foreign(folder) {
        Ok(false) => {}
        Ok(true) => return Err(NotLocked::Foreign),
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let path = folder.join(LOCK);
    let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let lock = match options {
        Err(error) if gone(&error) => return Ok(None),
        opened => opened?,
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(NotLocked::Busy),
        other => other.map_err(io::Error::from)?,
    }
    // The previous holder of the lock may have removed the file.
    let ours = lock.metadata()?;
    let same = |there: fs::Metadata| (there.dev(), there.ino()) == (ours.dev(), ours.ino());
    Ok(path.symlink_metadata().is_ok_and(same).then_some(StagingLock(lock)))
}

/// Returns whether a path is not a staging folder: no folder at all, or one with entries but no
/// lock. A staging folder's lock is created before its other entries and removed after them, so one
/// listing is enough.
fn is_foreign(folder: &Path) -> io::Result<bool> {
    if !folder.symlink_metadata()?.is_dir() {
        return Ok(true);
    }
    let (mut entries, mut locks) = (0, 0);
    for entry in fs::read_dir(folder)? {
        entries += 1;
        locks += u32::from(entry?.file_name() == LOCK);
    }
    Ok(entries > 0 && locks == 0)
}

/// Returns the staging folder of a path. It is beside the path, since a rename is atomic there.
fn folder_of(to: &Path) -> io::Result<PathBuf> {
    let mut name = to.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
    name.push(SUFFIX);
    Ok(to.with_file_name(name))
}

/// Returns the name of the path that a staging folder is for.
fn target_of(staging: &OsStr) -> Option<&OsStr> {
    use std::os::unix::ffi::OsStrExt;
    let name = staging.as_bytes().strip_suffix(SUFFIX.as_bytes())?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Gives a replaced folder its name back if the export was killed between two renames. Returns
/// whether it did.
fn restore_old(staging: &Path, to: &Path) -> io::Result<bool> {
    let old = staging.join(OLD);
    let moved_away = exists(&old) && !exists(to);
    if moved_away {
        fs::rename(&old, to)?;
    }
    Ok(moved_away)
}

/// Removes the new and the old file or folder from a staging folder, and keeps its lock.
fn clear(staging: &Path) -> io::Result<()> {
    remove(&staging.join(NEW))?;
    remove(&staging.join(OLD))
}

/// Removes a staging folder whose lock the caller has. Returns whether its content and its lock
/// were removed.
fn remove_staging(staging: &Path, to: &Path) -> bool {
    // A replaced folder that could not be renamed back is the user's data, and stays.
    if exists(&staging.join(OLD)) && !exists(to) {
        return false;
    }
    if clear(staging).is_err() {
        return false;
    }
    point("cleared");
    if fs::remove_file(staging.join(LOCK)).is_err() {
        return false;
    }
    point("unlocked");
    // Fails if the next export has created its lock in it already.
    let _ = fs::remove_dir(staging);
    true
}

/// Refuses to replace a folder by a file, a regular file by a folder, or a folder with entries that
/// no Minari dataset has. A symbolic link is replaced itself; its target is left alone.
fn check_replaceable(to: &Path, format: Format) -> Result<(), ExportError> {
    let Ok(found) = to.symlink_metadata() else { return Ok(()) };
    let refused = |why: String| Err(ExportError::NotReplaced { path: to.to_owned(), why });
    match (format == Format::Minari, found.is_dir()) {
        (false, true) => refused(format!("it is a folder, and {format} is written to a file")),
        (true, false) if found.is_file() => {
            refused("it is a file, and a Minari dataset is a folder".to_owned())
        }
        (true, true) => match minari::foreign_entry(to) {
            Ok(None) => Ok(()),
            Ok(Some(foreign)) => refused(format!(
                "it is a folder {foreign}, and only an empty folder or a Minari dataset is replaced"
            )),
            Err(source) => Err(ExportError::Write { path: to.to_owned(), source }),
        },
        _ => Ok(()),
    }
}

/// Renames the new file or folder to the path. A folder that is there is moved away first.
fn replace(new: &Path, to: &Path, old: &Path) -> io::Result<()> {
    // A file replaces a file in one step; a folder replaces only an empty one.
    let in_one_step = fs::rename(new, to);
    if in_one_step.is_ok() || !new.is_dir() || !exists(to) {
        return in_one_step;
    }
    remove(old)?;
    fs::rename(to, old)?;
    point("moved away");
    if let Err(error) = fs::rename(new, to) {
        let _ = fs::rename(old, to);
        return Err(error);
    }
    Ok(())
}

/// Removes a file or folder if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the bytes of all files below a folder, as far as it can be read. Links are not followed.
fn bytes_below(folder: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => open.push(entry.path()),
                Ok(found) => bytes = bytes.saturating_add(found.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Marks a place at which tests kill the process.
#[cfg(not(test))]
fn point(_: &str) {}
#[cfg(test)]
use crate::killed::point;
