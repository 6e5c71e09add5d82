//! The size that `min_size` is compared with: the transitions that can be drawn.
//!
//! The counts give an upper bound of it, `inserts - deletes`, since rows that writers overwrite
//! stay counted. Lanes of short episodes, or lanes of which some are not written, hold fewer
//! transitions than rows, so a `min_size` may never be reached. The size test therefore also holds
//! once as many transitions as the ring holds were inserted since rows were last dropped.

use super::limits::{LimiterCounts, RateLimiter};

/// Known facts of the size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSize {
    /// Transitions that can be drawn, if they were counted.
    pub(crate) drawable: Option<u64>,
    /// Transitions that the ring can hold.
    pub(crate) most: u64,
    /// Inserts at the last drop of rows.
    pub(crate) dropped_at: u64,
}

impl RingSize {
    /// Returns whether as many transitions as the ring holds were inserted since rows were last
    /// dropped.
    pub(crate) fn was_filled(&self, inserts: u64) -> bool {
        inserts >= self.dropped_at.saturating_add(self.most)
    }

    /// Replaces the deletes of `counts` by the transitions that do not count towards the size, so
    /// that `inserts - deletes >= min_size` is the size test. Without a count of `drawable` the
    /// result is a lower bound.
    ///
    /// The size test fails in an empty ring, and then holds from the next insert on, or later.
    pub(crate) fn counted(&self, limits: &RateLimiter, counts: LimiterCounts) -> LimiterCounts {
        let LimiterCounts { inserts, deletes, .. } = counts;
        let min_size = limits.min_size_to_sample();
        let gone = self.drawable.map_or(0, |drawable| inserts.saturating_sub(drawable));
        let when_filled = self.dropped_at.saturating_add(self.most).saturating_sub(min_size);
        let mut deletes = deletes.max(gone).min(when_filled);
        if self.drawable == Some(0) {
            deletes = deletes.max(inserts.saturating_add(1).saturating_sub(min_size));
        }
        LimiterCounts { deletes, ..counts }
    }
}
