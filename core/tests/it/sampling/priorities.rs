//! Prioritised draws: which rows have a priority, how often each is drawn, and what it weighs.

use std::collections::{BTreeMap, BTreeSet};

use backcast_core::{
    Batch, BatchesOptions, Beta, Boundary, ColumnWindow, ColumnWindows, InitialPriority,
    Priorities, PriorityError, PriorityOptions, Ring, RowIndex, SampleError, Sampler,
    SamplerOptions, SegmentError, TableCounters, WeightNorm,
};
use proptest::prelude::*;

use crate::sampling::{Actor, End, ring};

/// Leaves are priorities, and nothing is added to them.
fn plain() -> PriorityOptions {
    PriorityOptions::alpha(1.0).eps(0.0)
}

pub(super) fn sampler(ring: &Ring, seed: u64, options: PriorityOptions) -> Sampler {
    ring.sampler(SamplerOptions::seeded(seed).priority(options)).unwrap()
}

pub(super) fn weights(sampler: &mut Sampler, index: &[i64]) -> Vec<f64> {
    let batch = sampler.gather(index).unwrap();
    batch.column::<f32>("weight").unwrap().iter().map(|weight| f64::from(*weight)).collect()
}

/// Transitions of the ring, by a uniform sampler.
pub(super) fn transitions(ring: &Ring) -> Vec<i64> {
    let Some(rows) = ring.lane_span(0) else { return Vec::new() };
    let index: Vec<i64> = rows.map(|seq| RowIndex::new(0, seq).0).collect();
    if index.is_empty() {
        return index;
    }
    let mut uniform = ring.sampler(SamplerOptions::seeded(0)).unwrap();
    let (_, found) = uniform.gather_present(&index).unwrap();
    index.into_iter().zip(found).filter(|(_, found)| *found).map(|(index, _)| index).collect()
}

/// A ring whose `i`-th transition has the priority `of(i)`.
fn prioritised(of: impl Fn(usize) -> f64) -> (Ring, Vec<i64>, Vec<f64>) {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    (0..20).for_each(|n| actor.episode(1 + n % 6, End::Terminated));
    let index = transitions(&ring);
    let priorities: Vec<f64> = (0..index.len()).map(of).collect();
    let dropped = ring.priorities(&plain()).unwrap().update(&index, &priorities).unwrap();
    assert_eq!(dropped, 0);
    (ring, index, priorities)
}

/// Pearson's statistic of the draws of a sampler, and its 99.9 % quantile (Wilson and Hilferty).
pub(super) fn chi_square(sampler: &mut Sampler, index: &[i64], expected: &[f64]) -> (f64, f64) {
    const Z: f64 = 3.0902;
    let mut counts: BTreeMap<i64, f64> = index.iter().map(|index| (*index, 0.0)).collect();
    let draws = 400 * 250;
    for _ in 0..400 {
        for index in sampler.sample(250).unwrap().index() {
            *counts.get_mut(&index.0).expect("a row without a priority was drawn") += 1.0;
        }
    }
    let total: f64 = expected.iter().sum();
    let statistic = index.iter().zip(expected).map(|(index, priority)| {
        let expected = f64::from(draws) * priority / total;
        (counts[index] - expected).powi(2) / expected
    });
    let degrees = f64::from(u32::try_from(index.len()).unwrap() - 1);
    let ninth = 2.0 / (9.0 * degrees);
    (statistic.sum(), degrees * (1.0 - ninth + Z * ninth.sqrt()).powi(3))
}

pub(super) fn spread(n: usize) -> f64 {
    f64::from(1 + u32::try_from(n * n % 23).unwrap())
}

#[test]
fn draws_follow_the_priorities_and_other_draws_do_not() {
    let (ring, index, priorities) = prioritised(spread);
    let powers = |exponent: f64| -> Vec<f64> {
        priorities.iter().map(|priority| priority.powf(exponent)).collect()
    };
    for seed in 0..5 {
        let (found, most) = chi_square(&mut sampler(&ring, seed, plain()), &index, &priorities);
        assert!(found < most, "seed {seed}: {found} of at most {most}");
    }
    // Mutants: another exponent, and uniform draws.
    let (found, most) = chi_square(&mut sampler(&ring, 1, plain()), &index, &powers(0.9));
    assert!(found > 2.0 * most, "exponent 0.9 passes: {found} of at most {most}");
    let mut uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let (found, most) = chi_square(&mut uniform, &index, &priorities);
    assert!(found > 10.0 * most, "uniform draws pass: {found} of at most {most}");
    // A table of another exponent.
    let half = PriorityOptions::alpha(0.5).eps(0.0).table("half");
    ring.priorities(&half).unwrap().update(&index, &priorities).unwrap();
    for seed in 0..5 {
        let mut sampler = sampler(&ring, seed, half.clone());
        let (found, most) = chi_square(&mut sampler, &index, &powers(0.5));
        assert!(found < most, "seed {seed}: {found} of at most {most}");
    }
}

