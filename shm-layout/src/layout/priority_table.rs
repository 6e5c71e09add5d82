//! `table-NAME.dat`: the priorities that learners set for rows, as a sum tree.

use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::{Ordering, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::kernels::prefetch::prefetch_line;
use crate::layout::leaf_values::{KEPT_MOST, KEPT_ONE, LEAF_ONE, LeafValues};
use crate::layout::origin::header_crc;
use crate::layout::table_header::{CommonHeader, KIND_PRIORITIES, TableOrigin};
use crate::layout::tree_shape::{FAN_OUT, TreeShape};
use crate::os::mapping::Mapping;

/// Bytes of the header and the counters.
pub(crate) const TABLE_HEADER_BYTES: u64 = 256;
/// Bytes of a lane's words.
pub(crate) const TABLE_LANE_BYTES: u64 = 16;
/// Maximum leaves of a table.
pub(crate) const MAX_LEAVES: u64 = 1 << 36;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Header of a table, written once before the table has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TableHeader {
    /// Origin of the table.
    pub origin: TableOrigin,
    /// Leaves of a lane. Row `seq` has leaf `seq mod lane_leaves` of its lane.
    pub lane_leaves: u64,
    /// Lanes of the ring.
    pub lane_count: u32,
    /// Kind of table: 1, priorities in a sum tree.
    pub kind: u32,
    /// Exponent of priorities, bits of an f64. The first one if priorities are kept. With counts of
    /// ranks the exponent that the first sampler had.
    pub exponent: u64,
    /// Number added to priorities before the exponent, bits of an f64.
    pub eps: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Steps of an episode from one transition that has a leaf to the next, at least 1.
    pub stride: u32,
    /// 1 if the tree tracks its largest leaf, which new rows get; 0 if they get the largest leaf
    /// that was ever given.
    pub tracks_largest: u32,
    /// Number of what stands [behind the tree](BehindTree). The name of the field is part of the
    /// fingerprint of this layout version.
    pub keeps_priorities: u32,
    /// Zero.
    pub unused: [u8; 32],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// Counters of a table. Used for their offsets only: in memory they are atomics. The holder of the
/// table's lock writes them.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TableCounterBytes {
    /// Leaves listed in the journal. 0 unless a change is being made or its process was killed.
    pub journal_count: u64,
    /// Largest leaf value so far, or largest priority if they are kept.
    pub largest: u64,
    /// Rows that got a leaf.
    pub entered: u64,
    /// Priorities that were set.
    pub updated: u64,
    /// Priorities dropped because their row was overwritten or has no leaf in the tree.
    pub stale: u64,
    /// Changes of killed processes that were finished by another one.
    pub repairs: u64,
    /// Finished changes. A draw during which this number stayed the same met no change.
    pub changes: u64,
    /// Present exponent of priorities, bits of an f64, if they are kept. Without anything behind
    /// the tree, in a table that tracks its largest leaf: the largest leaf of other rings, or 0.
    pub exponent: u64,
    /// Zero.
    pub unused: [u8; 64],
}

/// Words of a lane. Used for their offsets only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TableLaneBytes {
    /// One past the newest row with a leaf.
    pub entered: u64,
    /// Oldest row with a leaf. Older rows have lost theirs.
    pub expired: u64,
}

const _: () = {
    assert!(size_of::<TableHeader>() == 128);
    assert!(size_of::<TableHeader>() + size_of::<TableCounterBytes>() == 256);
    assert!(size_of::<TableLaneBytes>() as u64 == TABLE_LANE_BYTES);
};

/// Words that stand behind the tree of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum BehindTree {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// The priorities of the leaves, so that the exponent can change.
    Priorities = 1,
    /// Counts of the leaves by bucket, so that rows are drawn by rank. The leaves are then
    /// priorities without an exponent.
    RankCounts = 2,
}

impl BehindTree {
    /// Returns what a number in the header stands for.
    fn of(number: u32) -> Option<Self> {
        [Self::Nothing, Self::Priorities, Self::RankCounts]
            .into_iter()
            .find(|behind| *behind as u32 == number)
    }
}

