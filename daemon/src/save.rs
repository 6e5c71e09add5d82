//! `backcast save`: what a ring holds goes to disk, beside its writers.

use std::time::Duration;

use backcast_core::Base;
use backcast_persist::{SaveError, SaveOptions, SaveReport, Store};
use serde::Serialize;

use crate::catalogue;
use crate::client::Client;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::interrupt::Watch;
use crate::snapshots::{StoreArg, note_damage};
use crate::typed::whole;
use crate::units;
use crate::wire::Saved;

/// Save what a ring holds to disk, as a snapshot.
///
/// Writers and learners go on meanwhile: the snapshot has the rows that were published when the
/// command began. Rows that an earlier snapshot of the ring has are shared with it. When the command
/// is done, the snapshot survives a reboot; Ctrl-C leaves nothing of it. With --daemon the daemon saves it, to its
/// own store, and goes on with it when this command is interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast save pong epoch-10
  backcast save pong latest --replace
  backcast save pong --store /mnt/backup
  backcast save pong --daemon
  backcast --json save pong | jq .size_bytes")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// Label of the snapshot (default: the first of s1, s2, … that is free).
    label: Option<String>,
    /// Put it in the place of the snapshot that has the label.
    #[arg(long, requires = "label")]
    replace: bool,
    /// Longest wait for another process that saves a ring of this name, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, allow_negative_numbers = true,
          value_parser = whole(0..=u32::MAX))]
    wait: u32,
    /// Have the daemon save it, to its store (`backcast serve`).
    #[arg(long, conflicts_with_all = ["store", "wait"])]
    daemon: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of what was saved.
#[derive(Debug, Serialize)]
struct Printed {
    action: &'static str,
    #[serde(flatten)]
    saved: Saved,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    if args.daemon {
        let saved = Client::of(base).save(&args.name, args.label.as_deref(), args.replace)?;
        print(saved, console);
        return Ok(Exit::Done);
    }
    let store = args.store.open()?;
    let ring = catalogue::join(base, &args.name)?;
    let watch = Watch::start("saving")?;
    let save = |label: &str| {
        let options = SaveOptions::default()
            .replace(args.replace)
            .wait(Duration::from_secs(args.wait.into()))
            .on_progress(|progress| watch.step(progress));
        store.save(&ring, label, options)
    };
    let report = match &args.label {
        Some(label) => save(label)?,
        None => numbered(&store, &args.name, save)?,
    };
    drop(watch);
    print(Saved::from(&report), console);
    if let Some(damage) = &report.damage {
        note_damage(damage, console);
    }
    Ok(Exit::Done)
}

/// Saves under the first number that is free, whoever else does so at the same time.
pub(crate) fn numbered(
    store: &Store,
    name: &str,
    save: impl Fn(&str) -> Result<SaveReport, SaveError>,
) -> Result<SaveReport, CliError> {
    let listing = store.snapshots(name)?;
    let taken = |label: &str| listing.snapshots.iter().any(|snapshot| snapshot.label == label);
    for number in 1_u64.. {
        let label = format!("s{number}");
        if taken(&label) {
            continue;
        }
        match save(&label) {
            Err(SaveError::LabelTaken { .. }) => {}
            saved => return Ok(saved?),
        }
    }
    unreachable!("numbers do not end")
}

fn print(saved: Saved, console: &mut Console<'_>) {
    let lapped_rows = saved.lapped_rows;
    if console.json() {
        console.object(&Printed { action: "saved", saved });
    } else {
        console.text(&format!(
            "saved {}: {} rows ({} new, {} written)",
            saved.name,
            units::exact(saved.rows),
            units::exact(saved.written_rows),
            units::bytes(saved.size_bytes),
        ));
    }
    if lapped_rows > 0 {
        console.note(&format!(
            "{} rows were overwritten by writers before they could be copied: the snapshot begins \
             after them",
            units::exact(lapped_rows)
        ));
    }
}
