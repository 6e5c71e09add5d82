//! Tests of the limits against reference formulas.

use super::*;

/// Formulas of Reverb's `RateLimiter::CanSample` and `CanInsert`, in whole numbers scaled so
/// that nothing is rounded.
fn reference(limits: &RateLimiter, counts: LimiterCounts, n: u64) -> (bool, bool) {
    const SCALE: f64 = 4.0;
    #[expect(clippy::cast_possible_truncation, reason = "quarters of small numbers")]
    let scaled = |number: f64| (number * SCALE) as i128;
    let LimiterCounts { inserts, samples, deletes } = counts;
    let [inserts, samples, deletes, n] = [inserts, samples, deletes, n].map(i128::from);
    let ratio = scaled(limits.samples_per_insert);
    let size = i128::from(limits.min_size);
    let beyond = |diff: i128, end: f64| {
        if end.is_infinite() { end > 0.0 } else { diff <= scaled(end) }
    };
    let below = |diff: i128, end: f64| {
        if end.is_infinite() { end < 0.0 } else { diff >= scaled(end) }
    };
    let diff = inserts * ratio - 4 * samples;
    let sample = inserts - deletes >= size && below(diff - 4 * n, limits.min_diff);
    let insert = inserts + n - deletes <= size || beyond(diff + n * ratio, limits.max_diff);
    (sample, insert)
}

fn grid() -> impl Iterator<Item = (RateLimiter, LimiterCounts)> {
    let ratios = [0.25_f64, 0.5, 1.0, 1.5, 4.0, 8.0];
    let limiters = ratios.into_iter().flat_map(|ratio| {
        [1_u64, 2, 10, 100].into_iter().flat_map(move |size| {
            let errors = [ratio.max(1.0), 2.0 * ratio + 3.0, 50.25];
            errors.into_iter().map(move |error| RateLimiter::ratio(ratio, size, error))
        })
    });
    let others = [1_u32, 3, 40].into_iter().flat_map(|count| {
        let size = u64::from(count);
        [
            RateLimiter::queue(size),
            RateLimiter::min_size(size),
            RateLimiter::band(2.0, size, -3.5, 9.0),
            // Bands whose lower or upper end is the lead that the first `size` transitions make.
            RateLimiter::band(2.0, size, 2.0 * f64::from(count), 2.0 * f64::from(count) + 6.0),
            RateLimiter::band(2.0, size, 2.0 * f64::from(count) - 6.0, 2.0 * f64::from(count)),
        ]
    });
    limiters.chain(others).flat_map(|limiter| {
        [0, 1, 2, 5, 9, 10, 11, 50, 99, 100, 101, 130].into_iter().flat_map(move |inserts| {
            [0, 1, 2, 7, 10, 40, 95, 100, 399, 400, 401, 900].into_iter().flat_map(move |samples| {
                [0, 1, 7]
                    .into_iter()
                    .filter(move |deletes| *deletes <= inserts)
                    .map(move |deletes| (limiter, LimiterCounts { inserts, samples, deletes }))
            })
        })
    })
}

#[test]
fn single_transitions_and_items_are_allowed_as_by_the_reference_formulas() {
    let (mut cases, mut allowed) = (0, [0; 2]);
    for (limiter, counts) in grid() {
        let found = (limiter.can_sample(counts, 1), limiter.can_insert(counts, 1));
        assert_eq!(found, reference(&limiter, counts, 1), "{limiter} {counts:?}");
        cases += 1;
        allowed[0] += u32::from(found.0);
        allowed[1] += u32::from(found.1);
        for n in [2, 8, 32, 256] {
            let batch = reference(&limiter, counts, n).0;
            assert_eq!(limiter.can_sample(counts, n), batch, "{limiter} {counts:?} {n}");
            assert_eq!(limiter.can_insert(counts, n), found.1, "{limiter} {counts:?} {n}");
        }
    }
    assert!(cases > 20_000, "{cases}");
    assert!(allowed.iter().all(|n| cases / 20 < *n && *n < cases * 19 / 20), "{allowed:?}");
}

#[test]
fn bounds_are_where_the_decisions_change() {
    for (limiter, counts) in grid() {
        let LimiterCounts { inserts, samples, deletes } = counts;
        let most_in = limiter.most_inserts(samples, deletes);
        let may = limiter.can_insert(counts, 1);
        assert_eq!(may, inserts < most_in, "{limiter} {counts:?} {most_in}");
        let least = limiter.samples_needed(inserts + 1, deletes);
        assert_eq!(may, samples >= least, "{limiter} {counts:?}");
        let most_out = limiter.most_samples(inserts, deletes);
        for n in [1, 2, 8, 256] {
            let may = limiter.can_sample(counts, n);
            assert_eq!(may, samples + n <= most_out, "{limiter} {counts:?} {n} {most_out}");
            let least = limiter.inserts_needed(samples + n, deletes);
            assert_eq!(may, inserts >= least, "{limiter} {counts:?} {n}");
        }
    }
}

