//! The size that `min_size` is compared with: the transitions that can be drawn.
//!
//! A ring with short episodes, or with lanes that no writer fills, may never hold `min_size`
//! transitions. The size test therefore also holds once as many transitions as the ring can hold
//! were inserted since rows were last dropped.

use super::limits::{LimiterCounts, RateLimiter};

/// Known facts about the size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSize {
    /// Transitions that can be drawn.
    pub(crate) drawable: u64,
    /// Transitions that the ring can hold.
    pub(crate) most: u64,
    /// Inserts at the last drop of rows.
    pub(crate) dropped_at: u64,
}

impl RingSize {
    /// Returns whether as many transitions as the ring can hold were inserted since rows were last
    /// dropped.
    pub(crate) fn was_filled(&self, inserts: u64) -> bool {
        inserts >= self.dropped_at.saturating_add(self.most)
    }

    /// Replaces the deletes of `counts` by the transitions that do not count towards the size, so
    /// that `inserts - deletes >= min_size` is the size test.
    ///
    /// The size test fails in an empty ring. It can hold again from the next insert on.
    pub(crate) fn counted(&self, limits: &RateLimiter, counts: LimiterCounts) -> LimiterCounts {
        let LimiterCounts { inserts, .. } = counts;
        let min_size = limits.min_size_to_sample();
        let when_filled = self.dropped_at.saturating_add(self.most).saturating_sub(min_size);
        let mut deletes = inserts.saturating_sub(self.drawable).min(when_filled);
        if self.drawable == 0 {
            deletes = deletes.max(inserts.saturating_add(1).saturating_sub(min_size));
        }
        LimiterCounts { deletes, ..counts }
    }
}
