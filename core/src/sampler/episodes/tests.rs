//! Whole episodes against a plain list of them.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backcast_budget::Stop;
use proptest::prelude::*;

use super::*;
use crate::error::{FormError, SampleError};
use crate::{
    AutoresetMode, Batch, BatchesOptions, Boundary, ColumnWindows, DType, Discount, GoalStrategy,
    Hindsight, LanePolicy, PriorityOptions, Ring, RingOptions, Role, RowIndex, SamplerOptions,
    SamplerState, Schema, Selector, StepColumns, TableOptions, Writer, WriterOptions,
};

mod selectors;

fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::U64, &[2])
        .column_as("reward", DType::F64, &[], Role::Step)
        .build()
        .unwrap()
}

/// A lane of one ring: its writer, and what it wrote.
struct Lane {
    writer: Option<Writer>,
    /// First row, transitions, and the oldest row needed to know that the episode is whole.
    episodes: Vec<(u64, u64, Option<u64>)>,
    rows: u64,
    /// First row of the running episode, and the oldest row needed, as in `episodes`.
    running: Option<(u64, Option<u64>)>,
    /// Whether the last row is the FINAL row of an episode that ended.
    after_end: bool,
    /// Whether the next row does not continue the row before.
    gap: bool,
    /// First row that was not dropped.
    mark: u64,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Step,
    End {
        truncated: bool,
    },
    Restart,
    /// All rows of the ring are dropped.
    Clear,
    /// The writer goes away in the middle of whatever it does, and another one comes.
    Replace,
}

struct Model {
    ring: Ring,
    lanes: Vec<Lane>,
}

/// Returns the observation of a row, which no other row has.
fn obs(lane: usize, row: u64) -> [u64; 2] {
    [row, row.wrapping_mul(0x9E37_79B9) ^ lane as u64]
}

#[expect(clippy::cast_precision_loss, reason = "few rows")]
fn reward(row: u64) -> f64 {
    1.5 * row as f64
}

impl Model {
    fn new(capacity: u64, lanes: u32) -> Self {
        let options =
            RingOptions::with_capacity(capacity).lanes(lanes).lane_policy(LanePolicy::Overwrite);
        let ring = Ring::heap(&schema(), options).unwrap();
        let lane = || Lane {
            writer: None,
            episodes: Vec::new(),
            rows: 0,
            running: None,
            after_end: false,
            gap: false,
            mark: 0,
        };
        Self { ring, lanes: (0..lanes).map(|_| lane()).collect() }
    }

    /// Claims writers for all lanes that have none. Lanes are claimed in order.
    fn claim(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.writer.is_none()) {
            let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
            lane.writer = Some(self.ring.writer(options).unwrap());
        }
    }

    fn play(&mut self, number: usize, op: Op) {
        self.claim();
        if matches!(op, Op::Clear) {
            self.ring.clear().unwrap();
            for lane in &mut self.lanes {
                lane.mark = lane.rows;
            }
            return;
        }
        let lane = &mut self.lanes[number];
        match op {
            Op::Clear => {}
            Op::Restart => {
                lane.writer.as_mut().unwrap().restart(&[true]).unwrap();
                lane.gap |= lane.running.take().is_some();
            }
            Op::Replace => {
                lane.writer = None;
                (lane.running, lane.gap) = (None, lane.rows > 0);
                self.claim();
            }
            Op::Step | Op::End { .. } => {
                let row = lane.rows;
                let since = match (lane.gap, lane.after_end) {
                    (false, _) => Some(row),
                    (true, true) => Some(row - 2),
                    (true, false) => None,
                };
                let (first, since) = *lane.running.get_or_insert((row, since));
                let truncated = matches!(op, Op::End { truncated: true });
                let terminated = matches!(op, Op::End { truncated: false });
                append(lane.writer.as_mut().unwrap(), number, row, [terminated], [truncated]);
                lane.rows += 1;
                (lane.after_end, lane.gap) = (false, false);
                if terminated || truncated {
                    lane.episodes.push((first, lane.rows - first, since));
                    lane.rows += 1;
                    (lane.running, lane.after_end) = (None, true);
                }
            }
        }
    }

    /// Returns lane, first row and length of every whole episode that is kept.
    fn kept(&self) -> Vec<(usize, u64, u64)> {
        let all = self.lanes.iter().enumerate();
        let all = all.flat_map(|(number, lane)| {
            let oldest = lane.rows.saturating_sub(self.ring.lane_capacity()).max(lane.mark);
            let kept =
                move |of: &&(u64, u64, Option<u64>)| of.2.is_some_and(|since| since >= oldest);
            let whole = lane.episodes.iter().filter(kept);
            whole.map(move |(first, length, _)| (number, *first, *length))
        });
        all.collect()
    }
}

