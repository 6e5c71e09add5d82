//! Uniform draws over the transitions of a ring.

mod batch;
mod columns;
mod draw;
mod eligibility;
mod gather;
mod named_rows;
mod open;
mod options;
mod plan;
mod pool;
mod prefetcher;
mod rng;
mod state;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_layout::{ClaimedReader, Kind, SegmentError};

pub use self::batch::{Batch, Memory};
use self::columns::SelectedColumns;
pub use self::columns::{ColumnWindow, ColumnWindows, SamplerSpec};
use self::eligibility::Eligibility;
pub use self::gather::GatherTarget;
use self::gather::Scratch;
pub use self::options::{BadBoundary, Boundary, SamplerOptions};
use self::plan::NStep;
pub use self::plan::{Arena, Axis, BatchPlan, View};
pub use self::pool::{Block, Pool};
pub use self::prefetcher::{Batches, BatchesOptions};
pub use self::rng::CounterRng;
pub use self::state::SamplerState;
use self::window::WindowExtent;
use crate::error::SampleError;
use crate::ring::Ring;
use crate::row_header::RowHeader;

/// The index is kept up to date while the last batch needed more draws an item than this.
const FREQUENT: u64 = 3;
/// Batches after which the ring's name is looked up: files that were deleted by hand leave no notice.
const NAME_CHECKS: u32 = 1024;
/// Largest batch: items are counted in 32 bits.
const MAX_BATCH: usize = 1 << 24;

/// Draws batches of transitions, uniform over the ring's transitions and not over its lanes.
///
/// The same seed on the same data gives the same batches, in any process and language. A batch
/// that is dropped leaves its memory to the next one of the same size: a loop that draws, learns
/// and drops touches no new memory. At most two batches' worth is kept, until the sampler goes.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    options: SamplerOptions,
    columns: Option<ColumnWindows>,
    selection: SelectedColumns,
    rng: CounterRng,
    extent: WindowExtent,
    n_step: Option<NStep>,
    batches: u64,
    eligibility: Eligibility,
    /// Memory for the headers of irregular items, and for the sums of n-step returns.
    scratch: Vec<RowHeader>,
    sums: Scratch,
    plan: Option<(Arc<BatchPlan>, Arc<Pool>)>,
    slot: Option<ClaimedReader>,
    counters: Arc<Counters>,
    /// Notices that were heeded, and batches until the ring's name is looked up without one.
    notices: u32,
    name_check: u32,
}

/// Totals of a sampler; read while its thread draws ahead.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sampled: AtomicU64,
    pub(crate) lapped: AtomicU64,
}

impl Sampler {
    /// Fails if the ring has lost its name and its handle says so. One relaxed load, most of the time.
    fn heed_notices(&mut self) -> Result<(), SampleError> {
        self.name_check = self.name_check.saturating_sub(1);
        if self.ring.store().notices() == self.notices && self.name_check > 0 {
            return Ok(());
        }
        let notices = self.ring.store().notices();
        if self.ring.refuses_as_unlinked() {
            let name = self.ring.name().unwrap_or_default().to_owned();
            return Err(SegmentError::Unlinked { kind: Kind::Ring, name }.into());
        }
        (self.notices, self.name_check) = (notices, NAME_CHECKS);
        Ok(())
    }

    /// Draws batches of one size in a thread, ahead of the caller: the same batches in the same
    /// order as repeated [`sample`](Self::sample) would draw from the same data.
    ///
    /// The thread starts when the first batch is asked for. See [`Batches`].
    pub fn batches(
        self,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Batches<Batch>, SampleError> {
        Batches::new(self, batch, options)
    }

    /// As [`batches`](Self::batches), into the caller's memory in turn, of which one is in the
    /// caller's hands and all others are ahead; the options' own prefetch is not used. Give each
    /// back with [`Batches::refill`].
    pub fn batches_over<M: Memory>(
        self,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Batches<M>, SampleError> {
        Batches::over(self, batch, memory, options)
    }

    /// Memory for a batch, with nothing drawn into it yet: zeros, or what was there before.
    pub fn blank(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let (plan, pool) = self.prepared(batch)?;
        Batch::of(plan, &pool)
    }

    /// The memory that a batch of this size needs. Kept: the next batch of the same size costs
    /// nothing here.
    pub fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        Ok(self.prepared(batch)?.0)
    }

    fn prepared(&mut self, batch: usize) -> Result<(Arc<BatchPlan>, Arc<Pool>), SampleError> {
        if let Some(prepared) = self.plan.as_ref().filter(|(plan, _)| plan.batch() == batch) {
            return Ok(prepared.clone());
        }
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let plan = BatchPlan::new(
            self.ring.schema(),
            batch,
            &self.options,
            &self.selection,
            self.extent,
            self.n_step,
        );
        Ok(self.plan.insert((Arc::new(plan), Arc::default())).clone())
    }

    /// Returns the plan to fill by, for memory that was allocated by another one.
    fn own_plan(&mut self, theirs: &BatchPlan) -> Result<Arc<BatchPlan>, SampleError> {
        let ours = self.plan(theirs.batch())?;
        if !std::ptr::eq(&raw const *ours, theirs) {
            ours.check_memory(theirs)?;
        }
        Ok(ours)
    }

    fn count(&mut self, rows: usize, lapped_before: u64) {
        self.counters.sampled.fetch_add(rows as u64, Relaxed);
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped() - lapped_before);
        }
    }

    /// Goes back to an earlier batch: what was drawn since will be drawn again.
    pub(crate) fn rewind(&mut self, batch: u64) {
        self.batches = batch;
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Where it is: a sampler made of this goes on with the very draws of this one.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let spec = SamplerSpec { options: self.options, columns: self.columns.clone() };
        SamplerState::of(&spec, self.batches)
    }

    /// Rows drawn so far, those drawn ahead by a thread included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.counters.sampled.load(Relaxed)
    }

    /// Draws thrown away so far because a writer overwrote the rows meanwhile.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.counters.lapped.load(Relaxed)
    }

    /// The ring drawn from.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The seed of the draws.
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
mod tests;
