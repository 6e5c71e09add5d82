//! Which process asked for a ring, written down beside it: what a quota for each of them is counted by.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::str::FromStr;

use backcast_core::Peer;

/// A link in a ring's directory that leads nowhere: its target is who asked. It takes no block of
/// memory, and another one takes its place at once.
const MARK: &str = "asked-by";
const NEXT_MARK: &str = "asked-by.next";

/// A process, told from later ones with its number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller {
    /// 0: the kernel does not name it, as for one in another container. All such are one caller.
    pid: u32,
    /// In the kernel's ticks since it booted.
    started: u64,
}

impl Caller {
    /// The process at the other end of a connection.
    pub(crate) fn of(peer: Peer) -> Self {
        let known = peer.pid.and_then(|pid| Some(Self { pid, started: started(pid)? }));
        known.unwrap_or(Self { pid: 0, started: 0 })
    }

    /// `None`: the kernel does not name it.
    pub(crate) fn pid(self) -> Option<u32> {
        (self.pid > 0).then_some(self.pid)
    }

    /// Whether it is still there; one that has no name may be.
    pub(crate) fn lives(self) -> bool {
        self.pid == 0 || started(self.pid) == Some(self.started)
    }

    /// Who asked for the ring in a directory. `None`: nobody who is still there, or it was made
    /// without a daemon.
    pub(crate) fn that_asked_for(ring: &Path) -> Option<Self> {
        let mark: Self = fs::read_link(ring.join(MARK)).ok()?.to_str()?.parse().ok()?;
        Some(mark).filter(|caller| caller.lives())
    }

    /// From now on this one asked for it.
    pub(crate) fn mark(self, ring: &Path) -> io::Result<()> {
        let next = ring.join(NEXT_MARK);
        match symlink(self.to_string(), &next) {
            // A daemon that was killed here left one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&next)?;
                symlink(self.to_string(), &next)?;
            }
            made => made?,
        }
        fs::rename(next, ring.join(MARK))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.started)
    }
}

impl FromStr for Caller {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, started) = text.split_once(':').ok_or(())?;
        Ok(Self { pid: pid.parse().map_err(drop)?, started: started.parse().map_err(drop)? })
    }
}

/// The 22nd word of `/proc/PID/stat`. `None`: there is no such process, or it cannot be seen.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second word is the program's name, in which anything may stand.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_mark_counts_while_its_process_lives_and_says_who_asked_last() {
        let dir = tempfile::tempdir().unwrap();
        let asked = || Caller::that_asked_for(dir.path());
        assert_eq!(asked(), None, "made without a daemon");
        let us = Caller::of(Peer { uid: 0, pid: Some(std::process::id()) });
        us.mark(dir.path()).unwrap();
        assert_eq!((asked(), us.pid()), (Some(us), Some(std::process::id())));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let other = Caller::of(Peer { uid: 0, pid: Some(child.id()) });
        symlink("left by a kill", dir.path().join(NEXT_MARK)).unwrap();
        other.mark(dir.path()).unwrap();
        assert_eq!(asked(), Some(other));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(asked(), None, "it has ended");
        // A later process with the number of an earlier one.
        Caller { started: us.started + 1, ..us }.mark(dir.path()).unwrap();
        assert_eq!(asked(), None);
        let names = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 1, "one mark, whoever asked");
    }

    #[test]
    fn callers_without_a_name_are_one_and_a_mark_of_nonsense_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let nobody = Caller::of(Peer { uid: 0, pid: None });
        assert_eq!((nobody.pid(), nobody.lives()), (None, true));
        assert_eq!(Caller::of(Peer { uid: 0, pid: Some(0) }), nobody);
        nobody.mark(dir.path()).unwrap();
        assert_eq!(Caller::that_asked_for(dir.path()), Some(nobody));
        for nonsense in ["", "1", "1:", ":1", "-1:5", "1:2:3", "a:b", "99999999999:1"] {
            assert_eq!(nonsense.parse::<Caller>(), Err(()), "{nonsense}");
        }
    }
}
