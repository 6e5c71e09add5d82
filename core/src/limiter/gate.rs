//! Gates of the two sides. A writer waits at its gate before it appends, a sampler before it draws,
//! each until the count of the other side suffices.
//!
//! A writer keeps the count up to which the limits let it insert, computed from the count of
//! samples that it read last. Samples only grow, so the writer may always insert up to that bound.
//! Inserts are counted once their rows are published, so appends that several writers make at the
//! same moment may all pass. Inserts exceed the bound by at most one append of each other writer,
//! and by what a failed draw gives back. A sampler counts before it draws, in one atomic step, so
//! samples never exceed their bound.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use backcast_layout::protocol::limit::{
    COUNT, GENERATIONS, LimitCounter, WAITED, count, give_back, listen, take, wake,
};
use backcast_layout::{LimitedSide, LimiterTable, LiveSampler, RingStore, SegmentError, WaitMark};

use super::current;
use super::limits::NoLearner;
use super::waiting::{Caller, LongWait, WaitSettings, Waiting, samplers, writers};
use crate::error::{LimitError, LimitedCall, LimiterWait};

/// Gate of a writer.
#[derive(Debug)]
pub(crate) struct InsertGate {
    store: Arc<RingStore>,
    /// Generation of the limits that `bound` was computed from, as in the counter's word.
    generation: u64,
    /// Count up to which transitions may be inserted. 0 before it is first computed.
    bound: u64,
    /// First lane of the writer.
    lane: u32,
    pub(crate) settings: WaitSettings,
}

impl InsertGate {
    /// Makes the gate of a writer. Returns `None` if the ring has no limiter.
    pub(crate) fn of(store: &Arc<RingStore>, lane: u32, timeout: Option<Duration>) -> Option<Self> {
        let table = store.limiter()?;
        // Clear the mark: the last holder of the lane may have been killed in a wait.
        table.mark_writer(lane, WaitMark::default());
        let settings = WaitSettings { timeout, ..WaitSettings::default() };
        Some(Self { store: Arc::clone(store), generation: 0, bound: 0, lane, settings })
    }

    fn table(&self) -> Option<&LimiterTable> {
        self.store.limiter()
    }

    /// Returns the report of a long wait.
    pub(crate) fn long_wait(&self) -> Arc<LongWait> {
        Arc::clone(&self.settings.long)
    }

    /// Returns the transitions that may be inserted by the bound computed last, with one relaxed
    /// load. Returns 0 after a change of the limits.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        let word = self.table().map_or(0, |table| table.load_inserts(Relaxed)) & !WAITED;
        // With another generation the difference exceeds every bound.
        let count = word.wrapping_sub(self.generation);
        self.bound.saturating_sub(count)
    }

    /// Counts transitions whose rows are published, and wakes the samplers that waited for them.
    #[inline]
    pub(crate) fn count(&self, n: u64) {
        if let Some(table) = self.table().filter(|_| n > 0) {
            count(&table.counter(LimitedSide::Inserts), n);
        }
    }

    /// Waits until `n` transitions may be inserted, without counting them.
    #[inline]
    pub(crate) fn pass(&mut self, n: u64, caller: &mut Caller<'_>) -> Result<(), LimitError> {
        if n <= self.room() { Ok(()) } else { self.wait(n, caller) }
    }

    #[cold]
    fn wait(&mut self, n: u64, caller: &mut Caller<'_>) -> Result<(), LimitError> {
        let (store, lane, since) = (Arc::clone(&self.store), self.lane, caller.since);
        let Some(table) = store.limiter() else { return Ok(()) };
        let counter = table.counter(LimitedSide::Samples);
        let mark = |mark| table.mark_writer(lane, mark);
        let mut waiting = Waiting::new(table, LimitedSide::Inserts, n, &mark);
        loop {
            let (limits, generation) = current(table).ok_or(LimitError::Damaged)?;
            let deletes = table.deletes();
            let inserts = table.load_inserts(Relaxed) & COUNT;
            // An outdated count of samples allows fewer inserts.
            let samples = counter.load(Relaxed) & COUNT;
            let bound = limits.most_inserts(samples, deletes);
            if inserts.saturating_add(n) <= bound {
                (self.bound, self.generation) = (bound, generation);
                return Ok(());
            }
            let after = inserts.saturating_add(n);
            if n > limits.largest_insert() && after > limits.min_size_to_sample() {
                let (most, limits) = (limits.largest_insert(), limits.to_string());
                return Err(LimitError::Never { what: "an append", wanted: n, most, limits });
            }
            let needed = limits.samples_needed(after, deletes);
            let describe = || LimiterWait {
                call: LimitedCall::Append { lane },
                wanted: n,
                waited_ms: since.elapsed().as_millis(),
                needed,
                inserts,
                samples: counter.load(Relaxed) & COUNT,
                deletes,
                limits: limits.to_string(),
                peers: samplers(&store),
                has_peers: store.has_sampler(),
            };
            match limits.no_learner_choice() {
                NoLearner::Wait => {}
                NoLearner::Pass | NoLearner::Error if store.has_sampler() => {}
                NoLearner::Pass => return Ok(()),
                NoLearner::Error => return Err(LimitError::NoLearner(describe().into())),
            }
            let (ticket, word) = listen(&counter, needed);
            // Limits that changed before the bit was set woke no process.
            let changed = table.load_inserts(Acquire) & GENERATIONS != generation;
            if (changed || word & COUNT >= needed) && waiting.looks_again() {
                continue;
            }
            waiting
                .sleep(&self.settings, caller, &describe, |limit| ticket.sleep(&counter, limit))?;
        }
    }
}

