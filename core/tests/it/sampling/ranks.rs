//! Draws by the rank of priorities: frequencies, weights, strata, and what goes with them.

use std::collections::BTreeMap;

use backcast_core::{
    Alpha, Boundary, InitialPriority, PriorityError, PriorityOptions, PriorityOrder, Ring,
    SampleError, Sampler, SamplerOptions, SegmentError, Sequence, WeightNorm, WholeEpisodes,
};

use crate::sampling::priorities::{chi_square, sampler, spread, transitions, weights};
use crate::sampling::{Actor, End, ring};

fn by_rank(alpha: impl Into<Alpha>) -> PriorityOptions {
    PriorityOptions::alpha(alpha).eps(0.0).by(PriorityOrder::Rank)
}

fn prioritised(of: impl Fn(usize) -> f64) -> (Ring, Vec<i64>, Vec<f64>) {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    (0..20).for_each(|n| actor.episode(1 + n % 6, End::Terminated));
    let index = transitions(&ring);
    let priorities: Vec<f64> = (0..index.len()).map(of).collect();
    let dropped = ring.priorities(&by_rank(0.7)).unwrap().update(&index, &priorities).unwrap();
    assert_eq!(dropped, 0);
    (ring, index, priorities)
}

/// Returns `rank ^ -alpha` of each priority. Those that agree in their highest five bits share the
/// mean of their ranks.
fn masses(priorities: &[f64], alpha: f64) -> Vec<f64> {
    let mut rows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (row, priority) in priorities.iter().enumerate() {
        // A priority of 0 has one unit.
        let priority = (priority * 16_777_216.0).round().max(1.0);
        rows.entry(priority.to_bits() >> 48).or_default().push(row);
    }
    let (mut masses, mut rank) = (vec![0.0; priorities.len()], 0_u32);
    for tied in rows.values().rev() {
        let powers = tied.iter().map(|_| {
            rank += 1;
            f64::from(rank).powf(-alpha)
        });
        let mean = powers.sum::<f64>() / f64::from(u32::try_from(tied.len()).unwrap());
        for row in tied {
            masses[*row] = mean;
        }
    }
    masses
}

/// Powers of 1.07, so that every rank is that of one row.
fn apart(n: usize) -> f64 {
    0.01 * 1.07_f64.powi(i32::try_from(n * 37 % 101).unwrap())
}

#[test]
fn draws_follow_the_ranks_and_other_draws_do_not() {
    for of in [apart, spread, |_: usize| 3.0, |n: usize| if n == 5 { 60_000.0 } else { 0.0 }] {
        let (ring, index, priorities) = prioritised(of);
        for alpha in [0.0, 0.7, 1.0, 1.9] {
            let expected = masses(&priorities, alpha);
            for seed in 0..3 {
                let mut learner = sampler(&ring, seed, by_rank(alpha));
                let (found, most) = chi_square(&mut learner, &index, &expected);
                assert!(found < most, "alpha {alpha}, seed {seed}: {found} of at most {most}");
            }
        }
    }
    let (ring, index, priorities) = prioritised(apart);
    let mut sorted = priorities.clone();
    sorted.sort_by(f64::total_cmp);
    let below = |of: &f64| sorted.partition_point(|priority| priority < of);
    let rank = |of: &f64| f64::from(u32::try_from(sorted.len() - below(of)).unwrap());
    let paper: Vec<f64> = priorities.iter().map(|of| rank(of).recip()).collect();
    assert!(masses(&priorities, 1.0).iter().zip(&paper).all(|(a, b)| (a - b).abs() < 1e-12));
    // Mutants: another exponent, draws by priority, and uniform draws.
    let mut other = sampler(&ring, 1, by_rank(0.9));
    let plain = PriorityOptions::alpha(1.0).eps(0.0).table("plain");
    ring.priorities(&plain).unwrap().update(&index, &priorities).unwrap();
    let mut plain = sampler(&ring, 1, plain);
    let mut uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    for learner in [&mut other, &mut plain, &mut uniform] {
        let (found, most) = chi_square(learner, &index, &paper);
        assert!(found > 2.0 * most, "{found} of at most {most}");
    }
}

#[test]
fn weights_are_those_of_the_ranks() {
    for of in [apart, spread] {
        let (ring, index, priorities) = prioritised(of);
        let expected = masses(&priorities, 0.7);
        let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
        for beta in [0.0, 0.4, 1.0] {
            let options = by_rank(0.7).beta(beta);
            let mut by_table = sampler(&ring, 2, options.clone().normalize(WeightNorm::Table));
            for (found, mass) in weights(&mut by_table, &index).iter().zip(&expected) {
                assert!((found - (least / mass).powf(beta)).abs() < 1e-6, "{beta}: {found}");
            }
            let batch = sampler(&ring, 3, options).sample(40).unwrap();
            let of_row = |row: &i64| expected[index.iter().position(|at| at == row).unwrap()];
            let drawn: Vec<f64> = batch.index().iter().map(|row| of_row(&row.0)).collect();
            let least = drawn.iter().copied().fold(f64::INFINITY, f64::min);
            let found = batch.column::<f32>("weight").unwrap();
            for (found, mass) in found.iter().zip(&drawn) {
                let expected = (least / mass).powf(beta);
                assert!((f64::from(*found) - expected).abs() < 1e-6, "{beta}: {found}");
            }
        }
    }
}

