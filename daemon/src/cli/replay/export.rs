//! `backcast export`: writes a ring or a snapshot to a file of another format.

use std::path::{Path, PathBuf};

use backcast_core::Base;
use backcast_exchange::{ExportError, ExportOptions, ExportReport, Format, export};
use backcast_persist::LoadOptions;
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Interrupted};
use crate::cli::replay::format_arg::{Formats, format_of, named};
use crate::cli::replay::snapshots::{StoreArg, is_snapshot, note_damages};
use crate::cli::watch::Watch;
use crate::objects::find::join;
use crate::text::parse::whole;
use crate::text::units;

/// Write a ring to a Parquet, CSV or Minari file.
///
/// Writers and learners keep running; the lane that is overwritten soonest is read first. Rows that
/// are overwritten before they are read are missing from the file, at most as many as were
/// published meanwhile. The exit status is then 3, and a message gives their number. A table
/// (parquet, csv) has all rows as stored: lane, seq, episode, t, flags, then the ring's columns; a
/// Minari dataset has episodes of obs, action and reward. The file appears whole or not at all. A
/// killed export leaves the folder PATH.backcast-partial, which the next export to PATH or
/// `backcast gc` removes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast export pong pong.parquet
  backcast export pong@epoch-10 pong.csv --overwrite
  backcast export pong ~/.minari/datasets/pong-v0 --format minari
  duckdb -c \"select episode, sum(reward) from 'pong.parquet' group by episode\"")]
pub(crate) struct Args {
    /// Name of the ring, or of a snapshot: NAME@LABEL.
    name: String,
    /// File to write, or folder for a Minari dataset.
    path: PathBuf,
    /// parquet, csv or minari (default: by the path's extension; minari without one).
    #[arg(long, value_parser = named(WRITTEN))]
    format: Option<Format>,
    /// Replace the file at PATH once the new one is complete; for a dataset, an empty folder or
    /// another dataset.
    #[arg(long)]
    overwrite: bool,
    /// Rows of a Parquet row group (default: 32 MiB of them).
    #[arg(long, value_name = "ROWS", value_parser = whole(1..=1_u64 << 20))]
    group_rows: Option<u64>,
    #[command(flatten)]
    store: StoreArg,
}

/// Formats that are written.
const WRITTEN: Formats = Formats([Format::Parquet, Format::Csv, Format::Minari]);

/// JSON of an export.
#[derive(Debug, Serialize)]
struct Exported<'a> {
    action: &'static str,
    name: &'a str,
    path: &'a Path,
    format: &'static str,
    rows: u64,
    lapped_rows: u64,
    episodes: Option<u64>,
    size_bytes: u64,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let format = format_of(args.format, &args.path, WRITTEN)?;
    let ring = if is_snapshot(&args.name) {
        let options = LoadOptions::default().base(base.clone());
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        store.attach_snapshot(&args.name, options)?
    } else {
        join(base, &args.name)?
    };
    let watch = Watch::start("exporting")?;
    let mut options = ExportOptions::default()
        .overwrite(args.overwrite)
        .on_progress(|progress| watch.step(progress));
    if let Some(rows) = args.group_rows {
        options = options.group_rows(rows);
    }
    let report = export(&ring, &args.path, format, options);
    let report = watch.end(report)?;
    print(args, format, &report, console);
    Ok(exit(&report))
}

/// Returns the exit status of an error of an export.
fn exit_of_export(error: &ExportError) -> Exit {
    match error {
        ExportError::OnlyRead { .. } | ExportError::NamesFolder { .. } => Exit::WrongUsage,
        _ => Exit::FoundProblems,
    }
}

impl From<ExportError> for CommandError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Interrupted => Interrupted.into(),
            error => CommandError::plain(error, exit_of_export),
        }
    }
}

/// Returns the exit status, which also tells that rows are missing.
fn exit(report: &ExportReport) -> Exit {
    if report.rows_lapped > 0 { Exit::RowsMissing } else { Exit::Done }
}

fn print(args: &Args, format: Format, report: &ExportReport, console: &mut Console<'_>) {
    if console.json() {
        console.object(&Exported {
            action: "exported",
            name: &args.name,
            path: &args.path,
            format: format.as_str(),
            rows: report.rows,
            lapped_rows: report.rows_lapped,
            episodes: report.episodes,
            size_bytes: report.bytes,
        });
    } else {
        let episodes = report.episodes.map_or_else(String::new, |episodes| {
            format!(" in {} episodes", units::exact(episodes))
        });
        console.text(&format!(
            "exported {} to {}: {} rows{episodes}, {}",
            args.name,
            args.path.display(),
            units::exact(report.rows),
            units::bytes(report.bytes),
        ));
    }
    if report.rows_lapped > 0 {
        console.note(&format!(
            "{} rows were overwritten before they were read and are missing from the file; export \
             a snapshot (`backcast save`), or give the ring more capacity",
            units::exact(report.rows_lapped)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_missing_are_an_exit_status() {
        let report =
            |rows_lapped| ExportReport { rows: 10, rows_lapped, ..ExportReport::default() };
        assert_eq!(exit(&report(0)).status(), 0);
        assert_eq!(exit(&report(1)).status(), 3);
    }
}
