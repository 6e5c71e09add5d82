//! A ring with every kind of end, and what it holds: for tests of which transitions are drawn.

use std::collections::BTreeSet;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, DType, FINAL, GAP, PriorityOptions, Ring, RingOptions, RowIndex, SampleError,
    Sampler, Schema, Selector, StepColumns, TableOptions, Writer, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const LANES: u32 = 3;

/// A ring whose lanes are written by one writer each, with every kind of end. Observations count
/// the rows of all lanes, final ones included.
pub(super) struct Scene {
    pub(super) ring: Ring,
    writers: Vec<Option<Writer>>,
    dice: StdRng,
    count: u64,
}

impl Scene {
    pub(super) fn new(capacity: u64, seed: u64) -> Self {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(capacity).lanes(LANES)).unwrap();
        let writers = (0..LANES).map(|_| None).collect();
        Self { ring, writers, dice: StdRng::seed_from_u64(seed), count: 0 }
    }

    pub(super) fn act(&mut self, times: usize) {
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

    pub(super) fn writer(&mut self, place: usize) -> &mut Writer {
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::Disabled);
        let ring = &self.ring;
        self.writers[place].get_or_insert_with(|| ring.writer(options).unwrap())
    }

    pub(super) fn append(&mut self, place: usize, ends: bool) {
        let (schema, truncated): (_, bool) = (self.ring.schema().clone(), self.dice.random());
        let (obs, last) = ([self.count + 1], [self.count + 2]);
        self.count += 2;
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = if ends { columns.with_final("obs", &last).unwrap() } else { columns };
        let (terminated, truncated) = ([ends && !truncated], [ends && truncated]);
        let step = columns.step(&terminated, &truncated).unwrap();
        self.writer(place).append(&step).unwrap();
    }

    /// Ends every episode, and writes a row after it.
    pub(super) fn end_all(&mut self) {
        for place in 0..self.writers.len() {
            self.append(place, true);
            self.append(place, false);
        }
    }

    pub(super) fn listed(&self) -> Vec<Listed> {
        (0..LANES).map(|lane| Listed::of(&self.ring, lane)).collect()
    }

    /// Returns the indices of the rows that `drawn` accepts.
    pub(super) fn index_of(&self, drawn: impl Fn(&Listed, usize) -> bool) -> BTreeSet<i64> {
        let lanes = self.listed();
        let rows = lanes.iter().flat_map(|lane| (0..lane.rows.len()).map(move |at| (lane, at)));
        rows.filter(|(lane, at)| drawn(lane, *at)).map(|(lane, at)| lane.index(at)).collect()
    }
}

/// The rows of a lane: sequence number, episode, step, flags and observation of each.
pub(super) struct Listed {
    lane: u32,
    pub(super) rows: Vec<(u64, u64, u32, u32, u64)>,
}

impl Listed {
    pub(super) fn of(ring: &Ring, lane: u32) -> Self {
        let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
        let long = |name| rows.column::<u64>(name).unwrap().to_vec();
        let short = |name| rows.column::<u32>(name).unwrap().to_vec();
        let (seq, episode, t, flags) = (long("seq"), long("episode"), short("t"), short("flags"));
        let rows = seq.into_iter().zip(episode).zip(t.into_iter().zip(flags)).zip(long("obs"));
        let row = |(((seq, episode), (t, flags)), obs)| (seq, episode, t, flags, obs);
        Self { lane, rows: rows.map(row).collect() }
    }

    pub(super) fn index(&self, at: usize) -> i64 {
        RowIndex::new(self.lane, self.rows[at].0).0
    }

    pub(super) fn has(&self, at: usize, flag: u32) -> bool {
        self.rows.get(at).is_some_and(|row| row.3 & flag != 0)
    }

    pub(super) fn is_transition(&self, at: usize) -> bool {
        at + 1 < self.rows.len() && !self.has(at, FINAL) && !self.has(at + 1, GAP)
    }

    /// Returns whether no transition of the episode will ever follow.
    pub(super) fn is_last(&self, at: usize) -> bool {
        let next = at + 1;
        self.is_transition(at) && (self.has(next, FINAL) || self.has(next + 1, GAP))
    }
}

/// Returns every selector that draws without waiting, with equal priorities.
pub(super) fn selectors() -> Vec<Selector> {
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

/// Draws single items from a queue while rows are written, as early as it has them, and the rest
/// after every episode has ended. Returns the rows, and how many of them were drawn early.
pub(super) fn drawn_from_queue(scene: &mut Scene, mut sampler: Sampler) -> (Vec<i64>, usize) {
    sampler.set_timeout(Some(Duration::ZERO));
    let mut found = Vec::new();
    let mut draw = || match sampler.sample(1) {
        Ok(batch) => {
            found.extend(batch.index().into_iter().map(i64::from));
            true
        }
        Err(SampleError::TimedOut { .. }) => false,
        Err(other) => panic!("{other}"),
    };
    let mut early = 0;
    for _ in 0..400 {
        scene.act(2);
        early += usize::from(draw());
    }
    scene.end_all();
    scene.end_all();
    while draw() {}
    found.sort_unstable();
    (found, early)
}
