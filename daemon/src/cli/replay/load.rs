//! `backcast load`: restores a ring from a snapshot.

use std::path::PathBuf;

use backcast_core::{Base, Exist, Params};
use backcast_persist::LoadOptions;
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::replay::snapshots::{StoreArg, note_damages};
use crate::cli::watch::Watch;
use crate::text::units;

/// Restore a ring from a snapshot.
///
/// Rows, sequence numbers, episodes and flags are as they were; a writer continues after the newest
/// row. Every value is checked: a damaged snapshot makes no ring. (`backcast verify` also checks
/// bytes that hold no values.) The ring is persistent: it stays until `backcast rm`. So are the
/// parameters of --params, which have the version and the bytes that were saved.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast load pong
  backcast load pong@epoch-10 --as old-pong
  backcast load pong@epoch-10 --exist replace
  backcast load pong@epoch-10 --params policy")]
pub(crate) struct Args {
    /// The snapshot, NAME@LABEL; with NAME alone the newest of that name.
    #[arg(value_name = "NAME[@LABEL]")]
    snapshot: String,
    /// Name of the ring (default: the one that was saved).
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Parameters of the snapshot to make again as well, by name. May be given several times.
    #[arg(long, value_name = "NAME")]
    params: Vec<String>,
    /// When the name is taken: error or replace. The old ring stays until the new one is complete.
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "replace"])]
    exist: String,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of a load.
#[derive(Debug, Serialize)]
struct Loaded {
    action: &'static str,
    snapshot: String,
    name: String,
    path: Option<PathBuf>,
    lane_count: u32,
    rows: u64,
    transitions: u64,
    allocated_bytes: u64,
    params: Vec<LoadedParams>,
}

/// JSON of parameters that were made.
#[derive(Debug, Serialize)]
struct LoadedParams {
    name: String,
    version: u64,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let store = args.store.open()?;
    note_damages(&store, &args.snapshot, console);
    let snapshot = store.snapshot(&args.snapshot)?.spec();
    let watch = Watch::start("loading")?;
    let exist = if args.exist == "replace" { Exist::Replace } else { Exist::Error };
    let placed = || LoadOptions::default().base(base.clone()).exist(exist).persistent(true);
    let mut made = Unfinished(Vec::new());
    for name in &args.params {
        made.0.push(store.load_params(&snapshot, name, placed())?);
    }
    let mut options = placed().on_progress(|progress| watch.step(progress));
    if let Some(name) = &args.name {
        options = options.name(name);
    }
    let ring = store.load(&snapshot, options);
    let ring = watch.end(ring)?;
    let params = made.finish();
    let stats = ring.stats();
    let loaded = Loaded {
        action: "loaded",
        snapshot,
        name: stats.name.clone().unwrap_or_default(),
        path: stats.path.clone(),
        lane_count: stats.lanes,
        rows: stats.lane_stats.iter().map(|lane| lane.rows).sum(),
        transitions: stats.transitions,
        allocated_bytes: stats.bytes_allocated,
        params: params
            .iter()
            .map(|params| LoadedParams {
                name: params.name().unwrap_or_default().to_owned(),
                version: params.version(),
            })
            .collect(),
    };
    if console.json() {
        console.object(&loaded);
    } else {
        console.text(&format!(
            "loaded {} as {}: {} rows, {} transitions, {} allocated",
            loaded.snapshot,
            loaded.name,
            units::exact(loaded.rows),
            units::exact(loaded.transitions),
            units::bytes(loaded.allocated_bytes),
        ));
        for params in &loaded.params {
            let version = units::exact(params.version);
            console.text(&format!("loaded parameters {}: version {version}", params.name));
        }
    }
    Ok(Exit::Done)
}

/// Parameters that were made before the ring. They are removed again if the command fails.
struct Unfinished(Vec<Params>);

impl Unfinished {
    fn finish(mut self) -> Vec<Params> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for params in &self.0 {
            // `backcast rm` removes what cannot be removed now.
            let _ = params.unlink();
        }
    }
}