#[test]
fn strata_are_ranges_of_ranks() {
    let (ring, index, priorities) = prioritised(apart);
    let expected = masses(&priorities, 0.7);
    let total: f64 = expected.iter().sum();
    let counted = |learner: &mut Sampler| -> Vec<f64> {
        let drawn = learner.sample(500).unwrap().index();
        let count = |index: &i64| drawn.iter().filter(|drawn| *drawn == index).count();
        index.iter().map(|index| f64::from(u32::try_from(count(index)).unwrap())).collect()
    };
    let within = |counts: &[f64]| {
        let pairs = counts.iter().zip(&expected);
        pairs.into_iter().all(|(count, mass)| (count - 500.0 * mass / total).abs() < 2.0)
    };
    let mut stratified = sampler(&ring, 4, by_rank(0.7).stratified(true));
    assert!((0..20).all(|_| within(&counted(&mut stratified))));
    let mut plain = sampler(&ring, 4, by_rank(0.7));
    assert!((0..20).any(|_| !within(&counted(&mut plain))), "independent draws pass");
    // The items of a batch are in the order of their ranks.
    let batch = stratified.sample(64).unwrap();
    let place = |row: &i64| priorities[index.iter().position(|at| at == row).unwrap()];
    let drawn: Vec<f64> = batch.index().iter().map(|row| place(&row.0)).collect();
    assert!(drawn.windows(2).all(|pair| pair[0] >= pair[1]), "{drawn:?}");
}

#[test]
fn rejected_rows_leave_the_ratios_of_the_others() {
    let (ring, index, priorities) = prioritised(spread);
    let all = masses(&priorities, 1.0);
    let whole = SamplerOptions::seeded(5).priority(by_rank(1.0)).history(3);
    let young = SamplerOptions::seeded(6).priority(by_rank(1.0)).max_age(40);
    // So young that most attempts are rejected, and the last ones read all young rows.
    let youngest = SamplerOptions::seeded(7).priority(by_rank(1.0)).max_age(9);
    for options in [whole.boundary(Boundary::Reject), young, youngest] {
        let mut learner = ring.sampler(options).unwrap();
        let mut drawn: Vec<i64> =
            (0..60).flat_map(|_| learner.sample(200).unwrap().index()).map(|row| row.0).collect();
        drawn.sort_unstable();
        drawn.dedup();
        let pairs = index.iter().zip(&all).filter(|(row, _)| drawn.contains(row));
        let (index, expected): (Vec<i64>, Vec<f64>) = pairs.unzip();
        assert!((5..all.len()).contains(&index.len()), "{} rows", index.len());
        let (found, most) = chi_square(&mut learner, &index, &expected);
        assert!(found < most, "{found} of at most {most}");
    }
}

#[test]
fn every_sampler_has_its_own_exponent() {
    let (ring, index, priorities) = prioritised(apart);
    let mut steep = sampler(&ring, 1, by_rank(1.5));
    let annealed = Alpha::Annealed { first: 0.8, last: 0.2, batches: 50 };
    let mut fading = sampler(&ring, 2, by_rank(annealed).beta(1.0));
    assert_eq!((steep.alpha(), fading.alpha()), (Some(1.5), Some(0.8)));
    for batch in 0..50_u32 {
        let share = f64::from(batch) / 50.0;
        let alpha = 0.8 - 0.6 * share;
        assert!((fading.alpha().unwrap() - alpha).abs() < 1e-12);
        // Weights of named rows are by the exponent of the next batch, and those of the batch too.
        let expected = masses(&priorities, alpha);
        let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
        let found = weights(&mut fading, &index);
        assert!(found.iter().zip(&expected).all(|(w, mass)| (w - least / mass).abs() < 1e-6));
        fading.sample(4).unwrap();
    }
    assert_eq!((steep.alpha(), fading.alpha()), (Some(1.5), Some(0.2)));
    for (learner, alpha) in [(&mut steep, 1.5), (&mut fading, 0.2)] {
        let (found, most) = chi_square(learner, &index, &masses(&priorities, alpha));
        assert!(found < most, "alpha {alpha}: {found} of at most {most}");
    }
    // A state goes on with the exponent of its batch.
    let state = sampler(&ring, 9, by_rank(annealed)).state();
    assert_eq!(ring.sampler(state).unwrap().alpha(), Some(0.8));
}

