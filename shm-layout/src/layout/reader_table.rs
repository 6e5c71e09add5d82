//! `ring.rdr`: the notifiers, a slot per reader with its counters, and the pins of its leases.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::layout::geometry::Geometry;
use crate::layout::origin::header_crc;
use crate::os::futex::NotifyBarrier;
use crate::os::mapping::Mapping;

/// Bytes of the header of `ring.rdr`.
pub(crate) const READERS_HEADER_BYTES: u64 = 128;
/// Bytes of a notifier: a whole cache line.
pub(crate) const NOTIFIER_BYTES: u64 = 128;
/// Notifiers of a ring: published, released.
pub(crate) const NOTIFIERS: u64 = 2;
/// Bytes of a reader's slot: whole cache lines.
pub(crate) const READER_SLOT_BYTES: u64 = 512;
/// Bins of the ages of drawn rows: age 0, then powers of 2.
pub const AGE_BINS: usize = 50;
/// Alignment of the words that follow the pins.
pub(crate) const AFTER_PINS_ALIGN: u64 = 128;
/// Byte of `ring.rdr` that is odd once the ring has lost its name. It is the highest byte of
/// [`NotifierBytes::resizes`], so that writers learn of both by one load.
pub(crate) const UNLINKED_AT: u64 = {
    let highest = if cfg!(target_endian = "little") { 3 } else { 0 };
    READERS_HEADER_BYTES + offset_of!(NotifierBytes, resizes) as u64 + highest
};
/// Mask of that byte in the word.
const HINTS: u32 = 0xff00_0000;
/// Bit of that byte for the loss of the name.
const UNLINKED: u32 = 0x0100_0000;
/// Unit of the count of removed tables, which has the other bits of that byte and wraps.
const REMOVED_TABLE: u32 = 0x0200_0000;
/// First bytes of `ring.rdr`.
pub const READERS_MAGIC: [u8; 8] = *b"\x89BKR\r\n\x1a\n";

/// Header of `ring.rdr`, written once by the creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ReadersHeader {
    /// [`READERS_MAGIC`].
    pub magic: [u8; 8],
    /// Random id of the ring, as in the superblock.
    pub ring_uuid: [u8; 16],
    /// Reader slots, as in the superblock.
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

/// Layout of a notifier. Its fields are accessed as atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct NotifierBytes {
    /// Count of notifications; sleepers sleep on this word.
    pub seq: u32,
    /// 1 if a process may be asleep.
    pub listening: u32,
    /// Number of resizes of the ring, in the low 24 bits. A writer whose lane is older relocates
    /// it. The lowest bit of the highest byte is 1 once the ring has lost its name, and the 7 bits
    /// above count removed tables. Used in the first notifier only.
    pub resizes: u32,
    /// Zero.
    pub unused: [u8; 116],
}

/// Layout of a reader slot. Its fields are accessed as atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ReaderSlotBytes {
    /// How often the slot was claimed.
    pub generation: u64,
    /// Process id of the last holder. Only for messages.
    pub pid: u64,
    /// Time of the last claim, in nanoseconds since 1970.
    pub claimed_unix_ns: u64,
    /// Items returned to the caller.
    pub sampled_rows: u64,
    /// Batches returned to the caller.
    pub sampled_batches: u64,
    /// Draws rejected because a writer overwrote their rows.
    pub lapped: u64,
    /// Leases granted.
    pub leases: u64,
    /// How often a writer had to wait, drop or fail because of a lease of this slot.
    pub stalls: u64,
    /// Drawn rows by age: see [`AgeCounts`].
    pub ages: [u64; AGE_BINS],
    /// Zero.
    pub unused: [u8; 48],
}

const _: () = {
    assert!(size_of::<ReadersHeader>() as u64 == READERS_HEADER_BYTES);
    assert!(size_of::<NotifierBytes>() as u64 == NOTIFIER_BYTES);
    assert!(size_of::<ReaderSlotBytes>() as u64 == READER_SLOT_BYTES);
};

/// Rows that readers have drawn, by age.
///
/// An age is a number of newer rows of the same lane. Bin 0 counts age 0, and bin N counts the ages
/// from 2^(N-1) to 2^N - 1. The last bin also counts all larger ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeCounts(pub [u64; AGE_BINS]);

impl Default for AgeCounts {
    fn default() -> Self {
        Self([0; AGE_BINS])
    }
}

/// Contents of a reader slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderRecord {
    /// How often the slot was claimed.
    pub generation: u64,
    /// Process id of the last holder.
    pub pid: u64,
    /// Time of the last claim, in nanoseconds since 1970.
    pub claimed_unix_ns: u64,
    /// Items returned to the caller.
    pub sampled_rows: u64,
    /// Batches returned to the caller.
    pub sampled_batches: u64,
    /// Draws rejected because a writer overwrote their rows.
    pub lapped: u64,
    /// Leases granted.
    pub leases: u64,
    /// How often a writer had to wait, drop or fail because of a lease of this slot.
    pub stalls: u64,
    /// Drawn rows by age, of every 64th batch.
    pub ages: AgeCounts,
}

