//! Sealed anonymous memory in place of files, whose size no process can change.
//!
//! Any process of the user can truncate a file in a directory, and each process that has it mapped
//! then gets a SIGBUS. A sealed memfd cannot be truncated. It has no name, so a link stands in
//! place of the file. The link holds the random number of the memory, and a process with its
//! descriptor: the creator, or a keeper that renewed the link. Only this module follows such links.
//! Every handle of the ring keeps descriptors of its memory, so any holder is enough after the
//! creator has ended.
//!
//! `docs/decisions/0033-sealed-memory-behind-links.md` says why links, and what they cost.

mod keeper;
mod search;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, readlinkat, symlinkat};
use rustix::io::Errno;

use crate::error::SegmentError;
use crate::os::files;
use crate::os::mapping::Access;

pub use keeper::MemfdKeeper;
pub(crate) use search::Search;

/// Maximum searches for a memfd whose process ends during the search.
const ATTEMPTS: u32 = 16;
/// Prefix of every link, and of the name of the memory.
const MARK: &str = "backcast-memfd";

/// Link in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Random number of the memory, part of its name.
    id: u64,
    /// Process that has the memory, and its descriptor there: the creator, or a keeper.
    pid: u32,
    descriptor: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}:{:016x}:{}:{}", self.id, self.pid, self.descriptor)
    }
}

impl FromStr for Link {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(MARK).and_then(|rest| rest.strip_prefix(':')).ok_or(())?;
        let mut parts = rest.split(':');
        let mut part = || parts.next().ok_or(());
        let (id, pid, descriptor) = (part()?, part()?, part()?);
        let id = u64::from_str_radix(id, 16).map_err(drop)?;
        let link = Self {
            id,
            pid: pid.parse().map_err(drop)?,
            descriptor: descriptor.parse().map_err(drop)?,
        };
        // Only the form that `Display` writes is accepted: no signs, no other padding, nothing
        // after it.
        if link.to_string() == text { Ok(link) } else { Err(()) }
    }
}

impl Link {
    /// Returns a link to memory of this process.
    fn ours(id: u64, fd: &OwnedFd) -> Self {
        let descriptor = u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX);
        Self { id, pid: std::process::id(), descriptor }
    }

    /// Reads the link of that name in a directory. `None` if there is none.
    pub(crate) fn read(dir: impl AsFd, name: &str) -> Option<Self> {
        let text = readlinkat(dir, name, Vec::new()).ok()?;
        text.to_str().ok()?.parse().ok()
    }

    /// Returns the text that the kernel shows for a descriptor of the memory.
    fn shown(self) -> String {
        format!("/memfd:{} (deleted)", memory_name(self.id))
    }
}

/// Returns the unique name of a memfd.
fn memory_name(id: u64) -> String {
    format!("{MARK}:{id:016x}")
}

/// Descriptors of a ring's memory that a handle keeps, so that the memory is not freed and can be
/// found.
#[derive(Debug, Default)]
pub(crate) struct KeptMemfds {
    kept: Mutex<Vec<(u64, OwnedFd)>>,
    search: Mutex<Search>,
}