/// Products of large counts are rounded: without a second look both sides would wait.
#[test]
fn one_side_is_allowed_at_large_counts_in_the_narrowest_band() {
    for ratio in [0.1, 0.3, 1.0 / 3.0, 1.7, 7.3] {
        let limiter = RateLimiter::ratio(ratio, 10, f64::midpoint(ratio, 1.0));
        let limiter = if limiter.check(10).is_ok() {
            limiter
        } else {
            RateLimiter::ratio(ratio, 10, f64::midpoint(ratio, 1.0) + 1e-9)
        };
        limiter.check(10).unwrap();
        for exponent in [20, 36, 44] {
            let inserts = 1_u64 << exponent;
            let samples = limiter.most_samples(inserts, 0);
            let mut counts = LimiterCounts { inserts, samples, deletes: 0 };
            for step in 0..2_000 {
                let may = (limiter.can_insert(counts, 1), limiter.can_sample(counts, 1));
                assert_ne!(may, (false, false), "{limiter} {counts:?} {step}");
                if may.0 {
                    counts.inserts += 1;
                } else {
                    counts.samples += 1;
                }
            }
        }
    }
}

#[test]
fn bounds_of_large_counts_are_exact() {
    for exponent in 20..46 {
        for (ratio, error) in [(1.0 / 3.0, 7.7), (7.3, 100.0), (256.0, 1e6)] {
            let limiter = RateLimiter::ratio(ratio, 1_000, error);
            for samples in [1 << exponent, (1 << exponent) + 12_345] {
                let most = limiter.most_inserts(samples, 0);
                let counts = |inserts| LimiterCounts { inserts, samples, deletes: 0 };
                assert!(limiter.can_insert(counts(most - 1), 1), "{ratio} {samples}");
                assert!(!limiter.can_insert(counts(most), 1), "{ratio} {samples}");
            }
        }
    }
}

#[test]
fn a_switched_off_limiter_allows_everything() {
    let limiter = RateLimiter::queue(1).enabled(false);
    let counts = LimiterCounts { inserts: 0, samples: 9, deletes: 0 };
    assert!(limiter.can_sample(counts, 100) && limiter.can_insert(counts, 100));
    assert_eq!((limiter.most_inserts(0, 0), limiter.most_samples(0, 0)), (COUNT, COUNT));
    assert_ne!(limiter.to_string(), RateLimiter::queue(1).to_string(), "the text shows it");
}

#[cfg(feature = "serde")]
#[test]
fn limits_are_read_from_json_as_they_were_written() {
    const NONE: f64 = f64::INFINITY;
    for limits in [
        RateLimiter::min_size(3),
        RateLimiter::queue(5),
        RateLimiter::ratio(2.0, 5, 3.0).enabled(false),
        RateLimiter::band(0.5, 1, -2.0, NONE),
        RateLimiter::band(0.5, 1, -NONE, 4.0),
    ] {
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(serde_json::from_str::<RateLimiter>(&text).unwrap(), limits, "{text}");
    }
}

#[test]
fn limits_in_words_name_the_band_only_if_there_is_one() {
    const NONE: f64 = f64::INFINITY;
    for (limits, words) in [
        (RateLimiter::min_size(7), "min_size 7"),
        (RateLimiter::min_size(7).enabled(false), "min_size 7, off"),
        (RateLimiter::ratio(2.0, 5, 3.0), "min_size 5, samples_per_insert 2, error band 7 to 13"),
        (
            RateLimiter::band(0.5, 1, -2.0, NONE),
            "min_size 1, samples_per_insert 0.5, error band -2 to inf",
        ),
        (
            RateLimiter::band(0.5, 1, -NONE, 4.0),
            "min_size 1, samples_per_insert 0.5, error band -inf to 4",
        ),
    ] {
        assert_eq!(limits.to_string(), words);
    }
}

