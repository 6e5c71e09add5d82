//! Saves and loads of 1 M rows of 701 B, compared with a plain write of as many bytes and a plain
//! read of the same files. Also the cost of an incremental save, the memory of a save, and the cost
//! of a follower to a writer.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backcast_benches::base;
use backcast_benches::measured::Measured;
use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions,
};
use backcast_persist::{FollowOptions, Follower, LoadOptions, PersistMode, SaveOptions, Store};

const ROWS: u64 = 1_000_000;
const LANES: u32 = 8;
const RUNS: usize = 7;
/// Bytes of each call in the plain write.
const PIECE: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let measured = Measured::from_args();
    if measured.wants("1 M rows of 701 B") {
        saves(&measured)?;
    }
    let publish = "p99.9 of an append of 701 B every 50 µs";
    if measured.wants(publish) {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            without.push(appends(None)?);
            with.push(appends(Some(PersistMode::Continuous))?);
        }
        measured.keep(publish, "µs", "alone", &without);
        measured.keep(publish, "µs", "followed", &with);
    }
    Ok(())
}

/// Returns the 99.9th percentile of the time of an append, in microseconds.
fn appends(mode: Option<PersistMode>) -> Result<f64, Box<dyn Error>> {
    const APPENDS: usize = 60_000;
    const EVERY: Duration = Duration::from_micros(50);
    let (_memory, base) = base();
    let disk = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"))?;
    let options = RingOptions::with_capacity(100_000).base(base);
    let ring = Ring::create("ring", &schema()?, options)?;
    let mut writer = ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep))?;
    let follower = mode.map(|mode| {
        let flush = Duration::from_millis(200);
        let options = FollowOptions { mode, flush, ..FollowOptions::default() };
        Follower::start(&Store::at(disk.path().join("store")), "ring", &ring, options)
    });
    let follower = follower.transpose()?;
    let (obs, action) = (vec![0.5_f32; 160], vec![0.25_f32; 8]);
    let columns = StepColumns::of(ring.schema())
        .with("obs", &obs)?
        .with("action", &action)?
        .with("reward", &[1.0_f32])?
        .with("done", &[false])?;
    let step = columns.step(&[false], &[false])?;
    let mut micros = Vec::with_capacity(APPENDS);
    let begun = Instant::now();
    for at in 0..u32::try_from(APPENDS)? {
        while begun.elapsed() < EVERY * at {
            std::hint::spin_loop();
        }
        let since = Instant::now();
        writer.append(&step)?;
        micros.push(since.elapsed().as_secs_f64() * 1e6);
    }
    if let Some(follower) = follower {
        let state = follower.stop();
        assert!(state.error.is_none() && state.steps > 5, "{state:?}");
        let all = state.rows_before + state.rows_persisted + state.rows_lapped;
        assert_eq!(all, ring.rows_published(), "every row is on disk or counted");
    }
    micros.sort_by(f64::total_cmp);
    Ok(micros[APPENDS * 999 / 1000])
}

fn saves(measured: &Measured) -> Result<(), Box<dyn Error>> {
    let (_memory, base) = base();
    // Not in `/tmp`, which may be a tmpfs.
    let disk = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"))?;
    let store = Store::at(disk.path().join("store"));
    let ring = Ring::create(
        "ring",
        &schema()?,
        RingOptions::with_capacity(ROWS).lanes(LANES).base(base.clone()),
    )?;
    write(&ring, ROWS / u64::from(LANES))?;
    let plain = disk.path().join("plain");
    let mut runs = Runs::default();
    let before = anonymous_mib()?;
    for run in 0..=RUNS {
        let one = once(&store, &ring, &base, &plain, before)?;
        // The first run warms up the disk and is not counted.
        if run > 0 {
            runs.add(&one);
        }
    }
    let save = "save 1 M rows of 701 B";
    measured.keep(save, "s", "backcast", &runs.save);
    measured.keep(save, "s", "write + fsync", &runs.write);
    let more = "save 1 M rows of 701 B, of which 1 % are new";
    measured.keep(more, "s", "backcast", &runs.more);
    measured.keep(more, "s", "write + fsync of all", &runs.write);
    let load = "load 1 M rows of 701 B";
    measured.keep(load, "s", "backcast", &runs.load);
    measured.keep(load, "s", "read into new memory", &runs.read);
    let memory = "memory of a save of 1 M rows of 701 B";
    measured.keep(memory, "MiB", "backcast", &runs.memory);
    Ok(())
}

