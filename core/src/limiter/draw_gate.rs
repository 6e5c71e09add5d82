//! Gate of a sampler: it counts the items of a batch as they are allowed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use backcast_layout::protocol::limit::{COUNT, count, give_back, take, wake};
use backcast_layout::protocol::readable;
use backcast_layout::{LimitedSide, LimiterTable, LiveSampler, RingStore, SegmentError, WaitMark};

use super::absent::NoWriter;
use super::ceiling::Ceiling;
use super::gate::wake_writers;
use super::limits::{LimiterCounts, RateLimiter};
use super::size::RingSize;
use super::waiting::{AloneSince, Caller, Shortage, Waiting};
use super::{current, most_transitions};
use crate::error::{LimitError, LimitedCall};

/// Gate of a sampler. It makes the sampler count as alive from [`claim`](Self::claim) on.
#[derive(Debug)]
pub(crate) struct DrawGate {
    // Dropped before the store, which the claim holds too.
    live: Option<LiveSampler>,
    store: Arc<RingStore>,
    /// Reader slot of the sampler, if it has one.
    slot: Option<u32>,
    /// The size test that was last found to hold.
    sized: KnownSize,
    /// Time since which no writer was found alive.
    alone: AloneSince,
    /// Sum of the rows that were dropped from all lanes, when a draw last found too few.
    dropped: u64,
}

/// A size test that holds, and how long it need not be made again.
#[derive(Clone, Copy, Debug, Default)]
struct KnownSize {
    /// Generation of the limits, and the counts of the last drop of rows. A relocation of a lane
    /// renews the generation.
    of: (u64, u64, u64),
    /// Number of rows published in all lanes up to which the test is known to hold.
    until: u64,
}

impl DrawGate {
    /// Makes the gate of a sampler. Returns `None` if the ring has no limiter.
    pub(crate) fn of(store: &Arc<RingStore>, slot: Option<u32>) -> Option<Self> {
        store.limiter()?;
        let (store, sized) = (Arc::clone(store), KnownSize::default());
        let alone = AloneSince::default();
        Some(Self { live: None, store, slot, sized, alone, dropped: 0 })
    }

    /// Makes the sampler count as alive, if it does not yet.
    pub(crate) fn claim(&mut self) -> Result<(), SegmentError> {
        if self.live.is_none() {
            self.live = Some(self.store.claim_sampler()?);
            if let Some(table) = self.store.limiter() {
                wake_writers(table);
            }
        }
        Ok(())
    }

    /// Waits until a batch of `n` items is counted, and wakes the writers that waited for that.
    /// Items are counted as they are allowed; all are given back if the wait ends early. `anew`
    /// makes the size test again: a draw found the ring empty.
    pub(crate) fn take(
        &mut self,
        n: u64,
        anew: bool,
        caller: &mut Caller<'_>,
    ) -> Result<(), LimitError> {
        if anew {
            self.sized = KnownSize::default();
        }
        let store = Arc::clone(&self.store);
        let Some(table) = store.limiter() else { return Ok(()) };
        let counter = table.counter(LimitedSide::Samples);
        let (limits, generation) = current(table).ok_or(LimitError::Damaged)?;
        let (_, most) = self.allowed(table, (&limits, generation), anew, caller);
        let (taken, _) = take(&counter, n, most);
        if taken == n {
            return Ok(());
        }
        let mut batch = PartOfBatch { table, taken };
        self.wait(n, &mut batch, anew, caller)?;
        batch.taken = 0;
        Ok(())
    }

    /// Returns the counts with the deletes of the size test, and the count of samples that they
    /// allow.
    #[inline]
    fn allowed(
        &mut self,
        table: &LimiterTable,
        (limits, generation): (&RateLimiter, u64),
        anew: bool,
        caller: &Caller<'_>,
    ) -> (LimiterCounts, u64) {
        let (deletes, dropped_at) = table.deletes();
        // ORDERING: acquire, so that rows that were counted are seen; pairs with the release in
        // `count`. An outdated count of inserts allows fewer items.
        let inserts = table.load_inserts(Acquire) & COUNT;
        let of = (generation, deletes, dropped_at);
        let deletes = inserts.saturating_sub(limits.min_size_to_sample());
        let counts = LimiterCounts { inserts, samples: 0, deletes };
        let counts = if !limits.is_enabled() || (!anew && self.is_sized(of)) {
            counts
        } else {
            self.measured(limits, counts, (of, anew), caller)
        };
        (counts, limits.most_samples(inserts, counts.deletes))
    }

    /// Returns whether the size test still holds as it did when it was last made. O(lanes), until
    /// the ring was filled.
    fn is_sized(&self, of: (u64, u64, u64)) -> bool {
        let KnownSize { of: known, until } = self.sized;
        known == of && (until == u64::MAX || published_rows(&self.store) <= until)
    }

