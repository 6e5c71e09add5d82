//! Tables of claims: every transition goes to one sampler, in one process and in several, also when
//! one of them is killed in the middle of a batch.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Base, BatchesOptions, Boundary, DType, PriorityError, PriorityOptions, Ring,
    RingOptions, RowIndex, SampleError, Sampler, SamplerOptions, Schema, SegmentError, Selector,
    StepColumns, TableError, TableOptions, Writer, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::learner_process::{LearnerProcess, print_rows, printed_rows};

fn schema() -> Schema {
    Schema::builder().column("obs", DType::U64, &[]).build().unwrap()
}

fn heap(capacity: u64, lanes: u32) -> Ring {
    Ring::heap(&schema(), RingOptions::with_capacity(capacity).lanes(lanes)).unwrap()
}

fn writer(ring: &Ring) -> Writer {
    ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap()
}

fn append(writer: &mut Writer, row: u64, ends: bool) {
    let (schema, obs) = (writer.schema().clone(), [row]);
    let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
    writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
}

fn sampler(ring: &Ring, options: &TableOptions) -> Sampler {
    let selector = Selector::Table(options.clone());
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(selector)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

/// Returns all transitions of a ring, in the order of their indices.
fn transitions(ring: &Ring) -> Vec<RowIndex> {
    let mut all = ring.sampler(SamplerOptions::seeded(1).selector(Selector::Fifo)).unwrap();
    let available = match all.sample(1 << 16) {
        Err(SampleError::TooFew { available, .. }) => available,
        Err(SampleError::Empty { .. }) => return Vec::new(),
        _ => panic!("the ring has fewer"),
    };
    let mut index = all.sample(usize::try_from(available).unwrap()).unwrap().index();
    index.sort_unstable();
    index
}

fn sorted(mut index: Vec<RowIndex>) -> Vec<RowIndex> {
    index.sort_unstable();
    index
}

#[test]
fn a_pass_gives_every_transition_to_one_sampler() {
    let ring = heap(600, 3);
    for rows in [50, 90, 7] {
        let mut writer = writer(&ring);
        for row in 0..rows {
            append(&mut writer, row, row % 6 == 4);
        }
    }
    let all = transitions(&ring);
    let draw = |samplers: usize, name: &str, seed: u64| {
        let options = TableOptions::epoch(name).seed(seed);
        let mut samplers: Vec<_> = (0..samplers).map(|_| sampler(&ring, &options)).collect();
        let mut drawn = Vec::new();
        for at in 0..3 * all.len() {
            let count = samplers.len();
            drawn.extend(samplers[at % count].sample(1).unwrap().index());
        }
        drawn
    };
    let one = draw(1, "one", 5);
    for pass in one.chunks(all.len()) {
        assert_eq!(sorted(pass.to_vec()), all);
    }
    let passes: Vec<_> = one.chunks(all.len()).collect();
    assert!(passes[0] != passes[1] && passes[1] != passes[2], "every pass has its own order");
    assert_ne!(passes[0], all, "the order is shuffled");
    assert_eq!(draw(4, "four", 5), one, "the same order for one sampler and for four");
    assert_eq!(draw(1, "again", 5), one, "equal seeds");
    assert_ne!(draw(1, "other", 6), one, "other seeds");
    // Batches that do not divide the pass.
    let mut batches = sampler(&ring, &TableOptions::epoch("batches").seed(5));
    let drawn: Vec<_> = (0..40).flat_map(|_| batches.sample(32).unwrap().index()).collect();
    assert_eq!(sorted(drawn[..all.len()].to_vec()), all);
    let info = ring.table(&TableOptions::epoch("batches").seed(5)).unwrap().info();
    assert_eq!(info.drawn, 40 * 32);
    assert_eq!(info.passes, (40 * 32_u64).div_ceil(all.len() as u64));
}

/// Every transition is equally often in the first batch of 10 of a shuffled pass: the statistic is
/// below the threshold of p = 1e-4, and that of a queue is not.
#[test]
fn shuffled_passes_are_uniform() {
    let ring = heap(100, 1);
    let mut writer = writer(&ring);
    for row in 0..41 {
        append(&mut writer, row, false);
    }
    let statistic = |options: &dyn Fn(u64) -> TableOptions| -> f64 {
        let mut counts = [0.0_f64; 40];
        for seed in 0..2_000 {
            for index in sampler(&ring, &options(seed)).sample(10).unwrap().index() {
                counts[usize::try_from(index.seq()).unwrap()] += 1.0;
            }
        }
        // Draws without replacement vary less than independent ones, by 30 / 39.
        counts.iter().map(|count| (count - 500.0).powi(2) / 500.0).sum::<f64>() * 39.0 / 30.0
    };
    let shuffled = |seed| TableOptions::epoch(&format!("e{seed}")).seed(seed);
    let queue = |seed| TableOptions::consume(&format!("q{seed}"));
    // 39 degrees of freedom, p = 1e-4.
    assert!(statistic(&shuffled) < 80.1);
    assert!(statistic(&queue) > 80.1);
}

/// Compares tables with a list of how often each transition was drawn, under random appends, draws
/// and overwriting.
#[test]
fn no_transition_is_drawn_more_often_than_a_list_allows() {
    let cases = backcast_budget::cases(2_500);
    for case in 0..u64::from(cases) {
        let mut dice = StdRng::seed_from_u64(case);
        let lanes = dice.random_range(1..4_u32);
        let ring = heap(u64::from(lanes) * dice.random_range(8..60), lanes);
        let mut writers: Vec<_> = (0..lanes).map(|_| writer(&ring)).collect();
        let mut published = vec![0_u64; lanes as usize];
        let times = dice.random_range(1..4_u32);
        let shuffled = dice.random();
        let options = TableOptions::consume("t").max_times_sampled(times).shuffled(shuffled);
        let boundary = if dice.random() { Boundary::Mask } else { Boundary::Reject };
        let open = || {
            let windows = SamplerOptions::seeded(case).history(2).boundary(boundary);
            let selector = Selector::Table(options.clone());
            let mut sampler = ring.sampler(windows.selector(selector)).unwrap();
            sampler.set_timeout(Some(Duration::ZERO));
            sampler
        };
        let mut samplers = [open(), open()];
        let mut drawn: BTreeMap<RowIndex, u32> = BTreeMap::new();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut overwritten = false;
        let mut note = |index: Vec<RowIndex>, drawn: &mut BTreeMap<RowIndex, u32>| {
            for index in index {
                let count = drawn.entry(index).or_insert(0);
                *count += 1;
                assert!(*count <= times, "case {case}: {index} {count} times");
                if times == 1 && !shuffled {
                    let before = last.insert(index.lane(), index.seq());
                    assert!(before.is_none_or(|b| b < index.seq()), "case {case}: out of order");
                }
            }
        };
        for _ in 0..dice.random_range(1..10) {
            for _ in 0..dice.random_range(0..50) {
                let lane = dice.random_range(0..lanes as usize);
                append(&mut writers[lane], published[lane], dice.random_range(0..6) == 0);
                published[lane] += 1;
                overwritten |= published[lane] > ring.lane_capacity();
            }
            for _ in 0..dice.random_range(0..4) {
                // Samplers that hold claimed rows would mix the order, so the first one draws.
                let of = if times == 1 { 0 } else { dice.random_range(0..2_usize) };
                match samplers[of].sample(dice.random_range(1..20)) {
                    Ok(batch) => note(batch.index(), &mut drawn),
                    Err(SampleError::TimedOut { .. }) => {}
                    Err(SampleError::BeyondTable { wanted, most, .. }) => {
                        let held = u64::from(lanes) * (ring.lane_capacity() - 1);
                        assert!(wanted > most && most == held * u64::from(times), "case {case}");
                    }
                    Err(error) => panic!("case {case}: {error}"),
                }
            }
        }
        for sampler in &mut samplers {
            while let Ok(batch) = sampler.sample(1) {
                note(batch.index(), &mut drawn);
            }
        }
        if boundary == Boundary::Mask && !overwritten {
            let expected: Vec<(RowIndex, u32)> =
                transitions(&ring).into_iter().map(|index| (index, times)).collect();
            let found: Vec<_> = drawn.into_iter().collect();
            assert_eq!(found, expected, "case {case}");
        }
    }
}

#[test]
fn batches_that_were_drawn_ahead_and_not_returned_are_drawn_again() {
    let ring = heap(1_000, 1);
    let mut writer = writer(&ring);
    for row in 0..401 {
        append(&mut writer, row, false);
    }
    let mut drawn = Vec::new();
    let mut sampler = sampler(&ring, &TableOptions::consume("t"));
    while drawn.len() < 400 {
        let mut batches = sampler.batches(20, BatchesOptions::prefetch(3)).unwrap();
        for _ in 0..3.min((400 - drawn.len()) / 20) {
            drawn.extend(batches.next().unwrap().unwrap().index());
        }
        sampler = batches.into_sampler();
    }
    assert_eq!(drawn, (0..400).collect::<Vec<i64>>());
}

#[test]
fn other_settings_and_other_kinds_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = RingOptions::with_capacity(100).base(Base::at(dir.path()));
    let named = Ring::create("r", &schema(), options).unwrap();
    for ring in [named, heap(100, 1)] {
        ring.table(&TableOptions::consume("t").max_times_sampled(2)).unwrap();
        for (asked, values) in [
            (TableOptions::consume("t").max_times_sampled(3), ["max_times_sampled", "2", "3"]),
            (TableOptions::epoch("t"), ["consume", "epoch", "shuffled"]),
            (TableOptions::consume("t").shuffled(true), ["consume", "", "shuffled"]),
            (TableOptions::epoch("t").shuffled(false), ["consume", "epoch", ""]),
            (TableOptions::consume("t").max_times_sampled(2).seed(9), ["seed", "0", "9"]),
        ] {
            let refused = ring.table(&asked).unwrap_err();
            let TableError::Segment(SegmentError::TableDiffers { table, what }) = refused else {
                panic!("{refused}")
            };
            assert_eq!(table, "t");
            assert!(values.iter().all(|value| what.contains(value)), "{what} lacks {values:?}");
        }
        for (asked, times) in [
            (TableOptions::consume("t").max_times_sampled(0), 0),
            (TableOptions::epoch("u").max_times_sampled(2), 2),
        ] {
            let refused = ring.table(&asked).unwrap_err();
            let TableError::BadTimes { times: found, .. } = refused else { panic!("{refused}") };
            assert_eq!(found, times);
        }
        let refused = ring.table(&TableOptions::epoch("../t")).unwrap_err();
        assert!(refused.to_string().contains("../t"), "{refused}");
        let priorities = |table: &str| PriorityOptions::alpha(1.0).table(table);
        let refused = ring.priorities(&priorities("t")).unwrap_err();
        assert!(
            matches!(refused, PriorityError::Segment(SegmentError::TableDiffers { .. })),
            "{refused}"
        );
        ring.priorities(&priorities("p")).unwrap();
        let refused = ring.table(&TableOptions::epoch("p")).unwrap_err();
        let differs = matches!(refused, TableError::Segment(SegmentError::TableDiffers { .. }));
        assert!(differs, "{refused}");
    }
}

