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

#[cfg(test)]
mod tests {
    use super::*;

    /// The size test holds with enough transitions, or once the ring was filled, but not in an
    /// empty ring.
    #[test]
    fn the_size_test_holds_with_enough_transitions_or_in_a_ring_that_was_filled() {
        for (most, min_size, dropped_at) in
            [(4, 1, 0), (4, 4, 0), (4, 4, 11), (9, 1, 5), (9, 3, 0), (9, 3, 5), (9, 8, 2)]
        {
            let limits = RateLimiter::min_size(min_size);
            for inserts in 0..30_u64 {
                for drawable in 0..=inserts.min(most) {
                    let size = RingSize { drawable, most, dropped_at };
                    let counts = LimiterCounts { inserts, samples: 2, deletes: 77 };
                    let counted = size.counted(&limits, counts);
                    assert_eq!((counted.inserts, counted.samples), (inserts, 2));
                    let was_filled = inserts >= dropped_at + most;
                    assert_eq!(size.was_filled(inserts), was_filled, "{size:?} {inserts}");
                    let holds_at =
                        |inserts: u64| inserts.saturating_sub(counted.deletes) >= min_size;
                    let holds = drawable > 0 && (drawable >= min_size || was_filled);
                    assert_eq!(holds_at(inserts), holds, "{size:?} {inserts} {min_size}");
                    assert!(!was_filled || holds_at(inserts + 1), "{size:?} {inserts}");
                }
            }
        }
    }
}
