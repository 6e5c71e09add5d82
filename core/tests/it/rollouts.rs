//! Rollouts and batches of all that is new, drawn by processes of which some are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Base, Batch, DType, Ring, RingOptions, Rollout, RowIndex, SampleError, Sampler,
    SamplerOptions, Schema, Selector, Sequence, StepColumns, TableOptions, WholeEpisodes, Writer,
    WriterOptions,
};

use crate::learner_process::{LearnerProcess, print_rows, printed_rows};

/// Environment of a process that this test starts of its own binary: a folder, and the form.
const DIR: &str = "BACKCAST_TEST_NEWS";
const FORM: &str = "BACKCAST_TEST_NEWS_FORM";
/// Transitions of a rollout, and columns of a block at most.
const LENGTH: u32 = 16;
const MOST: usize = 6;

fn schema() -> Schema {
    Schema::builder().column("obs", DType::U64, &[]).build().unwrap()
}

fn writer(ring: &Ring) -> Writer {
    ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap()
}

fn append(writer: &mut Writer, row: u64, ends: bool) {
    let (schema, obs) = (writer.schema().clone(), [row]);
    let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
    writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
}

fn sampler(ring: &Ring, form: &str, wait: Duration) -> Sampler {
    let queue = Selector::Table(TableOptions::consume(form));
    let options = SamplerOptions::seeded(1).selector(queue);
    let options = match form {
        "rollouts" => options.rollout(Rollout::new(LENGTH)),
        "sequences" => options.sequence(Sequence::new(4)),
        "episodes" => options.episodes(WholeEpisodes::padded()),
        "fixed" => options.episodes(WholeEpisodes::padded().max_length(99)),
        _ => options,
    };
    let mut sampler = ring.sampler(options).unwrap();
    sampler.set_timeout(Some(wait));
    sampler
}

/// Returns the rows of a batch that exist.
fn rows(batch: &Batch) -> Vec<RowIndex> {
    batch.index().into_iter().filter(|row| *row != RowIndex::NONE).collect()
}

fn transitions(ring: &Ring) -> BTreeSet<i64> {
    let mut all = ring.sampler(SamplerOptions::seeded(1).selector(Selector::Fifo)).unwrap();
    let Err(SampleError::TooFew { available, .. }) = all.sample(1 << 17) else {
        panic!("the ring has fewer")
    };
    let all = all.sample(usize::try_from(available).unwrap()).unwrap();
    all.index().into_iter().map(i64::from).collect()
}

/// Every form takes what is new in one batch, up to a number, and waits for the first item.
#[test]
fn all_that_is_new_is_one_batch() {
    let options = RingOptions::with_capacity(2_000).lanes(2);
    let ring = Ring::heap(&schema(), options).unwrap();
    let mut writers = [writer(&ring), writer(&ring)];
    let forms = ["rows", "sequences", "episodes", "fixed"];
    let mut samplers = forms.map(|form| sampler(&ring, form, Duration::ZERO));
    for sampler in &mut samplers {
        let refused = sampler.sample_new(None).unwrap_err();
        let waited = matches!(refused, SampleError::TimedOut { wanted: 1, available: 0, .. });
        let none = matches!(refused, SampleError::Form(_));
        assert!(waited || none, "{refused}");
    }
    let mut counts = [0_usize; 4];
    for round in 0..6_u64 {
        for row in 0..20 + 7 * round {
            for writer in &mut writers {
                append(writer, row, row % 9 == 7);
            }
        }
        for (sampler, count) in samplers.iter_mut().zip(&mut counts) {
            let mut sizes = Vec::new();
            while let Ok(batch) = sampler.sample_new(Some(40)) {
                sizes.push(batch.len());
                *count += batch.len();
            }
            let (last, full) = sizes.split_last().unwrap();
            assert!(full.iter().all(|size| *size == 40) && *last <= 40, "{sizes:?}");
            assert!(sampler.stats().unwrap().sampled == *count as u64);
        }
    }
    assert_eq!(counts[0], transitions(&ring).len());
    assert_eq!(counts[2], counts[3]);
    let episodes = |form| {
        let mut all = sampler(&ring, form, Duration::ZERO);
        let ends = all.sample_new(None).unwrap_err();
        matches!(ends, SampleError::TimedOut { available: 0, .. })
    };
    assert!(episodes("episodes") && episodes("fixed"));
}

