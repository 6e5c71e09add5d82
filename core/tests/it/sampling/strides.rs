//! Windows on a stride: which transitions every selector draws, against a list made of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Boundary, DType, FINAL, GAP, PriorityOptions, Ring, RingOptions, RowIndex,
    SampleError, SamplerOptions, Schema, Selector, StepColumns, TableOptions, Writer,
    WriterOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const LANES: u32 = 3;

/// Windows of a sampler.
#[derive(Clone, Copy, Debug)]
struct Windows {
    history: u32,
    future: u32,
    stride: u32,
    boundary: Boundary,
}

impl Windows {
    fn options(self, seed: u64) -> SamplerOptions {
        let Self { history, future, stride, boundary } = self;
        let options = SamplerOptions::seeded(seed).history(history).future(future);
        options.stride(stride).boundary(boundary)
    }
}

/// Windows of every boundary, with and without a future.
fn windows() -> impl Iterator<Item = Windows> {
    let boundaries = [Boundary::Mask, Boundary::Reject, Boundary::Clamp];
    let shapes = [(8, 0, 4), (5, 0, 5), (3, 2, 2), (1, 0, 3), (4, 1, 1)];
    boundaries.into_iter().flat_map(move |boundary| {
        shapes.map(|(history, future, stride)| Windows { history, future, stride, boundary })
    })
}

/// A ring whose lanes are written by one writer each, with every kind of end.
struct Scene {
    ring: Ring,
    writers: Vec<Option<Writer>>,
    dice: StdRng,
}

impl Scene {
    fn new(capacity: u64, seed: u64) -> Self {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(capacity).lanes(LANES)).unwrap();
        let writers = (0..LANES).map(|_| None).collect();
        Self { ring, writers, dice: StdRng::seed_from_u64(seed) }
    }

    fn act(&mut self, times: usize) {
        for _ in 0..times {
            let place = self.dice.random_range(0..self.writers.len());
            match self.dice.random_range(0..60) {
                // The next writer of the lane begins with a GAP.
                0 => self.writers[place] = None,
                1 => self.writer(place).restart(&[true]).unwrap(),
                n => self.append(place, (2..8).contains(&n)),
            }
        }
    }

    fn writer(&mut self, place: usize) -> &mut Writer {
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::Disabled);
        let ring = &self.ring;
        self.writers[place].get_or_insert_with(|| ring.writer(options).unwrap())
    }

    fn append(&mut self, place: usize, ends: bool) {
        let (schema, truncated): (_, bool) = (self.ring.schema().clone(), self.dice.random());
        let columns = StepColumns::of(&schema).with("obs", &[1_u64]).unwrap();
        let mut columns = if ends { columns.with_final("obs", &[2_u64]).unwrap() } else { columns };
        let (terminated, truncated) = ([ends && !truncated], [ends && truncated]);
        let step = columns.step(&terminated, &truncated).unwrap();
        self.writer(place).append(&step).unwrap();
    }

    /// Ends every episode, and writes a row after it.
    fn end_all(&mut self) {
        for place in 0..self.writers.len() {
            self.append(place, true);
            self.append(place, false);
        }
    }

    fn listed(&self) -> Vec<Listed> {
        (0..LANES).map(|lane| Listed::of(&self.ring, lane)).collect()
    }

    /// Returns the indices of the transitions that may be drawn.
    fn eligible(&self, windows: Windows) -> BTreeSet<i64> {
        let lanes = self.listed();
        let rows = lanes.iter().flat_map(|lane| (0..lane.rows.len()).map(move |at| (lane, at)));
        let drawn = rows.filter(|(lane, at)| lane.is_drawn(*at, windows));
        drawn.map(|(lane, at)| lane.index(at)).collect()
    }
}

/// The rows of a lane: sequence number, episode, step and flags of each.
struct Listed {
    lane: u32,
    rows: Vec<(u64, u64, u32, u32)>,
}

impl Listed {
    fn of(ring: &Ring, lane: u32) -> Self {
        let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
        let long = |name| rows.column::<u64>(name).unwrap().to_vec();
        let short = |name| rows.column::<u32>(name).unwrap().to_vec();
        let (seq, episode, t, flags) = (long("seq"), long("episode"), short("t"), short("flags"));
        let rows = seq.into_iter().zip(episode).zip(t.into_iter().zip(flags));
        Self { lane, rows: rows.map(|((seq, e), (t, flags))| (seq, e, t, flags)).collect() }
    }

