//! Prefetcher: a thread draws batches ahead while the caller works with earlier ones.

mod state;
#[cfg(test)]
mod tests;
mod thread;
mod waits;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::task::Poll;
use std::time::Duration;

use self::state::State;
use self::thread::Make;
use self::waits::{Pause, PendingReport};
use super::Sampler;
use super::batch::{Batch, BatchBuffers};
use super::plan::BatchPlan;
use super::policy_version::PolicyVersion;
use super::state::SamplerState;
use super::stats::{SamplerStats, SamplerTotals};
use crate::error::{LimitError, SampleError};
use crate::ring::Ring;
use crate::wait::{CHECK_EVERY, WaitReport, WaitStart};

/// Maximum batches drawn ahead.
const MAX_PREFETCH: usize = 1024;

/// Options of [`Batches`]: how many batches are drawn ahead, and how many in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchesOptions {
    prefetch: usize,
    limit: Option<u64>,
    unused: usize,
}

impl BatchesOptions {
    /// Draws at most `k` batches ahead of the one that the caller holds; 0 draws without a thread.
    #[must_use]
    pub fn prefetch(k: usize) -> Self {
        Self { prefetch: k, limit: None, unused: 0 }
    }

    /// Ends after `n` batches; endless otherwise.
    #[must_use]
    pub fn limit(mut self, n: u64) -> Self {
        self.limit = Some(n);
        self
    }

    /// Lets the caller take up to `n` batches early; see [`Batches::set_unused`].
    #[must_use]
    pub fn unused(mut self, n: usize) -> Self {
        self.unused = n;
        self
    }
}

/// An iterator over the batches of a [`Sampler`], drawn ahead by a thread.
///
/// The batches are those of repeated calls of [`Sampler::sample`] on the same data, whatever the
/// prefetch. The prefetch decides when a batch is drawn: on a ring that is being written, each is
/// up to `prefetch` batches older. `age` is the age at the moment of the draw.
///
/// The first call of `next` starts the thread, unless the prefetch is 0. An error ends the thread
/// and is returned; the next call tries that batch again. The interrupt of the ring's handle ends a
/// call that waits, and the thread goes on. Dropping the iterator, or [`Batches::into_sampler`],
/// stops the thread after its current batch and waits for it.
///
/// ```
/// use backcast_core::{
///     BatchesOptions, DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
///     WriterOptions,
/// };
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..10_i16 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let sampler = ring.sampler(SamplerOptions::seeded(7))?;
/// for batch in sampler.batches(32, BatchesOptions::prefetch(2).limit(10))? {
///     assert_eq!(batch?.column::<f32>("obs")?.shape(), [32]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches<M: BatchBuffers = Batch> {
    plan: Arc<BatchPlan>,
    ring: Ring,
    totals: SamplerTotals,
    /// Allocates memory to fill, unless the caller supplies it.
    make: Option<Make<M>>,
    /// Elements of the caller's memory that are to be filled, and the number of all elements.
    spare: VecDeque<M>,
    memory: usize,
    in_use: usize,
    prefetch: usize,
    left: Option<u64>,
    /// Beginning of the wait of a batch that is drawn without a thread.
    since: Option<WaitStart>,
    /// Pause of that wait.
    pause: Pause,
    /// Reports of waits that the caller has not taken yet.
    report: Arc<PendingReport>,
    /// State before the next batch to be returned; batches drawn ahead do not count.
    at: SamplerState,
    /// Version that the learner sets; it may do so while a thread draws ahead.
    policy_version: PolicyVersion,
    /// Whether a batch was returned that can be taken back.
    returned: bool,
    /// Number of the first batch.
    first: u64,
    /// Batches that were returned last and are not used yet, and the most that there may be.
    unused: u64,
    max_unused: u64,
    state: State<M>,
}

/// Sampler that draws no batches ahead, and the reason.
type Refused = (Box<Sampler>, SampleError);

