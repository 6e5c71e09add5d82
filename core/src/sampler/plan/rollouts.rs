//! Plans of rollouts: time-major blocks.

use backcast_layout::DType;

use super::{BatchPlan, Source};
use crate::batch_key as key;

impl BatchPlan {
    /// Makes arrays `[length, columns, ...]` of those of a plan of `length * columns` single
    /// transitions, and adds a mask.
    pub(crate) fn time_major(self, length: usize, columns: usize) -> Self {
        let places = (self.batch, 1);
        let mut plan = self.with_field(key::MASK, DType::Bool, Source::Mask, places);
        for arena in &mut plan.arenas {
            arena.shape.splice(..1, [length, columns]);
        }
        plan.columns = Some(columns);
        plan
    }

    /// Returns the columns of a block of rollouts; `None` for other batches.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }
}
