//! Blocks: the mass that a block states is that of what it draws, against lists made of the rows,
//! and while writers append.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use backcast_budget::{budget, until};
use backcast_core::{
    Alpha, AutoresetMode, Block, Boundary, DType, InitialPriority, PriorityError, PriorityOptions,
    Ring, RingOptions, Rollout, RowIndex, SampleError, Sampler, SamplerOptions, Schema, Selector,
    Sequence, StepColumns, TableOptions, WholeEpisodes, WriterOptions,
};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::priorities::transitions;
use super::scene::{Listed, Scene};
use super::sequences::is_start;
use super::strides::{Windows, is_drawn};
use super::{Actor, End, ring};
use crate::strided;

type IsDrawn = dyn Fn(&Listed, usize) -> bool;

/// Options of a sampler, and the rows that it may draw.
struct Case {
    options: SamplerOptions,
    stride: u32,
    is_drawn: Box<IsDrawn>,
}

fn windows(history: u32, future: u32, stride: u32, boundary: Boundary) -> Case {
    let windows = Windows { history, future, stride, boundary };
    let options = SamplerOptions::seeded(3).history(history).future(future).boundary(boundary);
    let is_drawn = Box::new(move |lane: &Listed, at: usize| is_drawn(lane, at, windows));
    Case { options, stride, is_drawn }
}

fn sequences(length: u32, stride: u32, boundary: Boundary) -> Case {
    let sequence = Sequence::new(length).stride(stride);
    let options = SamplerOptions::seeded(3).sequence(sequence).boundary(boundary);
    let is_drawn = move |lane: &Listed, at: usize| is_start(lane, at, (sequence, boundary));
    Case { options, stride: 1, is_drawn: Box::new(is_drawn) }
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for boundary in [Boundary::Mask, Boundary::Reject, Boundary::Clamp] {
        for (history, future, stride) in [(1, 0, 1), (4, 2, 1), (8, 0, 4), (1, 3, 2)] {
            all.push(windows(history, future, stride, boundary));
        }
        for (length, stride) in [(5, 5), (6, 2), (1, 1)] {
            all.push(sequences(length, stride, boundary));
        }
    }
    all
}

/// Pearson's statistic divided by its 99.9 % quantile (Wilson and Hilferty). Cells of fewer than
/// five expected draws are left out.
fn chi_square(cells: impl Iterator<Item = (f64, f64)>) -> f64 {
    const Z: f64 = 3.0902;
    let (mut statistic, mut degrees) = (0.0, -1.0);
    for (found, expected) in cells.filter(|(_, expected)| *expected >= 5.0) {
        statistic += (found - expected).powi(2) / expected;
        degrees += 1.0;
    }
    assert!(degrees >= 1.0);
    let ninth = 2.0 / (9.0 * degrees);
    statistic / (degrees * (1.0 - ninth + Z * f64::sqrt(ninth)).powi(3))
}

fn real(number: impl TryInto<u32>) -> f64 {
    f64::from(number.try_into().ok().unwrap())
}

/// Returns how often each row was drawn in some blocks, -1 for rejected items.
fn drawn(sampler: &mut Sampler, blocks: usize, check: impl Fn(&Block)) -> BTreeMap<i64, f64> {
    let mut counts = BTreeMap::new();
    for _ in 0..blocks {
        let block = sampler.block(200).unwrap();
        check(&block);
        for (index, q) in block.batch.index().into_iter().zip(&block.q) {
            assert_eq!(index == RowIndex::NONE, *q <= 0.0);
            *counts.entry(index.0).or_default() += 1.0;
        }
    }
    counts
}

