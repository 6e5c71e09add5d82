//! Rollouts against plain draws of the same rows, under random appends, cuts, ends and writers that
//! come and go.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{
    AutoresetMode, Batch, BatchesOptions, ClaimUnit, ColumnWindow, ColumnWindows, DType, Discount,
    Hindsight, LearnedOptions, PriorityOptions, RateLimiter, Ring, RingOptions, RowIndex,
    SampleError, Sampler, Schema, StepColumns, TableOptions, Writer, WriterOptions, gae,
};

fn schema() -> Schema {
    let schema = Schema::builder().column("obs", DType::U64, &[2]);
    schema.column("reward", DType::F32, &[]).build().unwrap()
}

fn heap(capacity: u64, lanes: u32) -> Ring {
    Ring::heap(&schema(), RingOptions::with_capacity(capacity).lanes(lanes)).unwrap()
}

fn writer(ring: &Ring, lanes: u32) -> Writer {
    ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep)).unwrap()
}

/// Appends a row to every lane of the writer, with numbers that no other row has.
fn append(writer: &mut Writer, number: &mut u64, terminated: &[bool], truncated: &[bool]) {
    let lanes = terminated.len();
    let obs: Vec<u64> = (0..2 * lanes as u64).map(|at| *number + at).collect();
    *number += 2 * lanes as u64;
    let schema = writer.schema().clone();
    let rewards = vec![1.0_f32; lanes];
    let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
    let columns = columns.with("reward", &rewards).unwrap();
    writer.append(&columns.step(terminated, truncated).unwrap()).unwrap();
}

fn fill(writer: &mut Writer, lanes: usize, rows: usize) {
    let mut number = 0;
    for _ in 0..rows {
        append(writer, &mut number, &vec![false; lanes], &vec![false; lanes]);
    }
}

fn consume(rollout: Rollout) -> SamplerOptions {
    let queue = Selector::Table(TableOptions::consume("queue"));
    SamplerOptions::seeded(1).rollout(rollout).selector(queue)
}

