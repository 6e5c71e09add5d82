//! A learner in Rust: attaches to a ring by name, in any process, and samples windows of what the
//! actors write there, Python's or Rust's.
//!
//! ```text
//! cargo run --release --example rust_learner -- NAME [--dir DIR] [--seconds 5] [--batch 256]
//!           [--history 8] [--future 0] [--seed 7] [--timeout 30]
//! ```
//! Without NAME it takes the newest ring. The ring of `make demo` is a good one to try.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use backcast_core::{
    Base, Batch, ObjectInfo, ObjectKind, Ring, SampleError, Sampler, SamplerOptions, list_objects,
};

/// Options of the command line.
struct Options {
    name: Option<String>,
    base: Base,
    seconds: f64,
    batch: usize,
    history: u32,
    future: u32,
    seed: u64,
    timeout_s: f64,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(env::args().skip(1))?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => newest(&options.base)?,
    };
    let ring = Ring::attach_in(&options.base, &name)?;
    describe(&name, &ring);

    let timeout = Duration::try_from_secs_f64(options.timeout_s)?;
    match ring.wait_for(1, Some(timeout)) {
        Ok(have) => println!("{have} transitions to begin with"),
        Err(error) => return Err(format!("nothing to learn from: {error}").into()),
    }
    let windows = SamplerOptions::seeded(options.seed).history(options.history);
    let mut sampler = ring.sampler(windows.future(options.future))?;
    learn(&mut sampler, &options)
}

/// Samples for a while and prints the speed.
fn learn(sampler: &mut Sampler, options: &Options) -> Result<(), Box<dyn Error>> {
    let end = Duration::try_from_secs_f64(options.seconds)?;
    let (start, mut told) = (Instant::now(), Instant::now());
    let (mut batches, mut batches_told) = (0_u32, 0_u32);
    let mut rewards = Mean::default();
    while start.elapsed() < end {
        let batch = match sampler.sample(options.batch) {
            Ok(batch) => batch,
            // Writers overwrote the rows during the draw; the next draw may succeed.
            Err(SampleError::Outrun { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if batches == 0 {
            show(&batch)?;
        }
        rewards.add(&batch)?;
        batches += 1;
        if told.elapsed() >= Duration::from_secs(1) {
            let rate = f64::from(batches - batches_told) / told.elapsed().as_secs_f64();
            let (size, lapped) = (sampler.ring().len(), sampler.lapped());
            println!("{rate:>8.0} batches/s  {size:>9} transitions  {lapped:>6} lapped{rewards}");
            (told, batches_told) = (Instant::now(), batches);
        }
    }
    let rate = f64::from(batches) / start.elapsed().as_secs_f64();
    let windows = sampler.sampled();
    println!("{batches} batches, {windows} windows, {rate:.0} batches/s{rewards}");
    Ok(())
}

/// Running mean of the drawn transitions' `reward`, if the schema has one.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    /// Adds the reward in the last place of every window: the drawn transition, never masked.
    fn add(&mut self, batch: &Batch) -> Result<(), Box<dyn Error>> {
        if !batch.keys().any(|key| key == "reward") {
            return Ok(());
        }
        let rewards: Vec<f64> = match batch.column::<f32>("reward") {
            Ok(rewards) => last_places(&rewards.mapv(f64::from)),
            Err(_) => match batch.column::<f64>("reward") {
                Ok(rewards) => last_places(&rewards.to_owned()),
                Err(_) => return Ok(()), // only f4 and f8 rewards are averaged
            },
        };
        self.sum += rewards.iter().sum::<f64>();
        self.count += u32::try_from(rewards.len())?;
        Ok(())
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            0 => Ok(()),
            count => write!(f, "  mean reward {:+.6}", self.sum / f64::from(count)),
        }
    }
}

/// Returns the rewards at `H - 1` of an array `[B, H, ...]`.
fn last_places(rewards: &ndarray::ArrayD<f64>) -> Vec<f64> {
    let axis = ndarray::Axis(1);
    let last = rewards.len_of(axis) - 1;
    rewards.index_axis(axis, last).iter().copied().collect()
}

fn describe(name: &str, ring: &Ring) {
    let stats = ring.stats();
    let (lanes, capacity, transitions) = (stats.lanes, stats.capacity, stats.transitions);
    println!("{name}: {transitions} transitions of {capacity}, {lanes} lanes");
    for column in ring.schema().columns() {
        let (dtype, shape, role) = (column.dtype(), column.shape(), column.role().as_str());
        println!("  {:<24} {:<5} {:<12} {role}", column.name(), dtype.code(), format!("{shape:?}"));
    }
    let writers: Vec<String> = stats
        .lane_stats
        .iter()
        .filter(|lane| lane.held)
        .filter_map(|lane| Some(format!("{} by process {}", lane.lane, lane.pid?)))
        .collect();
    let held = if writers.is_empty() { "none".to_owned() } else { writers.join(", ") };
    println!("  lanes being written: {held}");
}

fn show(batch: &Batch) -> Result<(), Box<dyn Error>> {
    println!("a batch has {}", batch.keys().collect::<Vec<_>>().join(", "));
    let mask = batch.column::<bool>("mask")?;
    let there = mask.iter().filter(|there| **there).count();
    println!("  mask {:?}: {there} of {} places hold a transition", mask.shape(), mask.len());
    Ok(())
}

/// Returns the name of the ring whose file was modified last.
fn newest(base: &Base) -> Result<String, Box<dyn Error>> {
    let rings =
        list_objects(base)?.into_iter().filter(|o| o.kind == ObjectKind::Ring && !o.building);
    let made = |o: &ObjectInfo| std::fs::metadata(&o.path).and_then(|m| m.modified());
    let newest = rings.max_by_key(|o| made(o).unwrap_or(SystemTime::UNIX_EPOCH));
    let none = || format!("no ring in {}; start `make demo`, or name one", base.path().display());
    Ok(newest.ok_or_else(none)?.name)
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            name: None,
            base: Base::standard(),
            seconds: 5.0,
            batch: 256,
            history: 8,
            future: 0,
            seed: 7,
            timeout_s: 30.0,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--dir" => options.base = Base::at(value::<String>(&arg, args.next())?),
                "--seconds" => options.seconds = value(&arg, args.next())?,
                "--batch" => options.batch = value(&arg, args.next())?,
                "--history" => options.history = value(&arg, args.next())?,
                "--future" => options.future = value(&arg, args.next())?,
                "--seed" => options.seed = value(&arg, args.next())?,
                "--timeout" => options.timeout_s = value(&arg, args.next())?,
                name if !name.starts_with('-') && options.name.is_none() => {
                    options.name = Some(arg);
                }
                _ => {
                    return Err(format!("unknown argument `{arg}`; see the top of the file").into());
                }
            }
        }
        Ok(options)
    }
}

fn value<T: FromStr<Err: Error + 'static>>(
    option: &str,
    text: Option<String>,
) -> Result<T, Box<dyn Error>> {
    let text = text.ok_or_else(|| format!("{option} needs a value"))?;
    text.parse().map_err(|error| format!("{option} {text}: {error}").into())
}
