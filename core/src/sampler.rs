//! Draws over the transitions of a ring, uniform or by priority.

mod batch;
mod columns;
mod draw;
mod eligibility;
mod episodes;
mod form;
mod gather;
mod hindsight;
mod hooks;
mod limited;
mod named_rows;
mod open;
mod options;
mod plan;
mod pool;
mod prefetcher;
mod prioritised;
mod rng;
mod selection;
mod selector;
mod state;
mod stats;
mod steps;
mod transition_order;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use backcast_layout::{ClaimedReader, Kind, LearnedColumn, SegmentError};

pub use self::batch::{Batch, BatchBuffers, BatchMut};
use self::columns::SelectedColumns;
pub use self::columns::{ColumnWindow, ColumnWindows};
use self::eligibility::Eligibility;
use self::episodes::EpisodeDraws;
pub use self::episodes::{EpisodeLayout, WholeEpisodes};
pub use self::form::{Form, Sequence};
pub use self::gather::GatherTarget;
use self::gather::Scratch;
use self::hindsight::GoalDraws;
pub use self::hindsight::{GoalStrategy, Hindsight};
pub use self::hooks::Goals;
use self::hooks::Hooks;
use self::options::DrawOptions;
pub use self::options::{BadBoundary, Boundary, SamplerOptions};
pub use self::plan::{Arena, Axis, BatchPlan, View};
use self::plan::{ExtraColumns, NStep};
pub use self::pool::{ArenaBlock, ArenaPool};
pub use self::prefetcher::{Batches, BatchesOptions};
use self::prioritised::PrioritisedDraws;
pub use self::rng::CounterRng;
use self::selection::RowSelection;
pub use self::selector::Selector;
pub use self::state::SamplerState;
use self::stats::AgeCounters;
pub use self::stats::SamplerStats;
pub use self::steps::WindowSteps;
pub use self::transition_order::TransitionOrder;
use self::window::{StartRule, WindowExtent};
use crate::error::{PriorityError, SampleError};
use crate::index::AsRowIndex;
use crate::limiter::draw_gate::DrawGate;
use crate::priority::{PriorityOptions, check_beta};
use crate::ring::Ring;
use crate::ring::notices::Notice;
use crate::row_header::RowHeader;
use crate::table::{LearnedOptions, LearnedValues};
use crate::wait::Interrupt;

/// Attempts per item of the last batch above which the start index is kept up to date.
const FREQUENT: u64 = 3;
/// Batches after which the names of the ring and of the tables are checked: files deleted by hand
/// leave no mark.
const NAME_CHECKS: u32 = 1024;
/// Largest number of items in a batch: they are counted in 32 bits.
pub const MAX_BATCH: usize = 1 << 24;

/// Draws batches of transitions, uniform over the ring's transitions and not over its lanes, or as
/// a [`Selector`] says.
///
/// Equal seeds on equal data give equal batches, in any process and language. A batch that
/// is dropped leaves the memory of its rows to the next one of the same size, so that a training
/// loop maps no new memory. Its columns and its index are small allocations of every batch. Memory
/// of at most two batches is kept, until the sampler is dropped.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    options: DrawOptions,
    columns: Option<ColumnWindows>,
    selection: SelectedColumns,
    rng: CounterRng,
    extent: WindowExtent,
    rule: StartRule,
    n_step: Option<NStep>,
    batches: u64,
    /// Items of the last batch, if it can be taken back.
    last: Option<usize>,
    eligibility: Eligibility,
    /// Maximum wait for new rows.
    timeout: Option<Duration>,
    /// Interrupt of the waits of this sampler.
    interrupt: Interrupt,
    /// Selection of rows; `None` for uniform draws.
    chosen: Option<Box<RowSelection>>,
    /// Goals to relabel in hindsight, if any.
    hindsight: Option<Box<GoalDraws>>,
    hooks: Hooks,
    /// Learned columns that batches show.
    learned: Option<(LearnedOptions, LearnedValues)>,
    /// Draws whole episodes in place of transitions.
    episodes: Option<Box<EpisodeDraws>>,
    /// Memory for the headers of irregular items, and for the sums of n-step returns.
    scratch: Vec<RowHeader>,
    sums: Scratch,
    plan: Option<(Arc<BatchPlan>, Arc<ArenaPool>)>,
    /// Gate of the rate limiter, if the ring has one.
    gate: Option<DrawGate>,
    slot: Option<ClaimedReader>,
    counters: Arc<Counters>,
    /// Notices of the ring that were handled, and batches until its name is checked without one.
    notices: u32,
    name_check: u32,
}

