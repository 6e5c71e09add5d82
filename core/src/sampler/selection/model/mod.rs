//! Compares every selector with a plain list, under random appends, eviction, dropped rows, updates
//! of priorities, draws and killed samplers. Draws with replacement are also compared with their
//! probabilities, by a test of Kolmogorov and Smirnov over all cases.
//!
//! A draw of row `k` among weights `w` becomes `(w_1 + .. + w_(k-1) + u * w_k) / (w_1 + .. + w_n)`,
//! where `u` is uniform below 1. Over all cases these numbers are independent and uniform, if the
//! weights are those of the draws (Rosenblatt, "Remarks on a multivariate transformation", 1952).
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "small rings: counts, ages and lanes are small"
)]

mod list;
mod passes;
mod steps;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::list::{ListedRing, Row};
use self::passes::{Claimer, Passes};
use self::steps::{Mutant, OPS, Op};
use crate::table::{Claims, new_rows};
use crate::{
    ClaimPass, PriorityOptions, RowIndex, SampleError, Sampler, SamplerOptions, Selector,
    TableOptions,
};

/// Selectors of a case.
const KINDS: [&str; 11] = [
    "uniform",
    "priority",
    "max_priority",
    "min_priority",
    "fifo",
    "lifo",
    "recency",
    "lane_weights",
    "lane_strata",
    "epoch",
    "consume",
];
/// Value that `sqrt(n)` times the distance of Kolmogorov and Smirnov exceeds with probability 1e-4:
/// `sqrt(-ln(1e-4 / 2) / 2)`.
const KS_LIMIT: f64 = 2.2253;

/// A sampler, and the batches that it drew.
struct Drawing {
    sampler: Sampler,
    batches: u64,
    claimer: Claimer,
}

struct Case {
    dice: StdRng,
    list: ListedRing,
    /// Selectors in the order of [`KINDS`], and a sampler of each.
    drawings: Vec<(Selector, Drawing)>,
    passes: BTreeMap<&'static str, Passes>,
    priorities: BTreeMap<Row, f64>,
    largest: f64,
    mutant: Mutant,
}

/// Uniform numbers by selector.
type Units = BTreeMap<&'static str, Vec<f64>>;

fn selectors(dice: &mut StdRng, lanes: usize) -> Vec<Selector> {
    let mut weights: Vec<f64> = (0..lanes).map(|_| f64::from(dice.random_range(0..4_u8))).collect();
    weights[0] += 1.0;
    let by_priority = || PriorityOptions::alpha(1.0).eps(0.0);
    let drawn = PriorityOptions { stratified: dice.random(), ..by_priority().beta(0.5) };
    let consume = TableOptions::consume("consume").max_times_sampled(dice.random_range(1..4));
    vec![
        Selector::Uniform,
        Selector::Priority(drawn),
        Selector::MaxPriority(by_priority()),
        Selector::MinPriority(by_priority()),
        Selector::Fifo,
        Selector::Lifo,
        Selector::Recency { half_life: f64::from(dice.random_range(1..9_u8)) },
        Selector::LaneWeights(weights),
        Selector::LaneStrata,
        Selector::Table(TableOptions::epoch("epoch").seed(dice.random())),
        Selector::Table(consume.shuffled(dice.random()).seed(dice.random())),
    ]
}

impl Drawing {
    fn open(list: &ListedRing, selector: &Selector, seed: u64) -> Self {
        let options = SamplerOptions::seeded(seed).selector(selector.clone());
        let mut sampler = list.ring.sampler(options).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        Self { sampler, batches: 0, claimer: Claimer::default() }
    }
}

impl Case {
    fn new(number: u64, mutant: Mutant) -> Self {
        let mut dice = StdRng::seed_from_u64(number);
        let lanes = dice.random_range(1..4_u32);
        let list = ListedRing::new(u64::from(lanes) * dice.random_range(3..30), lanes);
        let mut drawings = Vec::new();
        let mut passes = BTreeMap::new();
        for (kind, selector) in KINDS.iter().zip(selectors(&mut dice, lanes as usize)) {
            if let Selector::Table(options) = &selector {
                passes.insert(*kind, Passes::new(options.clone(), lanes as usize));
            }
            let drawing = Drawing::open(&list, &selector, dice.random());
            drawings.push((selector, drawing));
        }
        let priorities = BTreeMap::new();
        Self { dice, list, drawings, passes, priorities, largest: 1.0, mutant }
    }

