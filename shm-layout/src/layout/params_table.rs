//! `params.ctl` and `params.dat`: a named set of arrays, and slots that hold versions of it.

use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::kernels::racy_copy::{self, Word};
use crate::layout::origin::{Origin, boot_id_hash, header_crc};
use crate::layout::params_shape::ParamsShape;
use crate::layout::superblock::{ENDIAN_TAG, LAYOUT_VERSION};
use crate::os::mapping::Mapping;

/// First bytes of `params.ctl`.
pub const PARAMS_MAGIC: [u8; 8] = *b"\x89BKV\r\n\x1a\n";
/// First bytes of `params.dat`.
pub const PARAMS_DATA_MAGIC: [u8; 8] = *b"\x89BKW\r\n\x1a\n";
/// Bytes of `params.dat` before the first block.
pub(crate) const PARAMS_BLOCKS_AT: u64 = 4096;
/// Maximum slots of an object of parameters: a pin is one word with a bit for each.
pub const MAX_PARAMS_SLOTS: u32 = 64;

/// Header of `params.ctl`. Written once, before the object has a name. The records of the arrays
/// follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsHeader {
    /// [`PARAMS_MAGIC`].
    pub magic: [u8; 8],
    /// [`LAYOUT_VERSION`].
    pub layout_version: u32,
    /// [`ENDIAN_TAG`].
    pub endian_tag: u32,
    /// Hash of the machine's boot id, as in the superblock.
    pub boot_id_hash: u64,
    /// Random id of the object.
    pub params_uuid: [u8; 16],
    /// Arrays, which is the number of records.
    pub array_count: u32,
    /// Slots, each for one version of all arrays.
    pub slots: u32,
    /// Versions that stay readable while another is written.
    pub versions_kept: u32,
    /// Reader slots in `params.rdr`.
    pub reader_slots: u32,
    /// Bytes of a slot's block, a multiple of 4096.
    pub block_bytes: u64,
    /// Bytes of `params.dat`.
    pub data_bytes: u64,
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// BLAKE3 of the records.
    pub records_hash: [u8; 32],
    /// Zero.
    pub unused: [u8; 140],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// Header of `params.dat`, written once by the creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsDataHeader {
    /// [`PARAMS_DATA_MAGIC`].
    pub magic: [u8; 8],
    /// Random id of the object, as in `params.ctl`.
    pub params_uuid: [u8; 16],
    /// Zero.
    pub unused: [u8; 100],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// Counters of the publisher. Used for their offsets only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsCounterBytes {
    /// Newest version, shifted left by 8, and its slot in the low 8 bits. 0 before the first one.
    pub newest: u64,
    /// Zero.
    pub unused1: [u8; 120],
    /// Versions published.
    pub published: u64,
    /// Publishes refused because views pin every slot that could be reused.
    pub refused: u64,
    /// Process id of the last publisher. Only for messages.
    pub pid: u64,
    /// How often a handle became the publisher.
    pub generation: u64,
    /// Zero.
    pub unused2: [u8; 96],
}

/// Words of a slot. Used for their offsets only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsSlotBytes {
    /// Version in the block. 0 while it is empty or being written.
    pub stamp: u64,
    /// Wall clock when the version was published, nanoseconds since 1970.
    pub published_unix_ns: u64,
}

/// Counters of the processes that pull, in `params.rdr` after the pins. Used for their offsets
/// only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsReadBytes {
    /// Versions copied.
    pub pulls: u64,
    /// Copies made again because the publisher reused the slot meanwhile.
    pub retries: u64,
    /// Zero.
    pub unused: [u8; 112],
}

const COUNTERS_AT: usize = size_of::<ParamsDataHeader>();
const SLOTS_AT: usize = COUNTERS_AT + size_of::<ParamsCounterBytes>();