#[derive(Debug, Default)]
struct Runs {
    save: Vec<f64>,
    write: Vec<f64>,
    more: Vec<f64>,
    load: Vec<f64>,
    read: Vec<f64>,
    memory: Vec<f64>,
}

struct Once {
    save: f64,
    write: f64,
    more: f64,
    load: f64,
    read: f64,
    memory: f64,
}

impl Runs {
    fn add(&mut self, one: &Once) {
        let Self { save, write, more, load, read, memory } = self;
        for (all, one) in [
            (save, one.save),
            (write, one.write),
            (more, one.more),
            (load, one.load),
            (read, one.read),
            (memory, one.memory),
        ] {
            all.push(one);
        }
    }
}

/// Measures each operation once. `before` is the memory in use before the first save.
fn once(
    store: &Store,
    ring: &Ring,
    base: &Base,
    plain: &Path,
    before: f64,
) -> Result<Once, Box<dyn Error>> {
    let mut most = before;
    let options = SaveOptions::default().on_progress(|_| {
        most = anonymous_mib().unwrap_or(f64::MAX).max(most);
        ControlFlow::Continue(())
    });
    let since = Instant::now();
    let report = store.save(ring, "all", options)?;
    let save = since.elapsed().as_secs_f64();
    assert_eq!((report.rows, report.rows_written), (ROWS, ROWS), "the save was a full one");
    let files = store.snapshot("ring@all")?.files;

    let write = {
        // Writes as many bytes from memory.
        let piece = vec![7_u8; PIECE];
        let since = Instant::now();
        let mut file = File::create(plain)?;
        let mut left = report.bytes_written;
        while left > 0 {
            let bytes = left.min(PIECE as u64);
            file.write_all(&piece[..usize::try_from(bytes)?])?;
            left -= bytes;
        }
        file.sync_all()?;
        since.elapsed().as_secs_f64()
    };
    fs::remove_file(plain)?;

    let read = read_all(&files)?;
    let since = Instant::now();
    let options = LoadOptions::default().name("again").base(base.clone());
    let again = store.load("ring@all", options)?;
    let load = since.elapsed().as_secs_f64();
    assert_eq!(again.rows_published(), ring.rows_published());
    // Frees the memory outside the measured time, as for the plain read.
    again.unlink()?;
    drop(again);

    let new = ROWS / 100 / u64::from(LANES);
    self::write(ring, new)?;
    let since = Instant::now();
    let report = store.save(ring, "more", SaveOptions::default())?;
    let more = since.elapsed().as_secs_f64();
    assert_eq!(report.rows_written, new * u64::from(LANES), "only what is new was written");
    store.remove("ring")?;
    Ok(Once { save, write, more, load, read, memory: most - before })
}

/// Returns the seconds to read files into new memory, since a load fills new memory too.
fn read_all(files: &[PathBuf]) -> Result<f64, Box<dyn Error>> {
    let since = Instant::now();
    let mut kept = Vec::new();
    for file in files {
        let mut file = File::open(file)?;
        let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len())?);
        file.read_to_end(&mut bytes)?;
        kept.push(bytes);
    }
    let seconds = since.elapsed().as_secs_f64();
    assert!(kept.iter().map(Vec::len).sum::<usize>() as u64 > ROWS * 677);
    Ok(seconds)
}

/// Returns the anonymous memory of this process.
fn anonymous_mib() -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn schema() -> Result<Schema, Box<dyn Error>> {
    Ok(Schema::builder()
        .column("obs", DType::F32, &[160])
        .column("action", DType::F32, &[8])
        .column("reward", DType::F32, &[])
        .column("done", DType::Bool, &[])
        .build()?)
}

/// Appends steps to all lanes.
fn write(ring: &Ring, steps: u64) -> Result<(), Box<dyn Error>> {
    let lanes = LANES as usize;
    let mut writer = ring.writer(WriterOptions::lanes(LANES).autoreset(AutoresetMode::NextStep))?;
    let (mut obs, action, reward) =
        (vec![0.5_f32; lanes * 160], vec![0.25_f32; lanes * 8], [1.0_f32; LANES as usize]);
    let (quiet, ends) = (vec![false; lanes], vec![true; lanes]);
    for t in 0..steps {
        #[expect(clippy::cast_precision_loss, reason = "any number will do")]
        obs.fill(t as f32);
        let truncated = if t % 200 == 198 { &ends } else { &quiet };
        let columns = StepColumns::of(ring.schema())
            .with("obs", &obs)?
            .with("action", &action)?
            .with("reward", &reward)?
            .with("done", &quiet)?;
        writer.append(&columns.step(&quiet, truncated)?)?;
    }
    Ok(())
}