    fn run(&mut self, units: &mut Units) -> Result<(), String> {
        for _ in 0..self.dice.random_range(4..24) {
            match OPS[self.dice.random_range(0..OPS.len())] {
                Op::Append => {
                    for _ in 0..self.dice.random_range(1..20) {
                        let lane = self.dice.random_range(0..self.list.lanes());
                        self.list.append(lane, self.dice.random_range(0..5) == 0);
                    }
                }
                Op::Sample => {
                    let kind = self.dice.random_range(0..KINDS.len());
                    self.sample(kind, units).map_err(|what| format!("{}: {what}", KINDS[kind]))?;
                }
                Op::Update => self.update()?,
                Op::Kill => self.kill(),
                Op::Clear => self.list.clear(self.mutant == Mutant::ClearIsIgnored)?,
                Op::DropEpisode => {
                    let lane = self.dice.random_range(0..self.list.lanes());
                    let newest = self.list.newest_episode(lane);
                    let named = self.dice.random_range(0..2) == 0;
                    let episode = named.then(|| self.dice.random_range(0..newest + 2));
                    let which = (episode, self.dice.random());
                    let ignored = self.mutant == Mutant::DropEpisodeIsIgnored;
                    self.list.drop_episode(lane, which, ignored)?;
                }
            }
        }
        Ok(())
    }

    fn is_wrong(&self, kind: &str) -> bool {
        matches!(self.mutant, Mutant::Wrong(wrong) if wrong == kind)
    }

    /// Gives new rows the largest priority so far, as every draw by priority does.
    fn enter(&mut self) {
        let entered = if self.mutant == Mutant::EntersAtOne { 1.0 } else { self.largest };
        for row in self.list.transitions() {
            self.priorities.entry(row).or_insert(entered);
        }
    }

    fn update(&mut self) -> Result<(), String> {
        self.enter();
        let known: Vec<Row> = self.priorities.keys().copied().collect();
        let rows: Vec<Row> =
            known.into_iter().filter(|_| self.dice.random_range(0..3) == 0).collect();
        let index: Vec<i64> =
            rows.iter().map(|(lane, seq)| RowIndex::new(*lane as u32, *seq).0).collect();
        let values: Vec<f64> =
            rows.iter().map(|_| f64::from(self.dice.random_range(1..6_u32))).collect();
        let of = self.dice.random_range(1..4);
        let dropped = self.drawings[of].1.sampler.update_priorities(&index, &values).unwrap();
        let evicted = rows.iter().filter(|row| !self.list.holds(**row)).count() as u64;
        let counts = self.mutant == Mutant::UpdatesOfEvictedRowsCount;
        if dropped != if counts { 0 } else { evicted } {
            return Err(format!("{dropped} updates are dropped, {evicted} rows are evicted"));
        }
        for (row, value) in rows.into_iter().zip(values) {
            if self.list.holds(row) {
                self.priorities.insert(row, value);
                self.largest = self.largest.max(value);
            }
        }
        Ok(())
    }

    /// Kills the sampler of a selector, and opens another one.
    fn kill(&mut self) {
        let kind = self.dice.random_range(0..KINDS.len());
        let step = self.dice.random_range(0..3);
        let batch = self.dice.random_range(1..12);
        let (selector, drawing) = &mut self.drawings[kind];
        let table =
            self.passes.get_mut(KINDS[kind]).filter(|_| !self.list.transitions().is_empty());
        let keeps = self.mutant == Mutant::KillLosesNothing;
        match (table, &*selector) {
            // The sampler is killed after it claimed rows, and before it read one.
            (Some(passes), Selector::Table(options)) if step == 0 => {
                let mut victim = Claims::open(&self.list.ring, options).unwrap();
                let (want, candidates) = (batch as u64, self.list.candidates());
                let fresh = |settings, last: &ClaimPass| {
                    new_rows(settings, &last.ranges, &candidates, want)
                };
                victim.claim(want, fresh, |_, _| {}).unwrap();
                if !keeps {
                    passes.claim(batch, &candidates);
                }
            }
            // The sampler is killed after it drew a batch, and before the batch is used.
            (Some(passes), _) if step == 1 => {
                let _lost = drawing.sampler.sample(batch);
                if !keeps {
                    passes.draw(&mut drawing.claimer, batch, &self.list);
                }
            }
            // The sampler is killed between two batches. The rows that it held of a batch that
            // failed are lost.
            _ => {}
        }
        *drawing = Drawing::open(&self.list, selector, self.dice.random());
    }