#[test]
fn empty_rings_and_rings_without_transitions_are_errors() {
    let ring = heap(100, 1);
    let mut epoch = sampler(&ring, &TableOptions::epoch("e"));
    assert!(matches!(epoch.sample(3), Err(SampleError::Empty { .. })));
    let mut writer = writer(&ring);
    append(&mut writer, 0, false);
    assert!(matches!(epoch.sample(3), Err(SampleError::Empty { .. })));
    let mut queue = sampler(&ring, &TableOptions::consume("q"));
    let refused = queue.sample(3).unwrap_err();
    assert!(matches!(refused, SampleError::TimedOut { wanted: 3, available: 0, .. }), "{refused}");
    append(&mut writer, 1, false);
    assert_eq!(epoch.sample(3).unwrap().index(), [0; 3], "three passes over one transition");
}

#[test]
fn an_error_of_too_few_rows_says_how_many_are_claimed() {
    let ring = heap(100, 1);
    let options = TableOptions::consume("q");
    let (mut first, mut second) = (sampler(&ring, &options), sampler(&ring, &options));
    let reason = |sampler: &mut Sampler| match sampler.sample(5).unwrap_err() {
        SampleError::TimedOut { wanted, available: 0, reason, .. } => (wanted, reason),
        other => panic!("{other}"),
    };
    let (_, none) = reason(&mut second);
    assert!(!none.contains("`q`"), "{none}");
    let mut writer = writer(&ring);
    for row in 0..10 {
        append(&mut writer, row, false);
    }
    first.sample(6).unwrap();
    let (wanted, said) = reason(&mut second);
    assert_eq!(wanted, 2, "{said}");
    for value in ["`q`", "9 of 9", "3 of them"] {
        assert!(said.contains(value), "{said} lacks {value}");
    }
    assert!(!said.contains("boundary"), "{said}");
}

