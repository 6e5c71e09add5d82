//! `backcast rm`: removes a ring, panel, set of parameters or snapshot by name.

use backcast_core::{Base, Kind, SegmentError};
use backcast_persist::StoreError;
use thiserror::Error;

use crate::cli::args::KindArg;
use crate::cli::console::Console;
use crate::cli::gc::Removed;
use crate::cli::open_error::OpenError;
use crate::cli::outcome::{CommandError, Exit, Fails};
use crate::cli::snapshots::{StoreArg, is_snapshot, note_damages};
use crate::objects::catalogue::{self, Obstacle};
use crate::objects::find::find;
use crate::objects::holders;

/// Remove a ring, panel, set of parameters or snapshot by name.
///
/// Refuses while a process holds it. --force removes the name immediately; processes that have it
/// open keep their memory until they close it. NAME@LABEL removes a snapshot and the files that no
/// other snapshot needs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast rm pong
  backcast rm pong --force
  backcast rm prices --kind panel
  backcast rm pong@epoch-10")]
pub(crate) struct Args {
    /// Name of the object, or NAME@LABEL of a snapshot.
    name: String,
    /// Remove it even if processes hold it.
    #[arg(long)]
    force: bool,
    /// Needed when objects of two kinds share the name.
    #[arg(long)]
    kind: Option<KindArg>,
    #[command(flatten)]
    store: StoreArg,
}

/// Error of removing an object.
#[derive(Debug, Error)]
enum RmError {
    #[error(
        "{kind} `{name}` is held by {holders}; end its holders, or remove it under its users with \
         --force (they keep their memory, no other process can attach)"
    )]
    Held { kind: Kind, name: String, holders: String },
    #[error(
        "{kind} `{name}` cannot be opened, so it may be held: {why}; `backcast rm {name} --force` \
         removes it all the same"
    )]
    Unopened { kind: Kind, name: String, why: String },
}

impl Fails for RmError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if is_snapshot(&args.name) && args.kind.is_none() {
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        match store.remove(&args.name) {
            // A snapshot that is not in the store may be in shared memory.
            Err(StoreError::NotFound { .. }) if find(base, &args.name, None).is_ok() => {}
            removed => {
                let (path, bytes) = (store.path().to_owned(), removed?.bytes_freed);
                Removed::snapshot(args.name.clone(), path, bytes).print(console);
                return Ok(Exit::Done);
            }
        }
    }
    let kind: Option<Kind> = args.kind.map(Into::into);
    let info = find(base, &args.name, kind)?;
    match backcast_core::remove(base, info.kind, &info.name, args.force) {
        Ok(removed) => Removed::object(&removed, false).print(console),
        Err(SegmentError::InUse { .. }) => {
            // An object that cannot be opened counts as held.
            if holders::pids(&info.path).is_empty()
                && let Some((obstacle, why)) = catalogue::obstacle(base, &info)
            {
                if obstacle == Obstacle::Unknown {
                    return Err(OpenError::of(obstacle, info, why).into());
                }
                return Err(RmError::Unopened { kind: info.kind, name: info.name, why }.into());
            }
            let holders = holders::describe(&info.path);
            return Err(RmError::Held { kind: info.kind, name: info.name, holders }.into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Done)
}
