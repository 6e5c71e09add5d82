//! `backcast import`: a ring of a file.

use std::path::PathBuf;

use backcast_core::{Base, Capacity, Exist};
use backcast_exchange::{Format, ImportOptions, import};
use serde::Serialize;

use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::export::{format_of, named};
use crate::interrupt::Watch;
use crate::units;

/// Make a ring of a Parquet, Minari or NumPy file.
///
/// A Parquet file that a ring was exported to comes back as it was: lanes, rows, sequence numbers,
/// episodes. A Minari dataset (stored as parquet) and a .npz of plain steps (obs, action, reward,
/// terminated, truncated, next obs) become the episodes of one lane. The ring is persistent: it
/// stays until `backcast rm`. A file that is cut or cannot be decoded makes no ring, nor does an
/// exported Parquet file whose rows changed on disk: it has a hash of every row group. Unchecked are
/// those that a version without hashes exported or another program wrote again, and Minari datasets.
///
/// An import that is killed or stopped by Ctrl-C leaves what it has (`backcast ls` shows it as partial);
/// the same command goes on from there, and gives the ring that it would have given at once. If the file
/// was changed since, or the options are others, it says so and begins anew. A .npz always begins anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast import pong.parquet pong
  backcast import expert.npz expert --capacity 1_000_000 --leave-out metadata
  backcast import ~/.minari/datasets/pong-v0 demos --exist replace")]
pub(crate) struct Args {
    /// File to read, or folder of a Minari dataset.
    path: PathBuf,
    /// Name of the ring.
    name: String,
    /// parquet, minari or npz (default: what the path's extension says; minari without one).
    #[arg(long, value_parser = named(READ))]
    format: Option<Format>,
    /// Rows over all lanes together, if not as many as the ring had or the data are.
    #[arg(long, value_name = "ROWS", value_parser = rows)]
    capacity: Option<u64>,
    /// When the name is taken: error or replace. The old ring stays until the new one is whole.
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "replace"])]
    exist: String,
    /// An array of a .npz or a column of a dataset that is not imported, with what lies below it;
    /// may be given more than once.
    #[arg(long, value_name = "NAME")]
    leave_out: Vec<String>,
    /// Do not ask the system for huge pages.
    #[arg(long)]
    no_huge_pages: bool,
}

/// What a ring can be made of.
const READ: &str = "parquet, npz or minari";

/// JSON of what was imported.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    action: &'static str,
    name: &'a str,
    path: Option<PathBuf>,
    from: &'a PathBuf,
    format: &'static str,
    lane_count: u32,
    rows: u64,
    resumed_rows: u64,
    began_anew: Option<String>,
    transitions: u64,
    episodes: Option<u64>,
    episodes_cut: u64,
    rows_before_gap: u64,
    rows_without_successor: u64,
    allocated_bytes: u64,
}

/// A number of rows, such as `1_000_000`.
fn rows(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Capacity::Rows(rows)) => Ok(rows),
        _ => Err("give a number of rows, such as 1_000_000".to_owned()),
    }
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let format = format_of(args.format, &args.path, READ)?;
    let watch = Watch::start("importing")?;
    let exist = if args.exist == "replace" { Exist::Replace } else { Exist::Error };
    let mut options = ImportOptions::named(&args.name)
        .base(base.clone())
        .exist(exist)
        .persistent(true)
        .huge_pages(!args.no_huge_pages)
        .leave_out(args.leave_out.iter().cloned())
        .on_progress(|progress| watch.step(progress));
    if let Some(capacity) = args.capacity {
        options = options.capacity(capacity);
    }
    let (ring, report) = import(&args.path, format, options)?;
    drop(watch);
    let stats = ring.stats();
    let imported = Imported {
        action: "imported",
        name: &args.name,
        path: stats.path.clone(),
        from: &args.path,
        format: format.as_str(),
        lane_count: stats.lanes,
        rows: report.rows,
        resumed_rows: report.rows_resumed,
        began_anew: report.began_anew.map(|why| why.to_string()),
        transitions: stats.transitions,
        episodes: report.episodes,
        episodes_cut: report.episodes_cut,
        rows_before_gap: report.rows_before_gap,
        rows_without_successor: report.rows_without_successor,
        allocated_bytes: stats.bytes_allocated,
    };
    if console.json() {
        console.object(&imported);
    } else {
        console.text(&format!(
            "imported {} as {}: {} rows, {} transitions, {} allocated",
            args.path.display(),
            args.name,
            units::exact(imported.rows),
            units::exact(imported.transitions),
            units::bytes(imported.allocated_bytes),
        ));
    }
    if report.rows_resumed > 0 {
        console.note(&format!(
            "went on where an earlier import had stopped: {} rows were there already",
            units::exact(report.rows_resumed)
        ));
    }
    if let Some(why) = report.began_anew {
        console.note(&format!("began anew where an earlier import had stopped: {why}"));
    }
    if report.episodes_cut > 0 {
        console.note(&format!(
            "{} of {} episodes end, truncated, where the next step's obs is not what next_obs says: no flag \
             ends them; store `truncated` if they are to end elsewhere",
            units::exact(report.episodes_cut),
            units::exact(report.episodes.unwrap_or_default()),
        ));
    }
    if report.rows_before_gap > 0 {
        console.note(&format!(
            "{} rows of the file are not in the ring: rows after them were overwritten before they were \
             exported, and a ring has no gap",
            units::exact(report.rows_before_gap)
        ));
    }
    if report.rows_without_successor > 0 {
        console.note(&format!(
            "{} episodes do not terminate, and the file has no next_obs: their last steps start no transition",
            units::exact(report.rows_without_successor)
        ));
    }
    Ok(Exit::Done)
}
