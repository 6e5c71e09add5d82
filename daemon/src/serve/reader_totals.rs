//! Totals of all readers of a ring. A slot's counters restart with each holder, but a metric must
//! never decrease.

use std::collections::HashMap;

use backcast_core::ReaderRecord;

/// Sums over all observed readers of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReaderTotals {
    pub(crate) rows: u64,
    pub(crate) batches: u64,
    pub(crate) lapped: u64,
    pub(crate) leases: u64,
    pub(crate) stalls: u64,
}

impl ReaderTotals {
    fn add(&mut self, record: &ReaderRecord) {
        self.rows = self.rows.saturating_add(record.sampled_rows);
        self.batches = self.batches.saturating_add(record.sampled_batches);
        self.lapped = self.lapped.saturating_add(record.lapped);
        self.leases = self.leases.saturating_add(record.leases);
        self.stalls = self.stalls.saturating_add(record.stalls);
    }
}

/// Totals by name and time of creation, so that a replaced ring starts at zero.
#[derive(Debug, Default)]
pub(crate) struct TotalsByRing {
    rings: HashMap<(String, u64), Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Totals of earlier holders of the slots.
    before: ReaderTotals,
    slots: HashMap<u32, ReaderRecord>,
    /// Whether the ring was updated since the last [`TotalsByRing::forget_unseen`].
    seen: bool,
}

impl TotalsByRing {
    /// Adds the counters of a ring's slots and returns the totals. Misses a holder that came and
    /// went between two calls.
    pub(crate) fn update(
        &mut self,
        name: &str,
        created_unix_ns: u64,
        records: &[(u32, ReaderRecord)],
    ) -> ReaderTotals {
        let known = self.rings.entry((name.to_owned(), created_unix_ns)).or_default();
        known.seen = true;
        for (slot, record) in records {
            if let Some(last) = known.slots.insert(*slot, *record)
                && last.generation != record.generation
            {
                known.before.add(&last);
            }
        }
        let mut totals = known.before;
        known.slots.values().for_each(|record| totals.add(record));
        totals
    }

    /// Forgets rings that were not updated since the last call.
    pub(crate) fn forget_unseen(&mut self) {
        self.rings.retain(|_, known| std::mem::take(&mut known.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(generation: u64, sampled_rows: u64) -> ReaderRecord {
        ReaderRecord { generation, sampled_rows, ..ReaderRecord::default() }
    }

    #[test]
    fn sums_never_go_back_when_a_slot_changes_hands() {
        let mut totals = TotalsByRing::default();
        let mut rows_of = |slots: &[(u32, ReaderRecord)]| totals.update("pong", 1, slots).rows;
        assert_eq!(rows_of(&[(0, record(1, 10)), (1, record(1, 5))]), 15);
        assert_eq!(rows_of(&[(0, record(1, 40)), (1, record(1, 5))]), 45);
        assert_eq!(
            rows_of(&[(0, record(2, 3)), (1, record(1, 5))]),
            48,
            "40 of the first holder stay"
        );
        assert_eq!(rows_of(&[(0, record(2, 3)), (1, record(1, 5))]), 48);
    }

    #[test]
    fn rings_of_the_same_name_start_at_zero_and_removed_ones_are_forgotten() {
        let mut totals = TotalsByRing::default();
        totals.update("pong", 1, &[(0, record(1, 10))]);
        assert_eq!(totals.update("pong", 2, &[(0, record(1, 1))]).rows, 1);
        totals.forget_unseen();
        totals.update("pong", 2, &[]);
        totals.forget_unseen();
        assert_eq!(totals.rings.len(), 1);
    }
}