/// Settings of a table, fixed when it is created, but for the exponent if priorities are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSettings {
    /// Exponent of priorities; the present one if they are kept. Samplers by rank have their own,
    /// and this is that of the first.
    pub exponent: f64,
    /// Number added to priorities before the exponent.
    pub eps: f64,
    /// Steps of an episode from one transition that has a leaf to the next, at least 1.
    pub stride: u32,
    /// Whether new rows get the largest leaf of the table. Otherwise they get the largest that was
    /// ever given.
    pub tracks_largest: bool,
    /// Words behind the tree.
    pub behind: BehindTree,
}

impl TableSettings {
    /// Returns whether the table keeps priorities, so that its exponent can change.
    #[must_use]
    pub fn keeps_priorities(&self) -> bool {
        self.behind == BehindTree::Priorities
    }

    /// Returns whether the table counts its leaves by bucket, so that rows are drawn by rank.
    #[must_use]
    pub fn counts_ranks(&self) -> bool {
        self.behind == BehindTree::RankCounts
    }
}

/// Counters of a table at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Rows that got a leaf.
    pub entered: u64,
    /// Priorities that were set.
    pub updated: u64,
    /// Priorities dropped because their row was overwritten or has no leaf in the tree.
    pub stale: u64,
    /// Changes of killed processes that were finished by another one.
    pub repairs: u64,
}

/// Sizes of a table, computed from the lanes of its ring and the leaves of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableShape {
    pub(crate) lanes: u32,
    pub(crate) lane_leaves: u64,
    pub(crate) bytes: u64,
    pub(crate) tree: TreeShape,
}

impl TableShape {
    /// Returns the sizes, or `None` if a table cannot have them.
    pub(crate) fn new(
        lanes: u32,
        lane_leaves: u64,
        (tracks_largest, behind): (bool, BehindTree),
    ) -> Option<Self> {
        let leaves = u64::from(lanes).checked_mul(lane_leaves)?;
        if leaves > MAX_LEAVES {
            return None;
        }
        let lane_words = TABLE_HEADER_BYTES + TABLE_LANE_BYTES * u64::from(lanes);
        let first = usize::try_from(lane_words).ok()?.div_ceil(WORD).next_multiple_of(FAN_OUT);
        let count = counter(offset_of!(TableCounterBytes, journal_count));
        let changes = counter(offset_of!(TableCounterBytes, changes));
        let tree = if tracks_largest { TreeShape::tracking_largest } else { TreeShape::new };
        let mut tree = tree((count, changes), first, leaves)?;
        match behind {
            BehindTree::Nothing => {}
            BehindTree::Priorities => {
                let exponent = counter(offset_of!(TableCounterBytes, exponent));
                tree = tree.keeping_priorities(exponent)?;
            }
            BehindTree::RankCounts => tree = tree.counting_ranks()?,
        }
        let bytes = u64::try_from(tree.end().checked_mul(WORD)?).ok()?;
        Some(Self { lanes, lane_leaves, bytes, tree })
    }

    /// Returns the largest value that a leaf may have, so that the sum of all leaves stays below
    /// 2^63.
    pub(crate) fn most(&self) -> u64 {
        let leaves = (self.tree.leaves() as u64).next_power_of_two();
        ((1 << 62) / leaves.max(1)).min(1 << 40)
    }
}

impl TableHeader {
    pub(crate) fn new(shape: &TableShape, ring_uuid: [u8; 16], settings: TableSettings) -> Self {
        let mut header = Self {
            origin: TableOrigin::new(ring_uuid),
            lane_leaves: shape.lane_leaves,
            lane_count: shape.lanes,
            kind: KIND_PRIORITIES,
            exponent: settings.exponent.to_bits(),
            eps: settings.eps.to_bits(),
            file_bytes: shape.bytes,
            stride: settings.stride,
            tracks_largest: settings.tracks_largest.into(),
            keeps_priorities: settings.behind as u32,
            unused: [0; 32],
            crc32: 0,
        };
        header.crc32 = header_crc(&header);
        header
    }

