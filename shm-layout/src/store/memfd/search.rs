//! Finds memory among the descriptors of the processes of this user.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Link, MARK};
use crate::error::IoCause;
use crate::os::mapping::Access;
use crate::os::memfd;

/// Maximum searches if all processes that had a memfd end after they were seen.
const LOOKS: u32 = 8;

/// Finds memfds, and caches the descriptors that it saw.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Descriptors by number of the memory: all of them, since any process may end.
    seen: HashMap<u64, Vec<PathBuf>>,
    looked: bool,
    /// Whether the processes are searched only once.
    once: bool,
}

impl Search {
    /// Returns a search that looks through the processes only once, until [`again`](Self::again).
    /// It suits many links, some of which may lead nowhere.
    pub(crate) fn once() -> Self {
        Self { once: true, ..Self::default() }
    }

    /// Allows another search: memory that was not found may have appeared.
    pub(crate) fn again(&mut self) {
        self.looked = false;
    }

    /// Returns the path of a descriptor of a memory: the one that the link names, or that of any
    /// process. Returns `None` if no process that this one can inspect has it. Fails if this
    /// process runs out of files or memory during the search: the memory may exist.
    ///
    /// Reads every descriptor of every process of this user, if the named one and those seen before
    /// are gone.
    pub(crate) fn find(&mut self, link: Link) -> io::Result<Option<PathBuf>> {
        let first = of(&Path::new("/proc").join(link.pid.to_string()), link.descriptor);
        if is_it(&first, link) {
            return Ok(Some(first));
        }
        if let Some(known) = self.known(link) {
            return Ok(Some(known));
        }
        if self.looked && self.once {
            return Ok(None);
        }
        for _ in 0..LOOKS {
            self.look()?;
            let known = self.known(link);
            // Processes that had it may have passed it on before they ended.
            if known.is_some() || !self.seen.contains_key(&link.id) {
                return Ok(known);
            }
        }
        Ok(None)
    }

    fn known(&self, link: Link) -> Option<PathBuf> {
        self.seen.get(&link.id)?.iter().find(|path| is_it(path, link)).cloned()
    }

    fn look(&mut self) -> io::Result<()> {
        self.seen.clear();
        let uid = rustix::process::geteuid().as_raw();
        for process in unless_short(fs::read_dir("/proc"))?.into_iter().flatten().flatten() {
            let number = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            if number.is_none() || process.metadata().is_ok_and(|found| found.uid() != uid) {
                continue;
            }
            let descriptors = unless_short(fs::read_dir(process.path().join("fd")))?;
            for descriptor in descriptors.into_iter().flatten().flatten() {
                let path = descriptor.path();
                if let Some(id) = shown_at(&path).as_deref().and_then(id_of) {
                    self.seen.entry(id).or_default().push(path);
                }
            }
        }
        self.looked = true;
        Ok(())
    }
}

/// Returns `None` for an error that concerns one process, which may have ended or belong to another
/// user. Fails if this process runs out of files or memory, or a signal interrupts it.
fn unless_short<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if IoCause::of(&error).is_of_process() => Err(error),
        found => Ok(found.ok()),
    }
}

fn of(process: &Path, descriptor: u32) -> PathBuf {
    process.join("fd").join(descriptor.to_string())
}

/// Returns the text that the kernel shows for a descriptor.
fn shown_at(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.into_os_string().into_string().ok()
}

fn is_it(path: &Path, link: Link) -> bool {
    shown_at(path).is_some_and(|shown| shown == link.shown())
}

/// Opens a descriptor that was found. Returns `None` if it is closed, or refers to something else
/// by now.
///
/// The owner may close the descriptor and open something else between any two checks. So the opened
/// file is checked, which the owner cannot exchange.
pub(crate) fn open(
    found: &Path,
    link: Link,
    access: Access,
) -> rustix::io::Result<Option<OwnedFd>> {
    match memfd::open_anonymous(found, access) {
        Ok(opened) => {
            let mine = id(&opened) == Some(link.id);
            Ok(mine.then_some(opened))
        }
        Err(error) if is_it(found, link) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns the number of an open memfd that this module created.
pub(super) fn id(fd: &OwnedFd) -> Option<u64> {
    let descriptor = u32::try_from(fd.as_raw_fd()).ok()?;
    id_of(&shown_at(&of(Path::new("/proc/self"), descriptor))?)
}

/// Parses the number of a memfd that this module created.
fn id_of(shown: &str) -> Option<u64> {
    let rest = shown.strip_prefix("/memfd:")?.strip_prefix(MARK)?.strip_prefix(':')?;
    u64::from_str_radix(rest.strip_suffix(" (deleted)")?, 16).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn memory(id: u64) -> OwnedFd {
        memfd::anonymous(&super::super::memory_name(id)).unwrap()
    }

    fn link(id: u64, pid: u32, fd: &OwnedFd) -> Link {
        Link { id, pid, descriptor: u32::try_from(fd.as_raw_fd()).unwrap() }
    }

    #[test]
    fn memory_is_found_where_it_was_made_or_wherever_it_is() {
        let id = rand::random();
        let fd = memory(id);
        let me = std::process::id();
        let mut search = Search::default();
        let found = search.find(link(id, me, &fd)).unwrap().unwrap();
        assert!(!search.looked, "the first place will do");
        let elsewhere = Link { pid: u32::MAX, ..link(id, me, &fd) };
        let again = search.find(elsewhere).unwrap().unwrap();
        assert!(search.looked && is_it(&again, elsewhere), "{found:?} {again:?}");
        // Numbers of a process and a descriptor alone do not identify a memory.
        let other = memory(rand::random());
        assert_eq!(search.find(link(rand::random(), me, &other)).unwrap(), None);
        drop(fd);
        assert_eq!(search.find(elsewhere).unwrap(), None, "it is gone");
    }

    #[test]
    fn other_files_at_the_descriptor_of_a_memfd_are_not_opened() {
        let (id, me) = (rand::random(), std::process::id());
        let (fd, other) = (memory(id), memory(rand::random()));
        let wanted = link(id, me, &fd);
        let at = |number: i32| of(Path::new("/proc/self"), u32::try_from(number).unwrap());
        let opened = |number: i32| open(&at(number), wanted, Access::ReadWrite).unwrap();
        assert!(opened(fd.as_raw_fd()).is_some());
        let (file, (socket, _peer)) = (tempfile::tempfile().unwrap(), UnixStream::pair().unwrap());
        let null = File::open("/dev/null").unwrap();
        let (pipe, _end) = std::io::pipe().unwrap();
        let others = [other.as_raw_fd(), file.as_raw_fd(), socket.as_raw_fd(), null.as_raw_fd()];
        for taken in others.into_iter().chain([pipe.as_raw_fd(), i32::MAX]) {
            assert!(opened(taken).is_none(), "descriptor {taken}");
        }
    }

    #[test]
    fn one_look_is_enough_for_many_that_lead_nowhere() {
        let mut search = Search::once();
        let id = rand::random();
        assert_eq!(search.find(Link { id, pid: u32::MAX, descriptor: 3 }).unwrap(), None);
        let fd = memory(id);
        assert_eq!(
            search.find(Link { id, pid: u32::MAX, descriptor: 3 }).unwrap(),
            None,
            "not looked again"
        );
        assert!(search.find(link(id, std::process::id(), &fd)).unwrap().is_some());
    }
}