    fn index(&self, at: usize) -> i64 {
        RowIndex::new(self.lane, self.rows[at].0).0
    }

    fn has(&self, at: usize, flag: u32) -> bool {
        self.rows.get(at).is_some_and(|row| row.3 & flag != 0)
    }

    fn is_transition(&self, at: usize) -> bool {
        at + 1 < self.rows.len() && !self.has(at, FINAL) && !self.has(at + 1, GAP)
    }

    /// Returns whether no transition of the episode will ever follow.
    fn is_last(&self, at: usize) -> bool {
        let next = at + 1;
        self.is_transition(at) && (self.has(next, FINAL) || self.has(next + 1, GAP))
    }

    fn is_drawn(&self, at: usize, windows: Windows) -> bool {
        if !self.is_transition(at) {
            return false;
        }
        let (back, ahead) = (windows.history as usize - 1, windows.future as usize);
        let (_, episode, t, _) = self.rows[at];
        let same = |at: &usize| self.is_transition(*at) && self.rows[*at].1 == episode;
        let is_whole = at >= back && (at - back..=at + ahead).all(|at| same(&at));
        let is_known = at >= back.min(t as usize);
        let (fits, end) = match windows.boundary {
            Boundary::Mask => (true, at),
            Boundary::Reject => (is_whole, at + ahead),
            Boundary::Clamp => (is_known, at),
        };
        let start = i64::from(t) - i64::from(windows.history - 1);
        fits && (start % i64::from(windows.stride) == 0 || self.is_last(end))
    }
}

fn selectors() -> Vec<Selector> {
    let equal = || PriorityOptions::alpha(1.0).eps(0.0);
    vec![
        Selector::Uniform,
        Selector::Priority(equal().beta(0.5)),
        Selector::Recency { half_life: 1_000.0 },
        Selector::LaneWeights(vec![1.0; LANES as usize]),
        Selector::LaneStrata,
        Selector::Fifo,
        Selector::Lifo,
        Selector::MaxPriority(equal()),
        Selector::MinPriority(equal()),
        Selector::Table(TableOptions::epoch("epoch").seed(3)),
    ]
}

#[test]
fn every_selector_draws_the_multiples_of_the_stride_and_the_ends_of_episodes() {
    for windows in windows() {
        // Lanes with few rows, and lanes that have lapped.
        for (capacity, acts) in [(900, 400), (150, 900)] {
            let mut scene = Scene::new(capacity, acts as u64);
            scene.act(acts);
            let eligible = scene.eligible(windows);
            assert!(eligible.len() > 5, "{windows:?}");
            for selector in selectors() {
                let name = selector.to_string();
                let options = windows.options(7).selector(selector);
                let mut sampler = scene.ring.sampler(options).unwrap();
                let of_all = matches!(&*name, "fifo" | "lifo" | "epoch")
                    || matches!(&*name, "max_priority" | "min_priority");
                let batch = if of_all { eligible.len() } else { 200 * eligible.len() };
                let mut counts = BTreeMap::<i64, f64>::new();
                for index in sampler.sample(batch).unwrap().index() {
                    *counts.entry(index).or_default() += 1.0;
                }
                let found: BTreeSet<i64> = counts.keys().copied().collect();
                assert_eq!(found, eligible, "{name}, {windows:?}, {acts} acts");
                // A binomial of mean 200: 7 standard deviations.
                if matches!(&*name, "uniform" | "priority") {
                    let far = counts.iter().find(|(_, count)| (**count - 200.0).abs() > 100.0);
                    assert_eq!(far, None, "{name}, {windows:?}");
                }
                if matches!(&*name, "fifo" | "lifo") {
                    let refused = sampler.sample(eligible.len() + 1).unwrap_err();
                    assert!(matches!(refused, SampleError::TooFew { .. }), "{name}: {refused}");
                }
            }
        }
    }
}

