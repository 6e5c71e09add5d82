//! Batches of draws.

use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::form::Sequence;
use super::gather::BatchRequest;
use super::options::Boundary;
use super::plan::BatchPlan;
use super::selection::RowSelection;
use super::{FREQUENT, Sampler, check_arenas};
use crate::error::{FormError, SampleError};
use crate::wait::WaitStart;

/// Maximum attempts to begin a batch while no row has a priority.
const LOOKS: u32 = 16;

impl Sampler {
    /// Draws `batch` transitions into a new batch.
    ///
    /// Waits while the ring's rate limiter holds it back, as long as
    /// [`set_timeout`](Self::set_timeout) says. The interrupt of the ring's handle ends a wait
    /// ([`Ring::interrupted_by`](crate::Ring::interrupted_by)).
    pub fn sample(&mut self, batch: usize) -> Result<Batch, SampleError> {
        if self.has_varying_size() {
            return self.sample_episodes(batch);
        }
        let mut drawn = self.blank(batch)?;
        let plan = Arc::clone(drawn.plan());
        self.sample_into(&plan, &mut drawn.buffers())?;
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
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        self.check_rewards()?;
        self.check_beta()?;
        self.follow_notices()?;
        let lapped_before = self.lapped();
        self.check_claimed(plan.batch())?;
        let mut since = since;
        if self.is_limited() {
            let since = *since.get_or_insert_with(WaitStart::now);
            self.take_turn((plan.batch(), false), since)?;
        }
        let attempts = loop {
            match self.draw_awaited(&plan, arenas, since) {
                Ok(attempts) => break attempts,
                Err(error) => {
                    self.give_back(plan.batch() as u64);
                    if !self.was_emptied(&error) {
                        return Err(error);
                    }
                    let since = *since.get_or_insert_with(WaitStart::now);
                    self.take_turn((plan.batch(), true), since)?;
                }
            }
        };
        if let Some(chosen) = &mut self.chosen {
            chosen.finish(self.batches);
        }
        self.eligibility.use_index(attempts > FREQUENT * plan.batch() as u64);
        self.count_ages(&plan, arenas);
        (self.batches, self.last) = (self.batches.wrapping_add(1), Some(plan.batch()));
        self.count(plan.batch(), lapped_before);
        Ok(())
    }

    /// Refuses a batch with more items than a table of claims can ever offer.
    #[inline]
    fn check_claimed(&self, batch: usize) -> Result<(), SampleError> {
        match self.chosen.as_deref() {
            Some(RowSelection::Claimed(claimed)) => {
                claimed.check(batch, self.ring.max_len()).or_else(|_| {
                    // The ring may have grown since this handle mapped its lanes.
                    self.ring.follow();
                    claimed.check(batch, self.ring.max_len())
                })
            }
            _ => Ok(()),
        }
    }

    /// Draws a batch, and waits while a table that consumes its rows has too few.
    fn draw_awaited(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        since: Option<WaitStart>,
    ) -> Result<u64, SampleError> {
        let mut began = since;
        loop {
            self.eligibility.refresh();
            match (self.draw_taken(plan, arenas), &self.chosen) {
                (Err(SampleError::TooFew { selector, wanted, .. }), Some(chosen))
                    if matches!(**chosen, RowSelection::Claimed(_)) =>
                {
                    let began = *began.get_or_insert_with(WaitStart::now);
                    self.await_rows((selector, wanted), began)?;
                }
                (drawn, _) => return drawn,
            }
        }
    }

    /// Draws a batch that the rate limiter has let through. Returns the attempts that it took.
    fn draw_taken(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        if self.episodes.is_some() {
            let attempts = self.fill_episodes(plan, arenas)?;
            self.transformed(plan, arenas, plan.batch());
            return Ok(attempts);
        }
        if self.chosen.is_some() {
            self.begin_chosen(plan.batch())?;
        }
        let number = self.batch_number();
        let gathered = self.fill(BatchRequest::Draws(number), plan, arenas)?;
        if let Some(RowSelection::Prioritised(prioritised)) = self.chosen.as_deref_mut() {
            prioritised.write_weights(number, plan, arenas);
        }
        self.relabel(number, plan, arenas)?;
        self.transformed(plan, arenas, plan.batch());
        Ok(gathered.attempts)
    }

    /// Begins a batch of a selector. If this process was stopped after it read the ranges, all rows
    /// may be overwritten before they are chosen or get leaves: the ranges are read again. Ranges
    /// that did not change meanwhile have nothing to draw.
    fn begin_chosen(&mut self, items: usize) -> Result<(), SampleError> {
        let batch = self.batch_number();
        let Some(chosen) = &mut self.chosen else { return Ok(()) };
        let has_leaves = chosen.priorities_mut().is_some();
        for _ in 0..LOOKS {
            if chosen.begin(&mut self.rng, (batch, items), &mut self.eligibility)? {
                return Ok(());
            }
            let overtaken = self.eligibility.is_overtaken();
            let read: Vec<_> = self.eligibility.ranges().iter().cloned().collect();
            self.eligibility.refresh();
            let moved = has_leaves && !self.eligibility.ranges().iter().eq(&read);
            if !overtaken && !moved {
                return Err(self.nothing());
            }
        }
        Err(SampleError::Outrun { attempts: LOOKS })
    }

    /// Returns the error that says why nothing can be drawn. O(rows).
    pub(super) fn nothing(&self) -> SampleError {
        let longest = self.eligibility.longest_run();
        if let Some(Sequence { length, .. }) = self.options.form.sequence().filter(|_| longest > 0)
        {
            let whole = self.options.boundary == Boundary::Reject;
            return FormError::NoSequence { length, whole, longest }.into();
        }
        // Under `Mask` a single transition is enough. If `longest` is above 0 there, a transition
        // was published after the draws failed, and `Empty` is returned.
        let (history, future) = (self.selection.longest().unwrap_or(1), self.options.future);
        let needed = match self.options.boundary {
            Boundary::Reject => u64::from(history) + u64::from(future),
            Boundary::Mask | Boundary::Clamp => 1,
        };
        if longest >= needed && !self.rule.is_all() {
            let (first, stride) = self.rule.parts();
            return SampleError::NoStride { history, stride, first, longest };
        }
        if longest > 0 && self.options.boundary == Boundary::Clamp {
            return SampleError::NoHistory { history, longest };
        }
        if longest == 0 || self.options.boundary != Boundary::Reject {
            return SampleError::Empty { rows: self.eligibility.ranges().readable_rows() };
        }
        SampleError::NoWindow { history, future, needed, longest }
    }
}
