//! Chunk files: batches of rows, of table values or of parameters. The manifest has their places
//! and checksums.

mod checked_read;
mod write;

pub(crate) use self::checked_read::ChunkFile;
pub(crate) use self::write::{ChunkWriter, SavedFiles};
use crate::layout::BodyPlace;

/// Returns whether a name is that of a temporary chunk file.
pub(crate) fn is_leftover(name: &str) -> bool {
    name.ends_with(".arrow.tmp")
}

/// Returns the bytes of a column in a body, padding included.
fn slice<'a>(body: &'a [u8], place: &BodyPlace) -> &'a [u8] {
    let start = size(place.offset);
    body.get(start..start.saturating_add(size(place.padded))).unwrap_or_default()
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
