//! Totals of all readers of a ring. A slot's counters restart with each holder, but a metric must
//! never decrease.

use std::collections::HashMap;

use backcast_core::{AgeBin, AgeCounts, ReaderRecord, RingStats};

use super::metrics::{Family, MetricKind, Sample};

/// Sums over all observed readers of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReaderTotals {
    pub(crate) rows: u64,
    pub(crate) batches: u64,
    pub(crate) lapped: u64,
    pub(crate) leases: u64,
    pub(crate) stalls: u64,
    pub(crate) ages: AgeCounts,
}

impl ReaderTotals {
    fn of(record: &ReaderRecord) -> Self {
        let &ReaderRecord { sampled_rows, sampled_batches, lapped, leases, stalls, ages, .. } =
            record;
        Self { rows: sampled_rows, batches: sampled_batches, lapped, leases, stalls, ages }
    }

    /// Adds other totals. Their numbers come from shared memory, so a sum may reach its limit.
    fn add(&mut self, other: &Self) {
        self.merge(other, u64::saturating_add);
    }

    /// Sets each total to the larger one of both.
    fn raise(&mut self, other: &Self) {
        self.merge(other, u64::max);
    }

    fn merge(&mut self, other: &Self, merged: fn(u64, u64) -> u64) {
        let Self { rows, batches, lapped, leases, stalls, ages } = self;
        let with = |total: &mut u64, other| *total = merged(*total, other);
        with(rows, other.rows);
        with(batches, other.batches);
        with(lapped, other.lapped);
        with(leases, other.leases);
        with(stalls, other.stalls);
        ages.0.iter_mut().zip(other.ages.0).for_each(|(total, other)| with(total, other));
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
    /// Generation and counts of the present holder of each slot.
    slots: HashMap<u32, (u64, ReaderTotals)>,
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
            let counts = ReaderTotals::of(record);
            let (generation, last) = known.slots.entry(*slot).or_default();
            if *generation == record.generation {
                // A new holder sets the counters to zero before the generation changes.
                last.raise(&counts);
                continue;
            }
            known.before.add(last);
            (*generation, *last) = (record.generation, counts);
        }
        let mut totals = known.before;
        known.slots.values().for_each(|(_, counts)| totals.add(counts));
        totals
    }

    /// Forgets rings that were not updated since the last call.
    pub(crate) fn forget_unseen(&mut self) {
        self.rings.retain(|_, known| std::mem::take(&mut known.seen));
    }
}

/// Metric of the ages of drawn transitions, bin by bin.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
pub(super) fn ages(rings: &[(String, RingStats, ReaderTotals)]) -> Family {
    let of_ring = |(ring, _, totals): &(String, RingStats, ReaderTotals)| {
        let sample = |bin: AgeBin| -> Sample {
            (vec![("ring", ring.clone()), ("from", bin.from.to_string())], bin.rows as f64)
        };
        AgeBin::all_of(&totals.ages).into_iter().map(sample).collect::<Vec<_>>()
    };
    Family {
        name: "backcast_sampled_age_rows",
        help: "Rows drawn by every 64th batch, by age: from the label up to twice that",
        form: MetricKind::Counter,
        samples: rings.iter().flat_map(of_ring).collect(),
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
    fn no_total_decreases_whatever_the_slots_hold() {
        let mut totals = TotalsByRing::default();
        let mut last = ReaderTotals::default();
        for (generation, count) in [
            (1, 40),
            (1, 0), // a new holder has begun to set the counters to zero
            (2, 0),
            (2, 3),
            (3, 1),
            (9, u64::MAX),
            (9, 7),
            (10, u64::MAX),
            (11, 0),
        ] {
            let ages = AgeCounts([count; 50]);
            let (sampled_batches, lapped, leases, stalls) = (count, count, count, count);
            let all = ReaderRecord {
                sampled_batches,
                lapped,
                leases,
                stalls,
                ages,
                ..record(generation, count)
            };
            let now = totals.update("pong", 1, &[(0, all)]);
            let mut raised = now;
            raised.raise(&last);
            assert_eq!(raised, now, "after {last:?}");
            assert_eq!([now.rows; 50], now.ages.0);
            last = now;
            if generation == 3 {
                assert_eq!(now.rows, 40 + 3 + 1);
            }
        }
        assert_eq!(last.rows, u64::MAX);
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
