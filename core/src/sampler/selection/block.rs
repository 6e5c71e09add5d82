//! Draws of a block: one trial for each item, among the rows of one moment.

use super::Selection;
use super::selector_state::SelectorState;
use crate::error::SampleError;
use crate::priority::PriorityOrder;
use crate::sampler::eligibility::number;
use crate::sampler::rng::CounterRng;
use crate::sampler::selector::Selector;
use crate::sampler::stream::DrawStream;

/// Maximum attempts to read one moment whose rows writers overwrite meanwhile.
const LOOKS: u32 = 16;

/// Draws of the items of a block, and the mass that they were drawn from.
#[derive(Debug)]
pub(in crate::sampler) struct BlockDraws {
    /// Lane and row of each item; `None` if its draw is rejected.
    pub(in crate::sampler) rows: Vec<Option<(usize, u64)>>,
    /// Mass of each item's row; 0 if its draw is rejected.
    pub(in crate::sampler) q: Vec<f64>,
    pub(in crate::sampler) mass: f64,
    pub(in crate::sampler) q_min: f64,
    pub(in crate::sampler) q_new: f64,
}

impl Selection {
    /// Returns what the selector or the form has that excludes blocks, if there is something.
    pub(in crate::sampler) fn excludes_blocks(&self) -> Option<&'static str> {
        if self.windows.rollout().is_some() {
            return Some("rollouts");
        }
        if self.has_episodes() {
            return Some("whole episodes");
        }
        if self.eligibility.is_limited() {
            return Some("max_age");
        }
        match self.selector() {
            Selector::Uniform => None,
            // The masses of rings with different exponents do not compare.
            // A rank is one among the rows of a ring.
            Selector::Priority(options) if options.by == PriorityOrder::Rank => {
                Some("draws by the rank of priorities")
            }
            Selector::Priority(options) if options.alpha.can_change() => {
                Some("an alpha that changes")
            }
            Selector::Priority(options) => options.stratified.then_some("strata of priorities"),
            Selector::Fifo => Some("the selector fifo"),
            Selector::Lifo => Some("the selector lifo"),
            Selector::MaxPriority(_) => Some("draws of the largest priorities"),
            Selector::MinPriority(_) => Some("draws of the smallest priorities"),
            Selector::Recency { .. } => Some("draws by recency"),
            Selector::LaneWeights(_) => Some("lane weights"),
            Selector::LaneStrata => Some("the selector lane_strata"),
            Selector::Table(_) => Some("draws without replacement"),
        }
    }

    /// Reads the rows of one moment: every draw of the block is among them.
    pub(in crate::sampler) fn begin_block_draws(&mut self) -> Result<(), SampleError> {
        if (0..LOOKS).any(|_| self.eligibility.refresh_whole()) {
            Ok(())
        } else {
            Err(SampleError::Outrun { attempts: LOOKS })
        }
    }

    /// Returns the number of transitions that may be drawn, of those read last.
    pub(in crate::sampler) fn eligible(&self) -> u64 {
        self.eligibility.starts().total()
    }

    /// Makes one draw for each item of a block.
    pub(in crate::sampler) fn draw_block(
        &mut self,
        stream: &DrawStream,
        items: usize,
    ) -> Result<BlockDraws, SampleError> {
        let (rng, batch) = (stream.rng(), stream.number());
        let eligible = self.eligible();
        let mut draws = match self.selector.as_deref_mut() {
            Some(SelectorState::Prioritised(of)) => {
                of.draw_block(rng, (batch, items), &self.eligibility)?
            }
            _ => self.draw_uniform_block(rng, (batch, items)),
        };
        if eligible == 0 {
            // Leaves of rows that may not be drawn have no mass without one that may.
            draws.mass = 0.0;
        }
        Ok(draws)
    }

    #[expect(clippy::cast_precision_loss, reason = "rows of a ring")]
    fn draw_uniform_block(&self, rng: &CounterRng, (batch, items): (u64, usize)) -> BlockDraws {
        let (starts, eligible) = (self.eligibility.starts(), self.eligible());
        let row = |item| {
            let (lane, seq) = starts.nth(rng.below_repeated(eligible, batch, number(item))?)?;
            Some((lane as usize, seq))
        };
        let rows: Vec<_> = (0..items).map(row).collect();
        let q = rows.iter().map(|row| if row.is_some() { 1.0 } else { 0.0 }).collect();
        let q_min = if eligible == 0 { 0.0 } else { 1.0 };
        BlockDraws { rows, q, mass: eligible as f64, q_min, q_new: 1.0 }
    }
}
