//! What an export has done so far, kept so that the same call goes on from there when it was cut.
//!
//! ```text
//! walk.parquet.partial/
//!   export.lock   held by whoever is exporting; the kernel lets go of it with the process
//!   plan.json     what is exported, and how
//!   journal       a line for every unit of rows that is written
//!   new           the file so far, or the folder
//!   old           what is being replaced, between two renames of folders
//! ```
//!
//! Nothing here is forced to disk before the end, and nothing is believed: a unit counts if its rows
//! in the ring and its bytes in the file still have the hashes that the journal has of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::export::Format;
use crate::journal::{self, Found, Journal, inode};
use crate::minari;
use crate::plan::{BeganAnew, Plan};
use crate::row_reader::{Halt, RowReader};
use crate::rows_hash::RowsHash;

const LOCK: &str = "export.lock";
const NEW: &str = "new";
const OLD: &str = "old";
/// Races with others that finish are tried again this often.
const ATTEMPTS: u32 = 64;

/// Rows that were read and written together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unit {
    pub(crate) rows: u64,
    pub(crate) rows_hash: String,
    /// Of the file, its first byte and how many; of a folder, its first episode and how many.
    pub(crate) from: u64,
    pub(crate) count: u64,
    hash: String,
    /// What a format wants to know besides.
    pub(crate) note: String,
}

/// How the bytes of a unit are read back: from the new file or folder, its first and how many.
pub(crate) type ReadBack = fn(&Path, u64, u64, &mut dyn FnMut(&[u8])) -> io::Result<()>;

/// An export that is under way: nobody else writes to the same path meanwhile.
#[derive(Debug)]
pub(crate) struct Partial {
    to: PathBuf,
    format: Format,
    folder: PathBuf,
    _lock: Lock,
    journal: Option<Journal<Unit>>,
    units: Vec<Unit>,
    read_back: ReadBack,
    /// The units' file has its name already: all that was missing is to say so.
    named: bool,
    began_anew: Option<BeganAnew>,
}

impl Partial {
    /// Begins, or takes up what an earlier call with the same plan left. `reader` reads as far as that
    /// one came, and stands before the first row again.
    pub(crate) fn open(
        to: &Path,
        format: Format,
        plan: &Plan,
        overwrite: bool,
        reader: &mut RowReader<'_, '_>,
        read_back: ReadBack,
    ) -> Result<Self, Halt> {
        let failed = |source| ExportError::Write { path: to.to_owned(), source };
        replaceable(to, format)?;
        let folder = folder_of(to).map_err(failed)?;
        if !overwrite && exists(to) && !exists(&folder) {
            return Err(ExportError::Exists { path: to.to_owned() }.into());
        }
        let lock = lock(to, &folder)?;
        let (to, began_anew) = (to.to_owned(), None);
        let (journal, units, named) = (None, Vec::new(), false);
        let mut partial =
            Self { to, format, folder, _lock: lock, journal, units, read_back, named, began_anew };
        let begun = partial.begin(plan, overwrite, reader);
        match begun {
            Ok(()) => Ok(partial),
            Err(Halt::Export(error)) => Err(error.and_left(partial.give_up(true)).into()),
            Err(asked) => {
                partial.give_up(true);
                Err(asked)
            }
        }
    }

    fn begin(
        &mut self,
        plan: &Plan,
        overwrite: bool,
        reader: &mut RowReader<'_, '_>,
    ) -> Result<(), Halt> {
        let failed = |source| ExportError::Write { path: self.to.clone(), source };
        let old = self.folder.join(OLD);
        if exists(&old) && !exists(&self.to) {
            // Killed between two renames: what was to be replaced has its name again.
            fs::rename(&old, &self.to).map_err(failed)?;
            replaceable(&self.to, self.format)?;
        }
        let found = journal::find::<Plan, Unit>(&self.folder).map_err(failed)?;
        let Found { plan: before, units, whole } = found;
        let differs = before.as_ref().map(|before| plan.differs(before));
        if differs == Some(None) {
            self.named = whole.is_some() && whole == inode(&self.to);
            self.units = units;
            self.check(reader)?;
        } else if !units.is_empty() {
            self.began_anew = differs.flatten().or(Some(BeganAnew::Damaged));
        }
        if self.named {
            return Ok(());
        }
        if !overwrite && exists(&self.to) {
            return Err(ExportError::Exists { path: self.to.clone() }.into());
        }
        let failed = |source| ExportError::Write { path: self.to.clone(), source };
        if self.units.is_empty() {
            self.clear().map_err(failed)?;
            journal::write_plan(&self.folder, plan).map_err(failed)?;
        }
        self.journal = Some(Journal::of(&self.folder, &self.units).map_err(failed)?);
        Ok(())
    }