    /// Returns the bytes that a new table begins with. All bytes after them are zero.
    pub(crate) fn image(
        shape: &TableShape,
        ring_uuid: [u8; 16],
        settings: TableSettings,
    ) -> Vec<u8> {
        let header = Self::new(shape, ring_uuid, settings);
        let mut counters = TableCounterBytes { largest: LEAF_ONE, ..TableCounterBytes::zeroed() };
        if settings.keeps_priorities() {
            counters.largest = KEPT_ONE;
            counters.exponent = settings.exponent.to_bits();
        }
        [bytemuck::bytes_of(&header), bytemuck::bytes_of(&counters)].concat()
    }

    /// Checks a header against a ring's id and number of lanes. Returns its sizes and settings.
    pub(crate) fn check(
        &self,
        path: &Path,
        ring_uuid: [u8; 16],
        lanes: u32,
    ) -> Result<(TableShape, TableSettings), SegmentError> {
        CommonHeader::of(self).check(path, KIND_PRIORITIES, ring_uuid, lanes)?;
        let corrupt = |what: &str| SegmentError::corrupt(path, what);
        let behind = BehindTree::of(self.keeps_priorities).ok_or_else(|| {
            let found = self.keeps_priorities;
            corrupt(&format!("`keeps_priorities` is {found}; expected 0, 1 or 2"))
        })?;
        let parts = (self.tracks_largest == 1, behind);
        let shape = TableShape::new(lanes, self.lane_leaves, parts)
            .filter(|shape| shape.bytes == self.file_bytes)
            .ok_or_else(|| corrupt("the size that it claims is impossible"))?;
        let settings = self.settings();
        let usable = |value: f64| value.is_finite() && value >= 0.0;
        if !usable(settings.exponent) || !usable(settings.eps) {
            return Err(corrupt("its exponent or eps is no number from 0 up"));
        }
        if settings.stride == 0 {
            return Err(corrupt("its stride is 0"));
        }
        if self.tracks_largest > 1 {
            return Err(corrupt("what new rows get is neither 0 nor 1"));
        }
        Ok((shape, settings))
    }

    /// Returns the settings, which may be damaged if the header was not checked.
    pub(crate) fn settings(&self) -> TableSettings {
        let (exponent, eps) = (f64::from_bits(self.exponent), f64::from_bits(self.eps));
        TableSettings {
            exponent,
            eps,
            stride: self.stride,
            tracks_largest: self.tracks_largest == 1,
            behind: BehindTree::of(self.keeps_priorities).unwrap_or_default(),
        }
    }
}

/// Returns the word of a counter at a byte offset.
fn counter(offset: usize) -> usize {
    (size_of::<TableHeader>() + offset) / WORD
}

/// Returns the first word of a lane.
fn lane_word(lane: u32) -> usize {
    let bytes = TABLE_HEADER_BYTES + TABLE_LANE_BYTES * u64::from(lane);
    usize::try_from(bytes).unwrap_or(usize::MAX) / WORD
}

/// Memory of a table. Its words are atomics, and no value in them is trusted.
#[derive(Debug)]
pub(crate) struct TableMemory {
    pub(crate) map: Mapping,
    pub(crate) shape: TableShape,
}

impl TableMemory {
    /// Returns the range of a lane's rows that have leaves, the end first: one past the newest row,
    /// then the oldest row.
    pub(crate) fn lane(&self, lane: u32) -> (u64, u64) {
        let word = lane_word(lane);
        (self.load(word), self.load(word + 1))
    }

    pub(crate) fn set_lane(&self, lane: u32, entered: u64, expired: u64) {
        let word = lane_word(lane);
        // ORDERING: release: a process that is killed before the leaves are in the tree has not
        // stored the new range, so the rows enter again.
        self.store(word + 1, expired, Ordering::Release);
        self.store(word, entered, Ordering::Release);
    }