#[test]
fn an_error_of_too_few_rows_says_that_the_boundary_leaves_some_out() {
    let ring = heap(100, 1);
    let mut writer = writer(&ring);
    for row in 0..20 {
        append(&mut writer, row, row % 3 == 1);
    }
    for boundary in [Boundary::Reject, Boundary::Mask] {
        let table = Selector::Table(TableOptions::consume(boundary.as_str()));
        let options = SamplerOptions::seeded(1).history(4).boundary(boundary);
        let mut sampler = ring.sampler(options.selector(table)).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let refused = (0..9).find_map(|_| sampler.sample(5).err()).unwrap();
        assert!(matches!(refused, SampleError::TimedOut { available: 0, .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains(&format!("`{}`", boundary.as_str())), "{said}");
        let leaves_out = said.contains("boundary \"reject\"");
        assert_eq!(leaves_out, boundary == Boundary::Reject, "{said}");
    }
}

/// A draw that waits is woken by a writer.
#[test]
fn a_queue_waits_for_writers() {
    let ring = heap(1_000, 1);
    let mut queue = sampler(&ring, &TableOptions::consume("q"));
    queue.set_timeout(Some(backcast_budget::WATCHDOG));
    let mut writer = writer(&ring);
    std::thread::scope(|scope| {
        let drawn = scope.spawn(move || queue.sample(50).unwrap().index());
        for row in 0..=50 {
            append(&mut writer, row, false);
        }
        assert_eq!(drawn.join().unwrap(), (0..50).collect::<Vec<i64>>());
    });
}

/// Environment of a process that this test starts of its own binary.
const DIR: &str = "BACKCAST_TEST_CLAIMER";
const BATCH: usize = 32;

/// Draws until the file `done` exists and no row is left, and prints the rows of every batch.
#[test]
fn claimer_process() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let ring = Ring::attach_in(&Base::at(Path::new(&dir)), "r").unwrap();
    let mut sampler = sampler(&ring, &TableOptions::consume("t").max_times_sampled(2));
    sampler.set_timeout(Some(Duration::from_millis(20)));
    let mut batch = BATCH;
    loop {
        let done = Path::new(&dir).join("done").exists();
        match sampler.sample(batch) {
            Ok(batch) => {
                print_rows(&batch.index());
            }
            Err(SampleError::TimedOut { .. }) if done && batch == 1 => return,
            // Fewer rows are left than a batch of each process.
            Err(SampleError::TimedOut { .. }) if done => batch = 1,
            Err(SampleError::TimedOut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(dir: &Path) -> LearnerProcess {
    LearnerProcess::start("claims::claimer_process", &[(DIR, dir.as_os_str())])
}

#[test]
fn a_killed_process_loses_at_most_its_batch() -> Result<(), Box<dyn Error>> {
    let mut lost_in_all = 0;
    for round in 0..backcast_budget::budget(20) {
        let dir = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let base = Base::at(dir.path());
        let options = RingOptions::with_capacity(40_000).lanes(2).base(base);
        let ring = Ring::create("r", &schema(), options)?;
        let mut writers = [writer(&ring), writer(&ring)];
        let mut fill = |rows: std::ops::Range<u64>| {
            for row in rows {
                for (lane, writer) in writers.iter_mut().enumerate() {
                    append(writer, row, (row + lane as u64) % 9 == 7);
                }
            }
        };
        fill(0..1_000);
        let mut victim = start(dir.path());
        let mut out = victim.lines();
        // The victim alone draws more than 100 batches, and prints them.
        let mut first = printed_rows((0..=round % 7).map_while(|_| out.next()));
        let mut others = [start(dir.path()), start(dir.path())];
        let readers: Vec<_> = others
            .iter_mut()
            .map(LearnerProcess::lines)
            .map(|lines| std::thread::spawn(move || printed_rows(lines)))
            .collect();
        // All three draw, until the victim is killed in the middle of a batch.
        fill(1_000..2_000 + 200 * (round % 5));
        victim.kill();
        fill(2_000 + 200 * (round % 5)..8_000);
        first.extend(printed_rows(out));
        std::fs::write(dir.path().join("done"), b"")?;
        let mut all = first;
        for reader in readers {
            all.extend(reader.join().expect("the reader does not panic"));
        }
        for child in &mut others {
            assert!(child.wait_bounded().success());
        }
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for index in &all {
            *counts.entry(*index).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| *count <= 2), "a row was drawn three times");
        let expected: BTreeSet<i64> = transitions(&ring).into_iter().map(i64::from).collect();
        assert!(counts.keys().all(|index| expected.contains(index)));
        let lost = 2 * expected.len() - all.len();
        assert!(lost <= BATCH, "{lost} draws are lost in round {round}");
        lost_in_all += lost;
    }
    println!("claims: {lost_in_all} draws lost by killed processes");
    Ok(())
}

/// Rows that a queue loses to writers are counted, wherever they were: not in any pass, in a pass
/// and not claimed, or claimed by a batch that was not returned. Others are not.
#[test]
fn a_queue_counts_the_rows_that_writers_overwrote() {
    let options = TableOptions::consume("queue");
    let seen = |ring: &Ring| {
        let [of] = &ring.stats().claim_tables[..] else { panic!("one table") };
        (of.overwritten, of.left)
    };
    let ring = heap(10, 1);
    let mut writer = writer(&ring);
    let mut fill = |rows: u64| (0..rows).for_each(|row| append(&mut writer, row, false));
    // Rows from before the table are none of its losses.
    fill(25);
    let mut queue = sampler(&ring, &options);
    assert_eq!(seen(&ring), (0, 9));
    assert_eq!(queue.sample(2).unwrap().index().len(), 2);
    assert_eq!(seen(&ring), (0, 7));
    // Rows 15..24 are the pass, of which 15 and 16 are drawn. Those of 17..24 that are overwritten
    // are lost in the pass, those from 24 on outside of one.
    fill(20);
    assert_eq!(seen(&ring).0, 35 - 24, "nothing is claimed, and no pass has had these");
    let drawn: Vec<u64> = queue.sample(3).unwrap().index().iter().map(|row| row.seq()).collect();
    assert_eq!(drawn, [35, 36, 37]);
    assert_eq!(seen(&ring), (35 - 17, 6));
    // Cleared rows are not lost.
    ring.clear().unwrap();
    fill(5);
    assert_eq!(queue.sample(2).unwrap().index().len(), 2);
    assert_eq!(seen(&ring).0, 35 - 17);
    // A renewed pass loses nothing.
    let ring = heap(10, 1);
    let mut writer = self::writer(&ring);
    (0..10).for_each(|row| append(&mut writer, row, false));
    let mut epoch = sampler(&ring, &TableOptions::epoch("epoch"));
    epoch.sample(2).unwrap();
    (0..30).for_each(|row| append(&mut writer, row, false));
    epoch.sample(20).unwrap();
    assert_eq!(ring.stats().claim_tables[0].overwritten, 0);
}
