//! Persistence files in a ring's directory: the mode that was set, and the follower's report. Other
//! processes of the user can write them, so neither file is trusted.

mod report;
mod spec;

pub(crate) use report::{PersistReport, behind_now};
pub(crate) use spec::{ask, asked};

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a regular file. Returns `None` if it is missing, unreadable, of another type, or larger
/// than `max` bytes.
fn read(path: &Path, max: u64) -> Option<Vec<u8>> {
    // In place of the file there may be a pipe, which must not block, or a link, which is refused.
    let nonblocking = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).ok()?;
    let fits = file.metadata().ok()?;
    let mut bytes = Vec::new();
    (fits.is_file() && fits.len() <= max).then_some(())?;
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
