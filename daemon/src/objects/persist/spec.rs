//! Persistence mode of a ring, kept in its directory so that every daemon finds it.

use std::io::{self, Write};
use std::path::Path;

use backcast_persist::PersistMode;

/// File in the ring's directory, which holds one word.
const FILE: &str = "persist";
/// Maximum bytes of the file.
const MAX_BYTES: u64 = 32;

/// Sets the mode of a ring.
pub(crate) fn ask(dir: &Path, mode: PersistMode) -> io::Result<()> {
    backcast_files::write_atomically(&dir.join(FILE), |file| writeln!(file, "{mode}"))
}

/// Returns the mode of a ring, if one was set.
pub(crate) fn asked(dir: &Path) -> Option<PersistMode> {
    let bytes = super::read(&dir.join(FILE), MAX_BYTES)?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_and_rubbish_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(asked(dir.path()), None);
        for mode in PersistMode::ALL {
            ask(dir.path(), mode).unwrap();
            assert_eq!(asked(dir.path()), Some(mode));
        }
        for rubbish in [&b""[..], b"\xff\xff", b"always", &[b' '; 1_000]] {
            std::fs::write(dir.path().join(FILE), rubbish).unwrap();
            assert_eq!(asked(dir.path()), None);
        }
    }
}
