//! Finds and removes the temporary files that killed processes left.
//!
//! A writer holds a lock on its temporary file, which the kernel releases when the process ends,
//! however it ends. So a file that can be locked has no writer.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use backcast_core::IoCause;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// End of the name of every temporary file, after the numbers of the process and of the write.
pub(crate) const SUFFIX: &str = ".backcast.tmp";

/// A temporary file that a killed process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedFile {
    /// The file, beside the one that was to be written.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Finds the temporary files that killed processes left in a folder, without those of processes
/// that are writing.
pub fn unfinished_files(folder: &Path) -> io::Result<Vec<UnfinishedFile>> {
    visit(folder, |_| true)
}

/// Removes the temporary files that killed processes left in a folder, and returns them.
pub fn collect_files(folder: &Path) -> io::Result<Vec<UnfinishedFile>> {
    visit(folder, |path| fs::remove_file(path).is_ok())
}

/// Locks a new temporary file. Returns `false` if a collector was faster.
pub(crate) fn claim(file: &File, path: &Path) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        // Where files cannot be locked, no collector removes one.
        _ => is_at(file, path),
    }
}

/// Locks every abandoned file of this user in turn and lists those for which `work` returns true.
fn visit(folder: &Path, mut work: impl FnMut(&Path) -> bool) -> io::Result<Vec<UnfinishedFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let path = folder.join(&name);
        let is_mine =
            |found: Metadata| found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
        if !is_temporary(&name) || !path.symlink_metadata().is_ok_and(is_mine) {
            continue;
        }
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let file = match OpenOptions::new().write(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            // Nothing is known about this file, nor about those after it.
            Err(error) if IoCause::of(&error).is_of_process() => return Err(error),
            Err(_) => continue,
        };
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !locked || !is_at(&file, &path) {
            continue;
        }
        let bytes = file.metadata().map_or(0, |found| found.len());
        if work(&path) {
            found.push(UnfinishedFile { path, bytes });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns whether a name is that of a temporary file: `NAME.PID.NUMBER.backcast.tmp`.
fn is_temporary(name: &OsStr) -> bool {
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let name = name.to_string_lossy();
    let Some(name) = name.strip_suffix(SUFFIX) else { return false };
    let mut parts = name.rsplit('.');
    number(parts.next()) && number(parts.next()) && parts.next().is_some_and(|n| !n.is_empty())
}

/// Returns whether a path leads to this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let Ok(ours) = file.metadata() else { return false };
    let same = |there: Metadata| (there.dev(), there.ino()) == (ours.dev(), ours.ino());
    path.symlink_metadata().is_ok_and(same)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::write_atomically;

    fn names(found: &[UnfinishedFile]) -> Vec<String> {
        let name = |file: &UnfinishedFile| file.path.file_name().unwrap().to_str().unwrap().into();
        found.iter().map(name).collect()
    }

    #[test]
    fn what_a_killed_writer_left_is_collected_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let left = "m.parquet.4711.0.backcast.tmp";
        let kept = [
            "m.parquet",
            "m.parquet.4711.0.tmp",
            "m.parquet.0.backcast.tmp",
            "m.parquet.x.0.backcast.tmp",
            ".4711.0.backcast.tmp",
            "notes.backcast.tmp",
        ];
        for name in kept.iter().chain([&left]) {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        let linked = folder.path().join("l.1.0.backcast.tmp");
        std::os::unix::fs::symlink(folder.path().join("m.parquet"), &linked).unwrap();
        fs::create_dir(folder.path().join("d.1.0.backcast.tmp")).unwrap();
        let found = unfinished_files(folder.path()).unwrap();
        assert_eq!((names(&found), found[0].bytes), (vec![left.to_owned()], 4));
        assert_eq!(collect_files(folder.path()).unwrap(), found);
        assert!(collect_files(folder.path()).unwrap().is_empty());
        assert!(!folder.path().join(left).exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), kept.len() + 2);
    }

    #[test]
    fn the_file_of_a_running_writer_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.parquet");
        write_atomically::<io::Error>(&path, |file| {
            file.write_all(b"all of it")?;
            assert!(fs::read_dir(folder.path())?.count() == 1);
            assert!(unfinished_files(folder.path())?.is_empty());
            assert!(collect_files(folder.path())?.is_empty());
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"all of it");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
