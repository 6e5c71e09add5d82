//! `backcast record`: records simulated markets in a ring or a Parquet panel.

mod panel;
mod ring;
mod series;
mod simulate;

use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use backcast_core::{AppendError, Base, MAX_LANES, ReadError, RestoreError, WriterError};
use backcast_market::PanelWriteError;
use backcast_sim::Preset;
use clap::{ArgGroup, ValueEnum};
use serde::Serialize;
use thiserror::Error;

use self::series::SeriesPlan;
use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Interrupted};
use crate::cli::markets::preset_arg::preset;
use crate::cli::replay::ring_errors::{MakingOptions, OTHER_NAME, of_restore};
use crate::cli::watch::Watch;
use crate::text::parse::whole;
use crate::text::units;

/// Maximum count of numbers in one simulation, which are all in memory: 1 GiB.
const MOST_VALUES: u64 = 1 << 28;

/// Record simulated markets in a ring or a Parquet panel.
///
/// Runs one simulation for each seed and records a candle every --interval ticks, with the
/// features that an agent of the trading environment observes then. One tick is one second; a day
/// has 23,400.
///
/// A ring has one lane for each seed and symbol, and one episode in each lane. Its rows have the
/// columns obs/candle (open, high, low, close in currency, and shares traded), obs/features and
/// seed. A panel has one ticker for each seed and symbol, and one day, from 2000-01-01 on, for each
/// candle; features are its indicators.
///
/// The ring gets its name, and the file its path, when it is complete. Ctrl-C leaves nothing.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("into").required(true)))]
#[command(after_help = "\
Examples:
  backcast record --ring market --seeds 16 --ticks 234_000
  backcast record --panel market.parquet --seeds 30 --interval 390 --features none
  backcast record --ring crash --preset flash --symbols 4 --interval 10 --replace")]
pub(crate) struct Args {
    /// Name of the ring to make. It stays until `backcast rm`.
    #[arg(long, value_name = "NAME", group = "into")]
    ring: Option<String>,
    /// Parquet file to make, which loads as a panel: FILE.parquet.
    #[arg(long, value_name = "FILE", group = "into")]
    panel: Option<PathBuf>,
    /// The market to simulate: calm, normal, stressed, flash or teaching.
    #[arg(long, value_name = "NAME", default_value = "normal", value_parser = preset)]
    preset: Preset,
    /// Simulations, each of a seed of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole(1..=1_000_000_u32))]
    seeds: u32,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "SEED", default_value = "1",
          value_parser = whole(0_u64..=u64::MAX / 2))]
    first_seed: u64,
    /// Symbols of each simulation.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole(1..=64_u16))]
    symbols: u16,
    /// Ticks to record of each simulation; a last part of a candle is left out.
    #[arg(long, value_name = "COUNT", default_value_t = 23_400,
          value_parser = whole(1..=1_000_000_000_u64))]
    ticks: u64,
    /// Ticks of a candle.
    #[arg(long, value_name = "TICKS", default_value_t = 60,
          value_parser = whole(1..=1_000_000_u32))]
    interval: u32,
    /// Ticks before the first candle, rounded up to whole candles.
    #[arg(long, value_name = "COUNT", default_value_t = 3_600,
          value_parser = whole(0..=1_000_000_000_u64))]
    warm_up: u64,
    /// Features of each candle.
    #[arg(long, value_name = "SET", default_value = "normalised")]
    features: FeatureArg,
    /// Replace the ring or file that has the name, once the new one is complete.
    #[arg(long)]
    replace: bool,
    /// Threads; the result does not depend on them [default: one a core].
    #[arg(long, value_name = "COUNT", value_parser = whole(1_usize..=1_024))]
    threads: Option<usize>,
}

/// `--features`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FeatureArg {
    /// Candles alone.
    None,
    /// 40 features that do not depend on the price level.
    Normalised,
    /// 55 features in currency and per cent.
    Full,
}

impl FeatureArg {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Normalised => "normalised",
            Self::Full => "full",
        }
    }
}

const OPTIONS: MakingOptions = MakingOptions {
    less: Some("lower --seeds, --symbols or --ticks, or raise --interval"),
    rename: OTHER_NAME,
    replace: "--replace",
};

/// Error of a recording.
#[derive(Debug, Error)]
enum RecordError {
    #[error(
        "{ticks} ticks have {candles} candles of {interval} ticks, but a recording needs 2 or \
         more; raise --ticks or lower --interval"
    )]
    TooFewCandles { ticks: u64, candles: u64, interval: u32 },
    #[error(
        "a simulation would have {values} numbers in memory, above the limit of {limit}; raise \
         --interval, or lower --ticks or --symbols"
    )]
    TooManyValues { values: u64, limit: u64 },
    #[error(
        "{seeds} seeds of {symbols} symbols need {lanes} lanes, above the {limit} of a ring; lower \
         --seeds or --symbols, or make several rings"
    )]
    TooManyLanes { seeds: u32, symbols: u16, lanes: u64, limit: u32 },
    #[error(
        "{} has the extension `{extension}`, but --panel writes Parquet; give a name that ends in \
         .parquet, such as {}",
        path.display(),
        path.with_extension("parquet").display()
    )]
    NotParquet { path: PathBuf, extension: String },
    #[error("{} exists; give --replace, or choose another path", path.display())]
    Exists { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Panel { path: PathBuf, source: PanelWriteError },
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Writer(#[from] WriterError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Panel { path: PathBuf::new(), source: error.into() }
    }
}

