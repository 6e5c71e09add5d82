//! Learned columns against a map, under random updates, appends, evictions and attachments.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use backcast_budget::Stop;
use proptest::prelude::*;

use crate::{
    AutoresetMode, Base, DType, LearnedError, LearnedOptions, LearnedValues, PriorityError, Ring,
    RingOptions, RowIndex, SampleError, SamplerOptions, Schema, SegmentError, StepColumns, Writer,
    WriterOptions,
};

const LANES: u32 = 2;

fn schema() -> Schema {
    Schema::builder().column("obs", DType::F32, &[]).build().unwrap()
}

fn options() -> LearnedOptions {
    LearnedOptions::new("online").column("value", DType::F32).column("visits", DType::U16)
}

fn writer(ring: &Ring) -> Writer {
    ring.writer(WriterOptions::lanes(LANES).autoreset(AutoresetMode::NextStep)).unwrap()
}

fn append(writer: &mut Writer, schema: &Schema, ended: bool) {
    let obs = [0.5_f32; LANES as usize];
    let ends = [ended; LANES as usize];
    let columns = StepColumns::of(schema).with("obs", &obs).unwrap();
    writer.append(&columns.step(&ends, &[false; LANES as usize]).unwrap()).unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Append {
        rows: u16,
        end: bool,
    },
    /// Sets a column of rows `back` before the newest of a lane.
    Set {
        lane: u32,
        column: bool,
        back: Vec<u64>,
        value: u16,
    },
    /// Opens the table again, in another handle of the ring.
    Attach,
    Sample {
        history: Option<u32>,
        future: u32,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let back = prop::collection::vec(0..1_400_u64, 1..6);
    prop_oneof![
        (1..700_u16, any::<bool>()).prop_map(|(rows, end)| Op::Append { rows, end }),
        (0..LANES, any::<bool>(), back, any::<u16>())
            .prop_map(|(lane, column, back, value)| Op::Set { lane, column, back, value }),
        Just(Op::Attach),
        (prop::option::of(1..5_u32), 0..3_u32)
            .prop_map(|(history, future)| Op::Sample { history, future }),
    ]
}

/// The values that were set and not dropped, by index: the specification.
type Model = [BTreeMap<i64, u16>; 2];

fn set(
    learned: &LearnedValues,
    model: &mut Model,
    (start, head): (u64, u64),
    (lane, column, back, value): (u32, bool, &[u64], u16),
) -> Result<(), TestCaseError> {
    let seqs = back.iter().map(|back| head.saturating_sub(1 + back));
    let index: Vec<i64> = seqs.map(|seq| RowIndex::new(lane, seq).0).collect();
    let kept = |index: &&i64| RowIndex(**index).seq() >= start;
    let expected = index.iter().filter(|index| !kept(index)).count() as u64;
    let dropped = if column {
        learned.update("visits", &index, &vec![value; index.len()])
    } else {
        learned.update("value", &index, &vec![f32::from(value); index.len()])
    };
    prop_assert_eq!(dropped.unwrap(), expected);
    for index in index.iter().filter(kept) {
        model[usize::from(column)].insert(*index, value);
    }
    Ok(())
}

/// Compares a batch, with all its windows, to the model.
fn compare(
    ring: &Ring,
    model: &Model,
    seed: u64,
    (history, future): (Option<u32>, u32),
) -> Result<(), TestCaseError> {
    let spec = SamplerOptions::seeded(seed).future(future);
    let spec = history.map_or(spec.clone(), |history| spec.history(history)).learned(options());
    let mut sampler = ring.sampler(spec).unwrap();
    let batch = match sampler.sample(40) {
        Ok(batch) => batch,
        Err(SampleError::Empty { .. }) => return Ok(()),
        Err(error) => panic!("{error}"),
    };
    let index = batch.index();
    let (past, ahead) = (history.unwrap_or(1) as usize, future as usize);
    let parts = [("", "mask", past, 1 - past.cast_signed()), ("future/", "future_mask", ahead, 1)];
    for (prefix, mask, steps, first) in parts.into_iter().filter(|part| part.2 > 0) {
        let key = |name: &str| format!("{prefix}{name}");
        let values = batch.column::<f32>(&key("value")).unwrap();
        let visits = batch.column::<u16>(&key("visits")).unwrap();
        let value_set = batch.column::<bool>(&key("value_set")).unwrap();
        let visits_set = batch.column::<bool>(&key("visits_set")).unwrap();
        let mask = batch.column::<bool>(mask).ok();
        for place in 0..40 * steps {
            let (item, step) = (place / steps, place % steps);
            let there = mask.as_ref().is_none_or(|mask| *mask.iter().nth(place).unwrap());
            let row = index[item].0 + i64::try_from(first + step.cast_signed()).unwrap();
            let expected = |column: usize| model[column].get(&row).copied().filter(|_| there);
            let found = |set: bool, value: f32| set.then_some(value);
            let (value, visit) = (values.iter().nth(place), visits.iter().nth(place));
            let (value, visit) = (*value.unwrap(), *visit.unwrap());
            let set = *value_set.iter().nth(place).unwrap();
            prop_assert_eq!(found(set, value), expected(0).map(f32::from), "{} {}", row, place);
            let set = *visits_set.iter().nth(place).unwrap();
            prop_assert_eq!(set.then_some(visit), expected(1));
            prop_assert!(
                (expected(0).is_some() || value == 0.0) && (expected(1).is_some() || visit == 0)
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        backcast_budget::cases(200)
    ))]

    /// A lane keeps 600 rows, and the table has words for 1,024.
    #[test]
    fn values_are_those_of_a_map(ops in prop::collection::vec(op(), 1..40), seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let made = RingOptions::with_capacity(1_200).lanes(LANES).base(base.clone());
        let ring = Ring::create("r", &schema(), made).unwrap();
        let mut writer = writer(&ring);
        let mut learned = ring.learned(&options()).unwrap();
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Append { rows, end } => {
                    for row in 0..rows {
                        append(&mut writer, &schema(), end && row == rows - 1);
                    }
                }
                Op::Set { lane, column, back, value } => {
                    let rows = ring.inspect_lane(lane).unwrap().rows;
                    if !rows.is_empty() {
                        let of = (lane, column, back.as_slice(), value);
                        set(&learned, &mut model, (rows.start, rows.end), of)?;
                    }
                }
                Op::Attach => {
                    let other = Ring::attach_in(&base, "r").unwrap();
                    learned = other.learned(&options()).unwrap();
                }
                Op::Sample { history, future } => compare(&ring, &model, seed, (history, future))?,
            }
        }
        compare(&ring, &model, seed, (Some(3), 2))?;
        for (column, of) in ["value", "visits"].into_iter().zip(&model) {
            let index: Vec<i64> = of.keys().copied().collect();
            let (_, set) = learned.value_bytes(column, &index).unwrap();
            let kept = index.iter().map(|index| {
                let rows = ring.inspect_lane(RowIndex(*index).lane()).unwrap().rows;
                rows.contains(&RowIndex(*index).seq())
            });
            prop_assert_eq!(set, kept.collect::<Vec<_>>());
        }
    }
}