fn append(writer: &mut Writer, lane: usize, row: u64, terminated: [bool; 1], truncated: [bool; 1]) {
    let schema = schema();
    let (now, next, reward) = (obs(lane, row), obs(lane, row + 1), [reward(row)]);
    let mut columns = StepColumns::of(&schema).with("obs", &now).unwrap();
    columns = columns.with("reward", &reward).unwrap();
    if terminated[0] || truncated[0] {
        columns = columns.with_final("obs", &next).unwrap();
    }
    writer.append(&columns.step(&terminated, &truncated).unwrap()).unwrap();
}

/// Returns lane, first row and length of every episode of a batch, after checking its columns.
fn episodes_of(batch: &Batch, layout: EpisodeLayout) -> Vec<(usize, u64, u64)> {
    let index = batch.index();
    let column = |key| batch.column::<u64>(key).unwrap();
    let (now, next) = (column("obs"), column("next_obs"));
    let rewards = batch.column::<f64>("reward").unwrap();
    let [terminated, truncated] =
        ["terminated", "truncated"].map(|key| batch.column::<bool>(key).unwrap());
    let check = |lane, first, step: u64, at: &[usize], last| {
        let of = |view: &ndarray::ArrayViewD<'_, u64>| {
            [0, 1].map(|part| view[&[at, &[part]].concat()[..]])
        };
        assert_eq!((of(&now), of(&next)), (obs(lane, first + step), obs(lane, first + step + 1)));
        assert_eq!(rewards[at].to_bits(), reward(first + step).to_bits());
        assert_eq!(terminated[at] || truncated[at], last, "step {step}");
    };
    match layout {
        EpisodeLayout::Padded => {
            let mask = batch.column::<bool>("mask").unwrap();
            let lengths = batch.column::<i64>("length").unwrap();
            let places = mask.shape()[1];
            let items = index.iter().zip(&lengths).enumerate();
            let item = |(item, (index, length)): (usize, (&RowIndex, &i64))| {
                let (lane, first) = (index.lane() as usize, index.seq());
                let length = u64::try_from(*length).unwrap();
                for place in 0..places {
                    let there = (place as u64) < length;
                    assert_eq!(mask[[item, place]], there);
                    if there {
                        let last = place as u64 + 1 == length;
                        check(lane, first, place as u64, &[item, place], last);
                    } else {
                        let zero = [now[[item, place, 0]], next[[item, place, 1]]];
                        // The final observation lies in the place after the last of `obs`.
                        let beyond = place as u64 > length;
                        assert!(!beyond || zero[0] == 0, "{zero:?}");
                        assert_eq!((zero[1], rewards[[item, place]].to_bits()), (0, 0));
                        assert!(!terminated[[item, place]] && !truncated[[item, place]]);
                    }
                }
                (lane, first, length)
            };
            items.map(item).collect()
        }
        EpisodeLayout::Ragged => {
            let offsets = batch.column::<i64>("offsets").unwrap();
            let offsets: Vec<usize> =
                offsets.iter().map(|at| usize::try_from(*at).unwrap()).collect();
            assert_eq!((offsets[0], *offsets.last().unwrap()), (0, batch.len()));
            let item = |ends: &[usize]| {
                let row = index[ends[0]];
                let (lane, first) = (row.lane() as usize, row.seq());
                for (at, step) in (ends[0]..ends[1]).zip(0_u64..) {
                    assert_eq!(index[at], row.0 + step.cast_signed());
                    check(lane, first, step, &[at], at + 1 == ends[1]);
                }
                (lane, first, (ends[1] - ends[0]) as u64)
            };
            offsets.windows(2).map(item).collect()
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => Just(Op::Step),
        4 => any::<bool>().prop_map(|truncated| Op::End { truncated }),
        1 => Just(Op::Restart),
        1 => Just(Op::Clear),
        1 => Just(Op::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn exactly_the_whole_episodes_within_capacity_are_drawn(
        rounds in prop::collection::vec(prop::collection::vec((0..2_usize, op()), 1..40), 1..6),
        capacity in 12..60_u64,
        max_length in prop::option::of(1..6_u32),
    ) {
        let mut model = Model::new(capacity, 2);
        let limited = |of: WholeEpisodes| max_length.map_or(of, |most| of.max_length(most));
        let all = [WholeEpisodes::padded(), WholeEpisodes::ragged()];
        let all = [all[0], all[1], all[0].by_length()].map(limited);
        let mut samplers = all.map(|of| {
            model.ring.sampler(SamplerOptions::seeded(7).episodes(of)).unwrap()
        });
        for ops in rounds {
            for (lane, op) in ops {
                model.play(lane, op);
            }
            let most = max_length.map_or(u64::MAX, u64::from);
            let expected: HashSet<_> =
                model.kept().into_iter().filter(|(_, _, length)| *length <= most).collect();
            for (sampler, of) in samplers.iter_mut().zip(all) {
                // Each episode is missed with probability (1 - 1/n)^(40 n) < 1e-17.
                let drawn = match sampler.sample(40 * expected.len().max(1)) {
                    Ok(batch) => episodes_of(&batch, of.layout),
                    Err(SampleError::Form(FormError::NoneComplete { .. })) => Vec::new(),
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                };
                let drawn: HashSet<_> = drawn.into_iter().collect();
                // By length, a short episode is rarely drawn.
                prop_assert!(drawn.is_subset(&expected) && drawn.is_empty() == expected.is_empty());
                prop_assert!(of.by_length || drawn == expected);
                prop_assert_eq!(sampler.lapped(), 0);
            }
        }
    }
}

/// Returns a ring of 30 episodes of 1 to 30 transitions.
fn growing() -> Model {
    let mut model = Model::new(2_000, 1);
    for length in 1..=30 {
        for step in 1..=length {
            let op = if step == length { Op::End { truncated: false } } else { Op::Step };
            model.play(0, op);
        }
    }
    model
}

/// Returns the chi-square statistic of counts that are expected to be equal.
#[expect(clippy::cast_precision_loss, reason = "few draws")]
fn chi_square(counts: &BTreeMap<u64, u64>, cells: u64) -> f64 {
    let expected = counts.values().sum::<u64>() as f64 / cells as f64;
    let found = counts.values().map(|count| (*count as f64 - expected).powi(2) / expected);
    let missing = cells - counts.len() as u64;
    found.sum::<f64>() + missing as f64 * expected
}

/// Chi-square of 29 degrees of freedom that is exceeded with probability 2e-6.
const MOST: f64 = 79.0;

#[test]
fn episodes_are_drawn_alike_however_long_they_are() {
    let model = growing();
    for layout in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        for seed in 0..8 {
            let options = SamplerOptions::seeded(seed).episodes(layout);
            let mut sampler = model.ring.sampler(options).unwrap();
            let mut counts = BTreeMap::new();
            for _ in 0..60 {
                let batch = sampler.sample(50).unwrap();
                for (_, first, _) in episodes_of(&batch, layout.layout) {
                    *counts.entry(first).or_default() += 1;
                }
            }
            let found = chi_square(&counts, 30);
            assert!(found < MOST, "{found} for {layout:?}, seed {seed}");
        }
    }
    // The mutant: the episode of a uniformly drawn transition, so that long ones are drawn more.
    let mut sampler = model.ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let starts = model.lanes[0].episodes.iter().map(|(first, ..)| *first);
    let starts: Vec<u64> = starts.collect();
    let mut counts = BTreeMap::new();
    for index in sampler.sample(3_000).unwrap().index() {
        let at = starts.partition_point(|first| *first <= index.seq());
        *counts.entry(starts[at - 1]).or_default() += 1;
    }
    let found = chi_square(&counts, 30);
    assert!(found > 5.0 * MOST, "{found}");
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "few draws")]
fn episodes_by_length_are_drawn_in_proportion_to_their_transitions() {
    // In the second ring most episodes of two lanes have been overwritten.
    let mut lapped = Model::new(300, 2);
    for length in (1..=30).chain(1..=12) {
        for (lane, step) in (0..2).flat_map(|lane| (1..=length).map(move |step| (lane, step))) {
            let op = if step == length { Op::End { truncated: true } } else { Op::Step };
            lapped.play(lane, op);
        }
    }
    for (model, most) in [(growing(), None), (lapped, None), (growing(), Some(20))] {
        let kept: BTreeMap<_, _> = model
            .kept()
            .into_iter()
            .filter(|(_, _, length)| most.is_none_or(|most| *length <= most))
            .map(|(lane, first, length)| ((lane, first), length as f64))
            .collect();
        assert!(kept.len() > 8, "{kept:?}");
        let total: f64 = kept.values().sum();
        let statistic = |form: WholeEpisodes, seed| {
            let form = most.map_or(form, |most| form.max_length(u32::try_from(most).unwrap()));
            let options = SamplerOptions::seeded(seed).episodes(form);
            let mut sampler = model.ring.sampler(options).unwrap();
            let mut counts: BTreeMap<_, f64> = kept.keys().map(|key| (*key, 0.0)).collect();
            for _ in 0..100 {
                for (lane, first, _) in episodes_of(&sampler.sample(50).unwrap(), form.layout) {
                    *counts.get_mut(&(lane, first)).unwrap() += 1.0;
                }
            }
            let of = |(key, count): (_, f64)| {
                let expected = 5_000.0 * kept[&key] / total;
                (count - expected).powi(2) / expected
            };
            counts.into_iter().map(of).sum::<f64>()
        };
        // The 99.9 % quantile (Wilson and Hilferty).
        let ninth = 2.0 / (9.0 * (kept.len() - 1) as f64);
        let limit = (kept.len() - 1) as f64 * (1.0 - ninth + 3.0902 * ninth.sqrt()).powi(3);
        for form in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
            for seed in 0..3 {
                let found = statistic(form.by_length(), seed);
                assert!(found < limit, "{found} of at most {limit} for {form:?}, seed {seed}");
            }
            // A mutant: episodes that are drawn alike.
            let found = statistic(form, 1);
            assert!(found > 2.0 * limit, "{found} of at most {limit} for {form:?}");
        }
    }
    let queue = SamplerOptions::seeded(1).selector(Selector::Fifo);
    let refused = growing().ring.sampler(queue.episodes(WholeEpisodes::padded().by_length()));
    let Err(SampleError::Form(FormError::LengthsBySelector { selector: "fifo" })) = refused else {
        panic!("{refused:?}")
    };
}

