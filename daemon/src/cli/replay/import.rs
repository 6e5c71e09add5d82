//! `backcast import`: makes a ring from a file.

use std::io::ErrorKind;
use std::path::PathBuf;

use backcast_core::{Base, Capacity, Exist};
use backcast_exchange::{Format, ImportError, ImportOptions, import};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Interrupted};
use crate::cli::replay::format_arg::{Formats, format_of, named};
use crate::cli::replay::ring_errors::{EXIST_REPLACE, MakingOptions, OTHER_NAME, of_restore};
use crate::cli::watch::Watch;
use crate::text::units;

/// Make a ring from a Parquet, Minari or NumPy file.
///
/// An exported Parquet file restores its ring: lanes, rows, sequence numbers, episodes. A Minari
/// dataset (stored as parquet) and a .npz of plain steps (obs, action, reward, terminated,
/// truncated, `next_obs`) become the episodes of one lane. The ring is persistent: it stays until
/// `backcast rm`. A file that is cut or cannot be decoded makes no ring. Nor does an exported
/// Parquet file whose rows changed on disk: it has a hash of every row group. Files without hashes
/// are not checked: those of earlier versions or written again by another program, and Minari
/// datasets.
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
    /// parquet, minari or npz (default: by the path's extension; minari without one).
    #[arg(long, value_parser = named(READ))]
    format: Option<Format>,
    /// Rows over all lanes together (default: those of the exported ring, or of the data).
    #[arg(long, value_name = "ROWS", value_parser = rows)]
    capacity: Option<u64>,
    /// When the name is taken: error or replace. The old ring stays until the new one is complete.
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = ["error", "replace"])]
    exist: String,
    /// Array of a .npz or column of a dataset to leave out, with everything below it; may be given
    /// more than once.
    #[arg(long, value_name = "NAME")]
    leave_out: Vec<String>,
    /// Do not ask the system for huge pages.
    #[arg(long)]
    no_huge_pages: bool,
}

/// Formats that are read.
const READ: Formats = Formats([Format::Parquet, Format::Npz, Format::Minari]);

/// JSON of an import.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    action: &'static str,
    name: &'a str,
    path: Option<PathBuf>,
    from: &'a PathBuf,
    format: &'static str,
    lane_count: u32,
    rows: u64,
    transitions: u64,
    episodes: Option<u64>,
    episodes_cut: u64,
    rows_before_gap: u64,
    rows_without_successor: u64,
    allocated_bytes: u64,
}

/// Parses a number of rows, such as `1_000_000`.
fn rows(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Capacity::Rows(rows)) => Ok(rows),
        _ => Err("give a number of rows, such as 1_000_000".to_owned()),
    }
}

/// Returns the exit status of an error of an import.
fn exit_of_import(error: &ImportError) -> Exit {
    match error {
        ImportError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            Exit::NoSuchObject
        }
        ImportError::OnlyWritten { .. }
        | ImportError::Capacity { .. }
        | ImportError::NotThere { .. }
        | ImportError::ComesWhole { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

const OPTIONS: MakingOptions = MakingOptions {
    less: Some("give a smaller --capacity"),
    rename: OTHER_NAME,
    replace: EXIST_REPLACE,
};

impl From<ImportError> for CommandError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Interrupted => Interrupted.into(),
            ImportError::Restore(error) => of_restore(error, OPTIONS).unwrap_or_else(|error| {
                CommandError::plain(ImportError::Restore(error), exit_of_import)
            }),
            error => CommandError::plain(error, exit_of_import),
        }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
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
    let imported = import(&args.path, format, options);
    let (ring, report) = watch.end(imported)?;
    let stats = ring.stats();
    let imported = Imported {
        action: "imported",
        name: &args.name,
        path: stats.path.clone(),
        from: &args.path,
        format: format.as_str(),
        lane_count: stats.lanes,
        rows: report.rows,
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
    if report.episodes_cut > 0 {
        console.note(&format!(
            "{} of {} episodes have no flag and were truncated where next_obs differs from the \
             next step's obs; store `truncated` to end them elsewhere",
            units::exact(report.episodes_cut),
            units::exact(report.episodes.unwrap_or_default()),
        ));
    }
    if report.rows_before_gap > 0 {
        console.note(&format!(
            "{} rows of the file are not in the ring: rows after them were overwritten before they \
             were exported, and a ring has no gaps",
            units::exact(report.rows_before_gap)
        ));
    }
    if report.rows_without_successor > 0 {
        console.note(&format!(
            "{} episodes do not terminate and the file has no next_obs: their last steps start no \
             transition",
            units::exact(report.rows_without_successor)
        ));
    }
    Ok(Exit::Done)
}