#[test]
fn the_count_of_a_block_is_that_of_the_transitions_that_may_be_drawn_and_each_is_as_likely() {
    for (number, case) in cases().into_iter().enumerate() {
        for (capacity, acts) in [(900, 300), (150, 900)] {
            let mut scene = Scene::new(capacity, number as u64);
            scene.act(acts);
            // Rows below the mark of a lane may not be drawn.
            scene.ring.drop_episode(0, None, false).ok();
            let eligible = scene.index_of(&case.is_drawn);
            let spec = strided(&scene.ring, case.options.clone(), case.stride).unwrap();
            let mut sampler = scene.ring.sampler(spec).unwrap();
            let count = eligible.len() as u64;
            let blocks = 100;
            let found = drawn(&mut sampler, blocks, |block| {
                assert_eq!((block.count, block.q_min.to_bits()), (count, 1_f64.to_bits()));
                assert_eq!(block.mass.to_bits(), real(count).to_bits(), "case {number}");
                assert!(block.q.iter().all(|q| q.to_bits() == 1_f64.to_bits()));
            });
            assert!(found.keys().all(|index| eligible.contains(index)), "case {number}");
            let expected = real(blocks * 200) / real(count);
            let cells = eligible.iter().map(|index| found.get(index).copied().unwrap_or(0.0));
            let ratio = chi_square(cells.map(|found| (found, expected)));
            assert!(ratio < 1.0, "case {number}: {ratio}");
        }
    }
}

#[test]
fn draws_by_priority_have_the_mass_of_the_table_and_rows_that_are_not_drawn_are_rejected() {
    let plain = || PriorityOptions::alpha(1.0).eps(0.0);
    let mut most_rejected = 0.0;
    for (number, case) in cases().into_iter().enumerate() {
        let mut scene = Scene::new(150, number as u64);
        scene.act(900);
        let spec = strided(&scene.ring, case.options.clone().priority(plain()), case.stride);
        // Sequences by priority are not drawn with "clamp".
        let Ok(spec) = spec else { continue };
        let mut sampler = scene.ring.sampler(spec).unwrap();
        sampler.block(1).unwrap();
        // Every row that has a priority gets one, whether it may be drawn or not.
        let all: Vec<i64> = scene.index_of(|_, _| true).into_iter().collect();
        let priority = |index: &i64| real(1 + RowIndex(*index).seq() % 23);
        let priorities: Vec<f64> = all.iter().map(priority).collect();
        let dropped = sampler.update_priorities(&all, &priorities).unwrap();
        let eligible = scene.index_of(&case.is_drawn);
        let blocks = 150;
        let found = drawn(&mut sampler, blocks, |block| {
            assert_eq!(block.count, eligible.len() as u64);
            for (index, q) in block.batch.index().iter().zip(&block.q) {
                assert!(*q <= 0.0 || q.to_bits() == priority(&index.0).to_bits());
            }
        });
        let mass = sampler.block(1).unwrap().mass;
        // A stride of the form, if there is one, leaves rows without a priority.
        let with_leaf = all.len() as u64 - dropped;
        let of_eligible: f64 = eligible.iter().map(priority).sum();
        assert!(with_leaf >= eligible.len() as u64 && mass >= of_eligible - 1e-6);
        let draws = real(blocks * 200);
        let rejected = 1.0 - of_eligible / mass;
        most_rejected = f64::max(most_rejected, rejected);
        let count = |index: &i64| found.get(index).copied().unwrap_or(0.0);
        let cells = eligible.iter().map(|index| (count(index), draws * priority(index) / mass));
        let ratio = chi_square(cells.chain([(count(&RowIndex::NONE.0), draws * rejected)]));
        assert!(ratio < 1.0, "case {number}: {ratio}");
        assert!(found.keys().all(|index| *index < 0 || eligible.contains(index)));
    }
    assert!(most_rejected > 0.3, "no case has rows that are rejected: {most_rejected}");
}

/// Transitions of the episodes that the writers append, again and again.
const LENGTHS: [u64; 5] = [1, 5, 2, 9, 3];

/// Returns the step of a row in its episode, and the transitions of the episode. The step of a
/// FINAL row is the number of transitions.
fn logged(seq: u64) -> (u64, u64) {
    let mut left = seq % LENGTHS.iter().map(|length| length + 1).sum::<u64>();
    for length in LENGTHS {
        if left <= length {
            return (left, length);
        }
        left -= length + 1;
    }
    unreachable!()
}