#[test]
fn a_draw_of_all_that_is_new_waits_for_the_first() {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(500)).unwrap();
    let mut of = sampler(&ring, "rows", backcast_budget::WATCHDOG);
    let mut writer = writer(&ring);
    std::thread::scope(|scope| {
        let drawn = scope.spawn(move || of.sample_new(None).unwrap().len());
        for row in 0..50 {
            append(&mut writer, row, false);
        }
        assert!((1..=49).contains(&drawn.join().unwrap()));
    });
}

#[test]
fn rows_that_are_overwritten_before_the_copy_leave_a_smaller_batch() {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(60)).unwrap();
    let mut of = sampler(&ring, "rows", Duration::ZERO);
    let mut writer = writer(&ring);
    let mut drawn = BTreeSet::new();
    for round in 0..40_u64 {
        for row in 0..17 * (round % 6) {
            append(&mut writer, row, row % 5 == 3);
        }
        while let Ok(batch) = of.sample_new(Some(1 + usize::try_from(round).unwrap())) {
            for row in batch.index() {
                assert!(drawn.insert(row), "{row} was drawn twice");
            }
        }
    }
}

/// Draws until the file `done` exists and nothing is new, and prints the rows of every batch.
#[test]
fn news_process() {
    let (Ok(dir), Ok(form)) = (std::env::var(DIR), std::env::var(FORM)) else { return };
    let ring = Ring::attach_in(&Base::at(Path::new(&dir)), "r").unwrap();
    let mut sampler = sampler(&ring, &form, Duration::from_millis(20));
    loop {
        let done = Path::new(&dir).join("done").exists();
        match sampler.sample_new(Some(MOST)) {
            Ok(batch) => {
                print_rows(&rows(&batch));
            }
            Err(SampleError::TimedOut { .. }) if done => return,
            Err(SampleError::TimedOut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(dir: &Path, form: &str) -> LearnerProcess {
    let given = [(DIR, dir.as_os_str()), (FORM, form.as_ref())];
    LearnerProcess::start("rollouts::news_process", &given)
}

#[test]
fn a_killed_learner_loses_at_most_its_block() -> Result<(), Box<dyn Error>> {
    let mut lost_in_all = 0;
    for round in 0..backcast_budget::budget(40) {
        let of_rollouts = ("rollouts", MOST * LENGTH as usize);
        let (form, most) = if round.is_multiple_of(2) { of_rollouts } else { ("rows", MOST) };
        let dir = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let base = Base::at(dir.path());
        let options = RingOptions::with_capacity(60_000).lanes(3).base(base);
        let ring = Ring::create("r", &schema(), options)?;
        let mut writers = [writer(&ring), writer(&ring), writer(&ring)];
        let mut fill = |rows: std::ops::Range<u64>| {
            for row in rows {
                for (lane, writer) in writers.iter_mut().enumerate() {
                    append(writer, row, (row + lane as u64) % 9 == 7);
                }
            }
        };
        fill(0..1_000);
        let mut victim = start(dir.path(), form);
        let mut out = victim.lines();
        let mut all = printed_rows((0..=round % 7).map_while(|_| out.next()));
        let mut others = [start(dir.path(), form), start(dir.path(), form)];
        let readers: Vec<_> = others
            .iter_mut()
            .map(LearnerProcess::lines)
            .map(|lines| std::thread::spawn(move || printed_rows(lines)))
            .collect();
        fill(1_000..1_500 + 200 * (round % 5));
        victim.kill();
        fill(1_500 + 200 * (round % 5)..3_000);
        // Without writers, the rests of the lanes are handed out too.
        drop(writers);
        all.extend(printed_rows(out));
        std::fs::write(dir.path().join("done"), b"")?;
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
        assert!(counts.values().all(|count| *count == 1), "a transition was drawn twice");
        let expected = transitions(&ring);
        assert!(counts.keys().all(|index| expected.contains(index)));
        let lost = expected.len() - all.len();
        assert!(lost <= most, "{lost} transitions are lost in round {round}, {form}");
        lost_in_all += lost;
    }
    println!("rollouts: {lost_in_all} transitions lost by killed processes");
    Ok(())
}