    /// Returns the largest leaf value so far, or largest priority if they are kept, within the
    /// limits.
    pub(crate) fn largest(&self) -> u64 {
        let most = if self.keeps_priorities() { KEPT_MOST } else { self.shape.most() };
        self.load(counter(offset_of!(TableCounterBytes, largest))).clamp(1, most)
    }

    /// Returns whether leaves are computed of kept priorities.
    #[inline]
    pub(crate) fn keeps_priorities(&self) -> bool {
        self.shape.tree.kept.is_some()
    }

    /// Returns the exponent by which leaves are computed of kept priorities.
    pub(crate) fn exponent(&self) -> f64 {
        let found = self.load(counter(offset_of!(TableCounterBytes, exponent)));
        let found = f64::from_bits(found);
        // Tables are not trusted.
        if found.is_finite() && found >= 0.0 { found } else { 1.0 }
    }

    /// Returns the conversion of kept priorities to leaves of an exponent.
    pub(crate) fn leaf_values(&self, exponent: f64) -> LeafValues {
        LeafValues { exponent, eps: 0.0, most: self.shape.most() }
    }

    /// Returns whether new rows follow the largest leaf of other rings too.
    fn follows_others(&self) -> bool {
        let tree = &self.shape.tree;
        tree.tracks_largest && tree.kept.is_none() && tree.ranks.is_empty()
    }

    /// Returns the largest leaf of other rings, within the limits. 0 if none was set.
    pub(crate) fn largest_of_others(&self) -> u64 {
        let word = counter(offset_of!(TableCounterBytes, exponent));
        if self.follows_others() { self.load(word).min(self.shape.most()) } else { 0 }
    }

    pub(crate) fn set_largest_of_others(&self, value: u64) {
        if self.follows_others() {
            self.store(counter(offset_of!(TableCounterBytes, exponent)), value, Relaxed);
        }
    }

    pub(crate) fn raise_largest(&self, value: u64) {
        if value > self.largest() {
            self.store(counter(offset_of!(TableCounterBytes, largest)), value, Relaxed);
        }
    }

    pub(crate) fn counters(&self) -> TableCounters {
        TableCounters {
            entered: self.load(counter(offset_of!(TableCounterBytes, entered))),
            updated: self.load(counter(offset_of!(TableCounterBytes, updated))),
            stale: self.load(counter(offset_of!(TableCounterBytes, stale))),
            repairs: self.load(counter(offset_of!(TableCounterBytes, repairs))),
        }
    }

    /// Adds to the counters.
    pub(crate) fn count(&self, more: TableCounters) {
        for (offset, more) in [
            (offset_of!(TableCounterBytes, entered), more.entered),
            (offset_of!(TableCounterBytes, updated), more.updated),
            (offset_of!(TableCounterBytes, stale), more.stale),
            (offset_of!(TableCounterBytes, repairs), more.repairs),
        ] {
            if more > 0 {
                let word = counter(offset);
                self.store(word, self.load(word).wrapping_add(more), Relaxed);
            }
        }
    }
}

impl TableMemory {
    /// Loads a word. 0 outside the memory.
    #[inline]
    pub(crate) fn load(&self, word: usize) -> u64 {
        let place = self.map.words64(word.saturating_mul(WORD), 1).and_then(<[_]>::first);
        place.map_or(0, |place| place.load(Relaxed))
    }

    /// Loads the words of a cache line. Zeros outside the memory.
    #[inline]
    pub(crate) fn line(&self, word: usize) -> [u64; FAN_OUT] {
        let words = self.map.words64(word.saturating_mul(WORD), FAN_OUT);
        match words.and_then(<[_]>::first_chunk::<FAN_OUT>) {
            Some(words) => words.each_ref().map(|word| word.load(Relaxed)),
            None => [0; FAN_OUT],
        }
    }

    /// Stores a word. Does nothing outside the memory.
    #[inline]
    pub(crate) fn store(&self, word: usize, value: u64, order: Ordering) {
        let place = self.map.words64(word.saturating_mul(WORD), 1).and_then(<[_]>::first);
        if let Some(place) = place {
            place.store(value, order);
        }
    }