const _: () = {
    assert!(size_of::<ParamsHeader>() == 256);
    assert!(size_of::<ParamsDataHeader>() == 128);
    assert!(size_of::<ParamsCounterBytes>() == 256);
    assert!(size_of::<ParamsReadBytes>() == 128);
    let slots = MAX_PARAMS_SLOTS as usize * size_of::<ParamsSlotBytes>();
    assert!((SLOTS_AT + slots) as u64 <= PARAMS_BLOCKS_AT);
};

impl ParamsHeader {
    pub(crate) fn new(shape: &ParamsShape, uuid: [u8; 16], created_unix_ns: u64) -> Self {
        let mut header = Self {
            magic: PARAMS_MAGIC,
            layout_version: LAYOUT_VERSION,
            endian_tag: ENDIAN_TAG,
            boot_id_hash: boot_id_hash(),
            params_uuid: uuid,
            array_count: u32::try_from(shape.arrays().len()).unwrap_or(u32::MAX),
            slots: shape.slots(),
            versions_kept: shape.versions_kept(),
            reader_slots: shape.reader_slots(),
            block_bytes: shape.block_bytes() as u64,
            data_bytes: shape.data_bytes(),
            created_unix_ns,
            records_hash: *blake3::hash(&shape.records()).as_bytes(),
            unused: [0; 140],
            crc32: 0,
        };
        header.crc32 = header_crc(&header);
        header
    }

    /// Returns the header that an object of that shape has, with this one's id, time and boot.
    pub(crate) fn of_shape(&self, shape: &ParamsShape) -> Self {
        let made = Self::new(shape, self.params_uuid, self.created_unix_ns);
        let mut header = Self { boot_id_hash: self.boot_id_hash, ..made };
        header.crc32 = header_crc(&header);
        header
    }

    /// Checks magic, layout version, byte order, boot and CRC of the header.
    pub(crate) fn check_origin(&self, path: &Path) -> Result<(), SegmentError> {
        let Self { magic, layout_version, endian_tag, boot_id_hash, crc32, .. } = *self;
        let origin = Origin { magic, layout_version, endian_tag, boot_id_hash, crc32 };
        origin.check(path, PARAMS_MAGIC, header_crc(self))
    }
}

impl ParamsDataHeader {
    pub(crate) fn new(params_uuid: [u8; 16]) -> Self {
        let magic = PARAMS_DATA_MAGIC;
        let mut header = Self { magic, params_uuid, unused: [0; 100], crc32: 0 };
        header.crc32 = header_crc(&header);
        header
    }
}

/// The mapped file `params.dat`. Its words are atomics, and no value in them is trusted.
#[derive(Debug)]
pub struct ParamsMemory {
    map: Mapping,
    slots: u32,
    block_bytes: usize,
}

impl ParamsMemory {
    /// Wraps a mapping of the whole file, whose size the caller has checked.
    pub(crate) fn new(map: Mapping, shape: &ParamsShape) -> Self {
        Self { map, slots: shape.slots(), block_bytes: shape.block_bytes() }
    }

    /// Allocates memory of the same shape on the heap.
    pub(crate) fn heap(shape: &ParamsShape) -> io::Result<Self> {
        let len = usize::try_from(shape.data_bytes()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self::new(Mapping::heap(len)?, shape))
    }

    /// Returns whether the header of the file is that of the object.
    pub(crate) fn has_header(&self, header: &ParamsDataHeader) -> bool {
        self.map.copy(0, size_of::<ParamsDataHeader>()) == bytemuck::bytes_of(header)
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.slots
    }

    /// Returns the word of the newest version.
    #[inline]
    pub(crate) fn newest_word(&self) -> &AtomicU64 {
        self.word(COUNTERS_AT + offset_of!(ParamsCounterBytes, newest))
    }

    /// Returns the word that holds the stamp of a slot.
    #[inline]
    pub(crate) fn stamp_word(&self, slot: u32) -> &AtomicU64 {
        self.slot_word(slot, offset_of!(ParamsSlotBytes, stamp))
    }

