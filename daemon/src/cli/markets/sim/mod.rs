//! `backcast sim`: simulated markets, and recorded ones.

mod facts;
mod replay;
mod watch;

use clap::Subcommand;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit};

/// Examine and watch the simulated market, and check recorded order books.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast sim facts --preset calm --short
  backcast sim watch --preset flash
  backcast sim replay messages.csv orderbook.csv
  backcast --json sim facts | jq '.facts[] | select(.verdict == \"miss\") | .key'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Facts(facts::FactsArgs),
    Replay(replay::ReplayArgs),
    Watch(watch::WatchArgs),
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    match &args.command {
        Command::Facts(args) => facts::run(args, console),
        Command::Replay(args) => replay::run(args, console),
        Command::Watch(args) => watch::run(args, console),
    }
}