/// New rows enter with the largest priority, and share the first ranks.
#[test]
fn new_rows_share_the_ranks_of_the_largest_priority() {
    for (initial, first) in [(InitialPriority::Ever, 9.0), (InitialPriority::Held, 4.0)] {
        let ring = ring(60);
        let mut actor = Actor::of(&ring);
        actor.episode(30, End::Open);
        let options = by_rank(1.0).initial(initial);
        let mut table = ring.priorities(&options).unwrap();
        let index = transitions(&ring);
        table.update(&index, &vec![9.0; index.len()]).unwrap();
        let given: Vec<f64> = (1..).map(|n| 4.0 / f64::from(n)).take(index.len()).collect();
        table.update(&index, &given).unwrap();
        actor.episode(8, End::Open);
        let all = transitions(&ring);
        let mut given = given;
        given.resize(all.len(), first);
        let mut learner = sampler(&ring, 3, options);
        let (found, most) = chi_square(&mut learner, &all, &masses(&given, 1.0));
        assert!(found < most, "{initial:?}: {found} of at most {most}");
    }
}

#[test]
fn starts_of_sequences_and_of_episodes_have_ranks_among_themselves() {
    let sequences = SamplerOptions::seeded(2).sequence(Sequence::new(4).stride(2));
    let episodes = SamplerOptions::seeded(2).episodes(WholeEpisodes::padded());
    for (table, options) in [("sequences", sequences), ("episodes", episodes)] {
        let ring = ring(100);
        let mut actor = Actor::of(&ring);
        (0..20).for_each(|n| actor.episode(1 + n % 6, End::Terminated));
        let mut learner = ring.sampler(options.priority(by_rank(1.0).table(table))).unwrap();
        let starts = |learner: &mut Sampler| -> Vec<i64> {
            let batches = (0..40).flat_map(|_| {
                let batch = learner.sample(50).unwrap();
                let width = batch.index().len() / 50;
                batch.index().into_iter().step_by(width).map(|row| row.0).collect::<Vec<_>>()
            });
            let mut found: Vec<i64> = batches.collect();
            found.sort_unstable();
            found
        };
        let mut index = starts(&mut learner);
        index.dedup();
        let given: Vec<f64> = (0..index.len()).map(apart).collect();
        assert_eq!(learner.update_priorities(&index, &given).unwrap(), 0);
        let expected = masses(&given, 1.0);
        let (total, draws): (f64, f64) = (expected.iter().sum(), 40.0 * 50.0);
        let found = starts(&mut learner);
        for (row, mass) in index.iter().zip(&expected) {
            let count = found.iter().filter(|index| *index == row).count();
            let (count, mean) = (f64::from(u32::try_from(count).unwrap()), draws * mass / total);
            assert!((count - mean).abs() < 5.0 * mean.sqrt() + 1.0, "{table}: {count} of {mean}");
        }
    }
}

#[test]
fn what_ranks_exclude_is_refused_and_changes_nothing() {
    let (ring, index, _) = prioritised(spread);
    let draws = || sampler(&ring, 1, by_rank(0.7)).sample(100).unwrap().index();
    let before = draws();
    let refused = ring.priorities(&by_rank(Alpha::Table)).unwrap_err();
    assert!(matches!(&refused, PriorityError::RankAlpha { table } if table == "priority"));
    let mut learner = sampler(&ring, 1, by_rank(0.7));
    let refused = learner.set_alpha(0.5).unwrap_err();
    assert!(matches!(refused, PriorityError::RankAlpha { .. }), "{refused}");
    let refused = learner.raise_largest(9.0).unwrap_err();
    assert!(matches!(refused, PriorityError::RankedLargest { .. }), "{refused}");
    let refused = learner.block(4).unwrap_err();
    assert!(matches!(refused, SampleError::NoBlocks { .. }), "{refused}");
    for other in [by_rank(0.7).by(PriorityOrder::Priority), by_rank(0.7).eps(0.5)] {
        let refused = ring.priorities(&other).unwrap_err();
        let PriorityError::Segment(SegmentError::TableDiffers { .. }) = refused else {
            panic!("{refused}")
        };
    }
    let refused = learner.update_priorities(&index[..1], &[1e9]).unwrap_err();
    assert!(matches!(refused, PriorityError::TooLarge { .. }), "{refused}");
    assert_eq!(draws(), before);
}

#[test]
fn the_diversity_is_that_of_the_masses_of_the_ranks() {
    let (ring, _, priorities) = prioritised(apart);
    let found = ring.priorities(&by_rank(0.7)).unwrap().distribution().effective_rows;
    let of = masses(&priorities, 0.7);
    let (sum, squares): (f64, f64) = (of.iter().sum(), of.iter().map(|mass| mass * mass).sum());
    assert!((found - sum * sum / squares).abs() < 1e-6, "{found}");
}
