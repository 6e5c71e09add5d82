//! Rings to damage, the ways to damage them, and the outcomes that attaching one may have.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use backcast_core::{
    AutoresetMode, Base, DType, ObjectKind, Ring, RingError, RingOptions, Schema, SchemaError,
    SegmentError, StepColumns, WriterOptions,
};
use rand::RngExt;
use rand::seq::IndexedRandom;
use tempfile::TempDir;

use super::Tally;
use super::dice::Dice;
use super::files::{
    Files, damage_any, damage_lane, damage_repaired, overlay, put_files, read_files,
};
use super::use_ring::use_ring;

/// Returns a new directory in `BACKCAST_TEST_SHM`, or in `/dev/shm` if it exists. A fuzzer ends
/// without removing it.
///
/// # Panics
/// If the directory cannot be created.
#[must_use]
pub fn tmpfs() -> TempDir {
    let place = std::env::var_os("BACKCAST_TEST_SHM").unwrap_or_else(|| "/dev/shm".into());
    TempDir::new_in(place).or_else(|_| TempDir::new()).expect("a directory of our own")
}

/// Returns a schema of four columns, one of them boolean.
pub fn schema() -> Result<Schema, SchemaError> {
    Schema::builder()
        .column("obs", DType::F32, &[2])
        .column("alive", DType::Bool, &[])
        .column("action", DType::I32, &[])
        .column("reward", DType::F32, &[])
        .build()
}

/// Creates a persistent ring of two lanes with some rows, which exists without holders.
pub fn make_ring(base: &Base, name: &str, schema: &Schema) -> Result<Ring, Box<dyn Error>> {
    let options = RingOptions::with_capacity(2_000).lanes(2).reader_slots(4).persistent(true);
    let ring = Ring::create(name, schema, options.base(base.clone()))?;
    let mut writer = ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep))?;
    for t in 0..40_i16 {
        let x = f32::from(t);
        let ends = [t % 7 == 0, t % 11 == 0];
        let (obs, alive) = ([x, 1.0, -x, 2.0], [true, false]);
        let (action, reward) = ([t.into(), 1], [x, x]);
        let columns = StepColumns::of(schema)
            .with("obs", &obs)?
            .with("alive", &alive)?
            .with::<i32>("action", &action)?
            .with("reward", &reward)?;
        writer.append(&columns.step(&ends, &[false, false])?)?;
    }
    drop(writer);
    Ok(ring)
}

/// Creates a ring with other columns.
fn make_other(base: &Base) -> Result<(), Box<dyn Error>> {
    let schema = Schema::builder().column("obs", DType::F64, &[3]).build()?;
    let options = RingOptions::with_capacity(500).reader_slots(9).persistent(true);
    Ring::create("other", &schema, options.base(base.clone()))?;
    Ok(())
}

/// A healthy ring called `victim`, kept as bytes, and two others whose files may take the place of
/// its own.
#[derive(Debug)]
pub struct Victim {
    base: Base,
    healthy: Files,
    strangers: [Files; 2],
}

impl Victim {
    /// Makes the three rings in a base of their own.
    pub fn make(base: Base) -> Result<Self, Box<dyn Error>> {
        make_ring(&base, "victim", &schema()?)?;
        make_ring(&base, "twin", &schema()?)?;
        make_other(&base)?;
        let files = |name: &str| read_files(&base.path().join(name));
        let (healthy, strangers) =
            (files("victim.ring")?, [files("twin.ring")?, files("other.ring")?]);
        Ok(Self { base, healthy, strangers })
    }

    /// Returns the files of the healthy ring.
    #[must_use]
    pub fn healthy(&self) -> &Files {
        &self.healthy
    }

    fn put(&self) -> std::io::Result<PathBuf> {
        let dir = self.base.path().join("victim.ring");
        put_files(&dir, &self.healthy)?;
        Ok(dir)
    }

    /// Writes the healthy ring to disk and damages it. Returns a description of the damage.
    pub fn damage(&self, dice: &mut Dice) -> std::io::Result<String> {
        let dir = self.put()?;
        let strangers = [&self.strangers[0], &self.strangers[1]];
        let names: Vec<&String> =
            self.healthy.keys().filter(|name| *name != "persistent").collect();
        let lane = |n| format!("lane-{n:04}.dat");
        Ok(match dice.random_range(0..20) {
            0..=7 => {
                let file = names.choose(dice).map_or("ring.ctl", |name| name);
                damage_any(&dir, file, &strangers, dice)?
            }
            8 => {
                let first = damage_any(&dir, "ring.ctl", &strangers, dice)?;
                // The first damage may have moved the directory away.
                let second = damage_any(&dir, "ring.rdr", &strangers, dice);
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

    /// Writes the ring to disk with a file that begins with these bytes, with repaired checksums if
    /// `repair` is set.
    pub fn overlay(&self, file: &str, bytes: &[u8], repair: bool) -> std::io::Result<()> {
        overlay(&self.put()?, file, bytes, repair)
    }

    /// Attaches the ring and uses it in every way. Returns the variant of the error, or "works".
    ///
    /// # Panics
    /// On an error that attaching a damaged ring must not return.
    pub fn attach(&self, dice: &mut Dice, tally: &mut Tally) -> String {
        // Listing and inspecting must survive damaged objects too.
        if dice.random_ratio(1, 8) {
            let listed =
                backcast_core::list_objects(&self.base).expect("a listing of damaged objects");
            assert!(listed.iter().all(|object| object.kind == ObjectKind::Ring));
        }
        let ring = match Ring::attach_in(&self.base, "victim") {
            Ok(ring) => ring,
            Err(RingError::Segment(error)) => return format!("attach: {}", segment_kind(&error)),
            Err(error @ RingError::Schema(_)) => {
                assert!(!error.to_string().is_empty());
                return "attach: Schema".to_owned();
            }
            Err(error) => panic!("{error}"),
        };
        use_ring(&ring, dice, tally);
        "attach: works".to_owned()
    }
}

/// Returns the variant's name, and checks that the message names the object.
///
/// # Panics
/// If it does not, or if attaching must not return this error.
#[must_use]
pub fn segment_kind(error: &SegmentError) -> &'static str {
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