/// Totals of a sampler; read while its thread draws ahead.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sampled: AtomicU64,
    pub(crate) lapped: AtomicU64,
    /// Ages of drawn rows.
    ages: AgeCounters,
}

impl Sampler {
    /// Fails if the ring is unlinked and its handle refuses such rings, or if a table of this
    /// sampler was removed. Usually makes one relaxed load.
    fn follow_notices(&mut self) -> Result<(), SampleError> {
        self.name_check = self.name_check.saturating_sub(1);
        if self.ring.store().notices() == self.notices && self.name_check > 0 {
            return Ok(());
        }
        let notices = self.ring.store().notices();
        if self.ring.refuses_as_unlinked() {
            let name = self.ring.name().unwrap_or_default().to_owned();
            return Err(SegmentError::Unlinked { kind: Kind::Ring, name }.into());
        }
        // An error keeps the old notices, so that the next draw fails too.
        if let Some(chosen) = &mut self.chosen {
            chosen.check_not_removed()?;
        }
        if let Some((_, values)) = &self.learned {
            values.check_not_removed()?;
        }
        (self.notices, self.name_check) = (notices, NAME_CHECKS);
        Ok(())
    }

    /// Draws batches of one size in a thread, ahead of the caller. They are the batches that
    /// repeated calls of [`sample`](Self::sample) would draw from the same data, in the same order.
    ///
    /// The thread starts with the first call of `next`. See [`Batches`].
    pub fn batches(
        self,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Batches<Batch>, SampleError> {
        Batches::new(self, batch, options)
    }

    /// Draws batches ahead of the caller into the caller's memory; see [`batches`](Self::batches).
    /// The caller holds one element of `memory`, and the thread fills the others; the prefetch of
    /// `options` is ignored. Give each back with [`Batches::refill`].
    pub fn batches_over<M: BatchBuffers>(
        self,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Batches<M>, SampleError> {
        Batches::over(self, batch, memory, options)
    }

    /// Returns memory for a batch, with nothing drawn into it yet: zeros, or an earlier batch.
    pub fn blank(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let (plan, pool) = self.prepared(batch)?;
        Batch::of(plan, &pool)
    }

    /// Returns the memory that a batch of this size needs. The plan is kept for the next batch of
    /// the same size.
    pub fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        Ok(self.prepared(batch)?.0)
    }

    fn prepared(&mut self, batch: usize) -> Result<(Arc<BatchPlan>, Arc<ArenaPool>), SampleError> {
        if let Some(prepared) = self.plan.as_ref().filter(|(plan, _)| plan.batch() == batch) {
            return Ok(prepared.clone());
        }
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let plan = match self.plan_of_episodes(batch) {
            Some(plan) => plan?,
            None => BatchPlan::new(
                self.ring.schema(),
                batch,
                &self.options,
                &self.selection,
                self.extent,
                self.n_step,
                ExtraColumns {
                    weight: self.prioritised().is_some(),
                    learned: self.learned_columns(),
                },
            ),
        };
        let plan = if self.hindsight.is_some() { plan.with_relabelled() } else { plan };
        Ok(self.plan.insert((Arc::new(plan), Arc::default())).clone())
    }

    /// Returns this sampler's plan for memory that was allocated by `theirs`.
    fn own_plan(&mut self, theirs: &BatchPlan) -> Result<Arc<BatchPlan>, SampleError> {
        let ours = self.plan(theirs.batch())?;
        if !std::ptr::eq(&raw const *ours, theirs) {
            ours.check_memory(theirs)?;
        }
        Ok(ours)
    }

    /// Returns the learned columns that batches show.
    fn learned_columns(&self) -> &[LearnedColumn] {
        self.learned.as_ref().map_or(&[], |(options, _)| options.columns())
    }

    fn count(&mut self, rows: usize, lapped_before: u64) {
        self.counters.sampled.fetch_add(rows as u64, Relaxed);
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped() - lapped_before);
        }
    }

    /// Takes back batch number `batch`, if it is the last one that was drawn: the next call draws
    /// it again. For a batch that could not be used, such as when a function of the caller failed.
    ///
    /// The next call draws the same rows if the ring still holds them. It uses the same claims of a
    /// table, and the rate limiter counts the batch once; [`sampled`](Self::sampled) and the ages
    /// count both draws. Returns whether the batch was taken back.
    pub fn take_back(&mut self, batch: u64) -> bool {
        if self.batches != batch.wrapping_add(1) {
            return false;
        }
        let Some(items) = self.last.take() else { return false };
        self.give_back(items as u64);
        self.rewind(batch);
        true
    }

    /// Returns the number of the next batch: the batches that this sampler has drawn.
    #[must_use]
    pub fn next_batch(&self) -> u64 {
        self.batches
    }

    /// Goes back to an earlier batch, so that it and all later ones are drawn again.
    pub(crate) fn rewind(&mut self, batch: u64) {
        (self.batches, self.last) = (batch, None);
        if let Some(chosen) = &mut self.chosen {
            chosen.rewind(batch);
        }
    }

    /// Keeps the claimed rows of the last `batches` batches, at least 1, so that
    /// [`rewind`](Self::rewind) draws them again.
    pub(crate) fn keep(&mut self, batches: usize) {
        if let Some(chosen) = &mut self.chosen {
            chosen.keep(batches);
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the options and the position in the stream of draws. A sampler that is opened with
    /// this state continues with the same draws.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let selector = self.chosen.as_ref().map_or(Selector::Uniform, |chosen| chosen.selector());
        let columns = self.columns.clone();
        let hindsight = self.hindsight.as_ref().map(|goals| goals.options().clone());
        let learned = self.learned.as_ref().map(|(options, _)| options.clone());
        let draws = self.options;
        let options = SamplerOptions { draws, columns, selector, hindsight, learned };
        SamplerState::of(options, self.batches)
    }

    /// Returns the number that the random draws of the next batch have, of those of all learners.
    fn batch_number(&self) -> u64 {
        let (rank, world_size) = self.options.rank;
        self.batches.wrapping_mul(world_size.into()).wrapping_add(rank.into())
    }

    /// Sets the priorities of rows, and returns how many were dropped because their row is
    /// overwritten, or is no transition: see [`Priorities::update`](crate::Priorities::update).
    /// Fails if the sampler has no priorities.
    pub fn update_priorities(
        &mut self,
        index: &[impl AsRowIndex],
        priorities: &[f64],
    ) -> Result<u64, PriorityError> {
        let table = self.chosen.as_mut().and_then(|chosen| chosen.priorities_mut());
        table.ok_or(PriorityError::NotPrioritised)?.update(index, priorities)
    }

    /// Sets the exponent of the importance weights from the next batch on, 0 to 1. It has no effect
    /// on draws of largest or smallest priority, which have no weights.
    pub fn set_beta(&mut self, beta: f64) -> Result<(), PriorityError> {
        match self.chosen.as_deref_mut() {
            Some(RowSelection::Prioritised(prioritised)) => prioritised.set_beta(beta),
            Some(RowSelection::Extreme(_)) => check_beta(beta),
            _ => Err(PriorityError::NotPrioritised),
        }
    }

    /// Fails if beta is a function of the caller that has given no number yet.
    fn check_beta(&self) -> Result<(), SampleError> {
        match self.prioritised() {
            Some(prioritised) if prioritised.lacks_beta() => Err(PriorityError::NoBeta.into()),
            _ => Ok(()),
        }
    }

    /// Returns the options of draws in proportion to priorities; `None` for other draws.
    #[must_use]
    pub fn priority_options(&self) -> Option<&PriorityOptions> {
        self.prioritised().map(PrioritisedDraws::options)
    }

    /// Returns the draws in proportion to priorities.
    fn prioritised(&self) -> Option<&PrioritisedDraws> {
        match self.chosen.as_deref() {
            Some(RowSelection::Prioritised(prioritised)) => Some(prioritised),
            _ => None,
        }
    }

    /// Returns the number of rows drawn so far, rows drawn ahead by a thread included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.counters.sampled.load(Relaxed)
    }

    /// Returns the number of draws discarded so far because a writer overwrote their rows.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.counters.lapped.load(Relaxed)
    }

    /// Returns what its handle of the ring warned of, this sampler included: see
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
        self.options.seed
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