fn sampler(ring: &Ring, rollout: Rollout) -> Sampler {
    let mut sampler = ring.sampler(consume(rollout)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

fn all_transitions(ring: &Ring) -> Vec<RowIndex> {
    let fifo = SamplerOptions::seeded(1).selector(Selector::Fifo);
    let mut all = ring.sampler(fifo).unwrap();
    match all.sample(1 << 16) {
        Err(SampleError::TooFew { available, .. }) => {
            all.sample(usize::try_from(available).unwrap()).unwrap().index()
        }
        Err(SampleError::Empty { .. }) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Checks every place of a block against a plain gather of its rows, and returns the rows of each
/// column.
fn columns_of(ring: &Ring, block: &Batch, length: usize) -> Vec<Vec<RowIndex>> {
    let index = block.column::<i64>("index").unwrap();
    let mask = block.column::<bool>("mask").unwrap();
    let width = index.shape()[1];
    assert_eq!((index.shape(), mask.shape()), (&[length, width][..], &[length, width][..]));
    let now = block.column::<u64>("obs").unwrap();
    assert_eq!(now.shape(), [length, width, 2]);
    let next = block.column::<u64>("next_obs").unwrap();
    let rewards = block.column::<f32>("reward").unwrap();
    let terminated = block.column::<bool>("terminated").unwrap();
    let truncated = block.column::<bool>("truncated").unwrap();
    let mut plain = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let mut columns = Vec::new();
    for column in 0..width {
        let there = (0..length).take_while(|place| mask[[*place, column]]).count();
        assert!(there > 0, "a column has a transition");
        for place in there..length {
            let at = [place, column];
            assert!(!mask[at] && !terminated[at] && !truncated[at], "masked places stand last");
            assert_eq!((index[at], rewards[at].to_bits()), (RowIndex::NONE.0, 0));
            assert_eq!([now[[place, column, 1]], next[[place, column, 1]]], [0, 0]);
        }
        let rows: Vec<_> = (0..there).map(|place| RowIndex(index[[place, column]])).collect();
        let expected = plain.gather(&rows).unwrap();
        let expected_now = expected.column::<u64>("obs").unwrap();
        let expected_next = expected.column::<u64>("next_obs").unwrap();
        let ends = ["terminated", "truncated"].map(|key| expected.column::<bool>(key).unwrap());
        for (place, row) in rows.iter().enumerate() {
            let at = [place, column];
            for axis in 0..2 {
                assert_eq!(now[[place, column, axis]], expected_now[[place, axis]]);
                assert_eq!(next[[place, column, axis]], expected_next[[place, axis]]);
            }
            let goes_on = match rows.get(place + 1) {
                Some(next) => next.0 == row.0 + 1,
                None => there == length,
            };
            assert_eq!(terminated[at], ends[0][place]);
            assert_eq!(truncated[at], ends[1][place] || (!goes_on && !ends[0][place]), "{row}");
            assert!(goes_on || terminated[at] || truncated[at]);
        }
        columns.push(rows);
    }
    columns
}

/// Notes rows that were drawn: each once, and in the order of its lane.
fn note(columns: &[Vec<RowIndex>], drawn: &mut HashSet<RowIndex>) {
    for column in columns {
        assert!(column.is_sorted() && column.iter().all(|row| row.lane() == column[0].lane()));
        assert!(column.iter().all(|row| drawn.insert(*row)), "a transition was drawn twice");
    }
}

#[test]
fn blocks_have_every_transition_once_under_random_writers() {
    for case in 0..u64::from(backcast_budget::cases(600)) {
        let mut dice = StdRng::seed_from_u64(case);
        let lanes = dice.random_range(1..4_usize);
        let length = dice.random_range(1..9_u32);
        let ring = heap(lanes as u64 * 900, u32::try_from(lanes).unwrap());
        let mut rollout = Rollout::new(length);
        if dice.random() {
            rollout = rollout.lanes(dice.random_range(1..=u32::try_from(lanes).unwrap()));
        }
        let mut samplers = [sampler(&ring, rollout), sampler(&ring, rollout)];
        let mut writers: Vec<Option<Writer>> = (0..lanes).map(|_| None).collect();
        let (mut number, mut drawn) = (1, HashSet::new());
        for _ in 0..dice.random_range(1..60) {
            let at = dice.random_range(0..lanes);
            match dice.random_range(0..12) {
                0 => writers[at] = None,
                1 => writers[at].iter_mut().for_each(|of| of.restart(&[true]).unwrap()),
                2 => {
                    let of = &mut samplers[dice.random_range(0..2_usize)];
                    let most = dice.random_range(1..7_usize);
                    let block =
                        if dice.random() { of.sample(most) } else { of.sample_new(Some(most)) };
                    match block {
                        Ok(block) => {
                            let columns = columns_of(&ring, &block, length as usize);
                            assert!(columns.len() <= most);
                            note(&columns, &mut drawn);
                        }
                        Err(SampleError::TimedOut { .. }) => {}
                        Err(error) => panic!("case {case}: {error}"),
                    }
                }
                _ => {
                    let of = writers[at].get_or_insert_with(|| writer(&ring, 1));
                    for _ in 0..dice.random_range(1..20) {
                        let ends = [dice.random_range(0..7) == 0];
                        let cut = [dice.random_range(0..9) == 0 && !ends[0]];
                        append(of, &mut number, &ends, &cut);
                    }
                }
            }
        }
        // Without writers, every rest is handed out.
        writers.clear();
        while let Ok(block) = samplers[usize::try_from(case % 2).unwrap()].sample_new(None) {
            note(&columns_of(&ring, &block, length as usize), &mut drawn);
        }
        let expected: HashSet<_> = all_transitions(&ring).into_iter().collect();
        assert_eq!(drawn, expected, "case {case}");
        let [one, two] = samplers.map(|of| of.sampled());
        assert_eq!(one + two, drawn.len() as u64);
    }
}

#[test]
fn a_block_waits_for_every_lane_with_a_writer_or_for_those_that_were_asked_for() {
    let ring = heap(600, 3);
    let mut all = sampler(&ring, Rollout::new(5));
    let mut two = sampler(&ring, Rollout::new(5).lanes(2));
    let mut first = writer(&ring, 1);
    fill(&mut first, 1, 6);
    // One lane may still get a writer, for which `lanes` waits.
    let refused = two.sample_new(None).unwrap_err();
    assert!(matches!(refused, SampleError::TimedOut { wanted: 2, available: 1, .. }), "{refused}");
    let block = all.sample_new(None).unwrap();
    assert_eq!(columns_of(&ring, &block, 5).len(), 1);
    fill(&mut first, 1, 5);
    let mut second = writer(&ring, 1);
    fill(&mut second, 1, 5);
    let refused = all.sample_new(None).unwrap_err();
    let said = refused.to_string();
    let SampleError::TimedOut { unit: ClaimUnit::Lanes, wanted: 2, available: 1, .. } = refused
    else {
        panic!("{said}")
    };
    assert!(said.contains("2 ready lanes") && said.contains("1 is there"), "{said}");
    let refused = all.sample(2).unwrap_err();
    let said = refused.to_string();
    let SampleError::TimedOut { unit: ClaimUnit::Columns, wanted: 2, available: 1, .. } = refused
    else {
        panic!("{said}")
    };
    assert!(said.contains("2 columns of a block"), "{said}");
    // The writer is gone: its 4 transitions are a short column.
    drop(second);
    let block = all.sample_new(None).unwrap();
    let lengths: Vec<_> = columns_of(&ring, &block, 5).iter().map(Vec::len).collect();
    assert_eq!(lengths, [5, 4]);
    assert!(all.sample_new(None).is_err(), "the first lane has a writer and nothing new");
}

#[test]
fn a_backlog_is_one_block_and_lanes_with_most_of_it_come_first() {
    let ring = heap(900, 3);
    let mut of = sampler(&ring, Rollout::new(4).lanes(1));
    let mut writers: Vec<_> = (0..3).map(|_| writer(&ring, 1)).collect();
    for (writer, rows) in writers.iter_mut().zip([5, 21, 13]) {
        fill(writer, 1, rows);
    }
    let lanes = |block: &Batch| {
        let columns = columns_of(&ring, block, 4);
        columns.iter().map(|rows| rows[0].lane()).collect::<Vec<_>>()
    };
    assert_eq!(lanes(&of.sample_new(Some(2)).unwrap()), [1, 2]);
    assert_eq!(lanes(&of.sample(4).unwrap()), [0, 1, 2, 1]);
    assert_eq!(lanes(&of.sample_new(None).unwrap()), [1, 2, 1]);
    assert!(matches!(of.sample_new(None), Err(SampleError::TimedOut { available: 0, .. })));
    let info = ring.table(&TableOptions::consume("queue")).unwrap().info();
    assert_eq!((info.drawn, info.passes), (36, 3));
}

#[test]
fn a_block_that_is_taken_back_or_not_returned_is_drawn_again() {
    let ring = heap(400, 2);
    let mut writer = writer(&ring, 2);
    fill(&mut writer, 2, 41);
    let rollout = Rollout::new(10);
    let mut of = sampler(&ring, rollout);
    let batch = of.next_batch();
    let first = of.sample_new(Some(2)).unwrap().index();
    assert!(of.take_back(batch));
    assert_eq!(of.sample_new(Some(2)).unwrap().index(), first);
    let batch = of.next_batch();
    let second = of.sample(2).unwrap().index();
    assert!(of.take_back(batch));
    drop(of);
    // A closed sampler gives back what it did not hand out.
    let mut other = sampler(&ring, rollout);
    assert_eq!(other.sample(2).unwrap().index(), second);
    assert_eq!(other.sample_new(None).unwrap().len(), 40);
    let state = other.state();
    assert_eq!(ring.sampler(state.clone()).unwrap().state(), state);
}

#[test]
fn transitions_that_are_overwritten_are_skipped_and_never_torn() {
    let ring = heap(64, 1);
    let mut writer = writer(&ring, 1);
    let mut of = sampler(&ring, Rollout::new(16));
    fill(&mut writer, 1, 40);
    assert_eq!(columns_of(&ring, &of.sample_new(Some(1)).unwrap(), 16).len(), 1);
    // 16 of 39 transitions are drawn; the lane keeps 63.
    fill(&mut writer, 1, 70);
    let block = of.sample_new(None).unwrap();
    let rows = columns_of(&ring, &block, 16).concat();
    let oldest = ring.lane_span(0).unwrap().start;
    assert_eq!(rows.iter().map(|row| row.seq()).collect::<Vec<_>>(), {
        (oldest..oldest + 48).collect::<Vec<_>>()
    });
}

#[test]
fn live_writers_that_overwrite_leave_no_wrong_value() {
    let ring = heap(2 * 96, 2);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut writer = writer(&ring, 2);
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let ends = [number % 11 == 0, number % 7 == 0];
                append(&mut writer, &mut number, &ends, &[false; 2]);
            }
        });
        let rollout = Rollout::new(20).lanes(1);
        let mut samplers = [sampler(&ring, rollout), sampler(&ring, rollout)];
        let (mut drawn, mut blocks) = (HashSet::new(), 0);
        while blocks < 400 {
            assert!(!writing.is_finished());
            for of in &mut samplers {
                let Ok(block) = of.sample_new(Some(3)) else { continue };
                blocks += 1;
                let mask = block.column::<bool>("mask").unwrap();
                let obs = block.column::<u64>("obs").unwrap();
                let next = block.column::<u64>("next_obs").unwrap();
                for (at, row) in block.index().into_iter().enumerate() {
                    let at = [at / mask.shape()[1], at % mask.shape()[1]];
                    assert_eq!(mask[at], row != RowIndex::NONE);
                    if !mask[at] {
                        continue;
                    }
                    assert!(drawn.insert(row), "drawn twice");
                    // Every append adds 4 to all numbers of a lane.
                    let expected = 4 * row.seq() + 2 * u64::from(row.lane());
                    let found = [obs[[at[0], at[1], 0]], obs[[at[0], at[1], 1]]];
                    assert_eq!(found, [expected, expected + 1]);
                    assert_eq!(next[[at[0], at[1], 0]], expected + 4);
                }
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_queue_lets_writers_go_on_until_a_block_is_whole() {
    let options = RingOptions::with_capacity(4_000).lanes(2).limiter(RateLimiter::queue(8));
    let ring = Ring::heap(&schema(), options).unwrap();
    let mut of = ring.sampler(consume(Rollout::new(30))).unwrap();
    of.set_timeout(Some(backcast_budget::WATCHDOG));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = writer(&ring, 2);
            fill(&mut writer, 2, 301);
        });
        let mut drawn = HashSet::new();
        while drawn.len() < 600 {
            let block = of.sample_new(None).unwrap();
            note(&columns_of(&ring, &block, 30), &mut drawn);
        }
    });
    let counts = ring.stats().limiter.unwrap().counts;
    assert_eq!((counts.inserts, counts.samples), (600, 600));
}