#[test]
fn returns_of_ragged_episodes_are_those_of_padded_ones() {
    let model = growing();
    let [padded, ragged] = [WholeEpisodes::padded(), WholeEpisodes::ragged()].map(|of| {
        let options = SamplerOptions::seeded(4).episodes(of);
        model.ring.sampler(options).unwrap().sample(40).unwrap()
    });
    let returns = |batch: &Batch| {
        let steps = batch.window_steps::<f64>().unwrap();
        let found = crate::discounted_returns(steps.with(None), Discount::Constant(0.9)).unwrap();
        let places = steps.mask().iter().zip(found);
        places.filter(|(there, _)| **there).map(|(_, sum)| sum.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(ragged.window_steps::<f64>().unwrap().steps(), ragged.len());
    assert_eq!(returns(&ragged), returns(&padded));
}

#[test]
fn draws_repeat_with_every_kind_of_memory_and_after_a_state() {
    let model = growing();
    let fixed = SamplerOptions::seeded(3).episodes(WholeEpisodes::padded().max_length(30));
    let mut plain = model.ring.sampler(fixed.clone()).unwrap();
    let expected: Vec<_> = (0..4).map(|_| plain.sample(6).unwrap()).collect();
    let firsts: Vec<_> = expected.iter().map(Batch::index).collect();
    assert_eq!(expected[0].column::<u64>("obs").unwrap().shape(), [6, 30, 2]);
    // Other layouts draw the same episodes: the seed decides.
    for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        let mut sampler = model.ring.sampler(SamplerOptions::seeded(3).episodes(of)).unwrap();
        for firsts in &firsts {
            let batch = sampler.sample(6).unwrap();
            let drawn = episodes_of(&batch, of.layout).into_iter();
            let drawn: Vec<_> = drawn.map(|(_, first, _)| RowIndex::new(0, first)).collect();
            assert_eq!(&drawn, firsts);
            let mut again = model.ring.sampler(sampler.state()).unwrap();
            assert_eq!(again.state(), sampler.state());
            let (one, two) = (again.sample(5).unwrap(), again.sample(5).unwrap());
            let mut third = model.ring.sampler(sampler.state()).unwrap();
            assert_eq!(third.sample(5).unwrap().index(), one.index());
            assert_ne!(one.index(), two.index());
        }
    }
    for prefetch in [0, 2] {
        let sampler = model.ring.sampler(fixed.clone()).unwrap();
        let mut batches = sampler.batches(6, BatchesOptions::prefetch(prefetch)).unwrap();
        for firsts in &firsts {
            assert_eq!(&batches.next().unwrap().unwrap().index(), firsts);
        }
    }
    let mut over = plain.blank(6).unwrap();
    let mut again = model.ring.sampler(fixed).unwrap();
    again.sample_over(&mut over).unwrap();
    assert_eq!(episodes_of(&over, EpisodeLayout::Padded), {
        episodes_of(&expected[0], EpisodeLayout::Padded)
    });
}

#[test]
fn selected_columns_and_separate_arrays_show_the_same_rows() {
    let model = growing();
    let shown = ColumnWindows::default().column("obs", crate::ColumnWindow::Drawn);
    for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        let options = SamplerOptions::seeded(3).episodes(of);
        let mut all = model.ring.sampler(options.clone()).unwrap();
        let mut some = model.ring.sampler(options.clone().columns(shown.clone())).unwrap();
        let mut apart = model.ring.sampler(options.copy(true)).unwrap();
        let (all, some) = (all.sample(9).unwrap(), some.sample(9).unwrap());
        let apart = apart.sample(9).unwrap();
        assert!(some.keys().all(|key| key != "reward" && key != "terminated"));
        for key in ["obs", "next_obs"] {
            let [one, two] =
                [&all, &some].map(|batch| batch.column::<u64>(key).unwrap().to_owned());
            assert_eq!(one, two, "{key}");
        }
        assert_eq!(episodes_of(&apart, of.layout), episodes_of(&all, of.layout));
        assert!(apart.plan().views().iter().all(|view| !view.shared));
    }
}