#[test]
fn every_step_of_an_ended_episode_lies_in_some_window() {
    for windows in windows().filter(|of| of.boundary != Boundary::Reject) {
        if windows.stride > windows.history {
            continue;
        }
        let mut scene = Scene::new(900, 5);
        scene.act(500);
        let (drawn, lanes) = (scene.eligible(windows), scene.listed());
        for lane in &lanes {
            let last = (0..lane.rows.len()).rev().find(|at| lane.is_last(*at)).unwrap();
            for at in (0..=last).filter(|at| lane.is_transition(*at)) {
                let (_, episode, _, _) = lane.rows[at];
                let ends = at..lane.rows.len().min(at + windows.history as usize);
                let mut ends = ends.filter(|end| lane.rows[*end].1 == episode);
                assert!(ends.any(|end| drawn.contains(&lane.index(end))), "row {at}, {windows:?}");
            }
        }
    }
}

/// Rows to come decide whether the newest transition of a lane is the last of its episode, and
/// whether a window with a future is whole. A queue must not lose such rows.
#[test]
fn a_queue_hands_out_every_eligible_transition_once_however_early_it_is_asked() {
    for windows in windows() {
        let mut scene = Scene::new(30_000, 11);
        let table = TableOptions::consume("queue");
        let options = windows.options(1).selector(Selector::Table(table));
        let mut sampler = scene.ring.sampler(options).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let mut found = Vec::new();
        let mut draw = |batch: usize| match sampler.sample(batch) {
            Ok(batch) => {
                found.extend(batch.index());
                true
            }
            Err(SampleError::TimedOut { .. }) => false,
            Err(other) => panic!("{windows:?}: {other}"),
        };
        for _ in 0..400 {
            scene.act(2);
            draw(1);
        }
        scene.end_all();
        scene.end_all();
        let eligible: Vec<i64> = scene.eligible(windows).into_iter().collect();
        let drawn = (0..eligible.len() + 10).filter(|_| draw(1)).count();
        assert!(drawn < eligible.len(), "{windows:?}: some were drawn before");
        found.sort_unstable();
        assert_eq!(found, eligible, "{windows:?}");
    }
}

#[test]
fn learners_that_share_the_draws_of_a_seed_share_the_ends_too() {
    let mut scene = Scene::new(900, 2);
    scene.act(500);
    let windows = Windows { history: 8, future: 0, stride: 4, boundary: Boundary::Mask };
    let mut alone = scene.ring.sampler(windows.options(9)).unwrap();
    let mut ranks =
        [0, 1].map(|rank| scene.ring.sampler(windows.options(9).rank(rank, 2)).unwrap());
    for batch in 0..6 {
        let drawn = ranks[batch % 2].sample(50).unwrap().index();
        assert_eq!(drawn, alone.sample(50).unwrap().index(), "batch {batch}");
    }
}

#[test]
fn the_last_transition_counts_when_its_episode_ends_and_not_before() {
    let ring = crate::sampling::ring(1_000);
    let mut actor = crate::sampling::Actor::of(&ring);
    let options = SamplerOptions::seeded(1).history(80).stride(40).selector(Selector::Fifo);
    let mut sampler = ring.sampler(options).unwrap();
    let mut ends = |count: usize| sampler.sample(count).map(|batch| batch.index());
    actor.episode(100, crate::sampling::End::Open);
    assert_eq!(ends(2).unwrap(), [39, 79]);
    assert!(matches!(ends(3), Err(SampleError::TooFew { .. })), "the newest is no end");
    actor.episode(50, crate::sampling::End::Terminated);
    assert_eq!(ends(4).unwrap(), [39, 79, 119, 149]);
    // A short episode has no other window.
    actor.episode(7, crate::sampling::End::Truncated);
    assert_eq!(ends(5).unwrap(), [39, 79, 119, 149, 157]);
    // Steps 0 to 4 and no successor of the last: cut by the next writer.
    actor.episode(5, crate::sampling::End::Open);
    assert!(matches!(ends(6), Err(SampleError::TooFew { .. })));
    drop(actor);
    let mut actor = crate::sampling::Actor::of(&ring);
    assert!(matches!(ends(6), Err(SampleError::TooFew { .. })));
    actor.episode(1, crate::sampling::End::Open);
    assert_eq!(ends(6).unwrap(), [39, 79, 119, 149, 157, 162]);
}
