//! Exponents of priorities that change while samplers draw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use backcast_core::{
    Alpha, InitialPriority, Interrupt, Priorities, PriorityError, PriorityOptions, Ring, RowIndex,
    SampleError, SegmentError, Wait,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::sampling::priorities::{chi_square, sampler, spread, transitions, weights};
use crate::sampling::{Actor, End, ring};

const EXPONENTS: [f64; 5] = [0.0, 0.3, 0.6, 1.0, 1.7];

fn of_table() -> PriorityOptions {
    PriorityOptions::alpha(Alpha::Table).eps(0.0)
}

/// A ring whose `i`-th transition has the priority `spread(i)` in the table of `options`.
fn prioritised(options: &PriorityOptions) -> (Ring, Vec<i64>, Vec<f64>) {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    (0..20).for_each(|n| actor.episode(1 + n % 6, End::Terminated));
    let index = transitions(&ring);
    let priorities: Vec<f64> = (0..index.len()).map(spread).collect();
    assert_eq!(ring.priorities(options).unwrap().update(&index, &priorities).unwrap(), 0);
    (ring, index, priorities)
}

#[test]
fn draws_and_weights_are_by_the_exponent_that_was_set_last() {
    let (ring, index, priorities) = prioritised(&of_table());
    let mut handle = ring.priorities(&of_table()).unwrap();
    let options = of_table().beta(1.0);
    let mut learner = sampler(&ring, 3, options.clone());
    for alpha in EXPONENTS {
        handle.set_alpha(alpha).unwrap();
        assert_eq!((handle.alpha().to_bits(), learner.alpha()), (alpha.to_bits(), Some(alpha)));
        let powers: Vec<f64> = priorities.iter().map(|priority| priority.powf(alpha)).collect();
        let (found, most) = chi_square(&mut learner, &index, &powers);
        assert!(found < most, "alpha {alpha}: {found} of at most {most}");
        let least = powers.iter().copied().fold(f64::INFINITY, f64::min);
        let found = weights(&mut learner, &index);
        for (found, power) in found.iter().zip(&powers) {
            assert!((found - least / power).abs() < 1e-6, "alpha {alpha}: {found} for {power}");
        }
        // A table of a fixed exponent has the same leaves, so the same draws.
        let fixed = PriorityOptions::alpha(alpha).eps(0.0).beta(1.0).table(&format!("at-{alpha}"));
        ring.priorities(&fixed).unwrap().update(&index, &priorities).unwrap();
        let mut drawn = [options.clone(), fixed].map(|options| {
            let mut sampler = sampler(&ring, 8, options);
            (0..5).map(|_| sampler.sample(64).unwrap().index()).collect::<Vec<_>>()
        });
        let [changed, fixed] = &mut drawn;
        assert_eq!(changed, fixed, "alpha {alpha}");
    }
}

#[test]
fn an_exponent_that_returns_gives_the_draws_it_gave_before() {
    for initial in [InitialPriority::Ever, InitialPriority::Held] {
        let options = of_table().initial(initial).eps(1e-6);
        let (ring, _, _) = prioritised(&options);
        let draws = || sampler(&ring, 5, options.clone()).sample(500).unwrap().index();
        let mut handle = ring.priorities(&options).unwrap();
        let before = draws();
        for alpha in EXPONENTS {
            handle.set_alpha(alpha).unwrap();
        }
        assert_ne!(draws(), before, "{initial:?}");
        handle.set_alpha(Alpha::DEFAULT).unwrap();
        assert_eq!(draws(), before, "{initial:?}");
    }
}

#[test]
fn a_schedule_moves_the_exponent_for_all_samplers_and_never_back() {
    let annealed =
        |first, last| PriorityOptions::alpha(Alpha::Annealed { first, last, batches: 50 }).eps(0.0);
    for (first, last) in [(0.8, 0.2), (0.2, 0.8)] {
        let (ring, index, priorities) = prioritised(&annealed(first, last));
        let mut leader = sampler(&ring, 1, annealed(first, last));
        let mut other = sampler(&ring, 2, of_table().beta(1.0));
        for batch in 0..60_u64 {
            leader.sample(4).unwrap();
            let alpha = other.alpha().unwrap();
            let share = f64::from(u32::try_from(batch.min(50)).unwrap()) / 50.0;
            assert!((alpha - (first + (last - first) * share)).abs() < 1e-12, "{batch}: {alpha}");
            // A sampler that begins later has the same schedule.
            sampler(&ring, 3, annealed(first, last)).sample(4).unwrap();
            assert_eq!(other.alpha().map(f64::to_bits), Some(alpha.to_bits()), "{batch}");
        }
        let powers: Vec<f64> = priorities.iter().map(|priority| priority.powf(last)).collect();
        let (found, most) = chi_square(&mut other, &index, &powers);
        assert!(found < most, "{found} of at most {most}");
    }
}