impl Batches<Batch> {
    pub(crate) fn new(
        sampler: Sampler,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Self, Refused> {
        Self::of(sampler, batch, options, Some(Sampler::blank), Vec::new())
    }
}

impl<M: BatchBuffers> Batches<M> {
    pub(crate) fn over(
        sampler: Sampler,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Self, Refused> {
        let Some(prefetch) = memory.len().checked_sub(1) else {
            return Err((Box::new(sampler), SampleError::NothingToFill { memory: 0 }));
        };
        Self::of(sampler, batch, BatchesOptions { prefetch, ..options }, None, memory)
    }

    fn of(
        mut sampler: Sampler,
        batch: usize,
        options: BatchesOptions,
        make: Option<Make<M>>,
        memory: Vec<M>,
    ) -> Result<Self, Refused> {
        let BatchesOptions { prefetch, limit, unused } = options;
        let checked = if prefetch > MAX_PREFETCH {
            Err(SampleError::BadPrefetch { asked: prefetch, limit: MAX_PREFETCH })
        } else {
            sampler.plan(batch)
        };
        let plan = match checked {
            Ok(plan) => plan,
            Err(error) => return Err((Box::new(sampler), error)),
        };
        let report = Arc::default();
        sampler.selection.keep(unused.saturating_add(1));
        Ok(Self {
            plan,
            ring: sampler.ring().clone(),
            totals: sampler.totals(),
            make,
            memory: memory.len(),
            spare: memory.into(),
            in_use: 0,
            prefetch,
            left: limit,
            since: None,
            pause: Pause::of(&report),
            report,
            at: sampler.state(),
            policy_version: sampler.policy_version.clone(),
            returned: false,
            first: sampler.next_batch(),
            unused: 0,
            max_unused: unused as u64,
            state: State::Idle(Box::new(sampler)),
        })
    }

    /// Gives memory back to be filled again. The batch in it will be overwritten.
    pub fn refill(&mut self, memory: M) {
        self.in_use = self.in_use.saturating_sub(1);
        let unsent = match &self.state {
            State::Running(running) => running.give(memory).err(),
            _ => Some(memory),
        };
        self.spare.extend(unsent);
    }

    /// Waits at most `wait` for the next batch: `None` after the last one, pending if the time ran
    /// out. Callers that must stay interruptible call it in a loop.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn next_within(&mut self, wait: Duration) -> Poll<Option<Result<M, SampleError>>> {
        if self.left == Some(0) {
            self.stop();
            return Poll::Ready(None);
        }
        if self.make.is_none() && self.in_use == self.memory {
            return Poll::Ready(Some(Err(SampleError::NothingToFill { memory: self.memory })));
        }
        let drawn = if self.prefetch == 0 {
            match self.draw_here(wait) {
                Err((memory, SampleError::Limited(LimitError::Interrupted { .. })))
                    if wait < Duration::MAX =>
                {
                    self.spare.extend(memory.filter(|_| self.make.is_none()));
                    if let Some(since) = &mut self.since {
                        since.is_reported |= self.report.is_some();
                    }
                    return Poll::Pending;
                }
                drawn => {
                    (self.since, _) = (None, self.report.take());
                    drawn
                }
            }
        } else {
            match self.start().map(|running| running.next_within(wait)) {
                Ok(Ok(drawn)) => drawn,
                Ok(Err(RecvTimeoutError::Timeout)) => return Poll::Pending,
                Ok(Err(RecvTimeoutError::Disconnected)) => {
                    // The thread panicked, and `stop` resumes the panic.
                    self.stop();
                    return Poll::Ready(None);
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        };
        Poll::Ready(Some(match drawn {
            Ok(memory) => {
                self.in_use += 1;
                self.at.batches = self.at.batches.wrapping_add(1);
                self.returned = true;
                self.left = self.left.map(|left| left - 1);
                if self.left == Some(0) {
                    self.stop();
                }
                Ok(memory)
            }
            Err((memory, error)) => {
                self.stop();
                self.spare.extend(memory);
                Err(error)
            }
        }))
    }

    /// Returns the report of a wait of more than 10 s, once per wait. It says what
    /// [`next_within`](Self::next_within) waits for, and why that does not come.
    #[must_use]
    pub fn take_report(&self) -> Option<String> {
        self.report.take()
    }

    /// Takes back batch number `batch`, if it is the last one that was returned: the next call of
    /// `next` draws it again, and the limit counts it once. Stops the thread. See
    /// [`Sampler::take_back`].
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn take_back(&mut self, batch: u64) -> bool {
        if !self.returned || self.at.batches != batch.wrapping_add(1) {
            return false;
        }
        self.returned = false;
        self.unused = self.unused.saturating_sub(1);
        self.at.batches = batch;
        self.left = self.left.map(|left| left + 1);
        match &mut self.state {
            State::Idle(sampler) => {
                sampler.return_to(batch, self.plan.batch() as u64);
            }
            // The batch is the first of those that were not returned.
            _ => self.stop(),
        }
        true
    }

    /// Says that the last `batches` of the returned batches are not used yet. Like batches that
    /// wait in the thread, [`state`](Self::state) does not count them, and the sampler draws them
    /// again after [`into_sampler`](Self::into_sampler). For a caller that begins to copy batches
    /// to another device before it needs them. At most as many are unused as
    /// [`BatchesOptions::unused`] says, and as this iterator returned.
    pub fn set_unused(&mut self, batches: u64) {
        let returned = self.at.batches.wrapping_sub(self.first);
        self.unused = batches.min(self.max_unused).min(returned);
    }

    /// Returns the number of unused batches.
    #[must_use]
    pub fn unused(&self) -> u64 {
        self.unused
    }

    /// Returns the number of the next batch to be returned.
    #[must_use]
    pub fn next_batch(&self) -> u64 {
        self.at.batches
    }

    /// Stops the thread and returns the sampler. Its next batch is the one after the last that this
    /// iterator returned.
    ///
    /// # Panics
    /// If the thread panicked.
    #[must_use]
    pub fn into_sampler(self) -> Sampler {
        self.into_parts().0
    }

    /// Stops the thread and returns the sampler, and the elements of the caller's memory that the
    /// caller does not hold; see [`into_sampler`](Self::into_sampler).
    ///
    /// # Panics
    /// If the thread panicked.
    #[must_use]
    pub fn into_parts(mut self) -> (Sampler, Vec<M>) {
        self.stop();
        self.return_unused();
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(sampler) => (*sampler, self.spare.drain(..).collect()),
            _ => unreachable!("a stopped thread has given the sampler back"),
        }
    }

    /// Returns the plan: the memory of a batch.
    #[must_use]
    pub fn plan(&self) -> &Arc<BatchPlan> {
        &self.plan
    }

    /// Returns the state of the sampler before the next batch to be returned, or before the first
    /// unused one.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let mut at = self.at.clone();
        at.batches = at.batches.wrapping_sub(self.unused);
        at.policy_version = self.policy_version.get();
        at
    }

