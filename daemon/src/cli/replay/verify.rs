//! `backcast verify`: checks every byte of a snapshot.

use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::replay::snapshots::StoreArg;
use crate::cli::watch::Watch;
use crate::text::units;

/// Check every byte of a snapshot.
///
/// Reads all its files and both manifests, and compares their checksums. Prints a line for each
/// damage with the column and rows, and for each file that the system did not read; exit status 1
/// if there is any. Makes no ring.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast verify pong@epoch-10
  backcast verify pong
  backcast verify pong --store /mnt/backup && echo good")]
pub(crate) struct Args {
    /// The snapshot, NAME@LABEL; with NAME alone all of that name.
    #[arg(value_name = "NAME[@LABEL]")]
    snapshot: String,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of a verification.
#[derive(Debug, Serialize)]
struct Verified {
    name: String,
    whole: bool,
    snapshots: Vec<String>,
    file_count: u64,
    size_bytes: u64,
    damages: Vec<DamageRow>,
    /// Files that the system did not read, whose bytes may be right.
    unread: Vec<DamageRow>,
}

/// JSON of one damage, or of a file that was not read.
#[derive(Debug, Serialize)]
struct DamageRow {
    path: std::path::PathBuf,
    problem: String,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let store = args.store.open()?;
    let watch = Watch::start("verifying")?;
    let report = store.verify(&args.snapshot, |progress| watch.step(progress));
    let report = watch.end(report)?;
    let whole = report.is_whole();
    if console.json() {
        let problem = |damage: &backcast_persist::Damage| {
            let text = damage.to_string();
            let path = format!("{}: ", damage.file.display());
            text.strip_prefix(&path).unwrap_or(&text).to_owned()
        };
        let rows = |found: &[backcast_persist::Damage]| {
            let row = |found: &backcast_persist::Damage| DamageRow {
                path: found.file.clone(),
                problem: problem(found),
            };
            found.iter().map(row).collect::<Vec<_>>()
        };
        console.object(&Verified {
            name: args.snapshot.clone(),
            whole,
            damages: rows(&report.damages),
            unread: rows(&report.unread),
            snapshots: report.snapshots,
            file_count: report.files,
            size_bytes: report.bytes,
        });
    } else {
        for damage in &report.damages {
            console.text(&damage.to_string());
        }
        for file in &report.unread {
            console.text(&format!("not read, and so unknown: {file}"));
        }
        if whole {
            console.text(&format!(
                "{}: {} snapshot(s), {} file(s), {}: every byte is as it was written",
                args.snapshot,
                report.snapshots.len(),
                report.files,
                units::bytes(report.bytes),
            ));
        }
    }
    Ok(if whole { Exit::Done } else { Exit::FoundProblems })
}
