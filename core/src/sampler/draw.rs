//! Draws batches.

use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::gate::found_too_few;
use super::gather::{BatchRequest, Gathered, RowSource};
use super::plan::BatchPlan;
use super::points::Point;
use super::rollouts::BlockSize;
use super::{Sampler, check_arenas};
use crate::error::SampleError;
use crate::wait::WaitStart;

/// Maximum draws of a batch of which writers overwrite too many rows.
const REDRAWS: u32 = 16;

impl Sampler {
    /// Draws `batch` items into a new batch: transitions, or items of another
    /// [`Form`](crate::Form).
    ///
    /// Waits for the ring's rate limiter, and for rows of a table that consumes them, as long as
    /// [`set_timeout`](Self::set_timeout) says. The interrupt of the ring's handle ends a wait
    /// ([`Ring::interrupted_by`](crate::Ring::interrupted_by)).
    pub fn sample(&mut self, batch: usize) -> Result<Batch, SampleError> {
        if let Some(rollout) = self.options.draws.form.rollout() {
            let limit = rollout.most_columns();
            if !(1..=limit).contains(&batch) {
                return Err(SampleError::BadBatchSize { asked: batch, limit });
            }
            self.selection.check_columns(batch, rollout.length, &self.ring)?;
            return self.sample_block(rollout.length, BlockSize::Columns(batch));
        }
        if self.gather.plans.have_varying_size() {
            return self.sample_episodes(batch);
        }
        let mut drawn = self.blank(batch)?;
        let plan = Arc::clone(drawn.plan());
        self.sample_into(&plan, &mut drawn.buffers())?;
        Ok(drawn)
    }

    /// Draws as many items as an earlier batch has, and overwrites it with them.
    ///
    /// The batch may come from another sampler whose batches have the same keys, types, shapes and
    /// overlaps. After an error the contents of the batch are unspecified.
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
        self.sample_into_since(plan, arenas, None)
    }

    /// Draws like [`sample_into`](Self::sample_into). A wait that continues an interrupted one
    /// began at `since`.
    pub(super) fn sample_into_since(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        since: Option<WaitStart>,
    ) -> Result<(), SampleError> {
        let plan = self.gather.plans.own(plan)?;
        check_arenas(&plan, arenas)?;
        let (items, lapped_before) = (plan.batch(), self.lapped());
        self.draw_batch(items, since, |sampler| Ok(((), sampler.draw_taken(&plan, arenas)?)))?;
        self.end_batch(items, lapped_before, &plan, arenas);
        Ok(())
    }

    /// Draws a batch with `draw`, which returns the batch and the number of attempts. Waits for the
    /// rate limiter first, and for rows if the selector awaits them. A wait that continues an
    /// interrupted one began at `since`.
    pub(super) fn draw_batch<T>(
        &mut self,
        items: usize,
        mut since: Option<WaitStart>,
        mut draw: impl FnMut(&mut Self) -> Result<(T, u64), SampleError>,
    ) -> Result<T, SampleError> {
        self.hooks.check_rewards()?;
        self.selection.check_beta()?;
        self.follow_notices()?;
        self.selection.check_batch(items, &self.ring)?;
        if self.gate.is_limited() {
            let since = since.get_or_insert_with(WaitStart::now);
            self.gate.take_turn(&self.ring, (items, false), since)?;
        }
        let (drawn, attempts) = loop {
            match self.draw_awaited(&mut draw, &mut since) {
                Ok(drawn) => break drawn,
                Err(error) => {
                    self.gate.give_back(items as u64);
                    if !self.gate.was_emptied(&self.ring, &error) {
                        return Err(error);
                    }
                    let since = since.get_or_insert_with(WaitStart::now);
                    self.gate.take_turn(&self.ring, (items, true), since)?;
                }
            }
        };
        self.selection.finish(self.stream.batches(), items, attempts);
        Ok(drawn)
    }

    /// Counts a batch that was drawn, and goes on to the next one.
    pub(super) fn end_batch(
        &mut self,
        items: usize,
        lapped_before: u64,
        plan: &BatchPlan,
        arenas: &[&mut [u8]],
    ) {
        self.counts.add_ages(self.stream.batches(), plan, arenas);
        self.stream.advance(items);
        self.counts.add_batch(items, lapped_before);
    }

    /// Draws a batch, and waits while a table of claims has too few rows for it.
    ///
    /// A selector chooses among the rows of the moment at which it began. If it finds too few since
    /// writers overwrote some of them meanwhile, the batch is drawn anew.
    fn draw_awaited<T>(
        &mut self,
        draw: &mut impl FnMut(&mut Self) -> Result<T, SampleError>,
        since: &mut Option<WaitStart>,
    ) -> Result<T, SampleError> {
        let (mut redraws, mut too_old) = (0, 0_u64);
        loop {
            self.selection.eligibility.begin_draw();
            self.points.reach(Point::Read);
            let lapped_before = self.lapped();
            let drawn = draw(self);
            if self.selection.eligibility.is_limited() {
                let skipped = self.selection.take_too_old();
                self.counts.add_too_old(skipped.transitions);
                too_old = too_old.saturating_add(skipped.transitions);
                self.gate.count(skipped.items);
            }
            match drawn {
                Err(SampleError::TooFew { selector, wanted, .. })
                    if self.selection.awaits_rows() =>
                {
                    let (ring, selection) = (&self.ring, &self.selection);
                    let since = since.get_or_insert_with(WaitStart::now);
                    self.gate.await_rows(ring, selection, (selector, wanted), too_old, since)?;
                }
                Err(error)
                    if redraws < REDRAWS
                        && found_too_few(&error)
                        && (self.lapped() > lapped_before
                            || self.selection.eligibility.has_lost_rows()) =>
                {
                    redraws += 1;
                }
                drawn => return drawn,
            }
        }
    }

    /// Draws a batch that the rate limiter has let through. Returns the attempts that it took.
    fn draw_taken(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        let attempts = if self.selection.has_episodes() {
            self.fill_episodes(plan, arenas)?
        } else {
            self.fill_transitions(plan, arenas)?
        };
        self.hooks.transform(&self.gate, plan, arenas, plan.batch());
        Ok(attempts)
    }

    /// Draws transitions, with their weights and goals. Returns the attempts that it took.
    pub(super) fn fill_transitions(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        self.selection.begin(&mut self.stream, plan.batch())?;
        let number = self.stream.number();
        let gathered = self.fill(BatchRequest::Draws(number), plan, arenas)?;
        self.selection.write_weights(number, None, plan, arenas)?;
        let Self { ring, stream, hooks, gate, points, selection, .. } = self;
        points.reach(Point::Weighed);
        let oldest = selection.eligibility.oldest();
        hooks.relabel((ring, stream, gate), oldest, plan, arenas, points)?;
        Ok(gathered.attempts)
    }

    /// Gathers the rows of a batch, which are chosen.
    pub(super) fn fill(
        &mut self,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Gathered, SampleError> {
        let Self { stream, selection, gather, counts, points, .. } = self;
        let source = RowSource { rng: stream.rng_mut(), selection, counts };
        points.reach(Point::Chosen);
        let gathered = gather.fill(source, request, plan, arenas, points)?;
        selection.eligibility.write_policy_ages(plan, arenas);
        points.reach(Point::Gathered);
        Ok(gathered)
    }
}