    /// Prefetches the cache line of a word.
    #[inline]
    pub(crate) fn prefetch(&self, word: usize) {
        prefetch_line(self.map.base().wrapping_add(word.saturating_mul(WORD)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::superblock::LAYOUT_VERSION;

    #[test]
    fn sums_of_the_largest_leaves_fit_a_word() {
        for (lanes, leaves) in [(1, 8), (3, 1_000), (64, 1 << 20), (4_096, 1 << 24)] {
            let shape = TableShape::new(lanes, leaves, (false, BehindTree::Priorities)).unwrap();
            let sum = u128::from(shape.most()) * u128::from(leaves) * u128::from(lanes);
            assert!(sum < 1 << 63, "{lanes} lanes of {leaves}");
            assert!(shape.most() >= 1 << 26, "{lanes} lanes of {leaves}");
        }
        assert_eq!(TableShape::new(4_096, 1 << 30, (true, BehindTree::Priorities)), None);
        assert_eq!(TableShape::new(4_096, u64::MAX, (false, BehindTree::Nothing)), None);
    }

    #[test]
    fn a_number_in_the_header_says_what_stands_behind_the_tree() {
        let (uuid, path) = ([7; 16], Path::new("table-x.dat"));
        for (number, behind) in
            [(0, BehindTree::Nothing), (1, BehindTree::Priorities), (2, BehindTree::RankCounts)]
        {
            let shape = TableShape::new(2, 1_000, (false, behind)).unwrap();
            let settings =
                TableSettings { exponent: 0.6, eps: 0.0, stride: 1, tracks_largest: false, behind };
            let header = TableHeader::new(&shape, uuid, settings);
            assert_eq!(header.keeps_priorities, number);
            assert_eq!(header.check(path, uuid, 2).unwrap(), (shape, settings));
            let is = (settings.keeps_priorities(), settings.counts_ranks());
            assert_eq!(is, (number == 1, number == 2));
        }
    }

    #[test]
    fn a_header_that_was_changed_is_refused() {
        let (uuid, path) = ([7; 16], Path::new("table-x.dat"));
        let shape = TableShape::new(2, 1_000, (true, BehindTree::Priorities)).unwrap();
        let settings = TableSettings {
            exponent: 0.6,
            eps: 1e-6,
            stride: 40,
            tracks_largest: true,
            behind: BehindTree::Priorities,
        };
        let header = TableHeader::new(&shape, uuid, settings);
        assert_eq!(header.check(path, uuid, 2).unwrap(), (shape, settings));
        assert!(header.check(path, [8; 16], 2).is_err(), "another ring");
        assert!(header.check(path, uuid, 3).is_err(), "another number of lanes");
        let sealed = |mut header: TableHeader| {
            header.crc32 = header_crc(&header);
            header.check(path, uuid, 2).unwrap_err()
        };
        assert!(TableHeader { kind: 1, lane_leaves: 3, ..header }.check(path, uuid, 2).is_err());
        for wrong in [
            TableHeader { lane_leaves: u64::MAX, ..header },
            TableHeader { lane_leaves: 999_999, ..header },
            TableHeader { kind: 9, ..header },
            TableHeader { exponent: f64::NAN.to_bits(), ..header },
            TableHeader { eps: (-1.0_f64).to_bits(), ..header },
            TableHeader { stride: 0, ..header },
            TableHeader { tracks_largest: 0, ..header },
            TableHeader { tracks_largest: 2, ..header },
            TableHeader { keeps_priorities: 0, ..header },
            TableHeader { keeps_priorities: 2, ..header },
            TableHeader { keeps_priorities: 3, ..header },
        ] {
            assert!(matches!(sealed(wrong), SegmentError::Corrupt { .. }), "{wrong:?}");
        }
        let origin = TableOrigin { layout_version: LAYOUT_VERSION + 1, ..header.origin };
        let other = sealed(TableHeader { origin, ..header });
        assert!(matches!(other, SegmentError::WrongVersion { .. }), "{other}");
    }
}