    fn sample(&mut self, kind: usize, units: &mut Units) -> Result<(), String> {
        let transitions = self.list.transitions();
        let by_priority = (1..4).contains(&kind);
        if by_priority {
            self.enter();
        }
        let (list, batch) = (&self.list, self.dice.random_range(1..20));
        let (selector, drawing) = &mut self.drawings[kind];
        if transitions.is_empty() {
            // Rows of a pass without a transition are claimed all the same.
            if self.passes.contains_key(KINDS[kind]) {
                return Ok(());
            }
            let drawn = drawing.sampler.sample(batch);
            let empty = matches!(
                drawn,
                Err(SampleError::Empty { .. }
                    | SampleError::EmptyLanes { .. }
                    | SampleError::TooFew { .. })
            );
            return if empty { Ok(()) } else { Err(format!("{drawn:?} of an empty ring")) };
        }
        if let Selector::LaneWeights(weights) = &*selector
            && transitions.iter().all(|(lane, _)| weights[*lane] == 0.0)
        {
            return Ok(());
        }
        let mut drawn = drawing.sampler.sample(batch);
        let mut batch = batch;
        if let Err(SampleError::TooFew { available, .. }) = drawn {
            if available != transitions.len() as u64 || batch <= transitions.len() {
                return Err(format!("{available} of {} transitions", transitions.len()));
            }
            batch = transitions.len();
            drawn = drawing.sampler.sample(batch);
        }
        if let Err(SampleError::BeyondTable { most, .. }) = drawn {
            if batch as u64 <= most {
                return Err(format!("{batch} of {most} transitions"));
            }
            batch = usize::try_from(most).unwrap_or(batch);
            drawn = drawing.sampler.sample(batch);
        }
        let wrong = self.mutant == Mutant::Wrong(KINDS[kind]);
        if let Some(passes) = self.passes.get_mut(KINDS[kind]) {
            let mut expected = passes.draw(&mut drawing.claimer, batch, list);
            if wrong && let Some(rows) = &mut expected {
                rows.sort_unstable_by_key(|row| Reverse(*row));
            }
            let found = match &drawn {
                Ok(batch) => Some(rows(&batch.index())),
                Err(SampleError::TimedOut { .. }) => None,
                Err(error) => return Err(error.to_string()),
            };
            if found != expected {
                return Err(format!("drew {found:?}, the list has {expected:?}"));
            }
            return Ok(());
        }
        let drawn = drawn.map_err(|error| error.to_string())?;
        let (found, number) = (rows(&drawn.index()), drawing.batches);
        drawing.batches += 1;
        if let Some(row) = found.iter().find(|row| !list.holds(**row)) {
            return Err(format!("row {row:?} is no transition"));
        }
        match KINDS[kind] {
            "fifo" | "lifo" | "max_priority" | "min_priority" => self.check_order(kind, &found),
            "priority" => {
                self.check_weights(&found, drawn.column::<f32>("weight").unwrap().iter().copied())?;
                self.check_draws(kind, number, &found, units)
            }
            _ => self.check_draws(kind, number, &found, units),
        }
    }