#[test]
fn exponents_that_cannot_be_are_refused_and_nothing_changes() {
    let (ring, index, _) = prioritised(&of_table());
    let mut handle = ring.priorities(&of_table()).unwrap();
    for alpha in [-0.5, f64::NAN, f64::INFINITY] {
        let refused = handle.set_alpha(alpha).unwrap_err();
        assert!(matches!(refused, PriorityError::BadOption { .. }), "{refused}");
    }
    // 30,000 has a power of 1.7 that no leaf can have.
    handle.update(&index[..1], &[30_000.0]).unwrap();
    let PriorityError::AlphaTooLarge { alpha, value, limit } = handle.set_alpha(1.7).unwrap_err()
    else {
        panic!("another error")
    };
    assert_eq!((alpha.to_bits(), value.to_bits()), (1.7_f64.to_bits(), 30_000_f64.to_bits()));
    assert!(limit < value && limit.powf(1.7) < 1e5, "{limit}");
    assert_eq!(handle.alpha().to_bits(), Alpha::DEFAULT.to_bits());
    // The error names priorities as they were given, without what the table adds to each.
    let mut added = ring.priorities(&of_table().table("added").eps(0.5)).unwrap();
    added.update(&index[..1], &[30_000.0]).unwrap();
    let refused = added.set_alpha(1.7).unwrap_err();
    let PriorityError::AlphaTooLarge { value, .. } = refused else { panic!("{refused}") };
    assert!((value - 30_000.0).abs() < 1e-6, "{value}");
    // An update is held to the exponent of the moment.
    handle.set_alpha(1.0).unwrap();
    let refused = handle.update(&index[..1], &[1e6]).unwrap_err();
    assert!(matches!(refused, PriorityError::TooLarge { position: 0, .. }), "{refused}");
    handle.set_alpha(0.5).unwrap();
    handle.update(&index[..1], &[1e6]).unwrap();
    // A number is fixed.
    let fixed = PriorityOptions::alpha(0.6).table("fixed");
    let refused = ring.priorities(&fixed).unwrap().set_alpha(0.5).unwrap_err();
    assert!(matches!(&refused, PriorityError::FixedAlpha { table, .. } if table == "fixed"));
    for other in [PriorityOptions::alpha(0.6).eps(0.0), of_table().table("fixed").eps(1e-6)] {
        let refused = ring.priorities(&other).unwrap_err();
        let PriorityError::Segment(SegmentError::TableDiffers { .. }) = refused else {
            panic!("{refused}")
        };
    }
    let uniform = ring.sampler(backcast_core::SamplerOptions::seeded(1)).unwrap().set_alpha(0.5);
    assert!(matches!(uniform, Err(PriorityError::NotPrioritised)), "{uniform:?}");
}

#[test]
fn a_batch_is_drawn_and_weighed_by_one_exponent() {
    let ring = ring(4_000);
    Actor::of(&ring).episode(3_000, End::Open);
    let index = transitions(&ring);
    let mut handle = ring.priorities(&of_table()).unwrap();
    let priorities: Vec<f64> =
        (0..index.len()).map(|n| if n % 2 == 0 { 1.0 } else { 4.0 }).collect();
    handle.update(&index, &priorities).unwrap();
    handle.set_alpha(1.0).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let mut handle = ring.priorities(&of_table()).unwrap();
            let mut changes = 0_u64;
            while !stop.load(Relaxed) {
                handle.set_alpha([0.5, 1.0][usize::from(changes % 2 == 1)]).unwrap();
                changes += 1;
                thread::yield_now();
            }
            changes
        });
        let mut learner = sampler(&ring, 4, of_table().beta(1.0));
        let mut seen = BTreeMap::<u64, u64>::new();
        for _ in 0..3_000 {
            let batch = learner.sample(200).unwrap();
            let mut found: Vec<u32> =
                batch.column::<f32>("weight").unwrap().iter().map(|w| w.to_bits()).collect();
            found.sort_unstable();
            found.dedup();
            let least = f64::from(f32::from_bits(found[0]));
            assert!(found.len() <= 2, "weights of two exponents: {found:?}");
            let is = |expected: f64| (least - expected).abs() < 1e-6;
            assert!(is(0.5) || is(0.25) || is(1.0), "{least}");
            *seen.entry(least.to_bits()).or_default() += 1;
        }
        stop.store(true, Relaxed);
        let changes = changing.join().unwrap();
        println!("{changes} changes; batches by least weight: {:?}", seen.values());
        assert!(seen.len() >= 2 && changes > 10, "the test proves nothing");
    });
}

