//! `backcast rm`: remove one ring, panel or snapshot by name.

use backcast_core::{Base, Kind, SegmentError, remove_partial};
use backcast_persist::StoreError;

use crate::catalogue;
use crate::cli::KindArg;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::gc::Removed;
use crate::holders;
use crate::snapshots::{StoreArg, is_snapshot, note_damages};

/// Remove a ring, panel or snapshot by name.
///
/// Refuses while a process holds it. With --force the name goes at once; processes that have it
/// open keep their memory until they close it. Where a cut `backcast import` left a part of a ring, and
/// there is no ring of that name, the part goes. NAME@LABEL removes a snapshot, and those of its files
/// that no other snapshot needs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast rm pong
  backcast rm pong --force
  backcast rm prices --kind panel
  backcast rm pong@epoch-10")]
pub(crate) struct Args {
    /// Name of the ring or panel, or NAME@LABEL of a snapshot.
    name: String,
    /// Remove it although processes hold it.
    #[arg(long)]
    force: bool,
    /// Needed when a ring and a panel share the name.
    #[arg(long)]
    kind: Option<KindArg>,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    if is_snapshot(&args.name) && args.kind.is_none() {
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        match store.remove(&args.name) {
            // One that is gone from the store may still be in shared memory.
            Err(StoreError::NotFound { .. }) if catalogue::find(base, &args.name, None).is_ok() => {
            }
            removed => {
                let (path, bytes) = (store.path().to_owned(), removed?.bytes_freed);
                Removed::snapshot(args.name.clone(), path, bytes).print(console);
                return Ok(Exit::Done);
            }
        }
    }
    let kind: Option<Kind> = args.kind.map(Into::into);
    let info = match catalogue::find(base, &args.name, kind) {
        Err(error @ (CliError::NotFound { .. } | CliError::Evicted { .. }))
            if kind != Some(Kind::Panel) =>
        {
            return match remove_partial(base, &args.name) {
                Ok(removed) => {
                    Removed::new(&removed, false).print(console);
                    Ok(Exit::Done)
                }
                Err(SegmentError::NotFound { .. } | SegmentError::BadName { .. }) => Err(error),
                Err(other) => Err(other.into()),
            };
        }
        found => found?,
    };
    match backcast_core::remove(base, info.kind, &info.name, args.force) {
        Ok(removed) => Removed::new(&removed, false).print(console),
        Err(SegmentError::InUse { .. }) => {
            // What cannot be opened counts as held, though there may be nobody.
            if holders::pids(&info.path).is_empty()
                && let Some(why) = catalogue::damage(base, &info)
            {
                return Err(CliError::Unopened { kind: info.kind, name: info.name, why });
            }
            return Err(CliError::Held {
                kind: info.kind,
                name: info.name,
                holders: holders::describe(&info.path),
            });
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Done)
}
