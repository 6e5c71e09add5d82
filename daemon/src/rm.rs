//! `backcast rm`: remove one ring or panel by name.

use backcast_core::{Base, SegmentError};

use crate::catalogue;
use crate::cli::KindArg;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::gc::Removed;
use crate::holders;

/// Remove a ring or panel by name.
///
/// Refuses while a process holds it. With --force the name goes at once; processes that have it
/// open keep their memory until they close it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast rm pong
  backcast rm pong --force
  backcast rm prices --kind panel")]
pub(crate) struct Args {
    /// Name of the ring or panel.
    name: String,
    /// Remove it although processes hold it.
    #[arg(long)]
    force: bool,
    /// Needed when a ring and a panel share the name.
    #[arg(long)]
    kind: Option<KindArg>,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let info = catalogue::find(base, &args.name, args.kind.map(Into::into))?;
    match backcast_core::remove(base, info.kind, &info.name, args.force) {
        Ok(removed) => Removed::new(&removed, false).print(console),
        Err(SegmentError::InUse { .. }) => {
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
