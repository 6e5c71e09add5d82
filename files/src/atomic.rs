//! Writes files atomically.

use std::{
    fs::{File, OpenOptions, remove_file, rename},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::unfinished::{self, SUFFIX};

/// Maximum attempts to create and lock a temporary file.
const ATTEMPTS: u32 = 64;

/// Writes a file with `write`, so that `path` has the old content or all of the new one. Writes a
/// temporary file beside `path`, forces it to disk, and renames it to `path`.
///
/// A process that is killed meanwhile leaves the temporary file, which
/// [`collect_files`](crate::collect_files) finds and removes.
pub fn write_atomically<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let (beside, file) = create_beside(path)?;
    // The file stays open, and with it the lock, until it has its name.
    let mut writer = BufWriter::with_capacity(1 << 18, file);
    let written = write(&mut writer).and_then(|()| {
        writer.flush()?;
        writer.get_ref().sync_all()?;
        Ok(rename(&beside, path)?)
    });
    if written.is_err() {
        // The error of the write is reported, and not that of the removal.
        let _ = remove_file(&beside);
        return written;
    }
    // Force the name to disk. Some file systems cannot sync a directory.
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Creates and locks a temporary file in the same directory, where a rename is atomic.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    for _ in 0..ATTEMPTS {
        let mut name = name.to_owned();
        name.push(format!(".{}.{}{SUFFIX}", process::id(), CALLS.fetch_add(1, Relaxed)));
        let beside = folder_of(path).join(name);
        let file = match OpenOptions::new().write(true).create_new(true).open(&beside) {
            // A killed process that had the same process ID left this file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        if unfinished::claim(&file, &beside) {
            return Ok((beside, file));
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        write_atomically::<io::Error>(&path, |file| file.write_all(b"old")).unwrap();
        let broken = write_atomically::<io::Error>(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write_atomically::<io::Error>(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_directory_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        write_atomically::<io::Error>(folder.path(), |_| Ok(())).unwrap_err();
        write_atomically::<io::Error>(Path::new("/"), |_| Ok(())).unwrap_err();
    }
}
