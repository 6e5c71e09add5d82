//! `backcast save`: saves a ring to disk while it is written.

use std::time::Duration;

use backcast_core::plumbing::printable;
use backcast_core::{Base, Params};
use backcast_persist::{LeftOutTable, SaveOptions, SnapshotParams};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::replay::snapshots::{ParamsRow, StoreArg, note_damage};
use crate::cli::watch::Watch;
use crate::client::Client;
use crate::objects::find::{join, join_params};
use crate::objects::numbered::save_numbered;
use crate::protocol::SaveOutcome;
use crate::text::parse::whole;
use crate::text::units;

/// Save a ring to disk as a snapshot.
///
/// Writers and learners keep running: the snapshot has the rows that were published when the
/// command began. It shares rows with earlier snapshots of the ring. A complete snapshot survives a
/// reboot; Ctrl-C leaves nothing. With --daemon the daemon saves to its own store, and completes
/// the save even if this command is stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast save pong epoch-10
  backcast save pong latest --replace
  backcast save pong epoch-10 --params policy
  backcast save pong --store /mnt/backup
  backcast save pong --daemon
  backcast --json save pong | jq .size_bytes")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// Label of the snapshot (default: the first of s1, s2, … that is free).
    label: Option<String>,
    /// Replace the snapshot that has the label.
    #[arg(long, requires = "label")]
    replace: bool,
    /// Parameters to save with it, by name: the newest version. May be given several times.
    #[arg(long, value_name = "NAME", conflicts_with = "daemon")]
    params: Vec<String>,
    /// Maximum wait for another process that saves a ring of this name, in seconds. Up to 5 of them
    /// are waited for a table that a process has locked; then the snapshot lacks that table.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, allow_negative_numbers = true,
          value_parser = whole(0..=u32::MAX))]
    wait: u32,
    /// Have the daemon save it to its store (`backcast serve`).
    #[arg(long, conflicts_with_all = ["store", "wait"])]
    daemon: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of a save.
#[derive(Debug, Serialize)]
struct Printed {
    action: &'static str,
    #[serde(flatten)]
    saved: SaveOutcome,
    params: Vec<ParamsRow>,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if args.daemon {
        let saved = Client::of(base).save(&args.name, args.label.as_deref(), args.replace)?;
        print(saved, &[], console);
        return Ok(Exit::Done);
    }
    let store = args.store.open()?;
    let ring = join(base, &args.name)?;
    let params: Vec<Params> =
        args.params.iter().map(|name| join_params(base, name)).collect::<Result<_, _>>()?;
    let watch = Watch::start("saving")?;
    let save = |label: &str| {
        let options = SaveOptions::default()
            .replace(args.replace)
            .params(&params)
            .wait(Duration::from_secs(args.wait.into()))
            .on_progress(|progress| watch.step(progress));
        store.save(&ring, label, options)
    };
    let report = match &args.label {
        Some(label) => save(label),
        None => save_numbered(&store, &args.name, save),
    };
    let report = watch.end(report)?;
    print(SaveOutcome::from(&report), &report.params, console);
    if let Some(damage) = &report.damage {
        note_damage(damage, console);
    }
    Ok(Exit::Done)
}

fn print(saved: SaveOutcome, params: &[SnapshotParams], console: &mut Console<'_>) {
    let (lapped_rows, left_out) = (saved.lapped_rows, saved.left_out.clone());
    let params: Vec<ParamsRow> = params.iter().map(ParamsRow::from).collect();
    if console.json() {
        console.object(&Printed { action: "saved", saved, params });
    } else {
        console.text(&format!(
            "saved {}: {} rows ({} new, {} written)",
            saved.name,
            units::exact(saved.rows),
            units::exact(saved.written_rows),
            units::bytes(saved.size_bytes),
        ));
        for params in &params {
            console.text(&format!("saved parameters {params}"));
        }
    }
    for left_out in left_out {
        console.note(&printable(&LeftOutTable::from(left_out).to_string()));
    }
    if lapped_rows > 0 {
        console.note(&format!(
            "{} rows were overwritten by writers before they could be copied: the snapshot begins \
             after them",
            units::exact(lapped_rows)
        ));
    }
}
