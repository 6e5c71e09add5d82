//! A file system in memory that distinguishes forced from unforced changes. Tests choose an
//! operation that fails, and cut the power.
//!
//! Forcing a file to disk keeps its bytes, forcing a directory keeps its names. Every process sees
//! unforced changes until the power is cut. Each of them may then be complete, partial or lost.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use backcast_persist::{LockGuard, LockKind, NewFile, Storage, StoredFile};

/// Fault at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails, and the next one works again.
    Fails(ErrorKind),
    /// The process is killed in the middle of it: nothing works any more.
    Ends,
}

/// Unsynced changes that exist after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// All: only the process died.
    OfProcess,
    /// None.
    LosesAll,
    /// A random part.
    Random(u64),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    on_disk: Vec<u8>,
}

/// Names of a directory: now, and on disk. A directory's own name is on disk only after its parent
/// was forced.
#[derive(Clone, Debug, Default)]
struct Names {
    now: BTreeMap<String, Entry>,
    on_disk: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(usize),
    Dir,
}

#[derive(Debug, Default)]
struct World {
    inodes: Vec<Inode>,
    dirs: BTreeMap<PathBuf, Names>,
    locks: BTreeMap<PathBuf, (LockKind, u32)>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    ended: bool,
}

/// A handle on the file system; cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Power(Arc<Mutex<World>>);

impl Power {
    /// Returns a file system with one directory, `/`.
    pub(crate) fn new() -> Self {
        let world = World { dirs: [("/".into(), Names::default())].into(), ..World::default() };
        Self(Arc::new(Mutex::new(world)))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it holds this")
    }

    /// Chooses the operation, counted from the first one, at which the fault occurs.
    pub(crate) fn break_at(&self, operation: u64, fault: Fault) {
        self.world().fault = Some((operation, fault));
    }

    /// Returns the number of operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.world().operations
    }

    /// Returns the path of every file.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let world = self.world();
        let of = |(dir, names): (&PathBuf, &Names)| -> Vec<PathBuf> {
            names
                .now
                .iter()
                .filter(|(_, e)| matches!(e, Entry::File(_)))
                .map(|(name, _)| dir.join(name))
                .collect()
        };
        world.dirs.iter().flat_map(of).collect()
    }

    /// Returns the file system that the next process finds, without faults.
    pub(crate) fn after(&self, crash: Crash) -> Self {
        let world = self.world();
        let mut dice = Dice(if let Crash::Random(seed) = crash { seed } else { 0 });
        let mut next = World::default();
        for inode in &world.inodes {
            let bytes = match crash {
                Crash::OfProcess => inode.bytes.clone(),
                Crash::LosesAll => inode.on_disk.clone(),
                Crash::Random(_) => dice.bytes(inode),
            };
            next.inodes.push(Inode { on_disk: bytes.clone(), bytes });
        }
        for (dir, names) in &world.dirs {
            let now = match crash {
                Crash::OfProcess => names.now.clone(),
                Crash::LosesAll => names.on_disk.clone(),
                Crash::Random(_) => dice.names(names),
            };
            next.dirs.insert(dir.clone(), Names { on_disk: now.clone(), now });
        }
        // A directory that lost its name is lost with all its entries.
        let known: Vec<PathBuf> = next.dirs.keys().cloned().collect();
        for dir in known {
            let lost = dir.ancestors().any(|dir| {
                let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
                    return false;
                };
                let name = name.to_string_lossy();
                next.dirs.get(parent).is_none_or(|names| !names.now.contains_key(&*name))
            });
            if lost {
                next.dirs.remove(&dir);
            }
        }
        Self(Arc::new(Mutex::new(next)))
    }
}

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides.max(1)
    }

    fn bytes(&mut self, inode: &Inode) -> Vec<u8> {
        let mut bytes = inode.bytes.clone();
        if inode.bytes == inode.on_disk {
            return bytes;
        }
        match self.throw(4) {
            0 => inode.on_disk.clone(),
            1 => bytes,
            2 => {
                bytes.truncate(self.throw(inode.bytes.len() + 1));
                bytes
            }
            _ => {
                // The size is on disk, a part of the bytes is not.
                let from = self.throw(bytes.len() + 1);
                bytes[from..].fill(0);
                bytes
            }
        }
    }

    fn names(&mut self, names: &Names) -> BTreeMap<String, Entry> {
        let all: Vec<&String> = names.now.keys().chain(names.on_disk.keys()).collect();
        let mut kept = BTreeMap::new();
        for name in all {
            let of = if self.throw(2) == 0 { &names.now } else { &names.on_disk };
            if let Some(entry) = of.get(name) {
                kept.entry(name.clone()).or_insert(*entry);
            }
        }
        kept
    }
}