    /// Compares rows in a given order with the sorted list. Rows of equal rank may be any of them.
    fn check_order(&self, kind: usize, found: &[Row]) -> Result<(), String> {
        let candidates = self.list.candidates();
        let wrong = self.is_wrong(KINDS[kind]);
        let rank = |row: &Row| -> i64 {
            let (lane, seq) = *row;
            let (oldest, newest) = (candidates[lane].start, candidates[lane].end);
            let rank = match KINDS[kind] {
                "fifo" => seq - oldest,
                "lifo" => newest - seq,
                _ => 0,
            };
            let priority = self.priorities.get(row).copied().unwrap_or(0.0) as i64;
            let rank = i64::try_from(rank).unwrap();
            match KINDS[kind] {
                "max_priority" => -priority,
                "min_priority" => priority,
                _ => rank,
            }
        };
        let mut all: Vec<i64> = self.list.transitions().iter().map(rank).collect();
        all.sort_unstable();
        if wrong {
            all.rotate_left(1);
        }
        let ranks: Vec<i64> = found.iter().map(rank).collect();
        let mut distinct = found.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if ranks != all[..found.len()] || distinct.len() != found.len() {
            return Err(format!("drew {found:?} of ranks {ranks:?}, the list has {all:?}"));
        }
        Ok(())
    }

    /// Compares importance weights with their formula (Schaul et al. 2016, section 3.4).
    fn check_weights(
        &self,
        found: &[Row],
        weights: impl Iterator<Item = f32>,
    ) -> Result<(), String> {
        let priorities: Vec<f64> = found.iter().map(|row| self.priorities[row]).collect();
        let least = priorities.iter().copied().fold(f64::INFINITY, f64::min);
        for (weight, priority) in weights.zip(priorities) {
            let expected = (least / priority).sqrt();
            if (f64::from(weight) - expected).abs() > 1e-5 {
                return Err(format!("weight {weight}, the list has {expected}"));
            }
        }
        Ok(())
    }

    /// Turns draws with replacement into uniform numbers.
    fn check_draws(
        &mut self,
        kind: usize,
        number: u64,
        found: &[Row],
        units: &mut Units,
    ) -> Result<(), String> {
        let candidates = self.list.candidates();
        let (mut transitions, wrong) = (self.list.transitions(), self.is_wrong(KINDS[kind]));
        let selector = self.drawings[kind].0.clone();
        let (is_drawn_by_priority, is_stratified) = match &selector {
            Selector::Priority(options) => (true, options.stratified),
            _ => (false, false),
        };
        let is_proportional = is_drawn_by_priority && !is_stratified;
        let wrong = wrong || (is_proportional && self.mutant == Mutant::WrongProportions);
        if is_proportional {
            // Sorts by priority, so that wrong proportions move draws to one end.
            transitions.sort_by(|a, b| self.priorities[a].total_cmp(&self.priorities[b]));
        }
        let count = |lane: usize| transitions.iter().filter(|row| row.0 == lane).count() as f64;
        let filled: Vec<usize> =
            (0..self.list.lanes()).filter(|lane| !candidates[*lane].is_empty()).collect();
        // The draws of a lane without transitions go to other lanes, in proportions that this model
        // does not compute.
        let by_lane = matches!(selector, Selector::LaneWeights(_) | Selector::LaneStrata);
        if by_lane && filled.iter().any(|lane| count(*lane) == 0.0) {
            return Ok(());
        }
        let weight = |item: usize, row: &Row| -> f64 {
            let age = (candidates[row.0].end - 1 - row.1) as f64;
            match &selector {
                Selector::Priority(_) if wrong => self.priorities[row].sqrt(),
                Selector::Priority(_) => self.priorities[row],
                Selector::Recency { half_life } if wrong => 0.5_f64.powf(age / half_life / 2.0),
                Selector::Recency { half_life } => 0.5_f64.powf(age / half_life),
                Selector::LaneWeights(weights) if wrong => (weights[row.0] + 1.0) / count(row.0),
                Selector::LaneWeights(weights) => weights[row.0] / count(row.0),
                Selector::LaneStrata => {
                    let turn = number * found.len() as u64 + item as u64 + u64::from(wrong);
                    let lane = filled[turn as usize % filled.len()];
                    f64::from(u8::from(lane == row.0))
                }
                _ if wrong => 9.0 + age,
                _ => 1.0,
            }
        };
        if is_stratified {
            return check_strata(&transitions, &|row| weight(0, row), found);
        }
        for (item, row) in found.iter().enumerate() {
            let weights: Vec<f64> = transitions.iter().map(|row| weight(item, row)).collect();
            let at = transitions.iter().position(|other| other == row).unwrap();
            if weights[at] <= 0.0 {
                return Err(format!("row {row:?} has no weight, as item {item} of batch {number}"));
            }
            let before: f64 = weights[..at].iter().sum();
            let unit = before + self.dice.random::<f64>() * weights[at];
            let all = units.entry(KINDS[kind]).or_default();
            all.push(unit / weights.iter().sum::<f64>());
        }
        Ok(())
    }
}