    /// Keeps of the journal's units those that are still true.
    fn check(&mut self, reader: &mut RowReader<'_, '_>) -> Result<(), Halt> {
        let mut from = 0;
        for number in 0..self.units.len() {
            let Some(unit) = self.units.get(number).cloned() else { break };
            let mut hash = RowsHash::default();
            let rows = reader.read_unit(|lane, rows| {
                hash.add(lane, rows);
                Ok::<_, Halt>(())
            })?;
            if rows != unit.rows || hash.finish() != unit.rows_hash {
                self.began_anew = Some(BeganAnew::Rows);
                (self.named, self.units) = (false, Vec::new());
                break;
            }
            if unit.from != from || self.hash(from, unit.count).ok().as_ref() != Some(&unit.hash) {
                // Its file was cut or changed: as if it had not come so far.
                self.began_anew = (number == 0).then_some(BeganAnew::Damaged);
                self.named = false;
                self.units.truncate(number);
                break;
            }
            from = from.saturating_add(unit.count);
        }
        reader.rewind();
        Ok(())
    }

    /// Units that need not be written again.
    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Rows of them.
    pub(crate) fn rows(&self) -> u64 {
        self.units.iter().map(|unit| unit.rows).sum()
    }

    /// One past their last byte or episode.
    pub(crate) fn end(&self) -> u64 {
        self.units.last().map_or(0, |unit| unit.from + unit.count)
    }

    /// Why those of an earlier call were dropped, if there were any.
    pub(crate) fn began_anew(&self) -> Option<BeganAnew> {
        self.began_anew
    }

    /// Whether the work was over but for saying so.
    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    /// Where the file or the folder is made.
    pub(crate) fn path(&self) -> PathBuf {
        if self.named { self.to.clone() } else { self.folder.join(NEW) }
    }

    /// The new file, to be written on: it has what its units have, and no more.
    pub(crate) fn file(&self) -> io::Result<File> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(false).open(self.path())?;
        file.set_len(self.end())?;
        file.seek(SeekFrom::Start(self.end()))?;
        Ok(file)
    }

    /// The bytes of a unit.
    pub(crate) fn bytes(&self, unit: &Unit) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (self.read_back)(&self.path(), unit.from, unit.count, &mut |part| {
            bytes.extend_from_slice(part);
        })?;
        Ok(bytes)
    }

    fn hash(&self, from: u64, count: u64) -> io::Result<String> {
        let mut hash = blake3::Hasher::new();
        (self.read_back)(&self.path(), from, count, &mut |part| {
            hash.update(part);
        })?;
        Ok(hash.finalize().to_hex().to_string())
    }

    /// Takes note of a unit of so many rows, whose bytes or episodes go up to `to`.
    pub(crate) fn add(
        &mut self,
        rows: u64,
        rows_hash: String,
        to: u64,
        note: String,
    ) -> io::Result<()> {
        let from = self.end();
        let count = to.saturating_sub(from);
        point("bytes");
        let hash = self.hash(from, count)?;
        let unit = Unit { rows, rows_hash, from, count, hash, note };
        if let Some(journal) = &mut self.journal {
            journal.add(&unit)?;
        }
        self.units.push(unit);
        point("unit");
        Ok(())
    }

    /// Gives what was made its name, and leaves nothing else, whether that succeeds or not.
    pub(crate) fn finish(mut self) -> Result<(), ExportError> {
        let named = if self.named { Ok(()) } else { self.name() };
        let left = self.give_up(false);
        named.map_err(|error| error.and_left(left))
    }

    fn name(&mut self) -> Result<(), ExportError> {
        let failed = |source| ExportError::Write { path: self.to.clone(), source };
        let new = self.path();
        let whole = inode(&new);
        if let (Some(journal), Some(whole)) = (&mut self.journal, whole) {
            journal.end(whole).map_err(failed)?;
        }
        point("whole");
        // Whatever somebody put there while the rows were written.
        replaceable(&self.to, self.format)?;
        replace(&new, &self.to, &self.folder.join(OLD)).map_err(failed)?;
        point("named");
        if let Ok(beside) = File::open(parent_of(&self.to)) {
            let _ = beside.sync_all();
        }
        Ok(())
    }

    /// The folder beside a path, if there is one.
    pub(crate) fn left(to: &Path) -> Option<PathBuf> {
        folder_of(to).ok().filter(|folder| exists(folder))
    }

    /// Ends without having made anything, and returns what is left to go on from, if there is anything.
    pub(crate) fn give_up(self, keep: bool) -> Option<PathBuf> {
        let left = keep && !self.units.is_empty() || !self.remove();
        left.then_some(self.folder)
    }

    /// Removes all but the lock and the plan's folder.
    fn clear(&self) -> io::Result<()> {
        for name in journal::FILES.into_iter().chain([NEW, OLD]) {
            remove(&self.folder.join(name))?;
        }
        Ok(())
    }

    /// Removes the folder, and says whether it is gone. The lock goes last: a folder that has things in it
    /// and no lock is not ours.
    fn remove(&self) -> bool {
        // What was to be replaced and could not be given its name again is somebody's, and stays.
        if exists(&self.folder.join(OLD)) && !exists(&self.to) {
            return false;
        }
        if self.clear().is_err() {
            return false;
        }
        point("cleared");
        if fs::remove_file(self.folder.join(LOCK)).is_err() {
            return false;
        }
        point("unlocked");
        // Of the one who comes next, if that one was faster.
        let _ = fs::remove_dir(&self.folder);
        true
    }
}

