//! Batches of all that is new.

use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::rollouts::BlockSize;
use super::{MAX_BATCH, Sampler};
use crate::error::SampleError;

impl Sampler {
    /// Draws all that is new, and at most `at_most` items: all items that no sampler of the table
    /// has claimed. So the backlog of a slow learner is one batch. Oldest items come first. With
    /// [`Rollout`](crate::Rollout) an item is a column of the block.
    ///
    /// Waits for the first item, or for the lanes that a rollout needs, as
    /// [`sample`](Self::sample) does; a batch is never empty. Needs
    /// [`TableOptions::consume`](crate::TableOptions::consume). A rate limiter lets the first item
    /// through when it allows one, and counts the others afterwards.
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, Selector, StepColumns, TableOptions,
    ///     WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for t in 0..41_u8 {
    ///     let obs = [f32::from(t)];
    ///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
    /// }
    /// let queue = Selector::Table(TableOptions::consume("train"));
    /// let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(queue))?;
    /// assert_eq!(sampler.sample_new(Some(30))?.len(), 30);
    /// assert_eq!(sampler.sample_new(Some(30))?.len(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sample_new(&mut self, at_most: Option<usize>) -> Result<Batch, SampleError> {
        let most = at_most.unwrap_or(MAX_BATCH);
        if !(1..=MAX_BATCH).contains(&most) {
            return Err(SampleError::BadBatchSize { asked: most, limit: MAX_BATCH });
        }
        if let Some(rollout) = self.options.draws.form.rollout() {
            let size = BlockSize::New(most.min(rollout.most_columns()));
            return self.sample_block(rollout.length, size);
        }
        if !self.selection.has_new_rows() {
            let selector = self.options.selector.as_str();
            return Err(SampleError::NothingIsNew { selector });
        }
        let lapped_before = self.lapped();
        let (mut drawn, items) = self.draw_batch(1, None, |sampler| sampler.drawn_new(most))?;
        self.gate.count(items as u64 - 1);
        let plan = Arc::clone(drawn.plan());
        self.end_batch(items, lapped_before, &plan, &drawn.buffers());
        Ok(drawn)
    }

    /// Returns a batch of what is new with its number of items, and the attempts for each.
    fn drawn_new(&mut self, most: usize) -> Result<((Batch, usize), u64), SampleError> {
        loop {
            let items = self.selection.begin_new(most)?;
            let drawn = if self.gather.plans.have_varying_size() {
                self.drawn_episodes(items)
            } else {
                self.drawn_alike(items)
            };
            match drawn {
                // A writer has overwritten a claimed row: fewer are left.
                Err(SampleError::TooFew { .. }) => {}
                Err(error) => return Err(error),
                Ok((mut drawn, attempts)) => {
                    let plan = Arc::clone(drawn.plan());
                    self.hooks.transform(&self.gate, &plan, &mut drawn.buffers(), 1);
                    return Ok(((drawn, items), attempts / items as u64));
                }
            }
        }
    }

    /// Returns a batch of items of equal size, and the attempts that it took.
    fn drawn_alike(&mut self, items: usize) -> Result<(Batch, u64), SampleError> {
        let mut drawn = self.gather.plans.varying(items)?;
        let plan = Arc::clone(drawn.plan());
        let attempts = if self.selection.has_episodes() {
            self.fill_episodes(&plan, &mut drawn.buffers())?
        } else {
            self.fill_transitions(&plan, &mut drawn.buffers())?
        };
        Ok((drawn, attempts))
    }
}
