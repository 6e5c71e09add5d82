//! Batches that a thread draws ahead, while the ring changes between the steps of its draws.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::limiter::limits::RateLimiter;
use crate::{BatchesOptions, SamplerOptions, Selector, TableOptions};

const ITEMS: usize = 20;

#[test]
fn batches_drawn_ahead_are_whole_and_counted_once_if_the_ring_changes_under_the_thread() {
    let plain = || SamplerOptions::seeded(5);
    let pass = || Selector::Table(TableOptions::epoch("pass"));
    for case in [plain(), plain().priority(linear()), plain().selector(pass())] {
        for point in POINTS {
            let limits = RateLimiter::min_size(10);
            let mut source = Source::heap(options(60).limiter(limits)).filled(400);
            let ring = source.ring.clone();
            let mut sampler = ring.sampler(case.clone()).unwrap();
            let (mut reached, changes) = (0_u64, Arc::new(AtomicU64::new(0)));
            let made = Arc::clone(&changes);
            // The rows of a batch go away under it, and the batch is drawn anew.
            sampler.points.run(move |at| {
                reached += u64::from(at == point);
                if at == point && reached % 40 == 2 {
                    source.overwrite_all();
                    made.fetch_add(1, Relaxed);
                }
            });
            let mut batches = sampler.batches(ITEMS, BatchesOptions::prefetch(2)).unwrap();
            for _ in 0..8 {
                check(&batches.next().unwrap().unwrap());
            }
            let mut sampler = batches.into_sampler();
            assert!(changes.load(Relaxed) > 0, "{point:?}");
            // The limiter has counted what was returned, and not what was drawn ahead.
            let counted = || ring.limiter().unwrap().counts().samples;
            assert_eq!(counted(), 8 * ITEMS as u64, "{point:?}, {case:?}");
            assert_eq!(sampler.next_batch(), 8);
            check(&sampler.sample(ITEMS).unwrap());
            assert_eq!(counted(), 9 * ITEMS as u64, "{point:?}, {case:?}");
        }
    }
}
