//! Blocks: independent draws, with the mass of what could be drawn at the same moment.

use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, BatchBuffers};
use super::gather::{BatchRequest, MissingRows};
use super::named_rows::blank;
use super::plan::BatchPlan;
use super::selection::BlockDraws;
use super::{Sampler, check_arenas};
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::limiter;
use crate::wait::WaitStart;

/// Independent draws of a ring, and the mass that they were drawn from: see [`Sampler::block`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Block {
    /// The drawn items. A rejected item has the index -1 and is zero otherwise. Weights by priority
    /// are relative to the block; `q` and `mass` give those over several rings.
    pub batch: Batch,
    /// Transitions that could be drawn.
    pub count: u64,
    /// Mass of the draws: each was item `i` with the probability `q[i] / mass`. 0 if no transition
    /// could be drawn.
    pub mass: f64,
    /// Mass of each item: 1 for uniform draws, `(priority + eps) ^ alpha` for draws by priority. 0
    /// for a rejected item.
    pub q: Vec<f64>,
    /// Smallest mass of a row; 0 if there is none.
    pub q_min: f64,
    /// Mass with which a new row enters. In a table with
    /// [`InitialPriority::Held`](crate::InitialPriority::Held) it is by the rows of this ring
    /// alone, in another one the largest that was ever given, also by
    /// [`raise_largest`](crate::Priorities::raise_largest).
    pub q_new: f64,
    /// Transitions that the rate limiter had counted; `None` in a ring without one. The rows of the
    /// cut include all of them that the ring still holds.
    pub inserts: Option<u64>,
    /// The cut: the rows of each lane that were readable.
    pub cut: Vec<Range<u64>>,
}

impl Block {
    /// Returns the number of rejected items.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.q.iter().filter(|q| **q <= 0.0).count()
    }
}

impl Sampler {
    /// Draws `items` items independently of each other, and returns the mass that each was drawn
    /// from. A caller that draws from several rings chooses a ring for each item in proportion to
    /// the masses of their blocks, and takes the next item of that block: every draw then has the
    /// probability `q / sum of masses`.
    ///
    /// All draws are among the rows of one moment, the [cut](Block::cut): the rows of each lane
    /// that were readable when its counters were read. A transition could be drawn if it is in the
    /// cut and the sampler may return it: it has a successor, and boundary and form accept its
    /// window. [`count`](Block::count) and, of uniform draws, [`mass`](Block::mass) are those of
    /// these transitions. The mass of draws by priority is that of one state of the table, which
    /// may have further rows.
    ///
    /// An item is drawn once. If its row may not be drawn, or if a writer overwrites it before it
    /// is copied, the item is rejected: the caller must choose a ring again. A draw that were
    /// repeated here would give the ring's other rows the mass of the rejected one.
    ///
    /// Waits for the rate limiter like [`sample`](Self::sample), which counts the items that were
    /// not rejected. If the limiter lets a draw through, and there is nothing to draw, all items
    /// are rejected, and the mass is 0. Keeps the index of starts: O(new rows + `items`).
    ///
    /// Fails for whole episodes, rollouts, hindsight, strata, limits to ages, an exponent of
    /// priorities that can change, and selectors other than uniform and by priority.
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for t in 0..=50_u8 {
    ///     let obs = [f32::from(t)];
    ///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
    /// }
    /// let block = ring.sampler(SamplerOptions::seeded(7))?.block(32)?;
    /// assert_eq!((block.count, block.mass, block.rejected()), (50, 50.0, 0));
    /// assert_eq!((block.batch.len(), block.q[0], block.cut), (32, 1.0, vec![0..51]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block(&mut self, items: usize) -> Result<Block, SampleError> {
        self.check_blocks()?;
        let mut batch = self.blank(items)?;
        let plan = Arc::clone(batch.plan());
        let mut arenas = batch.buffers();
        check_arenas(&plan, &arenas)?;
        let lapped_before = self.lapped();
        let (mut is_held, since) = (false, self.gate.is_limited().then(WaitStart::now));
        let (draws, facts) = loop {
            let drawn = self.draw_batch(items, since, |sampler| {
                // The count comes first: the rows that it counts are published, and in the cut.
                let inserts = limiter::inserts(sampler.ring.store());
                sampler.selection.begin_block_draws()?;
                let count = sampler.selection.eligible();
                is_held = count == 0 && sampler.gate.holds_empty_ring(&sampler.ring);
                if is_held {
                    return Err(SampleError::Empty { rows: 0 });
                }
                let cut = sampler.selection.eligibility.ranges().iter().cloned().collect();
                let draws = sampler.fill_block(&plan, &mut arenas)?;
                Ok(((draws, (count, inserts, cut)), items as u64))
            });
            match drawn {
                // Rows were published before the draw could wait for them. The timeout goes on.
                Err(SampleError::Empty { .. }) if is_held => {}
                drawn => break drawn?,
            }
        };
        let BlockDraws { q, mass, q_min, q_new, .. } = draws;
        let accepted = q.iter().filter(|q| **q > 0.0).count();
        if accepted < items {
            self.gate.give_back((items - accepted) as u64);
        }
        self.end_batch(accepted, lapped_before, &plan, &arenas);
        let (count, inserts, cut) = facts;
        Ok(Block { batch, count, mass, q, q_min, q_new, inserts, cut })
    }

    /// Fails if the sampler draws no independent items of known mass.
    fn check_blocks(&self) -> Result<(), SampleError> {
        let hindsight = self.options.hindsight.as_ref().map(|_| "hindsight");
        let excluding = self.selection.excludes_blocks().or(hindsight);
        excluding.map_or(Ok(()), |what| Err(SampleError::NoBlocks { what }))
    }

    /// Draws the items of a block, and copies them.
    fn fill_block(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<BlockDraws, SampleError> {
        let mut draws = self.selection.draw_block(&self.stream, plan.batch())?;
        let index_of = |row: &Option<(usize, u64)>| {
            let lane = row.and_then(|(lane, _)| u32::try_from(lane).ok());
            lane.zip(*row).map_or(RowIndex::NONE, |(lane, (_, seq))| RowIndex::new(lane, seq)).0
        };
        let index: Vec<i64> = draws.rows.iter().map(index_of).collect();
        let request = BatchRequest::Rows(&index, MissingRows::Blank);
        let missing = self.fill(request, plan, arenas)?.missing;
        self.selection.write_weights(self.stream.number(), None, plan, arenas)?;
        let none = vec![RowIndex::NONE.0; plan.batch()];
        for item in missing {
            blank(item, &none, plan, arenas);
            if let Some(q) = draws.q.get_mut(item) {
                *q = 0.0;
            }
        }
        self.hooks.transform(&self.gate, plan, arenas, plan.batch());
        Ok(draws)
    }
}
