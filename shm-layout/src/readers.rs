//! `ring.rdr`: a slot per reader, with what it has read. Written by readers alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::origin::header_crc;
use crate::sys::map::Mapping;

/// Bytes of the header of `ring.rdr`.
pub const READERS_HEADER_BYTES: u64 = 128;
/// Bytes of a reader's slot: a line of its own.
pub const READER_SLOT_BYTES: u64 = 128;
/// First bytes of `ring.rdr`.
pub const READERS_MAGIC: [u8; 8] = *b"\x89BKR\r\n\x1a\n";

/// Written once by the creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ReadersHeader {
    /// [`READERS_MAGIC`].
    pub magic: [u8; 8],
    /// As in the superblock.
    pub ring_uuid: [u8; 16],
    /// As in the superblock.
    pub reader_slots: u32,
    /// Zero.
    pub unused: [u8; 96],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

impl ReadersHeader {
    pub(crate) fn new(ring_uuid: [u8; 16], reader_slots: u32) -> Self {
        let magic = READERS_MAGIC;
        let mut header = Self { magic, ring_uuid, reader_slots, unused: [0; 96], crc32: 0 };
        header.crc32 = header_crc(&header);
        header
    }
}

/// A reader's slot, as offsets: its fields are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ReaderSlotBytes {
    /// How often the slot was claimed.
    pub generation: u64,
    /// Process id of the last holder: for people.
    pub pid: u64,
    /// When it was claimed, nanoseconds since 1970.
    pub claimed_unix_ns: u64,
    /// Rows returned to the caller.
    pub sampled_rows: u64,
    /// Batches returned to the caller.
    pub sampled_batches: u64,
    /// Draws thrown away because the writer passed the reader.
    pub lapped: u64,
    /// Zero.
    pub unused: [u8; 80],
}

const _: () = {
    assert!(size_of::<ReadersHeader>() as u64 == READERS_HEADER_BYTES);
    assert!(size_of::<ReaderSlotBytes>() as u64 == READER_SLOT_BYTES);
};

/// What a reader's slot says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderRecord {
    /// How often the slot was claimed.
    pub generation: u64,
    /// Process id of the last holder.
    pub pid: u64,
    /// When it was claimed, nanoseconds since 1970.
    pub claimed_unix_ns: u64,
    /// Rows returned to the caller.
    pub sampled_rows: u64,
    /// Batches returned to the caller.
    pub sampled_batches: u64,
    /// Draws thrown away because the writer passed the reader.
    pub lapped: u64,
}

/// The six counters of a slot.
pub(crate) fn slot_words(map: &Mapping, slot: u32) -> Option<&[AtomicU64; 6]> {
    let offset = READERS_HEADER_BYTES + READER_SLOT_BYTES * u64::from(slot);
    map.words64(usize::try_from(offset).ok()?, 6)?.first_chunk()
}

pub(crate) fn read_slot(map: &Mapping, slot: u32) -> Option<ReaderRecord> {
    let [generation, pid, claimed, rows, batches, lapped] =
        slot_words(map, slot)?.each_ref().map(|word| word.load(Relaxed));
    Some(ReaderRecord {
        generation,
        pid,
        claimed_unix_ns: claimed,
        sampled_rows: rows,
        sampled_batches: batches,
        lapped,
    })
}