#[test]
fn wrong_arguments_are_refused_before_any_value_is_set() {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(100).lanes(LANES)).unwrap();
    let mut writer = writer(&ring);
    (0..9).for_each(|_| append(&mut writer, &schema(), false));
    let learned = ring.learned(&options()).unwrap();
    let future = RowIndex::new(1, 9).0;
    let (one, two) = ([1_u8; 4], [1_u8; 2]);
    for (error, name) in [
        (learned.update("other", &[1], &[1.0_f32]), "other"),
        (learned.update_bytes(&[1], &[("value", &one), ("no", &two)]), "no"),
    ] {
        let error = error.unwrap_err();
        let LearnedError::UnknownColumn { column, known, .. } = error else { panic!("{error}") };
        assert_eq!(column, name);
        assert_eq!(known, ["value", "visits"]);
    }
    let error = learned.update("value", &[1], &[1.0_f64]).unwrap_err();
    let LearnedError::WrongDType { holds: DType::F32, given: DType::F64, .. } = error else {
        panic!("{error}")
    };
    for (error, name, counts) in [
        (learned.update("value", &[1, 2], &[1.0_f32]), "value", (2, 1)),
        (learned.update_bytes(&[1], &[("value", &one), ("visits", &one)]), "visits", (1, 2)),
    ] {
        let error = error.unwrap_err();
        let LearnedError::WrongCount { column, indices, values } = error else { panic!("{error}") };
        assert_eq!((&*column, (indices, values)), (name, counts));
    }
    for (index, lane) in [(future, 1), (9 << 48, 9)] {
        let error = learned.update("value", &[1, index], &[1.0_f32; 2]).unwrap_err();
        let LearnedError::BadIndex(error) = error else { panic!("{error}") };
        assert_eq!((error.position, error.index, error.lane), (1, index, lane));
    }
    assert_eq!(learned.values::<f32>("value", &[1]).unwrap(), (vec![0.0], vec![false]));
    assert_eq!(learned.counters(), crate::LearnedCounters::default());
    assert_eq!(
        learned.update_bytes(&[1, -1], &[("value", &[7; 8]), ("visits", &[1; 4])]).unwrap(),
        1
    );
    assert_eq!(learned.counters(), crate::LearnedCounters { updated: 2, stale: 2 });
}