/// Window of a sampler, by the log of its writers.
#[derive(Clone, Copy)]
struct Logged {
    back: u64,
    ahead: u64,
}

impl Logged {
    fn may_draw(self, seq: u64, cut: &Range<u64>) -> bool {
        let ((t, length), Self { back, ahead }) = (logged(seq), self);
        let in_episode = t >= back && t + ahead < length;
        in_episode && seq >= cut.start + back && seq + ahead + 1 < cut.end
    }

    fn drawable(self, cut: &Range<u64>) -> Vec<u64> {
        cut.clone().filter(|seq| self.may_draw(*seq, cut)).collect()
    }
}

/// Draws blocks while two writers append up to `PACE` rows each during every block, and calls
/// `check` with each block.
fn while_writing(options: SamplerOptions, blocks: u64, mut check: impl FnMut(&Block)) {
    const PACE: u64 = 300;
    let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(2 * 800).lanes(2)).unwrap();
    let (allowed, written) = (AtomicU64::new(2_000), [AtomicU64::new(0), AtomicU64::new(0)]);
    thread::scope(|scope| {
        for written in &written {
            let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
            let mut writer = ring.writer(options).unwrap();
            let (schema, allowed) = (&schema, &allowed);
            scope.spawn(move || {
                let mut seq = 0;
                while allowed.load(SeqCst) != u64::MAX {
                    if seq >= allowed.load(SeqCst) {
                        thread::yield_now();
                        continue;
                    }
                    let (t, length) = logged(seq);
                    let (obs, ends) = ([seq], [t + 1 == length]);
                    let columns = StepColumns::of(schema).with("obs", &obs).unwrap();
                    let columns = columns.with_final("obs", &obs).unwrap();
                    writer.append(&columns.step(&ends, &[false]).unwrap()).unwrap();
                    seq += if ends[0] { 2 } else { 1 };
                    written.store(seq, SeqCst);
                }
            });
        }
        let mut sampler = ring.sampler(options).unwrap();
        for _ in 0..blocks {
            let paced = allowed.load(SeqCst);
            until("the writers", || written.iter().all(|of| of.load(SeqCst) >= paced));
            allowed.store(paced + PACE, SeqCst);
            check(&sampler.block(64).unwrap());
        }
        allowed.store(u64::MAX, SeqCst);
    });
}

#[test]
fn the_mass_is_that_of_the_log_of_writers_that_go_on_while_a_block_is_drawn() {
    let plain = || SamplerOptions::seeded(11);
    let whole = plain().history(3).future(2).boundary(Boundary::Reject);
    for (options, window) in
        [(plain(), Logged { back: 0, ahead: 0 }), (whole, Logged { back: 2, ahead: 2 })]
    {
        // Draws of each fifth of the newer half of a lane, which no writer overwrites meanwhile.
        let mut cells: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        // Draws of the older halves, and rejected ones.
        let mut rest = (0.0, 0.0);
        let (mut moved, mut last) = (0, Vec::new());
        while_writing(options, budget(3_000).max(300), |block| {
            let lanes: Vec<Vec<u64>> = block.cut.iter().map(|cut| window.drawable(cut)).collect();
            let count: usize = lanes.iter().map(Vec::len).sum();
            assert_eq!(block.count, count as u64, "{:?}", block.cut);
            let items = real(block.q.len());
            rest.1 += items;
            for (lane, rows) in lanes.iter().enumerate() {
                let newer = &rows[rows.len() / 2..];
                for fifth in 0..5 {
                    let size = (fifth + 1) * newer.len() / 5 - fifth * newer.len() / 5;
                    let expected = items * real(size) / real(count);
                    cells.entry((lane, fifth)).or_default().1 += expected;
                    rest.1 -= expected;
                }
            }
            for index in block.batch.index() {
                let lane = index.lane() as usize;
                if index == RowIndex::NONE {
                    rest.0 += 1.0;
                    continue;
                }
                let rows = &lanes[lane];
                let place = rows.binary_search(&index.seq()).expect("a row of the cut");
                match place.checked_sub(rows.len() / 2) {
                    Some(place) => {
                        let newer = rows.len() - rows.len() / 2;
                        let fifth = (0..5).find(|fifth| place < (fifth + 1) * newer / 5);
                        cells.entry((lane, fifth.unwrap())).or_default().0 += 1.0;
                    }
                    None => rest.0 += 1.0,
                }
            }
            moved += usize::from(block.cut != last);
            last.clone_from(&block.cut);
        });
        assert!(moved > 100, "the writers stood still");
        let ratio = chi_square(cells.values().copied().chain([rest]));
        assert!(ratio < 1.0, "{ratio}: {cells:?}, {rest:?}");
    }
}