impl KeptMemfds {
    /// Returns an empty set that searches the processes only once, until [`Search::again`]. It
    /// suits many links, some of which may lead nowhere.
    pub(crate) fn looked_for_once() -> Self {
        Self { search: Mutex::new(Search::once()), ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(u64, OwnedFd)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, id: u64, fd: OwnedFd) {
        self.kept().push((id, fd));
    }

    /// Takes all descriptors of another set.
    fn take_from(&self, other: &Self) {
        let taken = std::mem::take(&mut *other.kept());
        let mut kept = self.kept();
        kept.retain(|(id, _)| taken.iter().all(|(other, _)| other != id));
        kept.extend(taken);
    }

    /// Returns the link to a memfd of which this process has a descriptor.
    fn link(&self, id: u64) -> Option<Link> {
        let kept = self.kept();
        let (_, fd) = kept.iter().find(|(kept, _)| *kept == id)?;
        Some(Link::ours(id, fd))
    }

    fn has(&self, id: u64) -> bool {
        self.kept().iter().any(|(kept, _)| *kept == id)
    }

    fn search(&self) -> MutexGuard<'_, Search> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes all descriptors.
    pub(crate) fn clear(&self) {
        self.kept().clear();
    }

    /// Closes descriptors that no link in the directory names.
    pub(crate) fn tidy(&self, dir: &OwnedFd) {
        self.tidy_by(|| links(dir).ok());
    }

    fn tidy_by(&self, look: impl Fn() -> Option<Vec<Link>>) {
        let Some(mut named) = look() else { return };
        let is_named = |named: &[Link], id: u64| named.iter().any(|link| link.id == id);
        if self.kept().iter().all(|(id, _)| is_named(&named, *id)) {
            return;
        }
        // A link that is renamed during a listing may be missing from it under the old and the new
        // name. A second listing has it.
        let Some(again) = look() else { return };
        named.extend(again);
        self.kept().retain(|(id, _)| is_named(&named, *id));
    }
}

/// Returns the links in a directory.
fn links(dir: &OwnedFd) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str() {
            links.extend(Link::read(dir, name));
        }
    }
    Ok(links)
}

/// Creates memory, with a link in the place of a file. The memory lives as long as its descriptor
/// is kept.
pub(crate) fn make(
    dir: &OwnedFd,
    name: &str,
    path: &Path,
    memory: &KeptMemfds,
) -> Result<File, SegmentError> {
    let failed = |error: Errno| SegmentError::io("create", &path.join(name))(error.into());
    let id = rand::random();
    let fd = crate::os::memfd::anonymous(&memory_name(id)).map_err(failed)?;
    let made = fd.try_clone().map_err(SegmentError::io("duplicate", &path.join(name)))?;
    let link = Link::ours(id, &fd);
    memory.keep(id, fd);
    symlinkat(link.to_string(), dir, name).map_err(failed)?;
    Ok(File::from(made))
}

/// Seals the size of a memfd.
pub(crate) fn seal(made: &File, path: &Path) -> Result<(), SegmentError> {
    crate::os::memfd::seal(made).map_err(|error| SegmentError::io("seal", path)(error.into()))
}

/// Opens a file of the directory, or the memory that a link there names, and keeps its descriptor.
pub(crate) fn open(
    dir: &OwnedFd,
    name: &str,
    path: &Path,
    access: Access,
    len: Option<u64>,
    memory: &KeptMemfds,
) -> Result<OwnedFd, SegmentError> {
    let Some(link) = Link::read(dir, name) else {
        return files::open(dir, name, path, access, len);
    };
    let path = path.join(name);
    let fd = open_found(link, &path, access, memory)?;
    let is = crate::os::memfd::check_sealed(&fd, &path)?;
    if let Some(len) = len.filter(|len| *len != is) {
        return Err(SegmentError::corrupt(&path, format!("it has {is} bytes, not {len}")));
    }
    if !memory.has(link.id) {
        memory.keep(link.id, fd.try_clone().map_err(SegmentError::io("duplicate", &path))?);
    }
    Ok(fd)
}

fn open_found(
    link: Link,
    path: &Path,
    access: Access,
    memory: &KeptMemfds,
) -> Result<OwnedFd, SegmentError> {
    let gone = || SegmentError::MemoryGone { path: path.to_owned(), pid: link.pid };
    for _ in 0..ATTEMPTS {
        let found = memory.search().find(link).map_err(SegmentError::io("search for", path))?;
        let found = found.ok_or_else(gone)?;
        // The process may have ended or reused the descriptor since. Search again: another process
        // may hold the memory.
        match search::open(&found, link, access) {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) => {}
            Err(error) => return Err(SegmentError::io("open", path)(error.into())),
        }
    }
    Err(gone())
}

