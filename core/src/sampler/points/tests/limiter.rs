//! Counts of a rate limiter, whatever happens to the rows of a batch that it has counted.

use std::time::Duration;

use super::*;
use crate::error::{LimitError, SampleError};
use crate::limiter::limits::RateLimiter;
use crate::{GoalStrategy, Hindsight, SamplerOptions, Selector, TableOptions, WholeEpisodes};

fn filled() -> Source {
    Source::heap(options(60).limiter(RateLimiter::min_size(10))).filled(400)
}

fn samples(ring: &Ring) -> u64 {
    ring.limiter().unwrap().counts().samples
}

/// Changes after which the ring has other rows, fewer rows, or none.
const CHANGES: [fn(&mut Source); 4] =
    [Source::overwrite_all, Source::clear, Source::empty, Source::lose_all];

fn cases() -> Vec<SamplerOptions> {
    let plain = || SamplerOptions::seeded(5);
    let hindsight = Hindsight::new(GoalStrategy::Future);
    vec![
        plain(),
        plain().priority(linear()),
        plain().selector(Selector::Fifo),
        plain().selector(Selector::Table(TableOptions::consume("queue"))),
        plain().hindsight(hindsight.columns("obs/achieved", "obs/desired")),
        plain().episodes(WholeEpisodes::ragged()),
    ]
}

#[test]
fn a_batch_counts_once_and_a_failed_one_not_at_all() {
    let mut failed = 0;
    for case in cases() {
        for change in CHANGES {
            for point in POINTS {
                let mut source = filled();
                let ring = source.ring.clone();
                let mut sampler = ring.sampler(case.clone()).unwrap().rewards(|_, _| {});
                sampler.set_timeout(Some(Duration::ZERO));
                let made = change_at(&mut sampler, point, move || change(&mut source));
                let drawn = match sampler.sample(4) {
                    Ok(_) => 4,
                    Err(
                        SampleError::Limited(LimitError::TimedOut(_))
                        | SampleError::TimedOut { .. }
                        | SampleError::TooFew { .. },
                    ) => 0,
                    Err(error) => panic!("{error} at {point:?}, {case:?}"),
                };
                failed += u32::from(drawn == 0);
                let counted = (samples(&ring), sampler.sampled());
                assert_eq!(counted, (drawn, drawn), "{point:?}, {case:?}");
                assert!(made.is_made(), "{point:?}, {case:?}");
            }
        }
    }
    assert!(failed > 0, "the test proves nothing of batches that fail");
}

#[test]
fn a_ring_that_is_emptied_under_a_draw_holds_the_next_one_back_until_it_is_filled() {
    for point in POINTS {
        let mut source = filled();
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(SamplerOptions::seeded(5)).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let cleared = ring.clone();
        let made = change_at(&mut sampler, point, move || {
            cleared.clear().unwrap();
        });
        // The batch shows the rows that were readable when it began.
        check(&sampler.sample(4).unwrap());
        assert!(made.is_made());
        let refused = sampler.sample(4).unwrap_err();
        assert!(matches!(refused, SampleError::Limited(LimitError::TimedOut(_))), "{refused}");
        assert_eq!(samples(&ring), 4);
        source.append(2 * (LENGTH + 1));
        check(&sampler.sample(4).unwrap());
        assert_eq!(samples(&ring), 8);
    }
}