#[test]
fn samplers_that_draw_no_independent_items_are_refused_and_the_error_names_both() {
    let ring = ring(100);
    Actor::of(&ring).episode(20, End::Terminated);
    let plain = || SamplerOptions::seeded(1);
    let priorities = || PriorityOptions::alpha(1.0);
    let queue = |name| Selector::Table(TableOptions::consume(name));
    for (options, word) in [
        (plain().selector(Selector::Fifo), "fifo"),
        (plain().selector(Selector::Lifo), "lifo"),
        (plain().selector(Selector::LaneStrata), "lane_strata"),
        (plain().selector(Selector::LaneWeights(vec![1.0])), "lane weights"),
        (plain().selector(Selector::Recency { half_life: 9.0 }), "recency"),
        (plain().selector(Selector::MaxPriority(priorities())), "largest"),
        (plain().selector(Selector::MinPriority(priorities())), "smallest"),
        (plain().selector(Selector::Table(TableOptions::epoch("epoch"))), "replacement"),
        (plain().selector(queue("queue")), "replacement"),
        (plain().priority(priorities().stratified(true)), "strata"),
        (plain().priority(PriorityOptions::alpha(Alpha::Table).table("any")), "alpha"),
        (plain().max_age(5), "max_age"),
        (plain().episodes(WholeEpisodes::padded()), "whole episodes"),
        (plain().rollout(Rollout::new(3)).selector(queue("rollouts")), "rollouts"),
    ] {
        let refused = ring.sampler(options).unwrap().block(4).unwrap_err();
        let SampleError::NoBlocks { what } = refused else { panic!("{refused}") };
        assert!(what.contains(word), "{what}");
        let text = refused.to_string();
        assert!(text.contains("block") && text.contains(what), "{text}");
    }
    let refused = ring.sampler(plain()).unwrap().block(0).unwrap_err();
    assert!(matches!(refused, SampleError::BadBatchSize { asked: 0, .. }), "{refused}");
}

#[test]
fn new_rows_enter_with_the_largest_value_that_was_given_from_outside() {
    let plain = || PriorityOptions::alpha(0.5).eps(0.0);
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(4, End::Open);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).priority(plain())).unwrap();
    let q_new = |sampler: &mut Sampler| sampler.block(1).unwrap().q_new;
    assert!((q_new(&mut sampler) - 1.0).abs() < 1e-6);
    sampler.raise_largest(3.0).unwrap();
    sampler.raise_largest(2.0).unwrap();
    assert!((q_new(&mut sampler) - 3.0).abs() < 1e-6);
    actor.episode(4, End::Open);
    let block = sampler.block(200).unwrap();
    let mut found: Vec<(u64, f64)> =
        block.batch.index().into_iter().map(RowIndex::seq).zip(block.q).collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    found.dedup();
    let expected = (0..7).map(|seq| (seq, if seq < 3 { 1.0 } else { 3.0 }));
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert!((block.mass - (3.0 + 4.0 * 3.0)).abs() < 1e-6);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = sampler.raise_largest(bad).unwrap_err();
        assert!(matches!(refused, PriorityError::BadOption { .. }), "{refused}");
    }
    let changing = PriorityOptions { alpha: Alpha::Table, ..plain().table("changing") };
    let refused = ring.priorities(&changing).unwrap().raise_largest(2.0).unwrap_err();
    assert!(matches!(&refused, PriorityError::ChangingAlpha { table } if table == "changing"));
    let refused = ring.sampler(SamplerOptions::seeded(1)).unwrap().raise_largest(2.0).unwrap_err();
    assert!(matches!(refused, PriorityError::NotPrioritised), "{refused}");
}

