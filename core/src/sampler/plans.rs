//! Plans of the batches of one sampler, and the memory that they are drawn into.

use std::sync::Arc;

use backcast_layout::LearnedColumn;

use super::MAX_BATCH;
use super::batch::Batch;
use super::columns::SelectedColumns;
use super::options::DrawOptions;
use super::plan::{BatchPlan, ExtraColumns, NStep};
use super::pool::ArenaPool;
use super::window::WindowExtent;
use crate::error::{FormError, SampleError};
use crate::schema::Schema;

/// Extent of single transitions.
const ROWS: WindowExtent = WindowExtent { back: 0, ahead: 0, steps: 0 };

/// Contents of the batches of a sampler, and the plan and the memory of those of the last size.
#[derive(Debug)]
pub(super) struct BatchPlans {
    pub(super) schema: Schema,
    pub(super) options: DrawOptions,
    pub(super) columns: SelectedColumns,
    /// Windows of drawn transitions.
    pub(super) extent: WindowExtent,
    pub(super) n_step: Option<NStep>,
    pub(super) learned: Vec<LearnedColumn>,
    pub(super) has_weight: bool,
    pub(super) has_relabelled: bool,
    pub(super) kept: Option<(Arc<BatchPlan>, Arc<ArenaPool>)>,
    /// Memory of batches whose size is known only when their episodes are drawn.
    pub(super) varying: Arc<ArenaPool>,
}

impl BatchPlans {
    /// Returns the plan of a batch of this size, which is kept for the next batch of the same size.
    pub(super) fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        Ok(self.prepared(batch)?.0)
    }

    /// Returns memory for a batch of this size: zeros, or an earlier batch.
    pub(super) fn blank(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let (plan, pool) = self.prepared(batch)?;
        Batch::of(plan, &pool)
    }

    fn prepared(&mut self, batch: usize) -> Result<(Arc<BatchPlan>, Arc<ArenaPool>), SampleError> {
        if let Some(prepared) = self.kept.as_ref().filter(|(plan, _)| plan.batch() == batch) {
            return Ok(prepared.clone());
        }
        let plan = Arc::new(self.new_plan(batch)?);
        Ok(self.kept.insert((plan, Arc::default())).clone())
    }

    /// Returns this sampler's plan for memory that was allocated by `theirs`.
    pub(super) fn own(&mut self, theirs: &BatchPlan) -> Result<Arc<BatchPlan>, SampleError> {
        let ours = self.plan(theirs.batch())?;
        if !std::ptr::eq(&raw const *ours, theirs) {
            ours.check_memory(theirs)?;
        }
        Ok(ours)
    }

    fn new_plan(&self, batch: usize) -> Result<BatchPlan, SampleError> {
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        if self.options.form.rollout().is_some() {
            return Err(FormError::BlockMemory.into());
        }
        let plan = match self.options.form.episodes() {
            Some(of) => {
                let length = of.fixed_length().ok_or(FormError::VaryingSize)?;
                self.padded(batch, length as usize)
            }
            None => BatchPlan::new(
                &self.schema,
                batch,
                &self.options,
                &self.columns,
                self.extent,
                self.n_step,
                ExtraColumns { weight: self.has_weight, learned: &self.learned },
            ),
        };
        Ok(if self.has_relabelled { plan.with_relabelled() } else { plan })
    }

    /// Returns memory for a batch of this size. No plan is kept: the next size is likely another.
    pub(super) fn varying(&self, batch: usize) -> Result<Batch, SampleError> {
        Batch::of(Arc::new(self.new_plan(batch)?), &self.varying)
    }

    /// Returns memory for a block of `columns` rollouts of `length` transitions.
    pub(super) fn block(&self, length: usize, columns: usize) -> Result<Batch, SampleError> {
        let (places, n_step) = (length.saturating_mul(columns), None);
        let extra = ExtraColumns { weight: false, learned: &self.learned };
        let Self { schema, options, columns: shown, .. } = self;
        let plan = BatchPlan::new(schema, places, options, shown, ROWS, n_step, extra);
        Batch::of(Arc::new(plan.time_major(length, columns)), &self.varying)
    }

    /// Returns whether the size of a batch is known only when its episodes are drawn.
    pub(super) fn have_varying_size(&self) -> bool {
        self.options.form.episodes().is_some_and(|of| of.fixed_length().is_none())
    }

    /// Returns the plan of `batch` padded episodes of up to `length` transitions.
    pub(super) fn padded(&self, batch: usize, length: usize) -> BatchPlan {
        let ahead = (length as u64).saturating_sub(1);
        let (copy, extent) = (self.options.copy, WindowExtent { ahead, ..ROWS });
        let plan = BatchPlan::padded(&self.schema, batch, length, copy, &self.columns, extent);
        if self.has_weight { plan.with_weights((batch, 1)) } else { plan }
    }

    /// Returns the plan of `episodes` episodes that lie one after the other and have `transitions`
    /// transitions together.
    pub(super) fn ragged(&self, episodes: usize, transitions: usize) -> BatchPlan {
        let (columns, extra) = (&self.columns, ExtraColumns::default());
        let plan =
            BatchPlan::new(&self.schema, transitions, &self.options, columns, ROWS, None, extra);
        let plan = plan.with_offsets(episodes);
        if self.has_weight { plan.with_weights((episodes, 0)) } else { plan }
    }
}