#[test]
fn stratified_draws_take_one_of_each_share() {
    let (ring, index, priorities) = prioritised(spread);
    let mut stratified = sampler(&ring, 4, plain().stratified(true));
    let total: f64 = priorities.iter().sum();
    let counted = |sampler: &mut Sampler, batch: usize| -> Vec<f64> {
        let drawn = sampler.sample(batch).unwrap().index();
        let count = |index: &i64| drawn.iter().filter(|drawn| *drawn == index).count();
        index.iter().map(|index| f64::from(u32::try_from(count(index)).unwrap())).collect()
    };
    // With a share for each drawn row, its count is its expectation rounded down or up, or one off.
    let within = |counts: &[f64]| {
        counts
            .iter()
            .zip(&priorities)
            .all(|(count, priority)| (count - 500.0 * priority / total).abs() < 2.0)
    };
    for _ in 0..20 {
        assert!(within(&counted(&mut stratified, 500)));
    }
    // A mutant: independent draws scatter.
    let mut plain = sampler(&ring, 4, plain());
    assert!((0..20).any(|_| !within(&counted(&mut plain, 500))), "independent draws pass");
    let (found, most) = chi_square(&mut stratified, &index, &priorities);
    assert!(found < most, "{found} of at most {most}");
}

#[test]
fn weights_are_those_of_the_probabilities() {
    let (ring, _, priorities) = prioritised(spread);
    let (most, least) = (23.0, 1.0);
    assert!(priorities.contains(&least));
    for beta in [0.0, 0.4, 1.0] {
        let mut by_batch = sampler(&ring, 2, plain().beta(beta));
        let mut by_table = sampler(&ring, 2, plain().beta(beta).normalize(WeightNorm::Table));
        for _ in 0..10 {
            let (batch, same) = (by_batch.sample(40).unwrap(), by_table.sample(40).unwrap());
            assert_eq!(batch.index(), same.index());
            let index = transitions(&ring);
            let priority = |drawn: &RowIndex| {
                let at = index.iter().position(|index| drawn == index).unwrap();
                priorities[at]
            };
            let drawn: Vec<f64> = batch.index().iter().map(priority).collect();
            let smallest = drawn.iter().copied().fold(most, f64::min);
            let (of_batch, of_table) =
                (batch.column::<f32>("weight").unwrap(), same.column::<f32>("weight").unwrap());
            for ((priority, batch), table) in drawn.iter().zip(&of_batch).zip(&of_table) {
                let expected = [smallest, least].map(|of: f64| (of / priority).powf(beta));
                assert!((f64::from(*batch) - expected[0]).abs() < 1e-6);
                assert!((f64::from(*table) - expected[1]).abs() < 1e-6);
            }
            let largest = of_batch.iter().copied().fold(0.0, f32::max);
            assert!((largest - 1.0).abs() < f32::EPSILON, "the largest is 1");
        }
    }
}

#[test]
fn an_annealed_beta_is_that_of_the_batch_and_goes_on_from_a_state() {
    let (ring, _, _) = prioritised(spread);
    let beta = Beta::Annealed { from: 0.2, batches: 8 };
    let mut annealed = sampler(&ring, 5, plain().beta(beta));
    for batch in 0..10 {
        let mut again = ring.sampler(annealed.state()).unwrap();
        let mut constant = sampler(&ring, 5, plain());
        constant.set_beta(beta.at(batch).unwrap()).unwrap();
        let (expected, found) = (annealed.sample(30).unwrap(), again.sample(30).unwrap());
        assert_eq!(found.index(), expected.index());
        let column = |batch: &Batch| -> Vec<f32> {
            batch.column::<f32>("weight").unwrap().iter().copied().collect()
        };
        assert_eq!(column(&found), column(&expected));
        let index = expected.index();
        let of_constant = constant.gather(&index).unwrap();
        assert_eq!(column(&of_constant), column(&expected), "batch {batch}");
    }
}

