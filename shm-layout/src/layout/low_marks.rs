//! `ring.low`: a mark per lane. Readers ignore the rows below it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};

use crate::layout::origin::header_crc;
use crate::os::mapping::Mapping;

/// Bytes of the header of `ring.low`.
pub(crate) const LOW_HEADER_BYTES: usize = 128;
/// First bytes of `ring.low`.
pub const LOW_MAGIC: [u8; 8] = *b"\x89BKM\r\n\x1a\n";

/// Header of `ring.low`, written once by the creator. A mark per lane follows, each a u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LowMarksHeader {
    /// [`LOW_MAGIC`].
    pub magic: [u8; 8],
    /// Random id of the ring, as in the superblock.
    pub ring_uuid: [u8; 16],
    /// Lanes, as in the superblock.
    pub lane_count: u32,
    /// Zero.
    pub unused: [u8; 96],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

const _: () = assert!(size_of::<LowMarksHeader>() == LOW_HEADER_BYTES);

impl LowMarksHeader {
    pub(crate) fn new(ring_uuid: [u8; 16], lane_count: u32) -> Self {
        let mut header =
            Self { magic: LOW_MAGIC, ring_uuid, lane_count, unused: [0; 96], crc32: 0 };
        header.crc32 = header_crc(&header);
        header
    }
}

/// Marks of all lanes, mapped or on the heap.
#[derive(Debug)]
pub struct LowMarks {
    map: Mapping,
    lanes: u32,
}

impl LowMarks {
    /// Returns the bytes of the header and the marks.
    pub(crate) fn bytes(lanes: u32) -> u64 {
        LOW_HEADER_BYTES as u64 + 8 * u64::from(lanes)
    }

    pub(crate) fn new(map: Mapping, lanes: u32) -> Self {
        Self { map, lanes }
    }

    /// Allocates marks of zero on the heap.
    pub(crate) fn heap(lanes: u32) -> io::Result<Self> {
        let len = usize::try_from(Self::bytes(lanes)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self::new(Mapping::heap(len)?, lanes))
    }

    #[inline]
    fn word(&self, lane: u32) -> Option<&AtomicU64> {
        let at = LOW_HEADER_BYTES + 8 * lane as usize;
        (lane < self.lanes).then(|| self.map.words64(at, 1)?.first()).flatten()
    }
}

/// Mark of one lane.
#[derive(Clone, Debug)]
pub struct LowMark {
    marks: Arc<LowMarks>,
    lane: u32,
}

impl LowMark {
    /// Returns the mark of a lane. The mark of a lane that the ring lacks is always 0.
    #[must_use]
    pub fn new(marks: &Arc<LowMarks>, lane: u32) -> Self {
        Self { marks: Arc::clone(marks), lane }
    }

    /// Loads the mark. Any number may be stored there.
    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.marks.word(self.lane).map_or(0, |word| word.load(order))
    }

    /// Replaces the mark `from` by `to`, and returns whether it did. Returns `true` and does
    /// nothing for a lane that the ring lacks.
    ///
    /// # Panics
    /// If the memory is mapped for reading.
    pub(crate) fn compare_exchange(&self, from: u64, to: u64, order: Ordering) -> bool {
        assert!(self.marks.map.writable(), "the marks are mapped for reading");
        let Some(word) = self.marks.word(self.lane) else { return true };
        word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}
