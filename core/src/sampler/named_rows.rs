//! Batches of the transitions that an index names.

use std::sync::Arc;

use super::batch::{Batch, Memory};
use super::gather::{BatchRequest, MissingRows};
use super::plan::{BatchPlan, Source};
use super::{Sampler, check_arenas};
use crate::error::SampleError;

impl Sampler {
    /// Copies the transitions that `index` names into memory of their own.
    pub fn gather(&mut self, index: &[i64]) -> Result<Batch, SampleError> {
        self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        self.gather_over(index, &mut drawn)?;
        Ok(drawn)
    }

    /// Copies the transitions that `index` names over what an earlier batch of as many holds; see
    /// [`sample_over`](Self::sample_over).
    pub fn gather_over(&mut self, index: &[i64], batch: &mut Batch) -> Result<(), SampleError> {
        let plan = Arc::clone(batch.plan());
        self.gather_into(index, &plan, &mut batch.buffers())
    }

    /// Copies the transitions that `index` names into memory of the caller's.
    pub fn gather_into(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let plan = self.plan_of_rows(index, plan, arenas)?;
        self.gather_named(BatchRequest::Rows(index, MissingRows::Refuse), &plan, arenas)?;
        Ok(())
    }

    /// Copies those of the transitions that `index` names which the ring holds, into memory of their
    /// own, and returns which were there. Everything of the others is zero, but `index`, which is as it
    /// was given.
    ///
    /// Missing are rows that were overwritten, dropped, or not published yet, those that begin no
    /// transition, and those whose window the boundary refuses.
    pub fn gather_present(&mut self, index: &[i64]) -> Result<(Batch, Vec<bool>), SampleError> {
        let plan = self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        let found = self.gather_present_into(index, &plan, &mut drawn.buffers())?;
        Ok((drawn, found))
    }

    /// Gathers as [`gather_present`](Self::gather_present) does, into the caller's memory.
    pub fn gather_present_into(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
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
        Ok(found)
    }

    /// As [`plan`](Self::plan), for the transitions that `index` names; errors speak of it.
    pub fn plan_of(&mut self, index: &[i64]) -> Result<Arc<BatchPlan>, SampleError> {
        self.plan(index.len()).map_err(|error| match error {
            SampleError::BadBatchSize { asked: given, limit } => {
                SampleError::BadIndexCount { given, limit }
            }
            error => error,
        })
    }

    /// Returns the plan to gather named rows by, for memory that was allocated by another one.
    fn plan_of_rows(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &[&mut [u8]],
    ) -> Result<Arc<BatchPlan>, SampleError> {
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        if index.len() != plan.batch() {
            let (got, expected) = (index.len(), plan.batch());
            return Err(SampleError::WrongIndexCount { got, expected });
        }
        Ok(plan)
    }

    /// Gathers named rows, and returns the items that are missing.
    fn gather_named(
        &mut self,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<usize>, SampleError> {
        self.heed_notices()?;
        let lapped_before = self.lapped();
        self.eligibility.refresh_ranges();
        let gathered = self.fill(request, plan, arenas)?;
        self.count(plan.batch(), lapped_before);
        Ok(gathered.missing)
    }
}

/// Zeroes the places of a missing item, and sets its index to the one that was given.
fn blank(item: usize, index: &[i64], plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
    for (arena, field) in arenas.iter_mut().zip(plan.fields()) {
        let bytes = field.rows * field.width;
        let Some(place) = arena.get_mut(item * bytes..(item + 1) * bytes) else { continue };
        match (field.source, index.get(item)) {
            (Source::Index, Some(index)) => place.copy_from_slice(&index.to_ne_bytes()),
            _ => place.fill(0),
        }
    }
}