/// Rows that have a priority, and what the next ones get.
struct Model {
    rows: BTreeMap<i64, f64>,
    ever: f64,
    initial: InitialPriority,
}

impl Model {
    /// Lets rows enter and leave, as a learner does before it sets priorities.
    fn refresh(&mut self, ring: &Ring) {
        let present = transitions(ring);
        self.rows.retain(|index, _| present.contains(index));
        let first = match self.initial {
            InitialPriority::Ever => self.ever,
            InitialPriority::Held => self.rows.values().copied().reduce(f64::max).unwrap_or(1.0),
        };
        for index in present {
            self.rows.entry(index).or_insert(first);
        }
    }
}

/// Returns the kept priorities of the only table, and its exponent.
fn kept(ring: &Ring) -> (BTreeMap<i64, u64>, f64) {
    let never = Interrupt::never();
    let mut wait = Wait::new(Some(Duration::from_secs(60)), &never);
    let mut states = ring.table_states(&mut wait).unwrap().map(|(_, state)| state.unwrap());
    let state = states.next().unwrap();
    let leaves = state.lanes[0].rows().zip(&state.lanes[0].leaves);
    let kept =
        leaves.filter(|(_, kept)| **kept > 0).map(|(seq, kept)| (RowIndex::new(0, seq).0, *kept));
    (kept.collect(), state.settings.exponent)
}

#[test]
fn kept_priorities_are_those_of_a_map_after_every_change() {
    for (seed, initial) in
        (0..20).flat_map(|n| [(n, InitialPriority::Ever), (n, InitialPriority::Held)])
    {
        let mut dice = StdRng::seed_from_u64(seed);
        let ring = ring(60);
        let mut actor = Actor::of(&ring);
        let options = of_table().eps(0.25).initial(initial);
        let mut handle: Priorities = ring.priorities(&options).unwrap();
        let mut model = Model { rows: BTreeMap::new(), ever: 1.0, initial };
        let mut alpha = Alpha::DEFAULT;
        for _ in 0..40 {
            match dice.random_range(0..10) {
                0..3 => actor.episode(dice.random_range(1..20), End::Terminated),
                3 => ring.clear().map(|_| ()).unwrap(),
                4..7 => {
                    alpha = *EXPONENTS.choose(&mut dice).unwrap();
                    handle.set_alpha(alpha).unwrap();
                }
                _ => {
                    model.refresh(&ring);
                    let index: Vec<i64> = model.rows.keys().copied().collect();
                    let index: Vec<i64> =
                        (0..5).filter_map(|_| index.choose(&mut dice).copied()).collect();
                    let given: Vec<f64> = index
                        .iter()
                        .map(|_| f64::from(dice.random_range(0..400_u32)) / 8.0)
                        .collect();
                    assert_eq!(handle.update(&index, &given).unwrap(), 0);
                    for (index, priority) in index.into_iter().zip(given) {
                        model.rows.insert(index, priority + 0.25);
                        model.ever = model.ever.max(priority + 0.25);
                    }
                }
            }
            let none: [i64; 0] = [];
            handle.update(&none, &[]).unwrap();
            model.refresh(&ring);
            let expected = model.rows.iter().map(|(index, kept)| (*index, kept.to_bits()));
            let (found, exponent) = kept(&ring);
            assert_eq!(found, expected.collect(), "seed {seed}, {initial:?}");
            assert_eq!(exponent.to_bits(), alpha.to_bits());
            let (total, leaves, count) = handle.audit_locked().unwrap();
            assert_eq!((total, count), (leaves, found.len() as u64), "seed {seed}, {initial:?}");
        }
    }
}

#[test]
fn a_draw_of_a_table_without_rows_is_refused_as_before() {
    let ring = ring(60);
    let refused = sampler(&ring, 1, of_table()).sample(4).map(|_| ()).unwrap_err();
    assert!(matches!(refused, SampleError::Empty { .. }), "{refused}");
}
