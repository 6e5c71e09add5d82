//! Damaged files at attach, ten thousand of them: a typed error or a ring that works, and never a
//! panic, a hang, a signal or an allocation of a size that a file made up.

mod damage;
mod hostile;
mod panels;
mod use_ring;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

use backcast_core::{
    Base, DType, Kind, Ring, RingError, RingOptions, Schema, SchemaError, SegmentError,
    StepColumns, WriterOptions,
};
use backcast_layout::ColumnRecord;
use backcast_tests::limits::{MEMORY_LIMIT_BYTES, limit_memory, watch};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::damage::{
    Files, change_record, damage_any, damage_lane, damage_repaired, put_files, read_files,
};

/// How often each outcome was seen.
pub(crate) type Tally = BTreeMap<String, u64>;

pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("BACKCAST_FUZZ_CASES")
        .map_or(default, |cases| cases.parse().expect("BACKCAST_FUZZ_CASES is a number"))
}

pub(crate) fn tmpfs() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory of our own")
}

pub(crate) fn schema() -> Result<Schema, SchemaError> {
    Schema::builder()
        .column("obs", DType::F32, &[2])
        .column("alive", DType::Bool, &[])
        .column("action", DType::I32, &[])
        .column("reward", DType::F32, &[])
        .build()
}

/// A persistent ring of two lanes with some rows, so that nobody has to hold it.
pub(crate) fn make_ring(base: &Base, name: &str, schema: &Schema) -> Result<Ring, Box<dyn Error>> {
    let options = RingOptions::with_capacity(2_000).lanes(2).reader_slots(4).persistent(true);
    let ring = Ring::create(name, schema, options.base(base.clone()))?;
    let mut writer = ring.writer(WriterOptions::lanes(2))?;
    for t in 0..40_i16 {
        let x = f32::from(t);
        let ends = [t % 7 == 0, t % 11 == 0];
        let (obs, alive) = ([x, 1.0, -x, 2.0], [true, false]);
        let (action, reward) = ([t.into(), 1], [x, x]);
        let mut columns = StepColumns::of(schema)
            .with("obs", &obs)?
            .with("alive", &alive)?
            .with::<i32>("action", &action)?
            .with("reward", &reward)?;
        writer.append(&columns.step(&ends, &[false, false])?)?;
    }
    drop(writer);
    Ok(ring)
}

/// A ring of other columns.
fn make_other(base: &Base) -> Result<(), Box<dyn Error>> {
    let schema = Schema::builder().column("obs", DType::F64, &[3]).build()?;
    let options = RingOptions::with_capacity(500).reader_slots(9).persistent(true);
    Ring::create("other", &schema, options.base(base.clone()))?;
    Ok(())
}

#[test]
fn ten_thousand_damaged_rings_are_refused_with_a_typed_error_or_work() -> Result<(), Box<dyn Error>>
{
    let dir = tmpfs();
    let base = Base::at(dir.path());
    make_ring(&base, "victim", &schema()?)?;
    make_ring(&base, "twin", &schema()?)?;
    make_other(&base)?;
    let files = |name: &str| read_files(&base.path().join(name));
    let (victim, twin, other) = (files("victim.ring")?, files("twin.ring")?, files("other.ring")?);
    limit_memory();
    let progress = watch();
    let mut tally = Tally::new();
    for case in 0..cases(10_000) {
        let mut dice = StdRng::seed_from_u64(case);
        let what = damage(&base, &victim, &[&twin, &other], &mut dice)?;
        let label = format!("ring case {case}: {what}");
        progress.send(label.clone())?;
        let outcome = catch_unwind(AssertUnwindSafe(|| attach(&base, &mut dice, &mut tally)));
        let outcome = outcome.unwrap_or_else(|_| panic!("{label}: panicked"));
        assert!(!outcome.is_empty(), "{label}: an error without a name");
        *tally.entry(outcome).or_default() += 1;
    }
    println!("rings: {tally:#?}");
    let expected = [
        "attach: NotFound",
        "attach: Permission",
        "attach: Corrupt",
        "attach: WrongVersion",
        "attach: Io",
        "attach: Schema",
        "attach: works",
        "writer: works",
        "writer: Damaged",
        "sample: works",
        "sample: Empty",
        "rows: works",
        "rows: Lapped",
        "gather: works",
        "gather: BadIndex",
    ];
    for kind in expected {
        assert!(tally.contains_key(kind), "{kind} never occurred");
    }
    let peak = peak_memory_kib();
    assert!(peak.is_none_or(|kib| kib < MEMORY_LIMIT_BYTES / 1024), "{peak:?} KiB at the peak");
    Ok(())
}

