//! `backcast sim replay`: reads and checks the files of a recorded order book.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use backcast_sim::{Differences, History, HistoryError, NANOS_PER_SECOND};
use serde::Serialize;
use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::text::units;

/// Check the message file of a recorded order book, and its order book file.
///
/// Reads the files as `backcast.sim.History.read` does, and prints what is in them. Exit status 1
/// if a line is damaged, contradicts the lines before, or differs between the files; the error
/// names the line, the value and its limits.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast sim replay messages.csv                    since the book was empty
  backcast sim replay messages.csv orderbook.csv
  backcast sim replay messages.csv orderbook.csv --follow")]
pub(crate) struct ReplayArgs {
    /// CSV file of messages: time, type, order id, size, price, direction.
    #[arg(value_name = "MESSAGES")]
    messages: PathBuf,
    /// CSV file of the order book after each message.
    #[arg(value_name = "BOOK")]
    book: Option<PathBuf>,
    /// Count differences between the files instead of failing.
    #[arg(long, requires = "book")]
    follow: bool,
}

/// A file that cannot be opened or read as a recorded order book.
#[derive(Debug, Error)]
enum ReplayError {
    #[error("{} cannot be opened: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl Fails for ReplayError {
    fn exit(&self) -> Exit {
        match self {
            Self::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Exit::NoSuchObject
            }
            _ => Exit::FoundProblems,
        }
    }
}

/// Numbers of a history, as JSON.
#[derive(Debug, Serialize)]
struct HistoryFacts {
    messages: u64,
    start_s: f64,
    end_s: f64,
    levels: Option<usize>,
    submitted: u64,
    cancelled: u64,
    deleted: u64,
    executed: u64,
    executed_hidden: u64,
    crosses: u64,
    halts: u64,
    traded_shares: u64,
    differences: u64,
}

pub(crate) fn run(args: &ReplayArgs, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let messages = open(&args.messages)?;
    let differences = if args.follow { Differences::Follow } else { Differences::Raise };
    let history = match &args.book {
        None => History::read(messages),
        Some(book) => History::read_with_book(messages, open(book)?, differences),
    };
    let history = history.map_err(ReplayError::from)?;
    let facts = facts_of(&history);
    if console.json() {
        console.object(&facts);
        return Ok(Exit::Done);
    }
    let count = units::exact;
    let kinds = [
        ("submitted", facts.submitted),
        ("cancelled", facts.cancelled),
        ("deleted", facts.deleted),
        ("executed", facts.executed),
        ("hidden", facts.executed_hidden),
        ("crosses", facts.crosses),
        ("halts", facts.halts),
    ];
    console.text(&format!(
        "{} messages from {} s to {} s{}",
        count(facts.messages),
        facts.start_s,
        facts.end_s,
        facts.levels.map_or_else(String::new, |levels| format!(", levels {levels}")),
    ));
    let kinds: Vec<String> =
        kinds.iter().map(|(name, number)| format!("{name} {}", count(*number))).collect();
    console.text(&kinds.join(", "));
    console.text(&format!(
        "{} shares traded, {} differences",
        count(facts.traded_shares),
        count(facts.differences)
    ));
    Ok(Exit::Done)
}

fn open(path: &Path) -> Result<BufReader<File>, ReplayError> {
    let file =
        File::open(path).map_err(|source| ReplayError::Open { path: path.to_owned(), source })?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

#[expect(clippy::cast_precision_loss, reason = "a day has fewer than 2^53 nanoseconds")]
fn facts_of(history: &History) -> HistoryFacts {
    let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SECOND as f64;
    let (start, end) = history.span();
    let counts = history.counts();
    let [submitted, cancelled, deleted, executed, executed_hidden, crosses, halts] = counts.kinds;
    HistoryFacts {
        messages: history.messages().len() as u64,
        start_s: seconds(start),
        end_s: seconds(end),
        levels: history.levels(),
        submitted,
        cancelled,
        deleted,
        executed,
        executed_hidden,
        crosses,
        halts,
        traded_shares: counts.traded_shares,
        differences: counts.differences,
    }
}