/// A shard, and a map of the priorities of its transitions.
struct Held {
    ring: Ring,
    actor: Actor,
    sampler: Sampler,
    model: BTreeMap<i64, f64>,
}

impl Held {
    fn new(seed: u64) -> Self {
        let ring = ring(40);
        let options =
            PriorityOptions::alpha(1.0).eps(0.0).initial(InitialPriority::Held).table("held");
        let sampler = ring.sampler(SamplerOptions::seeded(seed).priority(options)).unwrap();
        Self { actor: Actor::of(&ring), sampler, ring, model: BTreeMap::new() }
    }

    fn own(&self) -> Option<f64> {
        self.model.values().copied().reduce(f64::max)
    }

    /// Enters new rows in the model, with the largest of its own priorities and that of others.
    fn enter(&mut self, others: Option<f64>) {
        let now = transitions(&self.ring);
        self.model.retain(|index, _| now.contains(index));
        let initial = self.own().into_iter().chain(others).reduce(f64::max).unwrap_or(1.0);
        for index in now {
            self.model.entry(index).or_insert(initial);
        }
    }
}

#[test]
fn new_rows_of_shards_follow_the_largest_priority_that_any_of_them_holds() {
    let (mut falls, mut rises) = (0, 0);
    for seed in 0..20 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (mut shards, mut others) = ([Held::new(seed), Held::new(seed + 1)], None);
        for _ in 0..120 {
            let at = usize::from(dice.random_bool(0.3));
            let shard = &mut shards[at];
            match dice.random_range(0..4) {
                0 => (0..dice.random_range(1..9)).for_each(|_| shard.actor.step(End::Open)),
                1 => {
                    shard.enter(others);
                    // Most updates are of all rows, so that the largest priority falls too.
                    let kept = if dice.random_bool(0.7) { 1.0 } else { 0.4 };
                    let most = dice.random_range(2..9_u8);
                    let mut known: Vec<i64> = shard.model.keys().copied().collect();
                    known.retain(|_| dice.random_bool(kept));
                    for index in known {
                        let priority = f64::from(dice.random_range(1..most)) / 4.0;
                        shard.sampler.update_priorities(&[index], &[priority]).unwrap();
                        shard.model.insert(index, priority);
                    }
                }
                2 => {
                    shard.enter(others);
                    let block = shard.sampler.block(1).unwrap();
                    let mass: f64 = shard.model.values().sum();
                    assert!((block.mass - mass).abs() < 1e-6, "{} of {mass}", block.mass);
                    assert!((block.q_new - shard.own().unwrap_or(1.0)).abs() < 1e-6);
                }
                _ => {
                    let of_shard = |shard: &mut Held| {
                        shard.enter(others);
                        let block = shard.sampler.block(1).unwrap();
                        (block.count > 0).then_some(block.q_new)
                    };
                    let largest = shards.iter_mut().filter_map(of_shard).reduce(f64::max);
                    let Some(largest) = largest else { continue };
                    for shard in &mut shards {
                        shard.sampler.raise_largest(largest).unwrap();
                    }
                    falls += u32::from(others.is_some_and(|before| largest < before));
                    rises += u32::from(others.is_some_and(|before| largest > before));
                    others = Some(largest);
                }
            }
        }
    }
    assert!(falls > 5 && rises > 5, "the test proves little: {falls} falls, {rises} rises");
}
