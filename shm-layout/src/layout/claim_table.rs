//! `table-NAME.dat` of kind 2: the rows of a pass, and how many of them are claimed.

use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::layout::origin::header_crc;
use crate::layout::table_header::{CommonHeader, KIND_CLAIMS, TableOrigin};
use crate::os::mapping::Mapping;

/// Bytes of the header and the counters.
const HEADER_BYTES: u64 = 256;
/// Words of a bank before its ranges.
const BANK_WORDS: u64 = 1;
const WORD: u64 = size_of::<u64>() as u64;
/// Flag: every pass takes all rows that are readable at its beginning.
const RENEWED: u32 = 1;
/// Flag: the rows of a pass are shuffled.
const SHUFFLED: u32 = 2;

/// Header of a table of claims, written once before the table has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ClaimHeader {
    /// Origin of the table.
    pub origin: TableOrigin,
    /// Seed of the shuffled order.
    pub seed: u64,
    /// Lanes of the ring.
    pub lane_count: u32,
    /// Kind of table: 2, claims.
    pub kind: u32,
    /// Passes over the same rows.
    pub times: u32,
    /// 1: every pass takes all readable rows; 2: shuffled.
    pub flags: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Zero.
    pub unused: [u8; 52],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// Counters of a table of claims. Used for their offsets only: in memory they are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ClaimCounterBytes {
    /// Number of the pass in the upper 24 bits, next position in the lower 40.
    pub claim: u64,
    /// Zero: keeps the counters off the cache line of the claims.
    pub unused1: [u8; 56],
    /// Transitions of batches that were drawn.
    pub drawn: u64,
    /// Passes that were begun.
    pub passes: u64,
    /// Rows that writers overwrote before a draw had them.
    pub overwritten: u64,
    /// Zero.
    pub unused2: [u8; 40],
}

const _: () = {
    assert!(size_of::<ClaimHeader>() == 128);
    assert!(size_of::<ClaimHeader>() + size_of::<ClaimCounterBytes>() == 256);
};

/// Settings of a table of claims, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimSettings {
    /// Whether every pass takes all rows that are readable at its beginning, and not only those
    /// published since the last pass.
    pub renewed: bool,
    /// Whether the rows of a pass are shuffled.
    pub shuffled: bool,
    /// Passes over the same rows, at least 1.
    pub times: u32,
    /// Seed of the shuffled order.
    pub seed: u64,
}

impl ClaimHeader {
    pub(crate) fn new(lanes: u32, ring_uuid: [u8; 16], settings: ClaimSettings) -> Self {
        let ClaimSettings { renewed, shuffled, times, seed } = settings;
        let mut header = Self {
            origin: TableOrigin::new(ring_uuid),
            seed,
            lane_count: lanes,
            kind: KIND_CLAIMS,
            times,
            flags: (u32::from(renewed) * RENEWED) | (u32::from(shuffled) * SHUFFLED),
            file_bytes: claim_bytes(lanes),
            unused: [0; 52],
            crc32: 0,
        };
        header.crc32 = header_crc(&header);
        header
    }

    /// Returns the bytes of counters with these values.
    pub(crate) fn counters(claim: u64, drawn: u64, passes: u64) -> ClaimCounterBytes {
        let (unused1, unused2) = ([0; 56], [0; 40]);
        ClaimCounterBytes { claim, unused1, drawn, passes, overwritten: 0, unused2 }
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> ClaimSettings {
        let (renewed, shuffled) = (self.flags & RENEWED != 0, self.flags & SHUFFLED != 0);
        ClaimSettings { renewed, shuffled, times: self.times.max(1), seed: self.seed }
    }

    /// Checks a header against a ring's id and number of lanes.
    pub(crate) fn check(
        &self,
        path: &Path,
        ring_uuid: [u8; 16],
        lanes: u32,
    ) -> Result<(), SegmentError> {
        CommonHeader::of(self).check(path, KIND_CLAIMS, ring_uuid, lanes)?;
        let corrupt = |what: &str| SegmentError::corrupt(path, what);
        if self.file_bytes != claim_bytes(lanes) || self.times == 0 {
            return Err(corrupt("its size or number of passes is impossible"));
        }
        Ok(())
    }
}

/// Returns the bytes of the file of a table of claims, for a ring with `lanes` lanes.
pub(crate) fn claim_bytes(lanes: u32) -> u64 {
    HEADER_BYTES + 2 * WORD * (BANK_WORDS + 2 * u64::from(lanes))
}

/// Memory of a table of claims. Its words are atomics, and no value in them is trusted.
#[derive(Debug)]
pub(crate) struct ClaimMemory {
    pub(crate) map: Mapping,
    pub(crate) lanes: u32,
}

impl ClaimMemory {
    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.map.words64(offset, 1).and_then(<[_]>::first)
    }

