//! The objects that refused calls use, and a snapshot of their state.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, Sampler, SamplerOptions, Schema, StepColumns,
    Writer, WriterOptions,
};
use backcast_gym::{PortfolioOptions, PortfolioVectorEnv, ResetSeed};
use backcast_market::{Panel, PanelData, PanelOptions};
use tempfile::TempDir;

/// Rows written to lane 0 of `pong`, which keeps the last [`KEPT`].
const WRITTEN: usize = 120;
/// Rows that each lane keeps.
pub(crate) const KEPT: u64 = 50;

/// Rings, a panel and an environment in a temporary directory.
///
/// - `pong`: lane 0 was lapped and is free; lane 1 belongs to `same_step` and lane 2 to
///   `next_step`, both without rows; lane 3 is free.
/// - `empty`: one lane, no rows. `kept`: persistent, without holders.
pub(crate) struct Stage {
    pub(crate) ring: Ring,
    pub(crate) same_step: Writer,
    pub(crate) next_step: Writer,
    pub(crate) sampler: Sampler,
    pub(crate) empty_sampler: Sampler,
    empty: Ring,
    pub(crate) panel: Panel,
    pub(crate) env: PortfolioVectorEnv,
    pub(crate) base: Base,
    /// Objects that a row's preparation keeps alive.
    held: RefCell<Vec<Box<dyn Any>>>,
    // Dropped last, after everything in the directory is closed.
    dir: TempDir,
}

impl Stage {
    pub(crate) fn set() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let base = Base::at(dir.path());
        let ring = Ring::create("pong", &schema(), options(&base, 200).lanes(4)).unwrap();
        let mut first = writer(&ring, AutoresetMode::NextStep);
        append(&mut first, WRITTEN);
        // Held until the others have their lanes: a writer claims the first free one.
        let same_step = writer(&ring, AutoresetMode::SameStep);
        let next_step = writer(&ring, AutoresetMode::NextStep);
        drop(first);
        let kept = options(&base, 10).persistent(true);
        drop(Ring::create("kept", &schema(), kept).unwrap());
        let panel = prices("").into_heap();
        let mut env =
            PortfolioVectorEnv::new(panel.clone(), 2, PortfolioOptions::default()).unwrap();
        env.reset(ResetSeed::One(1), None, None).unwrap();
        let empty = Ring::create("empty", &schema(), options(&base, 10)).unwrap();
        Self {
            empty_sampler: empty.sampler(SamplerOptions::seeded(7)).unwrap(),
            empty,
            sampler: ring.sampler(SamplerOptions::seeded(7)).unwrap(),
            ring,
            same_step,
            next_step,
            panel,
            env,
            base,
            held: RefCell::default(),
            dir,
        }
    }

    /// Keeps an object alive until the test ends.
    pub(crate) fn hold(&self, thing: impl Any) {
        self.held.borrow_mut().push(Box::new(thing));
    }

    /// Publishes rows on the first free lane and releases it.
    pub(crate) fn fill(ring: &Ring, rows: usize) {
        append(&mut writer(ring, AutoresetMode::NextStep), rows);
    }

    /// Returns all state that is visible to others: every file, the counters, the environment.
    pub(crate) fn picture(&self) -> String {
        let mut picture = String::new();
        let mut files = Vec::new();
        files_below(self.dir.path(), &mut files);
        files.sort();
        for file in files {
            let mut bytes = fs::read(&file).unwrap();
            if file.ends_with("ring.rdr") {
                // Clears the notifiers, since a wait marks that a process may be asleep.
                bytes[128..384].fill(0);
            }
            let hash = blake3::hash(&bytes).to_hex();
            writeln!(picture, "{} {} {hash}", file.display(), bytes.len()).unwrap();
        }
        for ring in [&self.ring, &self.empty] {
            writeln!(picture, "{:?}", ring.stats()).unwrap();
        }
        let written = self.same_step.rows_written() + self.next_step.rows_written();
        let drawn = (self.sampler.sampled(), self.sampler.lapped(), self.empty_sampler.sampled());
        writeln!(picture, "{written} {drawn:?} {:?}", self.env.obs()).unwrap();
        picture
    }

    /// Returns the directory of a ring.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.base.path().join(format!("{name}.ring"))
    }

    /// Returns the path of a file outside every ring.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

pub(crate) fn schema() -> Schema {
    let schema = Schema::builder().column("obs", DType::F32, &[2]);
    schema.column("action", DType::I32, &[]).build().unwrap()
}

pub(crate) fn options(base: &Base, capacity: u64) -> RingOptions {
    RingOptions::with_capacity(capacity).base(base.clone())
}

fn append(writer: &mut Writer, rows: usize) {
    let schema = schema();
    for i in 0..rows {
        let i = u8::try_from(i % 251).unwrap();
        let (obs, action) = ([f32::from(i); 2], [i32::from(i)]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}

fn writer(ring: &Ring, mode: AutoresetMode) -> Writer {
    ring.writer(WriterOptions::lanes(1).autoreset(mode)).unwrap()
}

/// Returns ten days of `AAA` and the index `VIX`, and the rows of `more`.
pub(crate) fn prices(more: &str) -> PanelData {
    PanelData::from_reader(csv(more).as_bytes(), &macros()).unwrap()
}

pub(crate) fn csv(more: &str) -> String {
    let mut csv = "date,tic,open,high,low,close,volume,rsi\n".to_owned();
    for day in 1..=10 {
        for ticker in ["AAA", "VIX"] {
            writeln!(csv, "2024-01-{day:02},{ticker},{day},40,1,{day}.5,100,50").unwrap();
        }
    }
    csv + more
}

pub(crate) fn macros() -> PanelOptions {
    PanelOptions::default().macro_tickers(["VIX"])
}