#[test]
fn returns_of_a_block_are_those_of_its_columns() {
    let ring = heap(400, 2);
    let mut writer = writer(&ring, 2);
    let mut number = 0;
    for t in 0..60 {
        append(&mut writer, &mut number, &[t % 9 == 5, t % 13 == 7], &[t % 9 == 8, false]);
    }
    let block = sampler(&ring, Rollout::new(25)).sample_new(Some(2)).unwrap();
    let steps = block.window_steps::<f32>().unwrap();
    assert_eq!((steps.steps(), steps.mask().len()), (25, 50));
    let values = vec![0.5_f32; 50];
    let given = steps.with(Some(&values));
    let (found, _) = gae(given, &values, Discount::Constant(0.9), 0.8).unwrap();
    let ends: Vec<_> = given.terminated.iter().zip(given.truncated).collect();
    let mut after = 0.0;
    for at in (0..50).rev() {
        let (terminated, truncated) = (*ends[at].0, *ends[at].1);
        if at % 25 == 24 || terminated || truncated {
            after = 0.0;
        }
        let bootstrap = if terminated { 0.0 } else { 0.9 * 0.5 };
        after = 1.0 + bootstrap - 0.5 + 0.9 * 0.8 * after;
        assert!((f64::from(found[at]) - after).abs() < 1e-5, "{at}");
    }
    let flags = block.column::<bool>("terminated").unwrap();
    let flags: Vec<bool> = flags.t().iter().copied().collect();
    assert_eq!(given.terminated, flags);
}