impl World {
    /// Counts an operation. Returns `Ok(Some(error))` if it is to be done in part and then to fail.
    fn step(&mut self) -> io::Result<Option<io::Error>> {
        if self.ended {
            return Err(io::Error::other("the process has ended"));
        }
        let at = self.operations;
        self.operations += 1;
        match self.fault {
            Some((chosen, fault)) if chosen == at => match fault {
                Fault::Fails(kind) => Ok(Some(kind.into())),
                Fault::Ends => {
                    self.ended = true;
                    Ok(Some(io::Error::other("the process ends here")))
                }
            },
            _ => Ok(None),
        }
    }

    /// Counts an operation like [`step`](Self::step) that is done in whole or not at all.
    fn whole(&mut self) -> io::Result<()> {
        self.step()?.map_or(Ok(()), Err)
    }

    fn names(&mut self, path: &Path) -> io::Result<(&mut Names, String)> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
        Ok((self.dirs.get_mut(parent).ok_or(ErrorKind::NotFound)?, name))
    }

    fn inode(&mut self, path: &Path) -> io::Result<usize> {
        let (names, name) = self.names(path)?;
        match names.now.get(&name) {
            Some(Entry::File(inode)) => Ok(*inode),
            Some(Entry::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl Storage for Power {
    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        let mut world = self.world();
        world.whole()?;
        if world.dirs.contains_key(path) {
            return Ok(false);
        }
        let (names, name) = world.names(path)?;
        names.now.insert(name, Entry::Dir);
        world.dirs.insert(path.to_owned(), Names::default());
        Ok(true)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut world = self.world();
        world.whole()?;
        let inode = world.inodes.len();
        let (names, name) = world.names(path)?;
        if names.now.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        names.now.insert(name, Entry::File(inode));
        world.inodes.push(Inode::default());
        Ok(Box::new(File { power: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let mut world = self.world();
        world.whole()?;
        let inode = world.inode(path)?;
        Ok(Box::new(File { power: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        let failure = world.step()?;
        // A late failure: the operation was done, and reports that it was not.
        let inode = world.inode(from)?;
        let (names, name) = world.names(from)?;
        names.now.remove(&name);
        let (names, name) = world.names(to)?;
        names.now.insert(name, Entry::File(inode));
        failure.map_or(Ok(()), Err)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.whole()?;
        world.inode(path)?;
        let (names, name) = world.names(path)?;
        names.now.remove(&name);
        Ok(())
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.whole()?;
        Ok(world.dirs.get(dir).ok_or(ErrorKind::NotFound)?.now.keys().cloned().collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.whole()?;
        let names = world.dirs.get_mut(dir).ok_or(ErrorKind::NotFound)?;
        names.on_disk = names.now.clone();
        Ok(())
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn LockGuard>>> {
        let mut world = self.world();
        world.whole()?;
        world.names(path)?;
        let path = path.to_owned();
        let (held, count) = world.locks.get(&path).copied().unwrap_or((kind, 0));
        if count > 0 && (held == LockKind::Exclusive || kind == LockKind::Exclusive) {
            return Ok(None);
        }
        world.locks.insert(path.clone(), (kind, count + 1));
        Ok(Some(Box::new(Lock { power: self.clone(), path })))
    }
}

#[derive(Debug)]
struct File {
    power: Power,
    inode: usize,
}

impl NewFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.power.world();
        let failure = world.step()?;
        let written = if failure.is_some() { &bytes[..bytes.len() / 2] } else { bytes };
        world.inodes[self.inode].bytes.extend_from_slice(written);
        failure.map_or(Ok(()), Err)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.power.world();
        world.whole()?;
        let inode = &mut world.inodes[self.inode];
        inode.on_disk = inode.bytes.clone();
        Ok(())
    }
}

impl StoredFile for File {
    fn bytes(&self) -> io::Result<u64> {
        let mut world = self.power.world();
        world.whole()?;
        Ok(world.inodes[self.inode].bytes.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut world = self.power.world();
        world.whole()?;
        let offset = usize::try_from(offset).map_err(|_| ErrorKind::InvalidInput)?;
        let bytes = &world.inodes[self.inode].bytes;
        let bytes = bytes.get(offset..offset + buffer.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

#[derive(Debug)]
struct Lock {
    power: Power,
    path: PathBuf,
}

impl LockGuard for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut world = self.power.world();
        if let Some((_, count)) = world.locks.get_mut(&self.path) {
            *count -= 1;
        }
    }
}