#[test]
fn a_column_record_that_contradicts_the_sizes_of_its_ring_is_refused() -> Result<(), Box<dyn Error>>
{
    let dir = tmpfs();
    let base = Base::at(dir.path());
    make_ring(&base, "victim", &schema()?)?;
    let path = base.path().join("victim.ring");
    let healthy = read_files(&path)?;
    let fields = [
        (offset_of!(ColumnRecord, word), "access size"),
        (offset_of!(ColumnRecord, width_bytes), "width"),
        (offset_of!(ColumnRecord, offset_bytes), "offset"),
        (offset_of!(ColumnRecord, length_bytes), "length"),
        (offset_of!(ColumnRecord, unused), "unused bytes"),
    ];
    for column in 0..8 {
        for (byte, what) in fields {
            put_files(&path, &healthy)?;
            change_record(&path, column, byte)?;
            let outcome = Ring::attach_in(&base, "victim");
            let refused = matches!(&outcome, Err(RingError::Segment(SegmentError::Corrupt { .. })));
            assert!(refused, "{what} of column {column}: {outcome:?}");
        }
    }
    put_files(&path, &healthy)?;
    Ring::attach_in(&base, "victim")?;
    Ok(())
}

/// Puts the healthy ring down and damages it.
fn damage(
    base: &Base,
    healthy: &Files,
    strangers: &[&Files],
    dice: &mut StdRng,
) -> std::io::Result<String> {
    let dir = base.path().join("victim.ring");
    put_files(&dir, healthy)?;
    let names: Vec<&String> = healthy.keys().filter(|name| *name != "persistent").collect();
    let lane = |n| format!("lane-{n:04}.dat");
    Ok(match dice.random_range(0..20) {
        0..=7 => {
            let file = names.choose(dice).map_or("ring.ctl", |name| name);
            damage_any(&dir, file, strangers, dice)?
        }
        8 => {
            let first = damage_any(&dir, "ring.ctl", strangers, dice)?;
            // The first damage may have moved the directory away.
            let second = damage_any(&dir, "ring.rdr", strangers, dice);
            format!("{first}, {}", second.unwrap_or_default())
        }
        9 => {
            fs::rename(dir.join(lane(0)), dir.join("aside"))?;
            fs::rename(dir.join(lane(1)), dir.join(lane(0)))?;
            fs::rename(dir.join("aside"), dir.join(lane(1)))?;
            "lanes swapped".to_owned()
        }
        10 if dice.random() => {
            fs::remove_dir_all(&dir)?;
            "the directory is missing".to_owned()
        }
        10..=13 => format!("{}, {}", damage_lane(&dir, 0, dice)?, damage_lane(&dir, 1, dice)?),
        _ => damage_repaired(&dir, dice)?,
    })
}

fn attach(base: &Base, dice: &mut StdRng, tally: &mut Tally) -> String {
    // What people use to look at damaged objects has to survive them too.
    if dice.random_ratio(1, 8) {
        let listed = backcast_core::list(base).expect("a listing of damaged objects");
        assert!(listed.iter().all(|object| object.kind == Kind::Ring));
    }
    let ring = match Ring::attach_in(base, "victim") {
        Ok(ring) => ring,
        Err(RingError::Segment(error)) => return format!("attach: {}", segment_kind(&error)),
        Err(error @ RingError::Schema(_)) => {
            assert!(!error.to_string().is_empty());
            return "attach: Schema".to_owned();
        }
        Err(error) => panic!("{error}"),
    };
    use_ring::use_ring(&ring, dice, tally);
    "attach: works".to_owned()
}

/// The variant's name; its message names the object.
pub(crate) fn segment_kind(error: &SegmentError) -> &'static str {
    let text = error.to_string();
    assert!(text.contains("victim"), "which object? {text}");
    match error {
        SegmentError::NotFound { .. } => "NotFound",
        SegmentError::Permission { .. } => "Permission",
        SegmentError::Corrupt { .. } => "Corrupt",
        SegmentError::WrongVersion { .. } => "WrongVersion",
        SegmentError::Io { .. } => "Io",
        other => panic!("attach has no reason to say {other:?}"),
    }
}

/// The most memory this process ever had, where the kernel tells.
fn peak_memory_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