#[test]
fn what_does_not_go_with_rollouts_is_refused() {
    let ring = heap(300, 3);
    let seeded = consume(Rollout::new(4));
    let by = |selector| seeded.clone().selector(selector);
    let priority = PriorityOptions::alpha(0.6);
    let named = |selector: &str| format!("do not go with {selector}");
    let first = ColumnWindows::default().column("reward", ColumnWindow::First);
    let specs: Vec<(SamplerOptions, String)> = vec![
        (by(Selector::Uniform), named("uniform")),
        (by(Selector::Fifo), named("fifo")),
        (by(Selector::Lifo), named("lifo")),
        (by(Selector::LaneStrata), named("lane_strata")),
        (by(Selector::LaneWeights(vec![1.0; 3])), named("lane_weights")),
        (by(Selector::Recency { half_life: 9.0 }), named("recency")),
        (by(Selector::Priority(priority.clone())), named("priority")),
        (by(Selector::MaxPriority(priority.clone())), named("max_priority")),
        (by(Selector::MinPriority(priority)), named("min_priority")),
        (by(Selector::Table(TableOptions::epoch("e"))), named("epoch")),
        (by(Selector::Table(TableOptions::consume("s").shuffled(true))), named("a shuffled")),
        (seeded.clone().history(2), named("a history window")),
        (seeded.clone().columns(first), named("the first row")),
        (seeded.clone().future(2), named("a future window")),
        (seeded.clone().n_step(2).gamma(0.9), named("an n-step return")),
        (seeded.clone().boundary(Boundary::Reject), named("another boundary")),
        (seeded.clone().hindsight(Hindsight::new(crate::GoalStrategy::Final)), named("hindsight")),
        (seeded.clone().rollout(Rollout::new(0)), "give 1 to 49".to_owned()),
        (seeded.clone().rollout(Rollout::new(50)), "give 1 to 49".to_owned()),
        (seeded.clone().rollout(Rollout::new(9).lanes(4)), "give 1 to 3".to_owned()),
        (seeded.clone().rollout(Rollout::new(9).lanes(0)), "give 1 to 3".to_owned()),
    ];
    for (spec, part) in specs {
        let error = ring.sampler(spec).unwrap_err().to_string();
        assert!(error.contains(&part), "{error} lacks {part}");
    }
    let mut of = sampler(&ring, Rollout::new(4));
    assert!(matches!(of.sample(0), Err(SampleError::BadBatchSize { asked: 0, .. })));
    let refused = of.gather(&[0_i64]).unwrap_err();
    assert!(matches!(refused, SampleError::Form(FormError::NamedRows)), "{refused}");
    let refused = of.batches(2, BatchesOptions::prefetch(1)).unwrap_err();
    assert!(matches!(refused, SampleError::Form(FormError::BlockMemory)), "{refused}");
    let mut uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let refused = uniform.sample_new(None).unwrap_err();
    assert!(matches!(refused, SampleError::NothingIsNew { selector: "uniform" }), "{refused}");
}

