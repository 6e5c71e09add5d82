use backcast_layout::DType;

use super::eligibility::{ReadableRanges, StartIndex};
use super::*;
use crate::schema::Schema;
use crate::{AutoresetMode, RingOptions, StepColumns, WriterOptions};

/// Returns a ring with episodes of one to `longest` transitions.
fn ring(longest: usize) -> Ring {
    ring_of(longest, 1)
}

/// Returns such a ring with `numbers` numbers a row, which tell their step and their place.
pub(super) fn ring_of(longest: usize, numbers: u16) -> Ring {
    let schema = Schema::builder()
        .column("obs", DType::F32, &[numbers.into()])
        .column("reward", DType::F32, &[])
        .build()
        .unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(600).lanes(2)).unwrap();
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
    let mut writer = ring.writer(options).unwrap();
    let mut left = 1;
    for step in 0..500_usize {
        left -= 1;
        let ends = [left == 0; 2];
        if left == 0 {
            left = 1 + (step * step / 3) % longest;
        }
        let first = u16::try_from(step).unwrap();
        let obs: Vec<f32> = (first..first + 2 * numbers).map(f32::from).collect();
        let reward = [f32::from(first), -f32::from(first)];
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("reward", &reward).unwrap();
        let columns = columns.with_final("obs", &obs).unwrap();
        writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
    }
    ring
}

#[test]
fn the_index_changes_what_a_draw_costs_and_not_what_it_draws() {
    for (longest, boundary) in [(1, Boundary::Mask), (7, Boundary::Reject)] {
        let ring = ring(longest);
        let options = SamplerOptions::seeded(3).history(4).future(2).boundary(boundary);
        let [mut never, mut always, mut free] =
            [(); 3].map(|()| ring.sampler(options.clone()).unwrap());
        let mut indexed = 0;
        for _ in 0..20 {
            never.selection.eligibility.use_index(false);
            always.selection.eligibility.use_index(true);
            let expected = always.sample(300).unwrap().index();
            assert_eq!(never.sample(300).unwrap().index(), expected);
            assert_eq!(free.sample(300).unwrap().index(), expected);
            indexed += u32::from(free.selection.eligibility.is_indexed());
        }
        assert_eq!(indexed, if boundary == Boundary::Reject { 20 } else { 0 });
    }
}

#[test]
fn draws_do_not_depend_on_the_length_of_rows() {
    let drawn = |numbers: u32| {
        let schema = Schema::builder().column("obs", DType::F32, &[numbers]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(600).lanes(2)).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
        let obs = vec![0.5_f32; 2 * numbers as usize];
        for _ in 0..500 {
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false; 2], &[false; 2]).unwrap()).unwrap();
        }
        ring.sampler(SamplerOptions::seeded(5)).unwrap().sample(300).unwrap().index()
    };
    let first = drawn(1);
    for numbers in [16, 80, 210, 300, 500, 2_000] {
        assert_eq!(drawn(numbers), first, "{numbers} numbers a row");
    }
}

#[test]
fn a_head_that_goes_down_empties_the_index() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
    let options = RingOptions::with_capacity(600).base(crate::Base::at(dir.path()));
    let ring = Ring::create("liar", &schema, options).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    // No window fits into the first episodes, so the starts that remain are drawn from the index.
    for step in 0..500 {
        let columns = StepColumns::of(&schema).with("obs", &[1.0_f32]).unwrap();
        let ends = [step < 100];
        let step = columns.step(&ends, &[false]);
        writer.append(&step.unwrap()).unwrap();
    }
    let options = SamplerOptions::seeded(1).history(3).boundary(Boundary::Reject);
    let mut sampler = ring.sampler(options).unwrap();
    sampler.selection.eligibility.use_index(true);
    sampler.sample(16).unwrap();
    let lane = ring.path().unwrap().join("lane-0000.dat");
    let file = std::fs::File::options().write(true).open(lane).unwrap();
    let head = std::mem::offset_of!(backcast_layout::LaneHeader, head) as u64;
    for rows in [90_u64, 40, 0] {
        file.write_all_at(&rows.to_ne_bytes(), head).unwrap();
        sampler.selection.eligibility.use_index(true);
        let drawn = sampler.sample(64).map(|batch| batch.index());
        assert!(drawn.is_err(), "{rows} rows hold no window: {drawn:?}");
    }
}