/// Gate of a sampler. A sampler counts as alive while it has one.
#[derive(Debug)]
pub(crate) struct DrawGate {
    // Dropped before the store, which the claim holds too.
    _live: LiveSampler,
    store: Arc<RingStore>,
    /// Reader slot of the sampler, if it has one.
    slot: Option<u32>,
    pub(crate) settings: WaitSettings,
}

impl DrawGate {
    /// Makes the gate of a sampler. Returns `None` if the ring has no limiter.
    pub(crate) fn of(
        store: &Arc<RingStore>,
        slot: Option<u32>,
    ) -> Result<Option<Self>, SegmentError> {
        let Some(table) = store.limiter() else { return Ok(None) };
        if let Some(slot) = slot {
            // Clear the mark: the last holder of the slot may have been killed in a wait.
            table.mark_sampler(slot, WaitMark::default());
        }
        let live = store.claim_sampler()?;
        // Wake writers: a sampler is alive from now on.
        wake(&table.counter(LimitedSide::Samples));
        let (store, settings) = (Arc::clone(store), WaitSettings::default());
        Ok(Some(Self { _live: live, store, slot, settings }))
    }

    /// Returns the report of a long wait.
    pub(crate) fn long_wait(&self) -> Arc<LongWait> {
        Arc::clone(&self.settings.long)
    }

    /// Waits until `n` items may be drawn, counts them, and wakes the writers that waited for that
    /// count.
    pub(crate) fn take(&self, n: u64, caller: &mut Caller<'_>) -> Result<(), LimitError> {
        let (store, since) = (&self.store, caller.since);
        let Some(table) = store.limiter() else { return Ok(()) };
        let counter = table.counter(LimitedSide::Inserts);
        let mark = |mark| {
            if let Some(slot) = self.slot {
                table.mark_sampler(slot, mark);
            }
        };
        let mut waiting = Waiting::new(table, LimitedSide::Samples, n, &mark);
        loop {
            let (limits, generation) = current(table).ok_or(LimitError::Damaged)?;
            let deletes = table.deletes();
            // ORDERING: acquire, so that rows that were counted are seen; pairs with the release in
            // `count`. An outdated count of inserts allows fewer items.
            let inserts = counter.load(Acquire) & COUNT;
            let most = limits.most_samples(inserts, deletes);
            let Err(samples) = take(&table.counter(LimitedSide::Samples), n, most) else {
                return Ok(());
            };
            if n > limits.largest_draw() {
                let (most, limits) = (limits.largest_draw(), limits.to_string());
                return Err(LimitError::Never { what: "a draw", wanted: n, most, limits });
            }
            let needed = limits.inserts_needed(samples.saturating_add(n), deletes);
            let (ticket, word) = listen(&counter, needed);
            let changed = word & GENERATIONS != generation;
            if (changed || word & COUNT >= needed) && waiting.looks_again() {
                continue;
            }
            let describe = || LimiterWait {
                call: LimitedCall::Draw,
                wanted: n,
                waited_ms: since.elapsed().as_millis(),
                needed,
                inserts: counter.load(Relaxed) & COUNT,
                samples,
                deletes,
                limits: limits.to_string(),
                peers: writers(store),
                has_peers: store.has_writer(),
            };
            waiting
                .sleep(&self.settings, caller, &describe, |limit| ticket.sleep(&counter, limit))?;
        }
    }

    /// Subtracts items that were counted and not drawn.
    pub(crate) fn give_back(&self, n: u64) {
        if let Some(table) = self.store.limiter().filter(|_| n > 0) {
            give_back(&table.counter(LimitedSide::Samples), n);
            // Wake other samplers: they computed the count that they wait for from the larger
            // count.
            wake(&table.counter(LimitedSide::Inserts));
        }
    }
}
