//! What stands in a ring's directory about bringing it to disk: what its creator asked for, and how
//! its follower stands. Other processes of the user can write anything there, and nothing is lost by it.

mod report;
mod wish;

pub(crate) use report::{PersistReport, behind_now};
pub(crate) use wish::{ask, asked};

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// What stands in a file, which must not be longer than so many bytes.
fn read(path: &Path, max: u64) -> Option<Vec<u8>> {
    // Not to hang on a pipe that somebody put there.
    let nonblocking = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).ok()?;
    let fits = file.metadata().ok()?;
    let mut bytes = Vec::new();
    (fits.is_file() && fits.len() <= max).then_some(())?;
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
