//! Samplers: draw batches of transitions, sequences, whole episodes or rollouts from a ring.

mod batch;
mod block;
mod boundary;
mod columns;
mod draw;
mod eligibility;
mod episodes;
mod form;
mod gate;
mod gather;
mod hindsight;
mod hooks;
mod named_rows;
mod new_rows;
mod open;
mod options;
mod plan;
mod plans;
mod points;
mod policy_version;
mod pool;
mod prefetcher;
mod prioritised;
mod rng;
mod rollouts;
mod selection;
mod selector;
mod state;
mod stats;
mod steps;
mod stream;
mod transition_order;
mod window;

use std::sync::Arc;
use std::time::Duration;

pub use self::batch::{Batch, BatchBuffers, BatchMut};
pub use self::block::Block;
pub use self::boundary::{BadBoundary, Boundary};
pub use self::columns::{ColumnWindow, ColumnWindows};
pub use self::episodes::{EpisodeLayout, WholeEpisodes};
pub use self::form::{Form, Sequence};
use self::gate::Gate;
use self::gather::Gather;
pub use self::gather::GatherTarget;
pub use self::hindsight::{GoalStrategy, Hindsight};
pub use self::hooks::Goals;
use self::hooks::Hooks;
pub use self::options::SamplerOptions;
pub use self::plan::{Arena, Axis, BatchPlan, View};
use self::points::DrawPoints;
pub use self::policy_version::PolicyVersion;
pub use self::pool::{ArenaBlock, ArenaPool};
pub use self::prefetcher::{Batches, BatchesOptions};
pub use self::rng::CounterRng;
pub use self::rollouts::Rollout;
use self::selection::Selection;
pub use self::selector::Selector;
pub use self::state::SamplerState;
use self::stats::DrawCounts;
pub use self::stats::{SamplerStats, SamplerTotals};
pub use self::steps::WindowSteps;
use self::stream::DrawStream;
pub use self::transition_order::TransitionOrder;
use crate::error::{PriorityError, SampleError};
use crate::index::AsRowIndex;
use crate::priority::PriorityOptions;
use crate::ring::Ring;
use crate::ring::notices::Notice;
use crate::wait::Interrupt;

/// Largest number of items in a batch: they are counted in 32 bits.
pub const MAX_BATCH: usize = 1 << 24;

/// Draws batches of transitions, or of items of another [`Form`]. Every item of the ring is equally
/// likely, whichever lane holds it, unless a [`Selector`] says otherwise.
///
/// A sampler can move to another thread. Threads that draw at the same time need a sampler each.
///
/// Samplers with equal options, the seed included, draw equal batches from equal data, in any
/// process and language. A dropped batch leaves its arenas to the next batch of the same size, so
/// that a training loop maps no new memory. The memory of at most two unused batches is kept.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    /// Options that the sampler was opened with.
    options: SamplerOptions,
    stream: DrawStream,
    selection: Selection,
    gather: Gather,
    hooks: Hooks,
    gate: Gate,
    counts: DrawCounts,
    points: DrawPoints,
    policy_version: PolicyVersion,
}

