//! Probabilities of selectors, their windows, states and errors.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "small rings: counts, ages and lanes are small"
)]

use std::collections::BTreeMap;
use std::error::Error;

use backcast_core::{
    AutoresetMode, Boundary, DType, PriorityOptions, Ring, RingOptions, RowIndex, SampleError,
    SamplerOptions, Schema, Selector, StepColumns, Writer, WriterOptions,
};

const LANES: usize = 3;

/// A ring of three lanes, and the rows of each: whether an episode ends there, and whether the row
/// is FINAL.
struct Model {
    ring: Ring,
    writers: Vec<Writer>,
    /// Whether a transition starts at each row, by lane.
    starts: Vec<Vec<bool>>,
    ended: Vec<bool>,
}

impl Model {
    fn new(capacity: u64) -> Result<Self, Box<dyn Error>> {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build()?;
        let options = RingOptions::with_capacity(capacity).lanes(LANES as u32);
        let ring = Ring::heap(&schema, options)?;
        let writer = || ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep));
        let writers = (0..LANES).map(|_| writer()).collect::<Result<_, _>>()?;
        Ok(Self { ring, writers, starts: vec![Vec::new(); LANES], ended: vec![false; LANES] })
    }

    fn append(&mut self, lane: usize, ends: bool) -> Result<(), Box<dyn Error>> {
        let (obs, schema) = ([self.starts[lane].len() as u64], self.ring.schema().clone());
        // The row after an end is FINAL, and its flags are dropped.
        let (is_final, ends) = (self.ended[lane], ends && !self.ended[lane]);
        let columns = StepColumns::of(&schema).with("obs", &obs)?;
        self.writers[lane].append(&columns.step(&[ends], &[false])?)?;
        self.starts[lane].push(!is_final);
        self.ended[lane] = ends;
        Ok(())
    }

    /// Returns the transitions that the ring holds, in the order of lanes and rows.
    fn transitions(&self) -> Vec<(usize, u64)> {
        let kept = usize::try_from(self.ring.lane_capacity()).unwrap();
        let mut all = Vec::new();
        for (lane, starts) in self.starts.iter().enumerate() {
            let end = starts.len().saturating_sub(1);
            let rows = starts.len().saturating_sub(kept)..end;
            all.extend(rows.filter(|row| starts[*row]).map(|row| (lane, row as u64)));
        }
        all
    }

    /// Returns the first readable row of a lane, and one past the last.
    fn readable(&self, lane: usize) -> (u64, u64) {
        let (end, kept) = (self.starts[lane].len() as u64, self.ring.lane_capacity());
        (end.saturating_sub(kept), end)
    }

    fn sample(
        &self,
        seed: u64,
        spec: Selector,
        batch: usize,
    ) -> Result<Vec<(usize, u64)>, SampleError> {
        let mut sampler = self.ring.sampler(SamplerOptions::seeded(seed).selector(spec))?;
        Ok(rows(&sampler.sample(batch)?.index()))
    }
}

fn rows(index: &[RowIndex]) -> Vec<(usize, u64)> {
    index.iter().map(|row| (row.lane() as usize, row.seq())).collect()
}

fn by_priority() -> PriorityOptions {
    PriorityOptions::alpha(1.0).eps(0.0)
}

/// Returns the statistic of a chi-square test.
fn chi_square<K: Ord>(counts: &BTreeMap<K, u64>, expected: &BTreeMap<K, f64>) -> f64 {
    assert!(counts.keys().all(|key| expected.contains_key(key)), "a row that cannot be drawn");
    let of = |(key, expected): (&K, &f64)| {
        let count = counts.get(key).copied().unwrap_or(0) as f64;
        (count - expected).powi(2) / expected
    };
    expected.iter().map(of).sum()
}

/// Returns the value that a chi-square statistic of `df` degrees of freedom exceeds with
/// probability 1e-4 (Wilson and Hilferty, 1931).
fn threshold(df: f64) -> f64 {
    let c = 2.0 / (9.0 * df);
    df * (1.0 - c + 3.719 * c.sqrt()).powi(3)
}

#[test]
fn orders_keep_whole_windows_only_where_the_boundary_asks() -> Result<(), Box<dyn Error>> {
    let mut model = Model::new(300)?;
    for row in 0..90 {
        for lane in 0..LANES {
            model.append(lane, row % 7 == 6)?;
        }
    }
    for selector in [
        Selector::Fifo,
        Selector::Lifo,
        Selector::MaxPriority(by_priority()),
        Selector::Recency { half_life: 5.0 },
        Selector::LaneWeights(vec![1.0, 2.0, 0.0]),
        Selector::LaneStrata,
    ] {
        let options = SamplerOptions::seeded(1).history(4).boundary(Boundary::Reject);
        let mut sampler = model.ring.sampler(options.selector(selector.clone()))?;
        for _ in 0..3 {
            let batch = sampler.sample(40)?;
            assert!(batch.column::<bool>("mask")?.iter().all(|mask| *mask), "{selector}");
        }
    }
    Ok(())
}

