//! `backcast export`: what a ring or a snapshot holds, as a file of another program's.

use std::path::{Path, PathBuf};

use backcast_core::Base;
use backcast_exchange::{ExportOptions, ExportReport, Format, export};
use backcast_persist::LoadOptions;
use serde::Serialize;

use crate::catalogue;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::interrupt::Watch;
use crate::snapshots::{StoreArg, is_snapshot, note_damages};
use crate::typed::whole;
use crate::units;

/// Write what a ring holds to a Parquet, CSV or Minari file.
///
/// Writers and learners go on meanwhile; the lane that is overwritten soonest is read first. Rows that
/// are overwritten before they are read are missing from the file: no more than were published
/// meanwhile. The exit status is then 3, and a message says how many. A table (parquet, csv) has every row as it is: lane, seq,
/// episode, t, flags, then the ring's columns; a Minari dataset has episodes of obs, action and
/// reward. The file appears whole or not at all. An export that is killed or stopped by Ctrl-C leaves
/// PATH.partial; the same command goes on from there, and gives the file that it would have given at
/// once. If the ring has other rows by then, or the options are others, it says so and begins anew.
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
    /// parquet, csv or minari (default: what the path's extension says; minari without one).
    #[arg(long, value_parser = named(WRITTEN))]
    format: Option<Format>,
    /// Replace what is there, once the new file is whole: a file, or for a dataset another one or an
    /// empty folder, and no other folder.
    #[arg(long)]
    overwrite: bool,
    /// Rows that are packed together, a row group of Parquet: an export that is killed does those of
    /// one again (default: 32 MiB of them).
    #[arg(long, value_name = "ROWS", value_parser = whole(1..=1_u64 << 20))]
    group_rows: Option<u64>,
    #[command(flatten)]
    store: StoreArg,
}

/// What a ring can be written as.
const WRITTEN: &str = "parquet, csv or minari";

/// JSON of what was exported.
#[derive(Debug, Serialize)]
struct Exported<'a> {
    action: &'static str,
    name: &'a str,
    path: &'a Path,
    format: &'static str,
    rows: u64,
    lapped_rows: u64,
    resumed_rows: u64,
    began_anew: Option<String>,
    episodes: Option<u64>,
    size_bytes: u64,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let format = format_of(args.format, &args.path, WRITTEN)?;
    let ring = if is_snapshot(&args.name) {
        let options = LoadOptions::default().base(base.clone());
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        store.attach_snapshot(&args.name, options)?
    } else {
        catalogue::join(base, &args.name)?
    };
    let watch = Watch::start("exporting")?;
    let mut options = ExportOptions::default()
        .overwrite(args.overwrite)
        .on_progress(|progress| watch.step(progress));
    if let Some(rows) = args.group_rows {
        options = options.group_rows(rows);
    }
    let report = export(&ring, &args.path, format, options)?;
    drop(watch);
    print(args, format, &report, console);
    Ok(exit(&report))
}

/// Rows that are missing from the file are not kept to a message.
fn exit(report: &ExportReport) -> Exit {
    if report.rows_lapped > 0 { Exit::RowsMissing } else { Exit::Done }
}

/// Reads the name of a format; `formats` are those that may be given.
pub(crate) fn named(
    formats: &'static str,
) -> impl Fn(&str) -> Result<Format, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| format!("no such format; give {formats}"))
}

/// The format asked for, or what the path says; `formats` are those that may be given.
pub(crate) fn format_of(
    asked: Option<Format>,
    path: &Path,
    formats: &'static str,
) -> Result<Format, CliError> {
    asked
        .or_else(|| Format::of_path(path))
        .ok_or_else(|| CliError::UnknownFormat { path: path.to_owned(), formats })
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
            resumed_rows: report.rows_resumed,
            began_anew: report.began_anew.map(|why| why.to_string()),
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
    if report.rows_resumed > 0 {
        console.note(&format!(
            "went on where an earlier export had stopped: {} rows were there already",
            units::exact(report.rows_resumed)
        ));
    }
    if let Some(why) = report.began_anew {
        console.note(&format!("began anew where an earlier export had stopped: {why}"));
    }
    if report.rows_lapped > 0 {
        console.note(&format!(
            "{} rows were overwritten before they were read, and are not in the file; export a snapshot \
             (`backcast save`), or give the ring more capacity",
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