#[test]
fn other_columns_and_other_kinds_of_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let named = RingOptions::with_capacity(100).base(Base::at(dir.path()));
    for ring in [
        Ring::heap(&schema(), RingOptions::with_capacity(100)).unwrap(),
        Ring::create("r", &schema(), named).unwrap(),
    ] {
        ring.learned(&options()).unwrap();
        assert_eq!(ring.learned_options("online").unwrap(), options());
        let other = ring.learned(&LearnedOptions::new("online").column("value", DType::F16));
        let error = other.unwrap_err().to_string();
        assert!(
            error.contains("(value: f4, visits: u2)") && error.contains("(value: f2)"),
            "{error}"
        );
        let error = ring.priorities(&crate::PriorityOptions::alpha(1.0).table("online"));
        let error = error.unwrap_err();
        assert!(
            matches!(&error, PriorityError::Segment(SegmentError::TableDiffers { table, what })
                if table == "online" && what.contains("learned") && what.contains("priorities")),
            "{error}"
        );
        ring.table(&crate::TableOptions::epoch("claims")).unwrap();
        let claims = LearnedOptions::new("claims").column("value", DType::F32);
        let error = ring.learned(&claims).unwrap_err();
        assert!(
            matches!(&error, LearnedError::Segment(SegmentError::TableDiffers { table, what })
                if table == "claims" && what.contains("claims") && what.contains("learned")),
            "{error}"
        );
        let error = ring.learned_options("claims").unwrap_err();
        assert!(matches!(error, LearnedError::NoTable { ref known, .. } if known == &["online"]));
        assert_eq!(ring.stats().learned_tables.len(), 1);
        assert_eq!(ring.stats().tables.len() + ring.stats().claim_tables.len(), 1);
    }
}

/// Any bytes in the words give some values, and any header an error.
#[test]
fn hostile_bytes_give_numbers_or_errors() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let made = RingOptions::with_capacity(300).base(base.clone());
    let ring = Ring::create("r", &schema(), made).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let columns = schema();
    for _ in 0..500 {
        let columns = StepColumns::of(&columns).with("obs", &[1.0_f32]).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let flags = LearnedOptions::new("flags").column("good", DType::Bool).column("v", DType::F32);
    let learned = ring.learned(&flags).unwrap();
    let path = base.path().join("r.ring/table-flags.dat");
    let whole = std::fs::read(&path).unwrap();
    let mut seed = 7_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_le_bytes()[7]
    };
    let words: Vec<u8> = whole[384..].iter().map(|_| noise()).collect();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &words, 384).unwrap();
    let mut sampler =
        ring.sampler(SamplerOptions::seeded(1).history(3).learned(flags.clone())).unwrap();
    let batch = sampler.sample(100).unwrap();
    batch.column::<bool>("good").unwrap();
    let index: Vec<i64> = (250..499).collect();
    learned.update("good", &index, &[true; 249]).unwrap();
    learned.values::<bool>("good", &index).unwrap();
    ring.learned_states().unwrap().for_each(|(_, state)| drop(state.unwrap()));
    for (at, byte) in whole.iter().enumerate().take(384) {
        if (128..256).contains(&at) {
            continue;
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &[!byte], at as u64).unwrap();
        let refused = ring.learned(&flags).unwrap_err();
        let expected = matches!(
            refused,
            LearnedError::Segment(
                SegmentError::Corrupt { .. }
                    | SegmentError::WrongVersion { .. }
                    | SegmentError::TableDiffers { .. }
            )
        );
        assert!(expected, "byte {at}: {refused}");
        std::os::unix::fs::FileExt::write_all_at(&file, &[*byte], at as u64).unwrap();
    }
    file.set_len(300).unwrap();
    assert!(ring.learned(&flags).is_err(), "a short file");
}

/// A reader sees only values that were set for its row, while two threads set and one appends.
#[test]
fn values_of_other_rows_are_never_seen() {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(512)).unwrap();
    let values = LearnedOptions::new("seqs").column("seq", DType::U32);
    assert!(matches!(ring.learned(&values).unwrap_err(), LearnedError::Taken { .. }));
    let values = LearnedOptions::new("seqs").column("number", DType::U32);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let learned = ring.learned(&values).unwrap();
                while !done.load(Relaxed) {
                    let rows = ring.inspect_lane(0).unwrap().rows;
                    let index: Vec<i64> = rows.map(u64::cast_signed).collect();
                    let numbers: Vec<u32> =
                        index.iter().map(|n| u32::try_from(*n).unwrap()).collect();
                    learned.update("number", &index, &numbers).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let mut sampler =
                ring.sampler(SamplerOptions::seeded(1).history(3).learned(values.clone())).unwrap();
            while !done.load(Relaxed) {
                let Ok(batch) = sampler.sample(64) else { continue };
                let numbers = batch.column::<u32>("number").unwrap();
                let set = batch.column::<bool>("number_set").unwrap();
                for (item, index) in batch.index().into_iter().enumerate() {
                    for place in 0..3 {
                        let row = index.0 + i64::try_from(place).unwrap() - 2;
                        let row = u32::try_from(row).unwrap_or(0);
                        let expected = if set[[item, place]] { row } else { 0 };
                        assert_eq!(numbers[[item, place]], expected);
                    }
                }
            }
        });
        let _stop = Stop(&done);
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let (columns, learned) = (schema(), ring.learned(&values).unwrap());
        // Goes on until a value was set in time. Without a pause every row is overwritten first.
        for row in 0..6_000_000 {
            if row % 256 == 0 {
                std::thread::yield_now();
                if row >= 60_000 && learned.counters().updated > 0 {
                    break;
                }
            }
            let columns = StepColumns::of(&columns).with("obs", &[1.0_f32]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
    });
    assert!(ring.learned(&values).unwrap().counters().updated > 0);
}
