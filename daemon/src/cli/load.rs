//! `backcast load`: restores a ring from a snapshot.

use std::path::PathBuf;

use backcast_core::{Base, Exist};
use backcast_persist::LoadOptions;
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::outcome::{CommandError, Exit};
use crate::cli::snapshots::{StoreArg, note_damages};
use crate::cli::watch::Watch;
use crate::text::units;

/// Restore a ring from a snapshot.
///
/// Rows, sequence numbers, episodes and flags are as they were; a writer continues after the newest
/// row. Every value is checked: a damaged snapshot makes no ring. (`backcast verify` also checks
/// bytes that hold no values.) The ring is persistent: it stays until `backcast rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast load pong
  backcast load pong@epoch-10 --as old-pong
  backcast load pong@epoch-10 --exist replace")]
pub(crate) struct Args {
    /// The snapshot, NAME@LABEL; with NAME alone the newest of that name.
    #[arg(value_name = "NAME[@LABEL]")]
    snapshot: String,
    /// Name of the ring (default: the one that was saved).
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
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
    let mut options = LoadOptions::default()
        .base(base.clone())
        .exist(exist)
        .persistent(true)
        .on_progress(|progress| watch.step(progress));
    if let Some(name) = &args.name {
        options = options.name(name);
    }
    let ring = store.load(&snapshot, options);
    let ring = watch.end(ring)?;
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
    }
    Ok(Exit::Done)
}