#[test]
fn the_index_follows_a_writer_that_laps_it() {
    let ring = ring(7);
    let mut starts = StartIndex::new(2, 1);
    let mut ranges = ReadableRanges::default();
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
    let mut writer = ring.writer(options).unwrap();
    for (round, steps) in [0, 1, 5, 40, 299, 300, 301, 2_000].into_iter().enumerate() {
        for step in 0..steps {
            let obs = [1.0_f32, 2.0];
            let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
            let columns = columns.with("reward", &obs).unwrap();
            let columns = columns.with_final("obs", &obs).unwrap();
            let ends = [step % 5 == 4, step % (6 + round) == 5];
            writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
        }
        let lanes = ranges.refresh(&ring);
        starts.refresh(&lanes, &ranges);
        let mut fresh = StartIndex::new(2, 1);
        fresh.refresh(&lanes, &ranges);
        let list = |starts: &StartIndex| -> Vec<_> {
            (0..starts.total()).map(|n| starts.nth(n).unwrap()).collect()
        };
        assert_eq!(list(&starts), list(&fresh));
        assert!(list(&starts).iter().all(|(lane, row)| starts.contains(*lane, *row)));
        let rows = ranges.iter().zip(0..).flat_map(|(r, l)| r.clone().map(move |s| (l, s)));
        let held = rows.filter(|(lane, row)| starts.contains(*lane, *row)).count();
        assert_eq!(held as u64, starts.total());
    }
}

#[test]
fn windows_of_returns_are_the_history_and_then_the_future_of_each_item() {
    let ring = ring(7);
    for (history, future) in [(None, 0), (Some(3), 0), (None, 2), (Some(3), 2), (Some(1), 4)] {
        for items in [1, 2, 5] {
            let case = format!("{items} items, {history:?}, {future}");
            let options = SamplerOptions::seeded(3).future(future);
            let options = history.map_or(options.clone(), |history| options.history(history));
            let batch = ring.sampler(options).unwrap().sample(items).unwrap();
            let length = history.unwrap_or(1) + future;
            let steps = batch.window_steps::<f32>().unwrap();
            assert_eq!(steps.steps(), length as usize, "{case}");
            let rewards: Vec<f32> = joined(&batch, "reward", "future/reward", items);
            let given = steps.with(None);
            assert_eq!(given.rewards, rewards, "{case}");
            let ends: Vec<bool> = joined(&batch, "terminated", "future/terminated", items);
            assert_eq!(given.terminated, ends, "{case}");
            let mut mask: Vec<bool> = joined(&batch, "mask", "future_mask", items);
            if history.is_none() {
                // Without a history window the drawn transition has no place in a mask.
                let after = mask.chunks(future.max(1) as usize);
                mask = after.flat_map(|after| [&[true], after].concat()).collect();
                mask.resize(items * length as usize, true);
            }
            assert_eq!(steps.mask(), mask, "{case}");
        }
    }
}

/// Returns the numbers of two arrays of a batch, those of an item one after the other. An array
/// that the batch lacks has none.
fn joined<T: crate::Element + Copy>(batch: &Batch, now: &str, after: &str, items: usize) -> Vec<T> {
    let of = |key: &str, item: usize| -> Vec<T> {
        let Ok(array) = batch.column::<T>(key) else { return Vec::new() };
        array.index_axis(ndarray::Axis(0), item).iter().copied().collect()
    };
    (0..items).flat_map(|item| [of(now, item), of(after, item)].concat()).collect()
}
