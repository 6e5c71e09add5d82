//! `backcast gc`: removes objects that no process holds and that are not persistent.

use std::io;
use std::path::{Path, PathBuf};

use backcast_core::{Base, ObjectInfo, ObjectKind, Observed};
use backcast_exchange::{UnfinishedExport, collect_exports, unfinished_exports};
use backcast_files::{UnfinishedFile, collect_files, unfinished_files};
use serde::Serialize;
use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::objects::catalogue;
use crate::text::units;

/// Remove rings and panels that are not persistent and that no process holds.
///
/// Killed programs leave them behind. Held and persistent objects are never touched; the kernel's
/// locks, not process numbers, decide what is held. Also frees memory that a killed
/// `backcast resize` left in a ring, and removes files that killed exports and recordings left in
/// the given folders.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast gc --dry-run
  backcast gc
  backcast gc ~/exports")]
pub(crate) struct Args {
    /// Folders that were exported or recorded to (default: the current one).
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// List what would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Error of a folder that cannot be searched for unfinished exports.
#[derive(Debug, Error)]
#[error("cannot read the folder {}: {source}; give folders that were exported to", path.display())]
struct FolderError {
    path: PathBuf,
    source: io::Error,
}

impl Fails for FolderError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

/// JSON of one object, file or export that was removed, or would be.
#[derive(Debug, Serialize)]
pub(crate) struct Removed {
    action: &'static str,
    kind: &'static str,
    name: String,
    path: PathBuf,
    size_bytes: u64,
}

impl Removed {
    pub(crate) fn object(info: &ObjectInfo, dry_run: bool) -> Self {
        let (name, path) = (catalogue::shown_name(info), info.path.clone());
        Self::new(info.kind.as_str(), name, path, info.bytes, dry_run)
    }

    /// Describes a removed snapshot and the bytes that were freed with it.
    pub(crate) fn snapshot(name: String, path: PathBuf, size_bytes: u64) -> Self {
        Self::new("snapshot", name, path, size_bytes, false)
    }

    fn file(left: UnfinishedFile, dry_run: bool) -> Self {
        let name = left.path.display().to_string();
        Self::new("file", name, left.path, left.bytes, dry_run)
    }

    /// Describes a removed table of a ring, as `NAME/TABLE`.
    pub(crate) fn table(name: String, path: PathBuf, size_bytes: u64) -> Self {
        Self::new("table", name, path, size_bytes, false)
    }

    fn export(left: UnfinishedExport, dry_run: bool) -> Self {
        let name = left.path.display().to_string();
        Self::new("export", name, left.path, left.bytes, dry_run)
    }

    fn new(
        kind: &'static str,
        name: String,
        path: PathBuf,
        size_bytes: u64,
        dry_run: bool,
    ) -> Self {
        let action = if dry_run { "would_remove" } else { "removed" };
        Self { action, kind, name, path, size_bytes }
    }

    pub(crate) fn print(&self, console: &mut Console<'_>) {
        if console.json() {
            return console.object(self);
        }
        let action = self.action.replace('_', " ");
        let kind = match self.kind {
            "export" => "unfinished export",
            "file" => "unfinished file",
            kind => kind,
        };
        console.text(&format!("{action} {kind} {} ({})", self.name, units::bytes(self.size_bytes)));
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    // Refuse a bad argument before anything is removed.
    for folder in &args.folders {
        folder.read_dir().map_err(|source| unreadable(folder, source))?;
    }
    let collected = if args.dry_run {
        backcast_core::list_objects(base)?.into_iter().filter(catalogue::is_garbage).collect()
    } else {
        let collected = backcast_core::collect_garbage(base)?;
        finish_resizes(base)?;
        collected
    };
    let mut removed: Vec<Removed> =
        collected.iter().map(|info| Removed::object(info, args.dry_run)).collect();
    if args.folders.is_empty() {
        // The current folder may be gone or unreadable, which is no error of a call without
        // arguments.
        removed.extend(left_in(Path::new("."), args.dry_run).unwrap_or_default());
    }
    for folder in &args.folders {
        removed.extend(left_in(folder, args.dry_run)?);
    }
    for removed in &removed {
        removed.print(console);
    }
    if removed.is_empty() {
        console.note("nothing to collect");
    }
    Ok(Exit::Done)
}

/// Removes what killed exports and recordings left in a folder. A dry run only lists it.
fn left_in(folder: &Path, dry_run: bool) -> Result<Vec<Removed>, FolderError> {
    let failed = |source| unreadable(folder, source);
    let exports = if dry_run { unfinished_exports(folder) } else { collect_exports(folder) };
    let files = if dry_run { unfinished_files(folder) } else { collect_files(folder) };
    let exports = exports.map_err(failed)?.into_iter().map(|left| Removed::export(left, dry_run));
    let files = files.map_err(failed)?.into_iter().map(|left| Removed::file(left, dry_run));
    Ok(exports.chain(files).collect())
}

fn unreadable(folder: &Path, source: io::Error) -> FolderError {
    FolderError { path: folder.to_owned(), source }
}

/// Finishes resizes of killed processes, in lanes without a writer. Skips rings that cannot be
/// opened; `backcast stat` reports them.
fn finish_resizes(base: &Base) -> Result<(), CommandError> {
    let is_ring = |info: &ObjectInfo| info.kind == ObjectKind::Ring && !info.building;
    for info in backcast_core::list_objects(base)?.into_iter().filter(is_ring) {
        if let Ok(observed) = Observed::open(base, &info.name) {
            let _ = observed.finish_resize();
        }
    }
    Ok(())
}