/// Draws from a ring whose lanes have 20, 60 and 10 rows, every fifth of them FINAL.
fn uneven() -> Result<Model, Box<dyn Error>> {
    let mut model = Model::new(300)?;
    for (lane, rows) in [20, 60, 10].into_iter().enumerate() {
        for row in 0..rows {
            model.append(lane, row % 5 == 3)?;
        }
    }
    Ok(model)
}

/// Counts the rows of many batches, and compares them with weights of transitions.
fn statistic(
    model: &Model,
    spec: &dyn Fn(u64) -> SamplerOptions,
    weight: &dyn Fn(usize, u64) -> f64,
    seeds: u64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let mut counts = BTreeMap::new();
    for seed in 0..seeds {
        let mut sampler = model.ring.sampler(spec(seed))?;
        for _ in 0..10 {
            for row in rows(&sampler.sample(100)?.index()) {
                *counts.entry(row).or_insert(0) += 1;
            }
        }
    }
    let total: f64 = model.transitions().iter().map(|(lane, seq)| weight(*lane, *seq)).sum();
    let draws = (seeds * 1_000) as f64;
    let weights = model.transitions().into_iter().map(|row| (row, weight(row.0, row.1)));
    let expected: BTreeMap<_, _> =
        weights.filter(|(_, w)| *w > 0.0).map(|(row, w)| (row, draws * w / total)).collect();
    Ok((chi_square(&counts, &expected), threshold(expected.len() as f64 - 1.0)))
}

/// Name, draws, weights, and whether the draws match the weights.
type Case<'a> = (&'a str, &'a dyn Fn(u64) -> SamplerOptions, &'a dyn Fn(usize, u64) -> f64, bool);

/// Every statistic stays below the threshold of p = 1e-4, and that of weights that are a little
/// wrong does not.
#[test]
fn weighted_draws_match_their_probabilities() -> Result<(), Box<dyn Error>> {
    let model = uneven()?;
    let count = |lane: usize| model.transitions().iter().filter(|row| row.0 == lane).count() as f64;
    let age = |lane: usize, seq: u64| (model.readable(lane).1 - 1 - seq) as f64;
    let weights = [1.0, 3.0, 6.0];
    let recency = |half_life: f64| {
        move |seed| SamplerOptions::seeded(seed).selector(Selector::Recency { half_life })
    };
    let lanes =
        |seed| SamplerOptions::seeded(seed).selector(Selector::LaneWeights(weights.to_vec()));
    let strata = |seed| SamplerOptions::seeded(seed).selector(Selector::LaneStrata);
    let uniform = |seed| SamplerOptions::seeded(seed);
    let cases: [Case<'_>; 9] = [
        ("uniform", &uniform, &|_, _| 1.0, true),
        ("uniform over lanes", &uniform, &|lane, _| 1.0 / count(lane), false),
        ("recency 8", &recency(8.0), &|lane, seq| 0.5_f64.powf(age(lane, seq) / 8.0), true),
        ("recency 8 is not 7", &recency(8.0), &|l, s| 0.5_f64.powf(age(l, s) / 7.0), false),
        ("recency 1e9", &recency(1e9), &|_, _| 1.0, true),
        ("lanes", &lanes, &|lane, _| weights[lane] / count(lane), true),
        ("lanes by row", &lanes, &|lane, _| weights[lane], false),
        ("strata", &strata, &|lane, _| 1.0 / count(lane), true),
        ("strata by row", &strata, &|_, _| 1.0, false),
    ];
    for (name, spec, weight, right) in cases {
        let (found, limit) = statistic(&model, spec, weight, 30)?;
        assert_eq!(found < limit, right, "{name}: chi-square {found:.1}, limit {limit:.1}");
    }
    Ok(())
}

/// Lanes in turn: batches of 10 over three lanes hold 3 or 4 of each, and 30 in a row 100 of each.
#[test]
fn strata_are_exact() -> Result<(), Box<dyn Error>> {
    let model = uneven()?;
    let options = SamplerOptions::seeded(5).selector(Selector::LaneStrata);
    let mut sampler = model.ring.sampler(options)?;
    let mut totals = [0; LANES];
    for _ in 0..30 {
        let mut counts = [0; LANES];
        for (lane, _) in rows(&sampler.sample(10)?.index()) {
            counts[lane] += 1;
            totals[lane] += 1;
        }
        assert!(counts.iter().all(|count| (3..=4).contains(count)), "{counts:?}");
    }
    assert_eq!(totals, [100; LANES]);
    Ok(())
}