    /// Returns the word that holds the time at which the version in a slot was published.
    pub(crate) fn time_word(&self, slot: u32) -> &AtomicU64 {
        self.slot_word(slot, offset_of!(ParamsSlotBytes, published_unix_ns))
    }

    /// Returns the counters of publishers: versions published, publishes refused, process id of the
    /// last publisher, and how often a handle became the publisher.
    pub(crate) fn counters(&self) -> [&AtomicU64; 4] {
        [
            offset_of!(ParamsCounterBytes, published),
            offset_of!(ParamsCounterBytes, refused),
            offset_of!(ParamsCounterBytes, pid),
            offset_of!(ParamsCounterBytes, generation),
        ]
        .map(|offset| self.word(COUNTERS_AT + offset))
    }

    fn slot_word(&self, slot: u32, offset: usize) -> &AtomicU64 {
        self.word(SLOTS_AT + slot as usize * size_of::<ParamsSlotBytes>() + offset)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        static ZERO: AtomicU64 = AtomicU64::new(0);
        // The first page is part of every mapping; the fallback only spares a panic path.
        self.map.words64(offset, 1).and_then(<[_]>::first).unwrap_or(&ZERO)
    }

    /// Returns the address of `len` bytes at an offset in a slot's block. Returns `None` if they do
    /// not lie in the block.
    #[inline]
    fn place(&self, slot: u32, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        if slot >= self.slots || end > self.block_bytes {
            return None;
        }
        let block = (slot as usize).checked_mul(self.block_bytes)?;
        #[expect(clippy::cast_possible_truncation, reason = "a constant of 4096")]
        let at = block.checked_add(PARAMS_BLOCKS_AT as usize)?.checked_add(offset)?;
        (at.checked_add(len)? <= self.map.len()).then(|| self.map.base().wrapping_add(at))
    }

    /// Copies an array out of a slot's block. Returns `false` if it does not lie in the block.
    #[inline]
    #[must_use]
    pub(crate) fn copy_out(&self, slot: u32, offset: usize, out: &mut [u8]) -> bool {
        let Some(from) = self.place(slot, offset, out.len()) else { return false };
        // SAFETY:
        // - In bounds: `place` checked; the mapping lives as long as `self`.
        // - Aligned: arrays begin on multiples of 64 bytes in blocks that begin on pages.
        // - Written only by `copy_in`, with the word of the same length.
        unsafe { racy_copy::copy_out_lines(from, out, Word::of_width(out.len())) };
        true
    }

    /// Copies an array into a slot's block. Returns `false` if it does not lie in the block, or the
    /// memory is mapped for reading only.
    #[inline]
    #[must_use]
    pub(crate) fn copy_in(&self, slot: u32, offset: usize, bytes: &[u8]) -> bool {
        let place = self.place(slot, offset, bytes.len()).filter(|_| self.map.writable());
        let Some(to) = place else { return false };
        // SAFETY: as in `copy_out`; the mapping is writable.
        unsafe { racy_copy::copy_in(to, bytes, Word::of_width(bytes.len())) };
        true
    }

    /// Returns the address of an array in a slot's block, for a view whose pin keeps the slot.
    /// Returns `None` if the array does not lie in the block.
    #[must_use]
    pub fn address(&self, slot: u32, offset: usize, len: usize) -> Option<*const u8> {
        self.place(slot, offset, len).map(<*mut u8>::cast_const)
    }

    /// Writes the header of memory on the heap.
    pub(crate) fn store_header(&self, header: &ParamsDataHeader) {
        let words = self.map.words64(0, size_of::<ParamsDataHeader>() / 8).unwrap_or_default();
        for (word, bytes) in words.iter().zip(bytemuck::bytes_of(header).chunks_exact(8)) {
            word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
        }
    }
}

/// Adds to a counter that one process writes at a time.
pub(crate) fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}
