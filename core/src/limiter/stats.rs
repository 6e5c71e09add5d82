//! Statistics of a rate limiter: counts and waiting processes.

use std::time::Duration;

use backcast_layout::protocol::limit::COUNT;
use backcast_layout::{LimitedSide, LimiterTable, RingStore, WaitMark};

use super::ceiling::ceiling_of;
use super::limits::{LimiterCounts, RateLimiter};
use super::size::RingSize;
use super::{counts, current, most_transitions};
use crate::error::{LimitedCall, LimiterWait};

/// Statistics of one side of a rate limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterSideStats {
    /// Writers or samplers that wait now. Samplers without a reader slot are not counted.
    pub waiting: u64,
    /// Waits begun since the ring was created.
    pub waits: u64,
    /// Total time of the waits that have ended.
    pub waited: Duration,
}

/// A writer or sampler that waits for the rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterWaiter {
    /// Process number that the process itself registered.
    pub pid: u64,
    /// First lane of a writer; `None` for a sampler.
    pub lane: Option<u32>,
    /// Reader slot of a sampler; `None` for a writer.
    pub slot: Option<u32>,
    /// Transitions that it waits to insert, or items that it waits to draw.
    pub wanted: u64,
    /// Beginning of the wait, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Count of the other side with which it can continue.
    pub needed: u64,
}

/// Statistics of a rate limiter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LimiterStats {
    /// The limits; `None` if the stored words are damaged.
    pub limits: Option<RateLimiter>,
    /// Counts that the limits compare.
    pub counts: LimiterCounts,
    /// Count of inserts at which writers stop, whatever the limits allow; `None` without a ceiling.
    pub ceiling: Option<u64>,
    /// Transitions that may be inserted now, one by one; `None` without a limit, 0 if the limits
    /// are damaged. An append is admitted whole while it is not 0.
    pub may_insert: Option<u64>,
    /// Items that may be drawn now; `None` without a limit, 0 if the limits are damaged.
    pub may_sample: Option<u64>,
    /// Whether a sampler is alive.
    pub has_sampler: bool,
    /// Whether a writer is alive.
    pub has_writer: bool,
    /// Statistics of the writers.
    pub writers: LimiterSideStats,
    /// Statistics of the samplers.
    pub samplers: LimiterSideStats,
    /// Writers and samplers that wait now.
    pub waiters: Vec<LimiterWaiter>,
}

impl LimiterStats {
    /// Describes the wait of a process at a moment, in milliseconds since 1970, in the words of the
    /// error that would end it. `peers` are the live processes of the other side. The items that
    /// are counted for a batch already are not known, so they are given as 0.
    #[must_use]
    pub fn describe(&self, waiter: &LimiterWaiter, unix_ms: u64, peers: Vec<u64>) -> LimiterWait {
        let LimiterCounts { inserts, samples, deletes } = self.counts;
        let (call, has_peers) = match waiter.lane {
            Some(lane) => (LimitedCall::Append { lane }, self.has_sampler),
            None => (LimitedCall::Draw, self.has_writer),
        };
        let holds = |ceiling: &u64| waiter.lane.is_some() && inserts >= *ceiling;
        LimiterWait {
            call,
            wanted: waiter.wanted,
            held: 0,
            waited_ms: unix_ms.saturating_sub(waiter.since_unix_ms).into(),
            needed: waiter.needed,
            inserts,
            samples,
            deletes,
            ceiling: self.ceiling.filter(holds),
            limits: self.limits.map_or_else(|| "damaged".to_owned(), |limits| limits.to_string()),
            peers,
            has_peers,
        }
    }
}