/// Checks that the count of each row in a stratified batch is within 2 of its share.
fn check_strata(
    transitions: &[Row],
    weight: &dyn Fn(&Row) -> f64,
    found: &[Row],
) -> Result<(), String> {
    let total: f64 = transitions.iter().map(weight).sum();
    for row in transitions {
        let share = weight(row) / total * found.len() as f64;
        let count = found.iter().filter(|other| *other == row).count() as f64;
        if (count - share).abs() >= 2.0 {
            return Err(format!("row {row:?} is drawn {count} times, its share is {share}"));
        }
    }
    Ok(())
}

fn rows(index: &[RowIndex]) -> Vec<Row> {
    index.iter().map(|row| (row.lane() as usize, row.seq())).collect()
}

/// Returns `sqrt(n)` times the largest distance between the distribution of numbers and the uniform
/// one.
fn distance(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let n = numbers.len() as f64;
    let of = |(i, x): (usize, &f64)| (x - i as f64 / n).abs().max(((i + 1) as f64 / n - x).abs());
    numbers.iter().enumerate().map(of).fold(0.0, f64::max) * n.sqrt()
}

/// Runs cases. Returns what contradicts the model.
fn compare(cases: u64, mutant: Mutant) -> Result<(), String> {
    let mut units = Units::new();
    for case in 0..cases {
        Case::new(case, mutant).run(&mut units).map_err(|what| format!("case {case}: {what}"))?;
    }
    for (kind, numbers) in &mut units {
        let (draws, found) = (numbers.len(), distance(numbers));
        println!("{kind}: {draws} draws, distance {found:.3}");
        if found > KS_LIMIT {
            return Err(format!("{kind}: {draws} draws, distance {found:.3}, limit {KS_LIMIT}"));
        }
    }
    Ok(())
}

#[test]
fn every_selector_draws_what_a_plain_list_says() {
    compare(backcast_budget::budget(10_000), Mutant::None).unwrap();
}

/// Each wrong model is contradicted within few cases, by rows or by the distribution.
#[test]
fn every_wrong_model_is_found() {
    let wrong = KINDS.into_iter().map(|kind| (kind, Mutant::Wrong(kind)));
    let others = [
        ("draws, distance", Mutant::WrongProportions),
        ("", Mutant::KillLosesNothing),
        ("", Mutant::EntersAtOne),
        ("updates", Mutant::UpdatesOfEvictedRowsCount),
        ("", Mutant::ClearIsIgnored),
        ("", Mutant::DropEpisodeIsIgnored),
    ];
    for (name, mutant) in wrong.chain(others) {
        let found = compare(4_000, mutant).unwrap_err();
        println!("{name}: {found}");
        assert!(found.contains(name), "{name} is not what {found} says");
    }
}

/// The first rows of shuffled passes are uniform over all seeds. Those of a queue are not.
#[test]
fn first_rows_of_shuffled_passes_are_uniform() {
    let mut list = ListedRing::new(100, 1);
    (0..41).for_each(|_| list.append(0, false));
    let first_rows = |options: &dyn Fn(u64) -> TableOptions| {
        let mut dice = StdRng::seed_from_u64(1);
        let mut first = |seed| {
            let selector = Selector::Table(options(seed));
            let mut drawing = Drawing::open(&list, &selector, seed);
            let (_, row) = rows(&drawing.sampler.sample(1).unwrap().index())[0];
            (row as f64 + dice.random::<f64>()) / 40.0
        };
        distance(&mut (0..2_000).map(&mut first).collect::<Vec<f64>>())
    };
    let found = first_rows(&|seed| TableOptions::epoch(&format!("e{seed}")).seed(seed));
    assert!(found < KS_LIMIT, "distance {found:.3}");
    let found = first_rows(&|seed| TableOptions::consume(&format!("q{seed}")));
    assert!(found > KS_LIMIT, "distance {found:.3}");
}
