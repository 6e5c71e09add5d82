//! Stream of the random draws of a seed, and the position of one learner in it.

use super::options::DrawOptions;
use super::rng::CounterRng;
use crate::error::SampleError;

/// Random draws of a sampler, batch after batch.
///
/// Learners that share a seed take turns: of the batches that the seed has, each draws those whose
/// number is its rank modulo the number of learners.
#[derive(Debug)]
pub(super) struct DrawStream {
    rng: CounterRng,
    /// Rank of this learner, below the number of learners.
    rank: u32,
    learners: u32,
    /// Batches that this learner has drawn.
    batches: u64,
    /// Items of the last batch, unless it was taken back.
    last: Option<usize>,
}

impl DrawStream {
    /// Returns the stream of a seed, at the batch where the options continue.
    pub(super) fn of(options: &DrawOptions) -> Result<Self, SampleError> {
        let (rank, world_size) = options.rank;
        if rank >= world_size {
            return Err(SampleError::BadRank { rank, world_size });
        }
        let (rng, batches) = (CounterRng::seeded(options.seed), options.batches);
        Ok(Self { rng, rank, learners: world_size, batches, last: None })
    }

    pub(super) fn rng(&self) -> &CounterRng {
        &self.rng
    }

    pub(super) fn rng_mut(&mut self) -> &mut CounterRng {
        &mut self.rng
    }

    /// Returns the batches that this learner has drawn: the number of its next batch.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Returns the number that the next batch has among those of all learners.
    pub(super) fn number(&self) -> u64 {
        self.batches.wrapping_mul(self.learners.into()).wrapping_add(self.rank.into())
    }

    /// Goes on to the next batch: one of `items` items was drawn.
    pub(super) fn advance(&mut self, items: usize) {
        (self.batches, self.last) = (self.batches.wrapping_add(1), Some(items));
    }

    /// Returns the items of batch `batch` if it is the last one that was drawn, and was not taken
    /// back.
    pub(super) fn last(&self, batch: u64) -> Option<usize> {
        self.last.filter(|_| self.batches == batch.wrapping_add(1))
    }

    /// Goes back to an earlier batch, so that it and all later ones are drawn again.
    pub(super) fn rewind(&mut self, batch: u64) {
        (self.batches, self.last) = (batch, None);
    }
}