/// The folder's lock, which goes when this is dropped.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone releases late: a child between fork and exec has the descriptor open too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Reads bytes of one file.
pub(crate) fn read_file(
    path: &Path,
    from: u64,
    count: u64,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < from.saturating_add(count) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.seek(SeekFrom::Start(from))?;
    let mut file = file.take(count);
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            read => take(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// Beside the path, where a rename is one step.
fn folder_of(to: &Path) -> io::Result<PathBuf> {
    let mut name = to.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
    name.push(".partial");
    Ok(to.with_file_name(name))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Makes the folder if it is not there, and takes its lock.
fn lock(to: &Path, folder: &Path) -> Result<Lock, ExportError> {
    let failed = |source| ExportError::Write { path: to.to_owned(), source };
    let path = folder.join(LOCK);
    for _ in 0..ATTEMPTS {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        // Gone by now, or not: whoever removes one or makes one has it without a lock, and then it is empty.
        match is_foreign(folder) {
            Ok(false) => {}
            Ok(true) => return Err(ExportError::NotPartial { folder: folder.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        }
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = match options {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(failed)?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(ExportError::Busy { path: to.to_owned() });
            }
            other => other.map_err(|error| failed(error.into()))?,
        }
        // Whoever had it may have finished and removed it in between.
        let ours = lock.metadata().map_err(failed)?;
        if inode(&path) == Some((ours.dev(), ours.ino())) {
            return Ok(Lock(lock));
        }
    }
    Err(ExportError::Busy { path: to.to_owned() })
}

/// Whether what is there is no folder, or one that has things in it and no lock. That is asked in one
/// listing: the lock is the first thing in a folder of ours, and the last.
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

/// Refuses what an export did not write: nobody's files go for one. A link is replaced as the link it is.
fn replaceable(to: &Path, format: Format) -> Result<(), ExportError> {
    let Ok(found) = to.symlink_metadata() else { return Ok(()) };
    let refused = |why: String| Err(ExportError::NotReplaced { path: to.to_owned(), why });
    match (format == Format::Minari, found.is_dir()) {
        (false, true) => refused(format!("it is a folder, and {format} is written to a file")),
        (true, false) if found.is_file() => {
            refused("it is a file, and a Minari dataset is a folder".to_owned())
        }
        (true, true) => match minari::stranger(to) {
            Ok(None) => Ok(()),
            Ok(Some(stranger)) => refused(format!(
                "it is a folder {stranger}, and only an empty one or a Minari dataset is replaced"
            )),
            Err(source) => Err(ExportError::Write { path: to.to_owned(), source }),
        },
        _ => Ok(()),
    }
}

/// Gives the new file or folder its name. A folder that had it is moved away before.
fn replace(new: &Path, to: &Path, old: &Path) -> io::Result<()> {
    // A file takes a file's name in one step; a folder only that of an empty one.
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

/// Removes a file or a folder, if it is there.
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

/// A place where tests kill the process.
#[cfg(not(test))]
pub(crate) fn point(_: &str) {}
#[cfg(test)]
pub(crate) use crate::killed::point;