/// Returns, for each link in a directory, the number of the memfd and its allocated bytes: 0 bytes
/// for a memfd that is not found.
pub(crate) fn allocated(dir: &OwnedFd) -> io::Result<BTreeMap<u64, u64>> {
    let mut search = Search::once();
    let bytes = |link: Link| {
        let found = search.find(link)?.and_then(|at| at.metadata().ok());
        Ok((link.id, found.map_or(0, |found| found.blocks() * 512)))
    };
    links(dir)?.into_iter().map(bytes).collect()
}

/// Returns the number of an open memfd of a ring. `None` for any other file. One system call.
pub(crate) fn id(fd: &OwnedFd) -> Option<u64> {
    search::id(fd)
}

/// Returns whether a name in a directory is a link to the memory of that number, in whichever
/// process. Returns `false` if there is no such link, and `true` if a link cannot be read for
/// another reason. One system call.
pub(crate) fn leads_to(dir: impl AsFd, name: &str, id: u64) -> bool {
    match readlinkat(dir, name, Vec::new()) {
        Ok(text) => {
            text.to_str().is_ok_and(|text| text.parse().is_ok_and(|link: Link| link.id == id))
        }
        // There is no such name, or it is no link.
        Err(Errno::NOENT | Errno::INVAL) => false,
        Err(_) => true,
    }
}

/// Returns whether a name in a directory is a link to memory.
pub(crate) fn is_link(dir: impl AsFd, name: &str) -> bool {
    Link::read(dir, name).is_some()
}

/// Returns whether a directory has something of that name, a link included.
pub(crate) fn exists(dir: impl AsFd, name: &str) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memfds_are_kept_while_their_link_is_renamed() {
        let link = |id| Link { id, pid: 1, descriptor: 1 };
        let kept_after = |looks: &[Option<Vec<Link>>]| {
            let memory = KeptMemfds::default();
            for id in [1, 2] {
                memory.keep(id, OwnedFd::from(File::open("/dev/null").unwrap()));
            }
            let looks = Mutex::new(looks.iter().cloned());
            memory.tidy_by(|| looks.lock().unwrap().next().expect("no more looks than that"));
            [1, 2].map(|id| memory.has(id))
        };
        assert_eq!(kept_after(&[Some(vec![link(1), link(2)])]), [true, true]);
        // Memfd 2 replaces memfd 1, and the first search runs during that.
        assert_eq!(kept_after(&[Some(vec![link(1)]), Some(vec![link(2)])]), [true, true]);
        assert_eq!(kept_after(&[Some(vec![link(2)]), Some(vec![link(2)])]), [false, true]);
        assert_eq!(kept_after(&[None]), [true, true], "who cannot look lets go of nothing");
        assert_eq!(kept_after(&[Some(Vec::new()), None]), [true, true]);
    }

    #[test]
    fn a_link_is_read_as_it_was_written_and_nothing_else_is() {
        let link = Link { id: 0xab, pid: 7, descriptor: 12 };
        let text = link.to_string();
        assert_eq!(text, "backcast-memfd:00000000000000ab:7:12");
        assert_eq!(text.parse(), Ok(link));
        for bad in [
            "",
            "backcast-memfd",
            "backcast-memfd:ab:7:12",
            "backcast-memfd:00000000000000AB:7:12",
            "backcast-memfd:00000000000000ab:+7:12",
            "backcast-memfd:00000000000000ab:7:012",
            "backcast-memfd:00000000000000ab:7",
            "backcast-memfd:00000000000000ab:7:12:1",
            "backcast-memfd:00000000000000ab:7:12 ",
            "backcast-memfd:00000000000000ab:4294967296:12",
            "/proc/7/fd/12",
        ] {
            assert_eq!(bad.parse::<Link>(), Err(()), "{bad}");
        }
    }
}