    /// Returns the ring that is drawn from.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the statistics of the sampler: see [`Sampler::stats`].
    pub fn stats(&self) -> Result<SamplerStats, SampleError> {
        self.totals.stats()
    }

    /// Returns the number of items drawn or gathered so far, items drawn ahead of the caller
    /// included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.totals.sampled()
    }

    /// Returns the number of draws discarded so far because a writer overwrote their rows.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.totals.lapped()
    }
}

impl<M: BatchBuffers> Iterator for Batches<M> {
    type Item = Result<M, SampleError>;

    fn next(&mut self) -> Option<Self::Item> {
        let slice = if self.prefetch == 0 { Duration::MAX } else { CHECK_EVERY };
        let mut waited = Duration::ZERO;
        loop {
            if let Poll::Ready(next) = self.next_within(slice) {
                return next;
            }
            waited = waited.saturating_add(slice);
            let (long, unlinked) = (self.report.take(), self.report.take_unlinked());
            let ends = |report| self.ring.interrupt().is_ended_by(report);
            let is_ended = ends(long.as_deref().map(WaitReport::Long))
                | unlinked.as_deref().is_some_and(|text| ends(Some(WaitReport::Unlinked(text))));
            if is_ended {
                let waited_ms = waited.as_millis();
                return Some(Err(LimitError::Interrupted { waited_ms }.into()));
            }
        }
    }
}

impl<M: BatchBuffers> Drop for Batches<M> {
    fn drop(&mut self) {
        // A panic of the thread concerns callers that wait for a batch; this one does not.
        if self.join().is_ok() {
            self.return_unused();
        }
    }
}

impl<M: BatchBuffers> fmt::Debug for Batches<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("batch", &self.plan.batch())
            .field("prefetch", &self.prefetch)
            .field("left", &self.left)
            .field("running", &matches!(self.state, State::Running(_)))
            .finish_non_exhaustive()
    }
}
