//! `backcast gc`: remove what nobody holds and nobody asked to keep.

use std::path::PathBuf;

use backcast_core::{Base, Kind, ObjectInfo, Observed};
use serde::Serialize;

use crate::catalogue;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::units;

/// Remove rings and panels that are not persistent and that no process holds.
///
/// They are left behind by programs that were killed. Held and persistent objects are never
/// touched; the kernel's locks, not process numbers, say what is held. What a cut `backcast import` left
/// goes too, so that the next one begins anew, and memory that a killed `backcast resize` left in a ring.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast gc --dry-run
  backcast gc")]
pub(crate) struct Args {
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
}

/// Kind of what a cut import left.
const PARTIAL: &str = "partial";

/// JSON of one removed object.
#[derive(Debug, Serialize)]
pub(crate) struct Removed {
    action: &'static str,
    kind: &'static str,
    name: String,
    path: PathBuf,
    size_bytes: u64,
}

impl Removed {
    pub(crate) fn new(info: &ObjectInfo, dry_run: bool) -> Self {
        Self {
            action: if dry_run { "would_remove" } else { "removed" },
            kind: if info.is_partial() { PARTIAL } else { info.kind.as_str() },
            name: catalogue::shown_name(info),
            path: info.path.clone(),
            size_bytes: info.bytes,
        }
    }

    /// Snapshots of a saved ring, and the bytes that went with them.
    pub(crate) fn snapshot(name: String, path: PathBuf, size_bytes: u64) -> Self {
        Self { action: "removed", kind: "snapshot", name, path, size_bytes }
    }

    pub(crate) fn print(&self, console: &mut Console<'_>) {
        if console.json() {
            return console.object(self);
        }
        let action = self.action.replace('_', " ");
        let size = units::bytes(self.size_bytes);
        let kind = if self.kind == PARTIAL { "partial ring" } else { self.kind };
        console.text(&format!("{action} {kind} {} ({size})", self.name));
    }
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let collected = if args.dry_run {
        catalogue::all(base)?.into_iter().filter(catalogue::is_garbage).collect()
    } else {
        let collected = backcast_core::collect(base)?;
        finish_resizes(base)?;
        collected
    };
    for info in &collected {
        Removed::new(info, args.dry_run).print(console);
    }
    if collected.is_empty() {
        console.note("nothing to collect");
    }
    Ok(Exit::Done)
}

/// Moves what nobody writes, and gives back what nobody will move to. A ring that cannot be looked at is
/// for `backcast stat` to tell of.
fn finish_resizes(base: &Base) -> Result<(), CliError> {
    let is_ring = |info: &ObjectInfo| info.kind == Kind::Ring && !info.building;
    for info in catalogue::all(base)?.into_iter().filter(is_ring) {
        if let Ok(observed) = Observed::open(base, &info.name) {
            let _ = observed.finish_resize();
        }
    }
    Ok(())
}