/// The two sides never block each other: in every state that they can reach, one of them may
/// continue.
#[test]
fn limits_that_are_accepted_never_hold_back_both_sides() {
    let limiters = [0.25, 0.3, 1.0, 1.7, 3.0, 8.0].into_iter().flat_map(|ratio| {
        [1, 2, 5].into_iter().flat_map(move |size| {
            [0.5, 1.0, 1.5, 2.0, 4.0, 9.0, 9.5]
                .into_iter()
                .map(move |error| RateLimiter::ratio(ratio, size, error))
                .chain([RateLimiter::queue(size)])
        })
    });
    let mut accepted = 0;
    for limiter in limiters.filter(|limiter| limiter.check(100).is_ok()) {
        accepted += 1;
        let mut dice = 1_u64;
        let mut counts = LimiterCounts::default();
        for _ in 0..2_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let may = (limiter.can_insert(counts, 1), limiter.can_sample(counts, 1));
            assert_ne!(may, (false, false), "{limiter} {counts:?}");
            if may.0 && (!may.1 || dice >> 63 == 0) {
                counts.inserts += 1;
            } else {
                counts.samples += 1;
            }
        }
    }
    assert!(accepted > 30, "{accepted}");
}

#[test]
fn stored_limits_are_bounded_when_they_are_read() {
    let limiter = RateLimiter::ratio(8.0, 1_000, 800.0).no_learner(NoLearner::Error);
    let bytes = limiter.to_bytes();
    assert_eq!(RateLimiter::of_bytes(bytes), Some(limiter));
    assert_eq!(bytes.switches, 0x201, "words of rings made before there was `no_writer`");
    for choice in [NoWriter::Wait, NoWriter::Pass, NoWriter::Error] {
        let with = limiter.no_writer(choice);
        assert_eq!(RateLimiter::of_bytes(with.to_bytes()), Some(with));
    }
    let off = limiter.enabled(false);
    assert_eq!(RateLimiter::of_bytes(off.to_bytes()), Some(off));
    for damaged in [
        LimitBytes::default(),
        LimitBytes { samples_per_insert: f64::NAN.to_bits(), ..bytes },
        LimitBytes { samples_per_insert: 0, ..bytes },
        LimitBytes { min_size: 0, ..bytes },
        LimitBytes { min_size: u64::MAX, ..bytes },
        LimitBytes { min_diff: f64::NAN.to_bits(), ..bytes },
        LimitBytes { max_diff: f64::NEG_INFINITY.to_bits(), ..bytes },
        LimitBytes { switches: 0x301, ..bytes },
        LimitBytes { switches: 0x3_0001, ..bytes },
        LimitBytes { switches: 0x100_0001, ..bytes },
        LimitBytes { switches: 3, ..bytes },
        LimitBytes { switches: u64::MAX, ..bytes },
    ] {
        assert_eq!(RateLimiter::of_bytes(damaged), None, "{damaged:?}");
    }
}

#[test]
fn the_default_error_buffer_is_room_for_1024_items_or_for_64_inserts() {
    for (ratio, items) in
        [(0.25, 1_024), (1.0, 1_024), (16.0, 1_024), (16.5, 1_056), (100.0, 6_400)]
    {
        let found = RateLimiter::default_error_buffer(ratio);
        assert!((found - f64::from(items)).abs() < 1e-9, "{ratio}: {found}");
    }
}

#[test]
fn dropped_transitions_ask_for_draws_by_the_ratio_if_the_band_has_an_upper_end() {
    const NONE: f64 = f64::INFINITY;
    for (limits, dropped, draws) in [
        (RateLimiter::ratio(2.5, 10, 9.0), 3, 7),
        (RateLimiter::ratio(2.5, 10, 9.0), 0, 0),
        (RateLimiter::queue(5), 11, 11),
        (RateLimiter::band(4.0, 1, -NONE, 9.0), 6, 24),
        (RateLimiter::band(4.0, 1, -9.0, NONE), 6, 0),
        (RateLimiter::min_size(3), 6, 0),
        (RateLimiter::queue(5), u64::MAX, COUNT),
        (RateLimiter::ratio(8.0, 10, 9.0), COUNT, COUNT),
    ] {
        assert_eq!(limits.draws_of(dropped), draws, "{limits}, {dropped}");
    }
}

#[test]
fn the_last_count_is_found_from_any_approximation_of_it() {
    let lasts = [0, 1, 2, 4, 5, 9, 1_000, COUNT - 9, COUNT - 5, COUNT - 4, COUNT - 1, COUNT];
    for last in lasts {
        for off in [
            f64::NEG_INFINITY,
            -1e6,
            -9.0,
            -5.0,
            -4.0,
            -3.0,
            -1.0,
            0.0,
            1.0,
            3.0,
            4.0,
            5.0,
            9.0,
            1e6,
            f64::INFINITY,
        ] {
            #[expect(clippy::cast_precision_loss, reason = "below 2^48")]
            let near = last as f64 + off;
            assert_eq!(last_where(near, |count| count <= last), last, "{last} from {near}");
        }
    }
    assert_eq!(last_where(5.0, |_| false), 0);
}
