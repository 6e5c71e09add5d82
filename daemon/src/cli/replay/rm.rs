//! `backcast rm`: removes a ring, panel, set of parameters or snapshot by name.

use std::sync::Arc;
use std::time::Duration;

use backcast_core::{Base, Interrupt, LockError, ObjectKind, Observed, SegmentError, TableError};
use backcast_persist::StoreError;
use thiserror::Error;

use crate::cli::args::KindArg;
use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::gc::Removed;
use crate::cli::replay::open_error::OpenError;
use crate::cli::replay::snapshots::{StoreArg, is_snapshot, note_damages};
use crate::cli::signals::Signals;
use crate::objects::catalogue::{self, Obstacle};
use crate::objects::find::find;
use crate::objects::holders;

/// Maximum wait for a table that another process has locked. A change holds the lock for
/// microseconds.
const TABLE_WAIT: Duration = Duration::from_secs(5);

/// Remove a ring, panel, set of parameters or snapshot by name.
///
/// Refuses while a process holds it. --force removes the name immediately; processes that have it
/// open keep their memory until they close it. NAME@LABEL removes a snapshot and the files that no
/// other snapshot needs. --table removes one table of a ring, damaged or not, and keeps the ring:
/// the next sampler that names the table makes it anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast rm pong
  backcast rm pong --force
  backcast rm pong --table priority
  backcast rm prices --kind panel
  backcast rm pong@epoch-10")]
pub(crate) struct Args {
    /// Name of the object, or NAME@LABEL of a snapshot.
    name: String,
    /// Remove it even if processes hold it, or have the table locked.
    #[arg(long)]
    force: bool,
    /// Remove this table of the ring only.
    #[arg(long, value_name = "TABLE", conflicts_with = "kind")]
    table: Option<String>,
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
    Held { kind: ObjectKind, name: String, holders: String },
    #[error(
        "{kind} `{name}` cannot be opened, so it may be held: {why}; `backcast rm {name} --force` \
         removes it all the same"
    )]
    Unopened { kind: ObjectKind, name: String, why: String },
    #[error("{0}; `backcast rm NAME --table TABLE --force` removes the table all the same")]
    Locked(LockError),
    #[error(transparent)]
    Table(TableError),
}

impl From<TableError> for RmError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Lock(error) => Self::Locked(error),
            error => Self::Table(error),
        }
    }
}

impl Fails for RmError {
    fn exit(&self) -> Exit {
        match self {
            Self::Table(TableError::Segment(SegmentError::NoTable { .. })) => Exit::NoSuchObject,
            _ => Exit::FoundProblems,
        }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if let Some(table) = &args.table {
        return remove_table(args, table, base, console);
    }
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
    let kind: Option<ObjectKind> = args.kind.map(Into::into);
    let info = find(base, &args.name, kind)?;
    match backcast_core::remove_object(base, info.kind, &info.name, args.force) {
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

/// Removes a table of a ring. A signal ends the wait for a process that has it locked.
fn remove_table(
    args: &Args,
    table: &str,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let info = find(base, &args.name, Some(ObjectKind::Ring))?;
    let path = info.path.join(format!("table-{table}.dat"));
    let bytes = path.symlink_metadata().map_or(0, |file| file.len());
    let signals = Arc::new(Signals::listen()?);
    let interrupt = Interrupt::when({
        let signals = Arc::clone(&signals);
        move || signals.status().is_some()
    });
    // Observing holds nothing, so an idle ring stays as it is.
    let observed = Observed::open(base, &info.name)?;
    let ring = observed.ring().clone().interrupted_by(interrupt);
    let removed = ring.remove_table(table, TABLE_WAIT, args.force);
    removed.map_err(|error| {
        let error = CommandError::from(RmError::from(error));
        match signals.status() {
            Some(status) => error.with_exit(Exit::Status(status)),
            None => error,
        }
    })?;
    Removed::table(format!("{}/{table}", info.name), path, bytes).print(console);
    Ok(Exit::Done)
}
