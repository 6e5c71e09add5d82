//! Batches of the transitions that an index names.

use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::gather::{BatchRequest, MissingRows};
use super::open::refuse_taken_keys;
use super::plan::{BatchPlan, Source};
use super::{Sampler, check_arenas};
use crate::batch_key::FOUND;
use crate::error::{FormError, SampleError};
use crate::index::{AsRowIndex, numbers};

impl Sampler {
    /// Copies the transitions that `index` names into a new batch. Fails if one of them is not
    /// found; see [`gather_present`](Self::gather_present).
    pub fn gather(&mut self, index: &[impl AsRowIndex]) -> Result<Batch, SampleError> {
        self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        self.gather_over(index, &mut drawn)?;
        Ok(drawn)
    }

    /// Overwrites an earlier batch of the same size with the transitions that `index` names; see
    /// [`sample_over`](Self::sample_over).
    pub fn gather_over(
        &mut self,
        index: &[impl AsRowIndex],
        batch: &mut Batch,
    ) -> Result<(), SampleError> {
        let plan = Arc::clone(batch.plan());
        self.gather_into(index, &plan, &mut batch.buffers())
    }

    /// Copies the transitions that `index` names into the caller's memory.
    pub fn gather_into(
        &mut self,
        index: &[impl AsRowIndex],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let index = numbers(index);
        let plan = self.plan_of_rows(index, plan, arenas)?;
        self.gather_named(BatchRequest::Rows(index, MissingRows::Refuse), &plan, arenas)?;
        self.hooks.transform(&self.gate, &plan, arenas, 0);
        Ok(())
    }

    /// Copies the transitions that `index` names and the ring still holds into a new batch, and
    /// returns which were found. Items that were not found are zero, except their `index`.
    ///
    /// A row is not found if it was overwritten, dropped, or not published yet, if no transition
    /// starts at it, or if the boundary refuses its window. Fails if the ring, of an earlier
    /// version, has a column `found`, which is a key of such batches in Python.
    pub fn gather_present(
        &mut self,
        index: &[impl AsRowIndex],
    ) -> Result<(Batch, Vec<bool>), SampleError> {
        let plan = self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        let found = self.gather_present_into(index, &plan, &mut drawn.buffers())?;
        Ok((drawn, found))
    }

    /// Copies the transitions that `index` names and the ring still holds into the caller's memory,
    /// and returns which were found; see [`gather_present`](Self::gather_present).
    pub fn gather_present_into(
        &mut self,
        index: &[impl AsRowIndex],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
        let index = numbers(index);
        refuse_taken_keys(self.ring.schema(), &self.gather.plans.columns, &[FOUND])?;
        let plan = self.plan_of_rows(index, plan, arenas)?;
        let request = BatchRequest::Rows(index, MissingRows::Blank);
        let missing = self.gather_named(request, &plan, arenas)?;
        let mut found = vec![true; index.len()];
        for item in missing {
            blank(item, index, &plan, arenas);
            if let Some(found) = found.get_mut(item) {
                *found = false;
            }
        }
        self.hooks.transform(&self.gate, &plan, arenas, 0);
        Ok(found)
    }

    /// Returns the [`plan`](Self::plan) of a batch with the transitions that `index` names. Errors
    /// give the length of `index`.
    pub fn plan_of(&mut self, index: &[impl AsRowIndex]) -> Result<Arc<BatchPlan>, SampleError> {
        self.refuse_named_rows()?;
        self.plan(index.len()).map_err(|error| match error {
            SampleError::BadBatchSize { asked: given, limit } => {
                SampleError::BadIndexCount { given, limit }
            }
            error => error,
        })
    }

    /// Returns this sampler's plan for memory and an index of the same number of items.
    fn plan_of_rows(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &[&mut [u8]],
    ) -> Result<Arc<BatchPlan>, SampleError> {
        self.refuse_named_rows()?;
        let plan = self.gather.plans.own(plan)?;
        check_arenas(&plan, arenas)?;
        if index.len() != plan.batch() {
            let (got, expected) = (index.len(), plan.batch());
            return Err(SampleError::WrongIndexCount { got, expected });
        }
        Ok(plan)
    }

    /// Refuses an index of rows if whole episodes or rollouts are drawn.
    fn refuse_named_rows(&self) -> Result<(), SampleError> {
        let of_rollouts = self.options.draws.form.rollout().is_some();
        if self.selection.has_episodes() || of_rollouts {
            Err(FormError::NamedRows.into())
        } else {
            Ok(())
        }
    }

    /// Gathers named rows and returns the items that were not found.
    fn gather_named(
        &mut self,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<usize>, SampleError> {
        self.selection.check_beta()?;
        self.follow_notices()?;
        let lapped_before = self.lapped();
        self.selection.eligibility.begin_gather();
        let gathered = self.fill(request, plan, arenas)?;
        if let BatchRequest::Rows(index, _) = request {
            self.selection.write_weights(self.stream.number(), Some(index), plan, arenas)?;
        }
        self.counts.add_batch(plan.batch(), lapped_before);
        Ok(gathered.missing)
    }
}

/// Zeroes the places of a missing item, and sets its index to the one that was given.
pub(super) fn blank(item: usize, index: &[i64], plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
    for (arena, field) in arenas.iter_mut().zip(plan.fields()) {
        let bytes = field.rows * field.width;
        let Some(place) = arena.get_mut(item * bytes..(item + 1) * bytes) else { continue };
        match (field.source, index.get(item)) {
            (Source::Index, Some(index)) => place.copy_from_slice(&index.to_ne_bytes()),
            _ => place.fill(0),
        }
    }
}