    /// Makes the size test, and remembers for how long it holds.
    #[cold]
    fn measured(
        &mut self,
        limits: &RateLimiter,
        counts: LimiterCounts,
        (of, anew): ((u64, u64, u64), bool),
        caller: &Caller<'_>,
    ) -> LimiterCounts {
        let (inserts, min_size) = (counts.inserts, limits.min_size_to_sample());
        if inserts < min_size {
            return LimiterCounts { deletes: 0, ..counts };
        }
        let published = published_rows(&self.store);
        // The count follows relocated lanes, whose capacity is read after it.
        let drawable = (caller.drawable)();
        let size = RingSize { drawable, most: most_transitions(&self.store), dropped_at: of.2 };
        if size.was_filled(inserts) && drawable > 0 && !anew {
            self.sized = KnownSize { of, until: u64::MAX };
        } else if drawable >= min_size {
            // A row overwrites the row of at most one transition.
            let until = published.saturating_add(drawable - min_size);
            self.sized = KnownSize { of, until };
        }
        size.counted(limits, counts)
    }

    /// Waits for the items of a batch that are not counted yet.
    #[cold]
    fn wait(
        &mut self,
        n: u64,
        batch: &mut PartOfBatch<'_>,
        anew: bool,
        caller: &mut Caller<'_>,
    ) -> Result<(), LimitError> {
        let (store, slot) = (Arc::clone(&self.store), self.slot);
        let table = batch.table;
        let samples = table.counter(LimitedSide::Samples);
        let mark = |mark| {
            if let Some(slot) = slot {
                table.mark_sampler(slot, mark);
            }
        };
        let waiting = Waiting::new(&store, table, (LimitedCall::Draw, n), &mark);
        waiting.until_passed(caller, |limits, generation, caller| {
            let (counts, most) = self.allowed(table, (limits, generation), anew, caller);
            let (taken, own) = take(&samples, n - batch.taken, most);
            batch.taken += taken;
            let left = n - batch.taken;
            if left == 0 {
                return Ok(());
            }
            let choice = limits.no_writer_choice();
            let is_alone = choice != NoWriter::Wait && self.alone.is_alone(&store, table);
            if is_alone && choice == NoWriter::Pass {
                count(&samples, left);
                batch.taken = n;
                return Ok(());
            }
            let inserts_for = |n| limits.inserts_needed(own.saturating_add(n), counts.deletes);
            let (needed, held) = (inserts_for(left), n - left);
            // Writers stop at their bound until samplers draw more. Wakes there at the latest, so
            // that the batch takes the items that are allowed by then.
            let stop_at = limits.most_inserts(own, counts.deletes);
            let stop_at = Ceiling::of(table, limits, generation).bound(stop_at);
            let wake_at = needed.min(stop_at).max(inserts_for(1));
            Err(Shortage { needed, wake_at, held, own, ceiling: None, fails: is_alone })
        })
    }

    /// Returns whether `dropped`, the sum of the rows dropped from all lanes, has changed since the
    /// last call. The first call compares it with 0.
    pub(crate) fn notes_dropped(&mut self, dropped: u64) -> bool {
        std::mem::replace(&mut self.dropped, dropped) != dropped
    }

    /// Returns whether no writer has lived for 100 ms.
    pub(crate) fn is_alone(&self) -> bool {
        self.store.limiter().is_some_and(|table| self.alone.is_alone(&self.store, table))
    }

    /// Counts items that were drawn, and wakes the writers that waited for that.
    pub(crate) fn count(&self, n: u64) {
        if let Some(table) = self.store.limiter() {
            count(&table.counter(LimitedSide::Samples), n);
        }
    }

    /// Subtracts items that were counted and not drawn.
    pub(crate) fn give_back(&self, n: u64) {
        if let Some(table) = self.store.limiter() {
            give_back_items(table, n);
        }
    }

    /// Lets writers continue while this sampler, whose batch is counted, waits for rows: the limits
    /// may want more draws of older rows before the next insert, which this sampler cannot make.
    /// Ends when the result is dropped, or with the process. Has no effect without a reader slot.
    pub(crate) fn await_rows(&self) -> Option<AwaitsRows<'_>> {
        let (table, slot) = (self.store.limiter()?, self.slot?);
        table.mark_sampler(slot, WaitMark { awaits_rows: true, ..WaitMark::default() });
        wake_writers(table);
        Some(AwaitsRows { table, slot })
    }
}

/// Mark of a sampler that awaits rows. A drop removes it.
pub(crate) struct AwaitsRows<'a> {
    table: &'a LimiterTable,
    slot: u32,
}

impl Drop for AwaitsRows<'_> {
    fn drop(&mut self) {
        self.table.mark_sampler(self.slot, WaitMark::default());
    }
}

/// Items of a batch that are counted while the others are awaited. A drop gives them back.
struct PartOfBatch<'a> {
    table: &'a LimiterTable,
    taken: u64,
}

impl Drop for PartOfBatch<'_> {
    fn drop(&mut self) {
        give_back_items(self.table, self.taken);
    }
}

fn give_back_items(table: &LimiterTable, n: u64) {
    if n > 0 {
        // Items of transitions that were dropped meanwhile stay counted, as in `count_dropped`.
        give_back(&table.counter(LimitedSide::Samples), n, table.least_samples());
        // Wake other samplers: they computed the count that they wait for from the larger count.
        wake(&table.counter(LimitedSide::Inserts));
    }
}

/// Returns the number of rows published in all lanes.
fn published_rows(store: &RingStore) -> u64 {
    let lanes = store.lanes();
    let heads = lanes.iter().map(|lane| readable(&**lane, lane.capacity()).end);
    heads.fold(0, u64::wrapping_add)
}