/// The index of starts takes over where nearly all rows are rejected, with the same probabilities.
#[test]
fn rare_transitions_are_drawn_by_their_weights() -> Result<(), Box<dyn Error>> {
    let mut model = Model::new(3_000)?;
    for row in 0..900 {
        for lane in 0..2 {
            model.append(lane, row % 450 < 440 && row % 2 == 0)?;
        }
    }
    // Whole windows exist only in the few rows at the end of every 450.
    let spec = |selector: Selector| {
        move |seed| {
            let options = SamplerOptions::seeded(seed).history(6).boundary(Boundary::Reject);
            options.selector(selector.clone())
        }
    };
    let mut all = model.ring.sampler(
        SamplerOptions::seeded(0).history(6).boundary(Boundary::Reject).selector(Selector::Lifo),
    )?;
    let SampleError::TooFew { available, .. } = all.sample(1_000).unwrap_err() else {
        panic!("there are few windows");
    };
    let windows = rows(&all.sample(usize::try_from(available)?)?.index());
    let eligible = |lane: usize, seq: u64| windows.contains(&(lane, seq));
    let age = |lane: usize, seq: u64| (model.readable(lane).1 - 1 - seq) as f64;
    let by_age = |l: usize, s: u64| {
        if eligible(l, s) { 0.5_f64.powf(age(l, s) / 400.0) } else { 0.0 }
    };
    let wrong = |l: usize, s: u64| if eligible(l, s) { 1.0 } else { 0.0 };
    let recency = spec(Selector::Recency { half_life: 400.0 });
    let (found, limit) = statistic(&model, &recency, &by_age, 10)?;
    assert!(found < limit, "chi-square {found:.1}, limit {limit:.1}");
    let (found, limit) = statistic(&model, &recency, &wrong, 10)?;
    assert!(found > limit, "chi-square {found:.1}, limit {limit:.1}");
    let lanes = spec(Selector::LaneWeights(vec![1.0, 3.0, 5.0]));
    let by_lane = |l: usize, s: u64| if eligible(l, s) { [1.0, 3.0, 0.0][l] } else { 0.0 };
    let (found, limit) = statistic(&model, &lanes, &by_lane, 10)?;
    assert!(found < limit, "chi-square {found:.1}, limit {limit:.1}");
    // Weights of rows that are very old do not vanish.
    let mut old = model.ring.sampler(spec(Selector::Recency { half_life: 0.01 })(1))?;
    assert!(rows(&old.sample(50)?.index()).iter().all(|(l, s)| eligible(*l, *s)));
    Ok(())
}

#[test]
fn states_continue_and_bad_settings_are_refused() -> Result<(), Box<dyn Error>> {
    let model = uneven()?;
    for selector in [
        Selector::Fifo,
        Selector::Lifo,
        Selector::Recency { half_life: 9.5 },
        Selector::LaneWeights(vec![0.5, 0.0, 2.0]),
        Selector::LaneStrata,
        Selector::MinPriority(by_priority()),
    ] {
        let mut sampler =
            model.ring.sampler(SamplerOptions::seeded(3).selector(selector.clone()))?;
        sampler.sample(7)?;
        let state = sampler.state();
        assert_eq!(state.selector, selector);
        let mut again = model.ring.sampler(state)?;
        assert_eq!(again.sample(7)?.index(), sampler.sample(7)?.index());
    }
    for (selector, values) in [
        (Selector::Recency { half_life: 0.0 }, ["half_life", "0"]),
        (Selector::Recency { half_life: f64::NAN }, ["half_life", "NaN"]),
        (Selector::LaneWeights(vec![1.0]), ["1", "3"]),
        (Selector::LaneWeights(vec![1.0, -2.0, 1.0]), ["lane 1", "-2"]),
        (Selector::LaneWeights(vec![1.0, f64::INFINITY, 1.0]), ["lane 1", "inf"]),
        (Selector::LaneWeights(vec![0.0; 3]), ["lane", "0"]),
    ] {
        let refused = model.ring.sampler(SamplerOptions::seeded(3).selector(selector)).unwrap_err();
        let SampleError::BadSelector(error) = refused else { panic!("{refused}") };
        let what = &error.what;
        assert!(values.iter().all(|value| what.contains(value)), "{what} lacks {values:?}");
    }
    let empty = Model::new(30)?;
    for selector in [Selector::Fifo, Selector::LaneStrata, Selector::MaxPriority(by_priority())] {
        let refused = empty.sample(1, selector, 4).unwrap_err();
        assert!(matches!(refused, SampleError::Empty { .. }), "{refused}");
    }
    let lone = Selector::LaneWeights(vec![1.0, 0.0, 0.0]);
    let mut model = Model::new(30)?;
    for _ in 0..5 {
        model.append(1, false)?;
    }
    assert!(model.sample(1, lone, 4).is_err(), "the lane that has a weight is empty");
    Ok(())
}