#[test]
fn what_does_not_go_with_episodes_is_refused_with_a_remedy() {
    let ring = growing().ring;
    let seeded = SamplerOptions::seeded(1).episodes(WholeEpisodes::padded());
    let first = ColumnWindows::default().column("reward", crate::ColumnWindow::First);
    let (priority, goals) = (PriorityOptions::alpha(0.6), Hindsight::new(GoalStrategy::Final));
    let form_error = |spec| match ring.sampler(spec).unwrap_err() {
        SampleError::Form(error) => error,
        other => panic!("{other}"),
    };
    for spec in [
        seeded.clone().history(4),
        seeded.clone().columns(first),
        seeded.clone().future(2),
        seeded.clone().n_step(3).gamma(0.9),
        seeded.clone().boundary(Boundary::Reject),
        SamplerState { stride: 3, ..ring.sampler(seeded.clone()).unwrap().state() }.into(),
        seeded.clone().hindsight(goals),
    ] {
        let error = form_error(spec.clone());
        assert!(matches!(error, FormError::WithEpisodes { .. }), "{error} for {spec:?}");
    }
    for (selector, name) in
        [(Selector::MaxPriority(priority), "max_priority"), (Selector::LaneStrata, "lane_strata")]
    {
        let error = form_error(seeded.clone().selector(selector));
        let FormError::EpisodesBySelector { selector } = error else { panic!("{error}") };
        assert!(selector.contains(name), "{error}");
    }
    for asked in [0, 5_000] {
        let options = seeded.clone().episodes(WholeEpisodes::padded().max_length(asked));
        assert_eq!(form_error(options), FormError::BadMaxLength { asked, limit: 1_999 });
    }
    let mut sampler = ring.sampler(seeded.clone()).unwrap();
    let index = sampler.sample(2).unwrap().index();
    let named = sampler.gather(&index).unwrap_err();
    assert!(matches!(named, SampleError::Form(FormError::NamedRows)), "{named}");
    assert!(matches!(sampler.sample(0), Err(SampleError::BadBatchSize { .. })));
    let varying = sampler.batches(2, BatchesOptions::prefetch(2)).unwrap_err();
    assert!(matches!(varying, SampleError::Form(FormError::VaryingSize)), "{varying}");
    let short = seeded.episodes(WholeEpisodes::ragged().max_length(1));
    assert_eq!(ring.sampler(short.clone()).unwrap().sample(3).unwrap().len(), 3);
    let empty = Ring::heap(&schema(), RingOptions::with_capacity(9)).unwrap();
    let none = empty.sampler(short).unwrap().sample(3).unwrap_err();
    let SampleError::Form(FormError::NoneComplete { max_length: Some(1), rows: 0 }) = none else {
        panic!("{none}")
    };
}

