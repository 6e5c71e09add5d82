//! Batches of draws.

use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::gather::BatchRequest;
use super::options::Boundary;
use super::plan::BatchPlan;
use super::{FREQUENT, Sampler, check_arenas};
use crate::error::SampleError;

impl Sampler {
    /// Draws `batch` transitions, with replacement, into a new batch.
    pub fn sample(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let mut drawn = self.blank(batch)?;
        self.sample_over(&mut drawn)?;
        Ok(drawn)
    }

    /// Draws as many transitions as an earlier batch has, and overwrites it with them.
    ///
    /// The batch may be one of another sampler with the same windows over the same columns. After
    /// an error its contents are unspecified.
    pub fn sample_over(&mut self, batch: &mut Batch) -> Result<(), SampleError> {
        let plan = Arc::clone(batch.plan());
        self.sample_into(&plan, &mut batch.buffers())
    }

    /// Draws into the caller's memory, one slice per arena of the plan. Never blocks a writer: rows
    /// overwritten during the copy are drawn again.
    pub fn sample_into(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        self.follow_notices()?;
        let lapped_before = self.lapped();
        self.eligibility.refresh();
        if let Some(prioritised) = &mut self.prioritised {
            let items = (self.batches, plan.batch());
            if !prioritised.begin(&mut self.rng, items, &self.eligibility)? {
                return Err(self.nothing());
            }
        }
        let gathered = self.fill(BatchRequest::Draws(self.batches), &plan, arenas)?;
        if let Some(prioritised) = &self.prioritised {
            prioritised.write_weights(self.batches, &plan, arenas);
        }
        self.eligibility.use_index(gathered.attempts > FREQUENT * plan.batch() as u64);
        self.batches = self.batches.wrapping_add(1);
        self.count(plan.batch(), lapped_before);
        Ok(())
    }

    /// Returns why nothing can be drawn. O(rows).
    pub(super) fn nothing(&self) -> SampleError {
        let longest = self.eligibility.longest_run();
        // With other boundaries than these, a start found here was published after the draws.
        let (history, future) = (self.selection.longest().unwrap_or(1), self.options.future);
        if longest > 0 && self.options.boundary == Boundary::Clamp {
            return SampleError::NoHistory { history, longest };
        }
        if longest == 0 || self.options.boundary != Boundary::Reject {
            return SampleError::Empty { rows: self.eligibility.ranges().published() };
        }
        let needed = u64::from(history) + u64::from(future);
        SampleError::NoWindow { history, future, needed, longest }
    }
}