#[test]
fn columns_are_selected_and_learned_ones_join_a_block() {
    let ring = heap(300, 1);
    let mut writer = writer(&ring, 1);
    fill(&mut writer, 1, 12);
    let learned = LearnedOptions::new("online").column("value", DType::F32);
    let table = ring.learned(&learned).unwrap();
    let shown = ColumnWindows::default().column("reward", ColumnWindow::Drawn);
    let mut of = ring.sampler(consume(Rollout::new(5)).columns(shown).learned(learned)).unwrap();
    let block = of.sample_new(Some(1)).unwrap();
    drop(table);
    let keys: Vec<&str> = block.keys().collect();
    assert!(!keys.contains(&"obs") && !keys.contains(&"truncated"), "{keys:?}");
    assert_eq!(block.column::<f32>("value").unwrap().shape(), [5, 1]);
    assert_eq!(block.column::<bool>("value_set").unwrap().shape(), [5, 1]);
}

#[test]
fn a_pass_of_another_form_gives_short_columns() {
    let ring = heap(600, 2);
    let mut writer = writer(&ring, 2);
    fill(&mut writer, 2, 31);
    let queue = Selector::Table(TableOptions::consume("queue"));
    let mut rows = ring.sampler(SamplerOptions::seeded(1).selector(queue)).unwrap();
    let drawn: HashSet<_> = rows.sample(7).unwrap().index().into_iter().collect();
    let mut of = sampler(&ring, Rollout::new(20));
    let mut lengths = BTreeMap::new();
    let mut all = drawn.clone();
    for column in columns_of(&ring, &of.sample_new(None).unwrap(), 20) {
        lengths.entry(column[0].lane()).or_insert_with(Vec::new).push(column.len());
        all.extend(column);
    }
    assert_eq!(all.len(), 60);
    assert_eq!(lengths.into_values().collect::<Vec<_>>(), [vec![20, 6], vec![20, 7]]);
    // A block of a number of columns keeps those that it has, and waits for the others.
    fill(&mut writer, 2, 9);
    rows.sample(1).unwrap();
    let refused = of.sample(4).unwrap_err();
    assert!(matches!(refused, SampleError::TimedOut { wanted: 4, available: 2, .. }), "{refused}");
    fill(&mut writer, 2, 20);
    let block = of.sample(4).unwrap();
    let lengths: Vec<_> = columns_of(&ring, &block, 20).iter().map(Vec::len).collect();
    assert_eq!(lengths, [8, 9, 20, 20]);
}