    fn counter(&self, offset: usize) -> Option<&AtomicU64> {
        self.word(size_of::<ClaimHeader>() + offset)
    }

    fn bank(&self, bank: usize, word: usize) -> Option<&AtomicU64> {
        let words = 1 + 2 * self.lanes as usize;
        let at = (word < words).then_some(bank.checked_mul(words)? + word)?;
        self.word(256 + at * size_of::<u64>())
    }

    /// Loads the word of the pass and the position.
    pub(crate) fn load_claim(&self, order: Ordering) -> u64 {
        let word = self.counter(offset_of!(ClaimCounterBytes, claim));
        word.map_or(0, |word| word.load(order))
    }

    /// Replaces the word of the pass and the position if it is `current`. Returns whether it was.
    pub(crate) fn exchange_claim(&self, current: u64, new: u64, order: Ordering) -> bool {
        let word = self.counter(offset_of!(ClaimCounterBytes, claim));
        word.is_none_or(|word| word.compare_exchange(current, new, order, Relaxed).is_ok())
    }

    /// Loads a word of a bank. Returns 0 outside the memory.
    pub(crate) fn load_bank(&self, bank: usize, word: usize) -> u64 {
        self.bank(bank, word).map_or(0, |word| word.load(Relaxed))
    }

    /// Stores a word of a bank. Does nothing outside the memory.
    pub(crate) fn store_bank(&self, bank: usize, word: usize, value: u64) {
        if let Some(word) = self.bank(bank, word) {
            word.store(value, Relaxed);
        }
    }

    /// Returns the numbers of drawn transitions and of begun passes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let load = |offset| self.counter(offset).map_or(0, |word| word.load(Relaxed));
        (load(offset_of!(ClaimCounterBytes, drawn)), load(offset_of!(ClaimCounterBytes, passes)))
    }

    /// Returns the number of rows that writers overwrote before a draw had them.
    pub(crate) fn overwritten(&self) -> u64 {
        let word = self.counter(offset_of!(ClaimCounterBytes, overwritten));
        word.map_or(0, |word| word.load(Relaxed))
    }

    pub(crate) fn count_drawn(&self, rows: u64) {
        self.add(offset_of!(ClaimCounterBytes, drawn), rows);
    }

    pub(crate) fn count_pass(&self) {
        self.add(offset_of!(ClaimCounterBytes, passes), 1);
    }

    pub(crate) fn count_overwritten(&self, rows: u64) {
        self.add(offset_of!(ClaimCounterBytes, overwritten), rows);
    }

    fn add(&self, offset: usize, count: u64) {
        if let Some(word) = self.counter(offset) {
            word.fetch_add(count, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_was_changed_is_refused() {
        let (uuid, path) = ([7; 16], Path::new("table-x.dat"));
        let settings = ClaimSettings { renewed: true, shuffled: true, times: 1, seed: 9 };
        let header = ClaimHeader::new(2, uuid, settings);
        header.check(path, uuid, 2).unwrap();
        assert_eq!(header.settings(), settings);
        assert!(header.check(path, [8; 16], 2).is_err() && header.check(path, uuid, 3).is_err());
        for wrong in [
            ClaimHeader { kind: 1, ..header },
            ClaimHeader { times: 0, ..header },
            ClaimHeader { file_bytes: 1, ..header },
        ] {
            let sealed = ClaimHeader { crc32: header_crc(&wrong), ..wrong };
            let refused = sealed.check(path, uuid, 2).unwrap_err();
            assert!(matches!(refused, SegmentError::Corrupt { .. }), "{refused}");
        }
    }
}