#[test]
fn episodes_that_a_live_writer_overwrites_are_drawn_again() {
    let model = Model::new(600, 1);
    let (ring, stop) = (model.ring.clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
            let mut writer = ring.writer(options).unwrap();
            let (mut row, mut length) = (0, 1);
            while !stop.load(Relaxed) {
                for step in 1..=length {
                    append(&mut writer, 0, row, [step == length], [false]);
                    row += 1;
                }
                (row, length) = (row + 1, length % 37 + 1);
            }
        });
        let _stop = Stop(&stop);
        let fixed = WholeEpisodes::padded().max_length(37);
        let (padded, ragged) = (WholeEpisodes::padded(), WholeEpisodes::ragged());
        let priority = Selector::Priority(PriorityOptions::alpha(0.5));
        let all = [
            (padded, Selector::Uniform),
            (ragged, Selector::Uniform),
            (fixed, Selector::Uniform),
            (fixed, Selector::Fifo),
            (padded, priority),
            (ragged, Selector::Table(TableOptions::epoch("epoch"))),
            (padded, Selector::Table(TableOptions::consume("consume"))),
        ];
        let mut samplers = all.clone().map(|(of, selector)| {
            let options = SamplerOptions::seeded(5).episodes(of).selector(selector);
            model.ring.sampler(options).unwrap()
        });
        // Claimed episodes are often overwritten before they are gathered, and count as skipped.
        while samplers[..4].iter().any(|sampler| sampler.lapped() < 50) {
            for (sampler, (of, _)) in samplers.iter_mut().zip(&all) {
                match sampler.sample(24) {
                    Ok(batch) => drop(episodes_of(&batch, of.layout)),
                    Err(
                        SampleError::Form(FormError::NoneComplete { .. })
                        | SampleError::TooFew { .. },
                    ) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(!writing.is_finished());
        }
    });
}