/// First words of a slot, in the order of [`ReaderSlotBytes`].
pub(crate) struct SlotWords<'a> {
    pub(crate) generation: &'a AtomicU64,
    pub(crate) pid: &'a AtomicU64,
    pub(crate) claimed_unix_ns: &'a AtomicU64,
    pub(crate) sampled_rows: &'a AtomicU64,
    pub(crate) sampled_batches: &'a AtomicU64,
    pub(crate) lapped: &'a AtomicU64,
    pub(crate) leases: &'a AtomicU64,
    pub(crate) stalls: &'a AtomicU64,
}

/// The mapped file `ring.rdr`.
#[derive(Debug)]
pub(crate) struct ReaderTable {
    map: Mapping,
    slots: u32,
    lanes: u32,
}

impl ReaderTable {
    pub(crate) fn new(map: Mapping, slots: u32, lanes: u32) -> Self {
        Self { map, slots, lanes }
    }

    /// Returns the lanes whose rows readers can pin.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Allocates memory of the same shape on the heap.
    pub(crate) fn heap(geometry: &Geometry, slots: u32, lanes: u32) -> io::Result<Self> {
        let len = usize::try_from(geometry.rdr_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self::new(Mapping::heap(len)?, slots, lanes))
    }

    /// Returns the first byte of a slot, or `None` if the table lacks it.
    fn slot_offset(&self, slot: u32) -> Option<usize> {
        let before = READERS_HEADER_BYTES + NOTIFIERS * NOTIFIER_BYTES;
        let offset = before + READER_SLOT_BYTES * u64::from(slot);
        (slot < self.slots).then(|| usize::try_from(offset).ok()).flatten()
    }

    /// Returns the counts of ages of a slot.
    pub(crate) fn ages(&self, slot: u32) -> Option<&[AtomicU64; AGE_BINS]> {
        let offset = self.slot_offset(slot)? + offset_of!(ReaderSlotBytes, ages);
        self.map.words64(offset, AGE_BINS)?.first_chunk()
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<SlotWords<'_>> {
        let offset = self.slot_offset(slot)?;
        let words: &[AtomicU64; 8] = self.map.words64(offset, 8)?.first_chunk()?;
        let [
            generation,
            pid,
            claimed_unix_ns,
            sampled_rows,
            sampled_batches,
            lapped,
            leases,
            stalls,
        ] = words;
        Some(SlotWords {
            generation,
            pid,
            claimed_unix_ns,
            sampled_rows,
            sampled_batches,
            lapped,
            leases,
            stalls,
        })
    }

    pub(crate) fn record(&self, slot: u32) -> Option<ReaderRecord> {
        let (words, ages) = (self.slot(slot)?, self.ages(slot)?);
        // ORDERING: acquire pairs with the release in `sign`. The counters loaded after it are no
        // older than this generation.
        let generation = words.generation.load(Ordering::Acquire);
        Some(ReaderRecord {
            generation,
            pid: words.pid.load(Relaxed),
            claimed_unix_ns: words.claimed_unix_ns.load(Relaxed),
            sampled_rows: words.sampled_rows.load(Relaxed),
            sampled_batches: words.sampled_batches.load(Relaxed),
            lapped: words.lapped.load(Relaxed),
            leases: words.leases.load(Relaxed),
            stalls: words.stalls.load(Relaxed),
            ages: AgeCounts(std::array::from_fn(|bin| {
                ages.get(bin).map_or(0, |count| count.load(Relaxed))
            })),
        })
    }

    /// Sets the counters of a slot to zero, and writes process id, time and generation of a new
    /// holder to it. The caller has cleared its pins.
    pub(crate) fn sign(&self, slot: u32, now_unix_ns: u64) {
        let (Some(words), Some(ages)) = (self.slot(slot), self.ages(slot)) else { return };
        let SlotWords { sampled_rows, sampled_batches, lapped, leases, stalls, .. } = words;
        for counter in
            [sampled_rows, sampled_batches, lapped, leases, stalls].into_iter().chain(ages)
        {
            counter.store(0, Relaxed);
        }
        words.pid.store(u64::from(std::process::id()), Relaxed);
        words.claimed_unix_ns.store(now_unix_ns, Relaxed);
        let generation = words.generation.load(Relaxed).wrapping_add(1);
        // ORDERING: release pairs with the acquire in `record`. A reader that sees this generation
        // takes no count of the holder before for one of the new holder.
        words.generation.store(generation, Ordering::Release);
    }

