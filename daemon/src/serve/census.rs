//! What the readers of every ring have done, over the lives of many readers: a slot's counters begin
//! anew with each holder, those of a metric never go back.

use std::collections::HashMap;

use backcast_core::ReaderRecord;

/// Sums over all readers that a ring was seen to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) batches: u64,
    pub(crate) lapped: u64,
    pub(crate) leases: u64,
    pub(crate) stalls: u64,
}

impl Totals {
    fn add(&mut self, record: &ReaderRecord) {
        self.rows = self.rows.saturating_add(record.sampled_rows);
        self.batches = self.batches.saturating_add(record.sampled_batches);
        self.lapped = self.lapped.saturating_add(record.lapped);
        self.leases = self.leases.saturating_add(record.leases);
        self.stalls = self.stalls.saturating_add(record.stalls);
    }
}

/// What is known of every ring, by name and time of creation: a ring that was replaced begins anew.
#[derive(Debug, Default)]
pub(crate) struct Census {
    rings: HashMap<(String, u64), Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of holders that were followed by others.
    before: Totals,
    slots: HashMap<u32, ReaderRecord>,
    /// Seen since the last [`Census::forget_unseen`].
    seen: bool,
}

impl Census {
    /// Takes in what the slots of a ring say, and tells the sums. A holder that came and went between
    /// two looks is not counted.
    pub(crate) fn update(
        &mut self,
        name: &str,
        created_unix_ns: u64,
        records: &[(u32, ReaderRecord)],
    ) -> Totals {
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

    /// Forgets rings that have not been seen since the last call: they are gone.
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
        let mut census = Census::default();
        let mut look = |slots: &[(u32, ReaderRecord)]| census.update("pong", 1, slots).rows;
        assert_eq!(look(&[(0, record(1, 10)), (1, record(1, 5))]), 15);
        assert_eq!(look(&[(0, record(1, 40)), (1, record(1, 5))]), 45);
        assert_eq!(
            look(&[(0, record(2, 3)), (1, record(1, 5))]),
            48,
            "40 of the first holder stay"
        );
        assert_eq!(look(&[(0, record(2, 3)), (1, record(1, 5))]), 48);
    }

    #[test]
    fn a_ring_of_the_same_name_begins_anew_and_what_is_gone_is_forgotten() {
        let mut census = Census::default();
        census.update("pong", 1, &[(0, record(1, 10))]);
        assert_eq!(census.update("pong", 2, &[(0, record(1, 1))]).rows, 1);
        census.forget_unseen();
        census.update("pong", 2, &[]);
        census.forget_unseen();
        assert_eq!(census.rings.len(), 1);
    }
}