impl Sampler {
    /// Sets the maximum wait for the rate limiter, for new rows of a table that consumes them, and
    /// for the lock of a table. With `None` only a wait for a lock has a limit, of a minute.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        if self.gate.set_timeout(timeout) {
            self.selection.set_limits(self.gate.lock_limits());
        }
    }

    /// Sets what ends the waits of the sampler. At first that is the interrupt of its ring.
    fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.gate.set_interrupt(interrupt);
        self.selection.set_limits(self.gate.lock_limits());
    }

    /// Fails if the ring is unlinked and its handle refuses such rings, or if a table of this
    /// sampler was removed. Usually makes one relaxed load.
    fn follow_notices(&mut self) -> Result<(), SampleError> {
        let Self { ring, selection, gather, gate, .. } = self;
        gate.follow_notices(ring, || {
            selection.check_not_removed()?;
            gather.check_not_removed()
        })
    }

    /// Draws batches of one size in a thread, ahead of the caller. They are the batches that
    /// repeated calls of [`sample`](Self::sample) would draw from the same data, in the same order.
    ///
    /// The thread starts with the first call of `next`. With a prefetch of 0 there is no thread.
    /// See [`Batches`].
    pub fn batches(
        self,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Batches<Batch>, SampleError> {
        self.try_batches(batch, options).map_err(|(_, error)| error)
    }

    /// Draws batches ahead like [`batches`](Self::batches), but returns the sampler with an error.
    pub fn try_batches(
        self,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Batches<Batch>, (Box<Self>, SampleError)> {
        Batches::new(self, batch, options)
    }

    /// Draws batches ahead of the caller into the caller's memory; see [`batches`](Self::batches).
    /// The caller holds one element of `memory`, and the thread fills the others. The prefetch of
    /// `options` is ignored. Give each element back with [`Batches::refill`].
    pub fn batches_over<M: BatchBuffers>(
        self,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Batches<M>, SampleError> {
        self.try_batches_over(batch, memory, options).map_err(|(_, error)| error)
    }

    /// Draws batches ahead like [`batches_over`](Self::batches_over), but returns the sampler with
    /// an error. The memory is dropped then.
    pub fn try_batches_over<M: BatchBuffers>(
        self,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Batches<M>, (Box<Self>, SampleError)> {
        Batches::over(self, batch, memory, options)
    }

    /// Returns memory for a batch, with nothing drawn into it yet: zeros, or an earlier batch.
    pub fn blank(&mut self, batch: usize) -> Result<Batch, SampleError> {
        self.gather.plans.blank(batch)
    }

    /// Returns the plan of a batch of this size: the memory that it needs. The plan is kept for the
    /// next batch of the same size.
    pub fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        self.gather.plans.plan(batch)
    }

    /// Takes back batch number `batch`, if it is the last one that was drawn: the next call draws
    /// it again. Call it for a batch that could not be used, for example because a function of the
    /// caller failed.
    ///
    /// The next call draws the same rows if the ring has not changed, and uses the same claims of a
    /// table. The rate limiter counts the batch once. [`sampled`](Self::sampled) and the ages count
    /// both draws. Returns whether the batch was taken back.
    pub fn take_back(&mut self, batch: u64) -> bool {
        let Some(items) = self.stream.last(batch) else { return false };
        self.return_to(batch, items as u64);
        true
    }

    /// Returns the number of the next batch, counted from 0. A sampler opened with a
    /// [`SamplerState`] continues the count of that state.
    #[must_use]
    pub fn next_batch(&self) -> u64 {
        self.stream.batches()
    }

    /// Goes back to an earlier batch, so that it and all later ones are drawn again. `items` is the
    /// number of their items, which the rate limiter has counted.
    fn return_to(&mut self, batch: u64, items: u64) {
        self.gate.give_back(items);
        self.stream.rewind(batch);
        self.selection.rewind(batch);
    }

    /// Returns the options and the position in the stream of draws. A sampler that is opened with
    /// this state continues with the same draws.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let selector = self.selection.selector();
        let mut options = SamplerOptions { selector, ..self.options.clone() };
        options.draws.policy_version = self.policy_version.get();
        SamplerState::of(options, self.stream.batches())
    }

    /// Sets the priorities of rows, and returns how many were dropped because their row is gone or
    /// has no priority: see [`Priorities::update`](crate::Priorities::update). Fails if the sampler
    /// has no priorities.
    pub fn update_priorities(
        &mut self,
        index: &[impl AsRowIndex],
        priorities: &[f64],
    ) -> Result<u64, PriorityError> {
        let table = self.selection.priorities_mut();
        table.ok_or(PriorityError::NotPrioritised)?.update(index, priorities)
    }

    /// Raises the value with which new rows enter: see
    /// [`Priorities::raise_largest`](crate::Priorities::raise_largest). Fails if the sampler has no
    /// priorities.
    pub fn raise_largest(&mut self, q: f64) -> Result<(), PriorityError> {
        let table = self.selection.priorities_mut();
        table.ok_or(PriorityError::NotPrioritised)?.raise_largest(q)
    }

    /// Sets the exponent of the importance weights from the next batch on, 0 to 1. It has no effect
    /// on draws of largest or smallest priority, which have no weights.
    pub fn set_beta(&mut self, beta: f64) -> Result<(), PriorityError> {
        self.selection.set_beta(beta)
    }

    /// Returns the exponent of the priorities that the table has now, or by rank that of the
    /// sampler's next batch; `None` without priorities.
    #[must_use]
    pub fn alpha(&mut self) -> Option<f64> {
        self.selection.alpha(self.stream.number())
    }

    /// Changes the exponent of the priorities for all samplers of the table, in all processes: see
    /// [`Priorities::set_alpha`](crate::Priorities::set_alpha).
    pub fn set_alpha(&mut self, alpha: f64) -> Result<(), PriorityError> {
        let priorities = self.selection.priorities_mut();
        priorities.ok_or(PriorityError::NotPrioritised)?.set_alpha(alpha)
    }

    /// Returns the options of draws in proportion to priorities; `None` for other draws.
    #[must_use]
    pub fn priority_options(&self) -> Option<&PriorityOptions> {
        self.selection.priority_options()
    }

    /// Returns the number of items drawn or gathered so far, items drawn ahead by a thread
    /// included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.counts.sampled()
    }

    /// Returns the number of draws discarded so far because a writer overwrote their rows.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.counts.lapped()
    }

    /// Returns the totals and distributions of the sampler. O(rows) if its selector has a table,
    /// else O(1).
    pub fn stats(&self) -> Result<SamplerStats, SampleError> {
        self.totals().stats()
    }

    /// Returns the totals of the sampler, to be read while it draws.
    #[must_use]
    pub fn totals(&self) -> SamplerTotals {
        SamplerTotals::new(self.ring.clone(), &self.counts, self.selection.selector())
    }

    /// Returns the version of the policy that the learner has published last, to be set. Fails if
    /// the ring has no column `policy_version`.
    pub fn policy_version(&self) -> Result<PolicyVersion, SampleError> {
        self.ring.schema().policy_version().ok_or(SampleError::NoPolicyVersion)?;
        Ok(self.policy_version.clone())
    }

    /// Returns the warnings of the ring handle, those of this sampler included: see
    /// [`Ring::notices`].
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.ring.notices()
    }

    /// Returns the ring that is drawn from.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the seed of the draws.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.options.draws.seed
    }
}

fn check_arenas(plan: &BatchPlan, arenas: &[&mut [u8]]) -> Result<(), SampleError> {
    if arenas.len() != plan.arenas().len() {
        let (arena, got, expected) = (arenas.len(), arenas.len(), plan.arenas().len());
        return Err(SampleError::BadArena { arena, got, expected });
    }
    for (arena, (given, needed)) in arenas.iter().zip(plan.arenas()).enumerate() {
        if given.len() != needed.bytes() {
            let (got, expected) = (given.len(), needed.bytes());
            return Err(SampleError::BadArena { arena, got, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod learned_tests;
#[cfg(test)]
mod tests;