#[test]
fn a_beta_of_the_caller_is_needed_before_a_draw_and_is_no_part_of_a_state() {
    let (ring, _, _) = prioritised(spread);
    let mut drawing = sampler(&ring, 5, plain().beta(Beta::Function));
    let refused = drawing.sample(30).unwrap_err();
    assert!(matches!(refused, SampleError::Priority(PriorityError::NoBeta)), "{refused}");
    let batch = |sampler: &mut Sampler| {
        sampler.set_beta(0.7).unwrap();
        let drawn = sampler.sample(30).unwrap();
        (drawn.index(), drawn.column::<f32>("weight").unwrap().iter().copied().collect::<Vec<_>>())
    };
    let first = batch(&mut drawing);
    assert_eq!(first, batch(&mut sampler(&ring, 5, plain().beta(0.7))), "the refused draw counts");
    let mut again = ring.sampler(drawing.state()).unwrap();
    assert!(again.sample(30).is_err(), "the state has the function's last number");
    assert_eq!(batch(&mut again), batch(&mut drawing));
}

#[test]
fn draws_repeat_ahead_and_with_windows() {
    let (ring, _, _) = prioritised(spread);
    let mut first = sampler(&ring, 9, plain());
    let expected: Vec<_> = (0..8).map(|_| first.sample(64).unwrap().index()).collect();
    let base = SamplerOptions::seeded(9);
    let columns = ColumnWindows::default().column("obs", ColumnWindow::History(3));
    for spec in [
        base.clone().priority(plain()),
        base.clone().history(4).future(2).priority(plain()),
        base.clone().n_step(3).gamma(0.9).priority(plain()),
        base.columns(columns).priority(plain()),
    ] {
        let sampler = ring.sampler(spec).unwrap();
        let batches = sampler.batches(64, BatchesOptions::prefetch(3).limit(8)).unwrap();
        let found: Vec<_> = batches.map(|batch| batch.unwrap().index()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn new_rows_enter_at_the_largest_priority_and_the_first_at_one() {
    let ring = ring(50);
    let mut actor = Actor::of(&ring);
    actor.episode(5, End::Terminated);
    let mut by_table = sampler(&ring, 1, plain().beta(1.0).normalize(WeightNorm::Table));
    assert!(by_table.sample(8).unwrap().index().iter().all(|index| index.seq() < 5));
    assert_eq!(by_table.update_priorities(&[0, 1], &[4.0, 0.5]).unwrap(), 0);
    assert_eq!(weights(&mut by_table, &[0, 1, 2]), [0.125, 1.0, 0.5]);
    actor.episode(3, End::Terminated);
    by_table.sample(8).unwrap();
    // Rows 6, 7 and 8 are new, row 5 is FINAL.
    assert_eq!(weights(&mut by_table, &[6, 7, 8, 1]), [0.125, 0.125, 0.125, 1.0]);
    assert_eq!(by_table.update_priorities(&[5, 9], &[1.0, 1.0]).unwrap(), 2, "FINAL rows");
    // A smaller one later changes nothing.
    by_table.update_priorities(&[0], &[1.0]).unwrap();
    actor.episode(1, End::Truncated);
    by_table.sample(8).unwrap();
    assert_eq!(weights(&mut by_table, &[10, 0, 1]), [0.125, 0.5, 1.0]);
}

#[test]
fn the_priority_of_new_rows_falls_with_the_largest_that_the_ring_holds() {
    // The second ring drops the row of the largest priority before the new row enters.
    for (capacity, expected) in [(50, [0.5, 0.5]), (12, [1.0, 1.0])] {
        let ring = ring(capacity);
        let mut actor = Actor::of(&ring);
        actor.episode(5, End::Terminated);
        let options = plain().beta(1.0).normalize(WeightNorm::Table);
        let mut by_table = sampler(&ring, 1, options.initial(InitialPriority::Held));
        by_table.update_priorities(&[0, 1, 2, 3, 4], &[64.0, 0.5, 0.5, 0.5, 0.5]).unwrap();
        by_table.update_priorities(&[0], &[1.0]).unwrap();
        (0..8).for_each(|_| actor.step(End::Open));
        by_table.sample(8).unwrap();
        assert_eq!(weights(&mut by_table, &[6, 7]), expected, "{capacity} rows");
        let same = ring.priorities(&plain().initial(InitialPriority::Held)).unwrap();
        assert_eq!(same.counters().updated, 6);
        let other = ring.priorities(&plain()).unwrap_err();
        let is_other = matches!(other, PriorityError::Segment(SegmentError::TableDiffers { .. }));
        assert!(is_other, "{other}");
    }
}

#[test]
fn a_table_counts_rows_that_entered_and_priorities_that_were_set_or_dropped() {
    let ring = ring(4_000);
    let mut actor = Actor::of(&ring);
    let mut priorities = ring.priorities(&plain()).unwrap();
    let counted = |entered, updated, stale| TableCounters { entered, updated, stale, repairs: 0 };
    assert_eq!(priorities.counters(), counted(0, 0, 0));
    // The newest row, the FINAL row 10, enters with its successor.
    actor.episode(10, End::Terminated);
    assert_eq!(priorities.update(&[3, 4], &[2.0, 3.0]).unwrap(), 0);
    assert_eq!(priorities.counters(), counted(10, 2, 0));
    // More rows than are read at a time.
    actor.episode(2_500, End::Open);
    assert_eq!(priorities.update(&[10, 5], &[1.0, 1.0]).unwrap(), 1, "a FINAL row");
    assert_eq!(priorities.counters(), counted(2_510, 3, 1));
    actor.step(End::Open);
    sampler(&ring, 1, plain()).sample(4).unwrap();
    assert_eq!(priorities.counters(), counted(2_511, 3, 1), "a draw sets no priority");
}

#[test]
fn what_a_boundary_refuses_is_drawn_again_and_the_rest_keeps_its_ratios() {
    let (ring, index, priorities) = prioritised(spread);
    let seeded = SamplerOptions::seeded(3).history(3);
    let strided = SamplerOptions::from(crate::strided(&ring, seeded.clone(), 2).unwrap());
    for options in [seeded.clone().boundary(Boundary::Reject), strided] {
        let mut uniform = ring.sampler(options.clone()).unwrap();
        let drawn = (0..20).flat_map(|_| uniform.sample(250).unwrap().index());
        let allowed: BTreeSet<i64> = drawn.map(i64::from).collect();
        let kept = index.iter().zip(&priorities).filter(|(index, _)| allowed.contains(index));
        let (index, priorities): (Vec<i64>, Vec<f64>) = kept.unzip();
        assert!((6..70).contains(&index.len()), "{}", index.len());
        // A row that is refused is drawn again from all rows, not from the rest of its share.
        for by in [plain(), plain().stratified(true)] {
            let mut sampler = ring.sampler(options.clone().priority(by)).unwrap();
            let (found, most) = chi_square(&mut sampler, &index, &priorities);
            assert!(found < most, "{options:?}: {found} of at most {most}");
        }
    }
    let too_long = SamplerOptions::seeded(3).history(30).boundary(Boundary::Reject);
    let nothing = ring.sampler(too_long.priority(plain())).unwrap().sample(4).unwrap_err();
    assert!(matches!(nothing, SampleError::NoWindow { .. }), "{nothing}");
}

#[test]
fn bad_input_is_refused_before_anything_changes() {
    let (ring, index, _) = prioritised(|_| 1.0);
    let mut priorities = ring.priorities(&plain()).unwrap();
    let before = priorities.audit_locked().unwrap();
    let three = &index[..3];
    for (bad, at) in
        [([1.0, -1.0, 1.0], 1), ([1.0, 1.0, f64::NAN], 2), ([f64::INFINITY, 1.0, 1.0], 0)]
    {
        let refused = priorities.update(three, &bad).unwrap_err();
        let PriorityError::BadPriority { position, value } = refused else { panic!("{refused}") };
        assert_eq!((position, value.to_bits()), (at, bad[at].to_bits()));
    }
    let refused = priorities.update(three, &[1.0, 70_000.0, 1.0]).unwrap_err();
    let PriorityError::TooLarge { position: 1, value: 70_000.0, limit: 65_536.0 } = refused else {
        panic!("{refused}")
    };
    let refused = priorities.update(&index[..2], &[9.0; 3]).unwrap_err();
    let PriorityError::WrongCount { indices: 2, priorities: 3 } = refused else {
        panic!("{refused}")
    };
    for bad in [1 << 50, 100_000, -7] {
        let refused = priorities.update(&[index[0], index[1], bad], &[9.0; 3]).unwrap_err();
        let PriorityError::BadIndex(refused) = refused else { panic!("{refused}") };
        assert_eq!((refused.position, refused.index), (2, bad));
    }
    assert_eq!(priorities.audit_locked().unwrap(), before);
    assert_eq!(priorities.update(&[-1], &[9.0]).unwrap(), 1, "a row that was dropped");
    let mut uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let refused = uniform.update_priorities(three, &[1.0; 3]).unwrap_err();
    assert!(matches!(refused, PriorityError::NotPrioritised), "{refused}");
    let other = ring.priorities(&PriorityOptions::alpha(0.3).eps(0.0)).unwrap_err();
    assert!(matches!(other, PriorityError::Segment(SegmentError::TableDiffers { .. })), "{other}");
    let empty = self::ring(10);
    let nothing = sampler(&empty, 1, plain()).sample(4).unwrap_err();
    assert!(matches!(nothing, SampleError::Empty { .. }), "{nothing}");
}

#[derive(Clone, Debug)]
enum Act {
    Episode(usize, bool),
    Step,
    Draw,
    Update(Vec<(usize, u16)>),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..9_usize, any::<bool>()).prop_map(|(steps, ends)| Act::Episode(steps, ends)),
        3 => Just(Act::Step),
        2 => Just(Act::Draw),
        3 => prop::collection::vec((0..60_usize, 0..2_000_u16), 0..20).prop_map(Act::Update),
    ]
}

/// A table, and a map of what it should hold.
struct Compared {
    ring: Ring,
    sampler: Sampler,
    priorities: Priorities,
    model: BTreeMap<i64, u16>,
    initial: InitialPriority,
    largest: u16,
}

impl Compared {
    fn new(ring: &Ring, initial: InitialPriority) -> Self {
        let options = plain().beta(1.0).normalize(WeightNorm::Table).initial(initial);
        let priorities = ring.priorities(&options).unwrap();
        let sampler = sampler(ring, 1, options);
        let (ring, model) = (ring.clone(), BTreeMap::new());
        Self { ring, sampler, priorities, model, initial, largest: 1 }
    }

    /// Enters new rows in the model, and removes those that the ring no longer holds.
    fn enter(&mut self) {
        let now = transitions(&self.ring);
        self.model.retain(|index, _| now.contains(index));
        let initial = match self.initial {
            InitialPriority::Ever => self.largest,
            InitialPriority::Held => self.model.values().copied().max().unwrap_or(1),
        };
        for index in now {
            self.model.entry(index).or_insert(initial);
        }
    }

    fn draw(&mut self) {
        self.enter();
        assert_eq!(self.sampler.sample(1).is_ok(), !self.model.is_empty());
    }

    /// Sets the priorities of rows that stand so many rows before the newest.
    fn update(&mut self, pairs: &[(usize, u16)]) {
        self.enter();
        let end = self.ring.lane_span(0).unwrap().end;
        let row = |back: usize| Some(RowIndex::new(0, end.checked_sub(1 + back as u64)?).0);
        let pairs = pairs.iter().filter_map(|(back, p)| Some((row(*back)?, *p)));
        let (index, given): (Vec<i64>, Vec<u16>) = pairs.unzip();
        let mut stale = 0;
        for (index, priority) in index.iter().zip(&given) {
            match self.model.get_mut(index) {
                Some(place) => {
                    *place = *priority;
                    self.largest = self.largest.max(*priority);
                }
                None => stale += 1,
            }
        }
        let given: Vec<f64> = given.into_iter().map(f64::from).collect();
        assert_eq!(self.sampler.update_priorities(&index, &given).unwrap(), stale);
    }

    fn check(&mut self) {
        /// A priority of 0 has one unit.
        const UNIT: f64 = 1.0 / 16_777_216.0;
        let (total, leaves, count) = self.priorities.audit_locked().unwrap();
        assert_eq!((total, count), (leaves, self.model.len() as u64));
        let value = |priority: &u16| (u128::from(*priority) << 24).max(1);
        assert_eq!(total, self.model.values().map(value).sum());
        if self.model.is_empty() {
            return;
        }
        let model = self.model.iter().map(|(index, priority)| (*index, f64::from(*priority)));
        let (index, given): (Vec<i64>, Vec<f64>) = model.unzip();
        let least = given.iter().copied().fold(f64::MAX, f64::min).max(UNIT);
        for (weight, priority) in weights(&mut self.sampler, &index).iter().zip(&given) {
            let expected = least / priority.max(UNIT);
            assert!((weight - expected).abs() < 1e-6, "{weight} {expected}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(400)))]
    /// The model is a map of the priorities of all rows that entered, cut to what the ring holds.
    #[test]
    fn rows_have_the_priorities_of_a_plain_map(
        acts in prop::collection::vec(act(), 1..60),
        held in any::<bool>(),
    ) {
        let initial = if held { InitialPriority::Held } else { InitialPriority::Ever };
        let ring = ring(40);
        let mut actor = Actor::of(&ring);
        let mut compared = Compared::new(&ring, initial);
        for act in acts {
            match act {
                Act::Episode(steps, true) => actor.episode(steps, End::Terminated),
                Act::Episode(steps, false) => (0..steps).for_each(|_| actor.step(End::Open)),
                Act::Step => actor.step(End::Open),
                Act::Draw => {
                    compared.draw();
                    compared.check();
                }
                Act::Update(pairs) => {
                    compared.update(&pairs);
                    compared.check();
                }
            }

        }
    }
}
