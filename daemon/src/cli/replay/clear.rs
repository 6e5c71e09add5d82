//! `backcast clear`: drops transitions of a ring while it is in use.

use backcast_core::{Base, DropError};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::ring_errors::exit_of;
use crate::objects::find::join;
use crate::text::units;

/// Drop the transitions of a ring while it is written and read.
///
/// Writers go on, and every reader ignores the dropped rows from its next call on. Snapshots keep
/// theirs. No memory is freed: `backcast rm` does that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast clear pong
  backcast clear pong --lane 3
  backcast clear pong --lane 3 --episode 17 --older")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// Drop only the oldest episode of this lane.
    #[arg(long)]
    lane: Option<u32>,
    /// Number of that episode, as in the column `episode`.
    #[arg(long, requires = "lane")]
    episode: Option<u64>,
    /// Drop the episodes before it too.
    #[arg(long, requires = "episode")]
    older: bool,
}

/// JSON of dropped transitions.
#[derive(Debug, Serialize)]
struct Done<'a> {
    action: &'static str,
    name: &'a str,
    dropped_transitions: u64,
    transitions: u64,
}

impl Fails for DropError {
    fn exit(&self) -> Exit {
        match self {
            DropError::Segment(error) => exit_of(error),
            DropError::NoSuchLane { .. } => Exit::WrongUsage,
            _ => Exit::FoundProblems,
        }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let ring = join(base, &args.name)?;
    let dropped = match args.lane {
        Some(lane) => ring.drop_episode(lane, args.episode, args.older)?,
        None => ring.clear()?,
    };
    let done = Done {
        action: "cleared",
        name: &args.name,
        dropped_transitions: dropped,
        transitions: ring.len(),
    };
    if console.json() {
        console.object(&done);
    } else {
        let [dropped, left] = [dropped, done.transitions].map(units::count);
        console.text(&format!("dropped {dropped} transitions of `{}`, {left} left", args.name));
    }
    Ok(Exit::Done)
}