    /// Returns the notifier of writers, for readers that wait for rows.
    #[inline]
    pub(crate) fn published(&self, barrier: NotifyBarrier) -> SharedNotifier<'_> {
        SharedNotifier { barrier, ..self.notifier(0) }
    }

    /// Returns a word that changes when the ring is resized, when it loses its name, and when one
    /// of its tables is removed. It lies beside a word that writers load once per append or extend
    /// call, so it is in the cache.
    #[inline]
    pub(crate) fn notices(&self) -> u32 {
        // ORDERING: relaxed; a writer that then relocates a lane issues an acquire fence, which
        // pairs with the release in `count_resizes`. A loss of the name, or of a table, is checked
        // again.
        self.notice_word().load(Relaxed)
    }

    /// Returns how often the ring was resized.
    pub(crate) fn resizes(&self) -> u32 {
        self.notices() & !HINTS
    }

    /// Raises the count of resizes to `resizes`.
    pub(crate) fn count_resizes(&self, resizes: u32) {
        let raised = |word: u32| Some((word & HINTS) | (word & !HINTS).max(resizes & !HINTS));
        // ORDERING: release: a writer that sees the count sees the rows copied to the new files.
        let _ = self.notice_word().fetch_update(Ordering::Release, Relaxed, raised);
    }

    /// Returns whether the loss of the name is marked.
    pub(crate) fn is_marked_unlinked(&self) -> bool {
        self.notices() & UNLINKED != 0
    }

    /// Marks the loss of the name.
    pub(crate) fn mark_unlinked(&self) {
        self.notice_word().fetch_or(UNLINKED, Relaxed);
    }

    /// Counts a table that was removed, for samplers that have it open.
    pub(crate) fn count_removed_table(&self) {
        // The carry of the last count leaves the word, and changes no other field.
        self.notice_word().fetch_add(REMOVED_TABLE, Relaxed);
    }

    #[inline]
    fn notice_word(&self) -> &AtomicU32 {
        static NEVER: AtomicU32 = AtomicU32::new(0);
        #[expect(clippy::cast_possible_truncation, reason = "constants below 1000")]
        let offset = READERS_HEADER_BYTES as usize + offset_of!(NotifierBytes, resizes);
        // The header is part of every mapping; the fallback only spares a panic path.
        self.map.words32(offset, 1).and_then(<[_]>::first).unwrap_or(&NEVER)
    }

    /// Returns the notifier of readers, for writers that wait for a lease to end.
    pub(crate) fn released(&self) -> SharedNotifier<'_> {
        self.notifier(1)
    }

    #[inline]
    fn notifier(&self, number: usize) -> SharedNotifier<'_> {
        static SILENT: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        #[expect(clippy::cast_possible_truncation, reason = "constants below 1000")]
        let offset = READERS_HEADER_BYTES as usize + number * NOTIFIER_BYTES as usize;
        // The header is part of every mapping; the fallback only spares a panic path.
        let words = self.map.words32(offset, 2).and_then(<[_]>::first_chunk).unwrap_or(&SILENT);
        SharedNotifier { words, barrier: NotifyBarrier::Fence }
    }

    /// Returns the pins on a lane; none for a lane that the ring lacks.
    pub(crate) fn pins(&self, lane: u32) -> LanePins<'_> {
        let pins = (lane < self.lanes).then(|| {
            let slots = READERS_HEADER_BYTES + NOTIFIERS * NOTIFIER_BYTES;
            let before = slots + READER_SLOT_BYTES * u64::from(self.slots);
            let offset = before + 8 * u64::from(lane) * u64::from(self.slots);
            self.map.words64(usize::try_from(offset).ok()?, self.slots as usize)
        });
        LanePins(pins.flatten().unwrap_or_default())
    }

    /// Returns `count` words after the pins; `None` if the file ends before.
    pub(crate) fn words_after_pins(&self, count: usize) -> Option<&[AtomicU64]> {
        let offset = Self::bytes(self.slots, self.lanes).next_multiple_of(AFTER_PINS_ALIGN);
        self.map.words64(usize::try_from(offset).ok()?, count)
    }

    /// Returns the bytes of the file before rounding to pages.
    pub(crate) fn bytes(slots: u32, lanes: u32) -> u64 {
        let (slots, lanes) = (u64::from(slots), u64::from(lanes));
        READERS_HEADER_BYTES
            + NOTIFIERS * NOTIFIER_BYTES
            + READER_SLOT_BYTES * slots
            + 8 * slots * lanes
    }
}

/// Pins on one lane, a word per reader slot.
#[derive(Clone, Copy, Debug)]
pub struct LanePins<'a>(pub(crate) &'a [AtomicU64]);

/// One of the two notifiers of a ring.
#[derive(Debug)]
pub struct SharedNotifier<'a> {
    words: &'a [AtomicU32; 2],
    pub(crate) barrier: NotifyBarrier,
}

impl SharedNotifier<'_> {
    #[inline]
    pub(crate) fn words(&self) -> (&AtomicU32, &AtomicU32) {
        let [seq, listening] = self.words;
        (seq, listening)
    }
}