/// Returns the exit status of an error of a recording.
fn exit_of_record(error: &RecordError) -> Exit {
    match error {
        RecordError::TooFewCandles { .. }
        | RecordError::TooManyValues { .. }
        | RecordError::TooManyLanes { .. }
        | RecordError::NotParquet { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<RecordError> for CommandError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Interrupted(interrupted) => interrupted.into(),
            RecordError::Restore(error) => of_restore(error, OPTIONS).unwrap_or_else(|error| {
                CommandError::plain(RecordError::Restore(error), exit_of_record)
            }),
            error => CommandError::plain(error, exit_of_record),
        }
    }
}

/// JSON of a recording.
#[derive(Debug, Serialize)]
struct RecordReport<'a> {
    action: &'static str,
    kind: &'static str,
    /// Name of the ring; null for a panel.
    name: Option<&'a str>,
    /// Directory of the ring, or the file.
    path: Option<PathBuf>,
    preset: &'static str,
    seeds: u32,
    first_seed: u64,
    symbols: u16,
    /// Candles of each simulation and symbol.
    candles: u64,
    interval_ticks: u32,
    warm_up_ticks: u64,
    features: &'static str,
    rows: u64,
    /// Transitions of the ring; null for a panel.
    transitions: Option<u64>,
    size_bytes: u64,
}

/// Result of a recording.
struct Recorded {
    path: Option<PathBuf>,
    rows: u64,
    transitions: Option<u64>,
    size_bytes: u64,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let plan = args.plan()?;
    let watch = Watch::start_counting("simulating")?;
    let recorded = match (&args.ring, &args.panel) {
        (Some(name), _) => ring::record(name, base, args, &plan, &watch),
        (None, Some(path)) => panel::record(path, args, &plan, &watch),
        (None, None) => unreachable!("the parser asks for one of them"),
    };
    let recorded = watch.end(recorded)?;
    args.print(&plan, recorded, console);
    Ok(Exit::Done)
}

impl Args {
    /// Checks the sizes and the market before anything runs.
    fn plan(&self) -> Result<SeriesPlan, CommandError> {
        let (ticks, interval) = (self.ticks, self.interval);
        let candles = ticks / u64::from(interval);
        if candles < 2 {
            return Err(RecordError::TooFewCandles { ticks, candles, interval }.into());
        }
        let plan = SeriesPlan::new(self, candles);
        let values = plan.values();
        if values > MOST_VALUES {
            return Err(RecordError::TooManyValues { values, limit: MOST_VALUES }.into());
        }
        if let Some(path) = &self.panel {
            check_extension(path)?;
        }
        let (seeds, symbols) = (self.seeds, self.symbols);
        let lanes = u64::from(seeds) * u64::from(symbols);
        if self.ring.is_some() && lanes > u64::from(MAX_LANES) {
            let limit = MAX_LANES;
            return Err(RecordError::TooManyLanes { seeds, symbols, lanes, limit }.into());
        }
        plan.config.check(0)?;
        Ok(plan)
    }

    /// Returns the threads to use: no more than there are simulations.
    fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.unwrap_or(cores).min(self.seeds as usize)
    }

    fn print(&self, plan: &SeriesPlan, recorded: Recorded, console: &mut Console<'_>) {
        let Recorded { path, rows, transitions, size_bytes } = recorded;
        if console.json() {
            console.object(&RecordReport {
                action: "recorded",
                kind: if self.ring.is_some() { "ring" } else { "panel" },
                name: self.ring.as_deref(),
                path,
                preset: self.preset.name(),
                seeds: self.seeds,
                first_seed: self.first_seed,
                symbols: self.symbols,
                candles: plan.candles,
                interval_ticks: self.interval,
                warm_up_ticks: plan.warm_up,
                features: self.features.name(),
                rows,
                transitions,
                size_bytes,
            });
            return;
        }
        let into = match (&self.ring, &self.panel) {
            (Some(name), _) => format!("ring {name}"),
            (None, Some(file)) => format!("panel {}", file.display()),
            (None, None) => String::new(),
        };
        let simulations = if self.seeds == 1 { "simulation" } else { "simulations" };
        console.text(&format!(
            "recorded {} {simulations} of {} as {into}: {} rows, each of {} ticks, {}",
            units::exact(self.seeds.into()),
            self.preset,
            units::exact(rows),
            units::exact(self.interval.into()),
            units::bytes(size_bytes),
        ));
    }
}

/// Refuses the extension of another format. A name without extension loads as Parquet too.
fn check_extension(path: &Path) -> Result<(), RecordError> {
    let Some(extension) = path.extension() else { return Ok(()) };
    if ["parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let extension = extension.to_string_lossy().into_owned();
    Err(RecordError::NotParquet { path: path.to_owned(), extension })
}

/// Refuses a path that is taken, unless `replace` is set.
fn check_free(path: &Path, replace: bool) -> Result<(), RecordError> {
    if !replace && path.symlink_metadata().is_ok() {
        return Err(RecordError::Exists { path: path.to_owned() });
    }
    Ok(())
}