/// Returns the statistics of the limiter of a ring, if it has one. `drawable` transitions can be
/// drawn. O(lanes + reader slots).
pub(crate) fn of(store: &RingStore, drawable: u64) -> Option<LimiterStats> {
    let table = store.limiter()?;
    let limits = current(table).map(|(limits, _)| limits);
    let counts = counts(table);
    let (most, dropped_at) = (most_transitions(store), table.deletes().1);
    let size = RingSize { drawable, most, dropped_at };
    let sized = limits.map_or(counts, |limits| size.counted(&limits, counts));
    let LimiterCounts { inserts, samples, deletes } = sized;
    let ceiling = ceiling_of(table);
    let most_inserts = |limits: RateLimiter| {
        let most = limits.most_inserts(samples, deletes);
        most.min(ceiling.filter(|_| limits.is_enabled()).unwrap_or(COUNT))
    };
    let room = |most: Option<u64>, count: u64| match most {
        Some(COUNT) => None,
        most => Some(most.unwrap_or(0).saturating_sub(count)),
    };
    let waits = |mark: WaitMark| (mark.since_unix_ms != 0).then_some(mark);
    let of_lanes = (0..store.spec().lanes).filter_map(|lane| {
        let mark = waits(table.writer_mark(lane))?;
        // The mark of a killed process remains until the lane is claimed again.
        store.lane_held(lane).then(|| LimiterWaiter {
            pid: store.lane(lane).map_or(0, |lane| lane.pid()),
            lane: Some(lane),
            slot: None,
            wanted: mark.wanted,
            since_unix_ms: mark.since_unix_ms,
            needed: limits
                .map_or(0, |limits| limits.samples_needed(inserts.saturating_add(1), deletes)),
        })
    });
    let of_slots = (0..store.spec().reader_slots).filter_map(|slot| {
        let mark = waits(table.sampler_mark(slot))?;
        store.reader_held(slot).then(|| LimiterWaiter {
            pid: store.reader(slot).map_or(0, |record| record.pid),
            lane: None,
            slot: Some(slot),
            wanted: mark.wanted,
            since_unix_ms: mark.since_unix_ms,
            needed: limits
                .map_or(0, |limits| limits.inserts_needed(samples.saturating_add(1), deletes)),
        })
    });
    let waiters: Vec<LimiterWaiter> = of_lanes.chain(of_slots).collect();
    let waiting = |of: fn(&LimiterWaiter) -> bool| waiters.iter().filter(|w| of(w)).count() as u64;
    Some(LimiterStats {
        limits,
        counts,
        ceiling,
        may_insert: room(limits.map(most_inserts), inserts),
        may_sample: room(limits.map(|limits| limits.most_samples(inserts, deletes)), samples),
        has_sampler: store.has_sampler(),
        has_writer: store.has_writer(),
        writers: side(table, LimitedSide::Inserts, waiting(|waiter| waiter.lane.is_some())),
        samplers: side(table, LimitedSide::Samples, waiting(|waiter| waiter.slot.is_some())),
        waiters,
    })
}

fn side(table: &LimiterTable, side: LimitedSide, waiting: u64) -> LimiterSideStats {
    let (waits, waited_ns) = table.counter(side).waits();
    LimiterSideStats { waiting, waits, waited: Duration::from_nanos(waited_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer waits for samplers and perhaps for a ceiling, a sampler for writers.
    #[test]
    fn a_wait_is_described_by_the_counts_and_by_who_could_end_it() {
        let of = |inserts, ceiling| LimiterStats {
            limits: None,
            counts: LimiterCounts { inserts, samples: 20, deletes: 3 },
            ceiling,
            may_insert: None,
            may_sample: None,
            has_sampler: true,
            has_writer: false,
            writers: LimiterSideStats::default(),
            samplers: LimiterSideStats::default(),
            waiters: Vec::new(),
        };
        let waiter = |lane| LimiterWaiter {
            pid: 9,
            lane,
            slot: None,
            wanted: 4,
            since_unix_ms: 1_000,
            needed: 30,
        };
        for (inserts, ceiling, lane, said) in [
            (7, Some(8), Some(2), None),
            (8, Some(8), Some(2), Some(8)),
            (9, Some(8), Some(2), Some(8)),
            (9, None, Some(2), None),
            (9, Some(8), None, None),
            (7, Some(8), None, None),
        ] {
            let wait = of(inserts, ceiling).describe(&waiter(lane), 1_250, vec![5]);
            assert_eq!(wait.ceiling, said, "{inserts} of {ceiling:?}, lane {lane:?}");
            assert_eq!((wait.inserts, wait.samples, wait.deletes), (inserts, 20, 3));
            assert_eq!((wait.wanted, wait.held, wait.needed), (4, 0, 30));
            assert_eq!((wait.waited_ms, wait.limits.as_str()), (250, "damaged"));
            assert_eq!((wait.peers, wait.has_peers), (vec![5], lane.is_some()));
            assert_eq!(matches!(wait.call, LimitedCall::Append { lane: 2 }), lane.is_some());
        }
        let early = of(1, None).describe(&waiter(None), 10, Vec::new());
        assert_eq!(early.waited_ms, 0, "the clock was set back");
    }
}
