//! Gates of the two sides. A writer waits at its gate before it appends, a sampler before it draws.
//!
//! A writer is admitted with a whole append when one more transition is allowed. It keeps the count
//! up to which the limits allow that, computed from the count of samples that it read last. The
//! bound stays valid as long as samples only grow, which they do unless a failed draw gives items
//! back. It is at most the ceiling, and a lower ceiling ends it with a new generation. Inserts are
//! counted once their rows are published, so they exceed the bound by less than one append of each
//! writer, and by what a failed draw gives back.
//!
//! A sampler counts its items as they are allowed, each in one atomic step, and keeps them until
//! its batch is whole. So the items that the limits allow never exceed their bound, and the items
//! of a waiting batch let writers continue. `docs/protocol.md` proves that one side can always
//! continue.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backcast_layout::protocol::limit::{COUNT, LimitCounter, WAITED, count, wake};
use backcast_layout::{LimitedSide, LimiterTable, RingStore, WaitMark};

use super::absent::NoLearner;
use super::ceiling::Ceiling;
use super::limits::LimiterCounts;
use super::most_transitions;
use super::size::RingSize;
use super::waiting::{Caller, Shortage, Waiting};
use crate::error::{LimitError, LimitedCall};

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
    /// Maximum wait. `None` waits without a limit.
    pub(crate) timeout: Option<Duration>,
}

impl InsertGate {
    /// Makes the gate of a writer. Returns `None` if the ring has no limiter.
    pub(crate) fn of(store: &Arc<RingStore>, lane: u32, timeout: Option<Duration>) -> Option<Self> {
        let table = store.limiter()?;
        // Clear the mark: the last holder of the lane may have been killed in a wait.
        table.mark_writer(lane, WaitMark::default());
        Some(Self { store: Arc::clone(store), generation: 0, bound: 0, lane, timeout })
    }

    fn table(&self) -> Option<&LimiterTable> {
        self.store.limiter()
    }

    /// Returns how many transitions may be inserted one by one under the bound computed last. Makes
    /// one relaxed load. Returns 0 after a change of the limits.
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

    /// Waits until an append of `n` transitions is admitted: until one more is allowed. Counts
    /// nothing.
    #[inline]
    pub(crate) fn pass(&mut self, n: u64, caller: &mut Caller<'_>) -> Result<(), LimitError> {
        if n == 0 || self.room() > 0 { Ok(()) } else { self.wait(n, caller) }
    }

    #[cold]
    fn wait(&mut self, n: u64, caller: &mut Caller<'_>) -> Result<(), LimitError> {
        let (store, lane) = (Arc::clone(&self.store), self.lane);
        let Some(table) = store.limiter() else { return Ok(()) };
        let samples = table.counter(LimitedSide::Samples);
        let mark = |mark| table.mark_writer(lane, mark);
        let waiting = Waiting::new(&store, table, (LimitedCall::Append { lane }, n), &mark);
        waiting.until_passed(caller, |limits, generation, caller| {
            let dropped_at = table.deletes().1;
            let inserts = table.load_inserts(Relaxed) & COUNT;
            // An outdated count of samples allows fewer inserts.
            let samples = samples.load(Relaxed) & COUNT;
            let mut sized = LimiterCounts { inserts, samples, deletes: 0 };
            // An insert that is allowed while all inserts can be drawn is always allowed.
            if !limits.can_insert(sized, 1) {
                // The count follows relocated lanes, whose capacity is read after it.
                let drawable = (caller.drawable)();
                let size = RingSize { drawable, most: most_transitions(&store), dropped_at };
                sized = size.counted(limits, sized);
            }
            let ceiling = Ceiling::of(table, limits, generation);
            if limits.can_insert(sized, 1) && !ceiling.holds(inserts) {
                self.bound = ceiling.bound(limits.most_inserts(samples, sized.deletes));
                self.generation = generation;
                return Ok(());
            }
            let fails = match limits.no_learner_choice() {
                NoLearner::Wait => false,
                NoLearner::Pass | NoLearner::Error if store.has_sampler() => false,
                NoLearner::Pass => return Ok(()),
                NoLearner::Error => true,
            };
            let needed = limits.samples_needed(inserts.saturating_add(1), sized.deletes);
            let ceiling = ceiling.holds(inserts).then_some(ceiling);
            // No draw lets a writer pass the ceiling: only its raise wakes.
            let wake_at = if ceiling.is_some() { COUNT } else { needed };
            Err(Shortage { needed, wake_at, held: 0, own: inserts, ceiling, fails })
        })
    }
}

/// Wakes the writers that wait, so that they check the limits again.
pub(super) fn wake_writers(table: &LimiterTable) {
    wake(&table.counter(LimitedSide::Samples));
}
