//! `backcast top`: statistics of rings over time, live or as lines.

mod app;
mod columns;
mod fleet;
mod frame;
mod live;
mod newest;
mod params;
mod readers;
mod reading;
mod tables;
mod view;

use std::time::{Duration, Instant};

use backcast_core::Base;
use thiserror::Error;

use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::doctor::ThisMachine;
use crate::cli::signals::Signals;
use crate::cli::terminal::live::show;
use crate::cli::terminal::screen;
use columns::{LANES, RINGS, TableColumn};
use frame::Frame;
use live::TopView;
use reading::Observer;
use view::Palette;

/// Watch rings: fill, rates, readers, leases, lane by lane; and versions of parameters.
///
/// Shows a live view on a terminal, with keys (? lists them); anywhere else prints one table over
/// one interval. New rings appear, removed ones go. Nothing is held between two readings, so
/// watching keeps no ring alive.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast top
  backcast top pong breakout --interval 0.5
  backcast top --once
  backcast --json top | jq '.rings[] | [.name, .publish_rate_per_s]'")]
pub(crate) struct Args {
    /// Rings to watch (default: all).
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Seconds between two readings, 0.05 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", allow_negative_numbers = true,
          value_parser = interval)]
    interval: Duration,
    /// Print one table or JSON object over one interval, also on a terminal.
    #[arg(long)]
    once: bool,
}

/// Error of the terminal in the live view.
#[derive(Debug, Error)]
#[error("cannot use the terminal: {0}; `backcast top --once` prints a table, `--json` lines")]
struct TerminalError(std::io::Error);

impl Fails for TerminalError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

/// Reads the seconds between two readings.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(3600);
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|interval| (LEAST..=MOST).contains(interval))
        .ok_or_else(|| "not within 0.05 to 3600 seconds; give a number, such as 0.5".to_owned())
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let observer = Observer::new(base, &ThisMachine, &args.names)?;
    if console.json() {
        return lines(args, &observer, console);
    }
    if args.once || !console.out_is_terminal() {
        return once(args, &observer, console);
    }
    let palette = Palette { colours: console.colours() };
    console.flush();
    let ended = screen::guarded(|| {
        let signals = Signals::listen()?;
        let mut view = TopView::new(&observer, palette);
        show(&mut view, args.interval, &signals, console.terminal())
    });
    let ended = ended.map_err(TerminalError)?;
    Ok(ended.map_or(Exit::Done, Exit::Status))
}

/// Prints one object per interval until the reader closes the pipe or a signal arrives. With
/// `--once`, prints a single object.
fn lines(
    args: &Args,
    observer: &Observer<'_>,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let signals = Signals::listen()?;
    let mut before = observer.look()?;
    loop {
        if !signals.wait_until(Instant::now() + args.interval) {
            return Ok(signals.status().map_or(Exit::Done, Exit::Status));
        }
        let now = observer.look()?;
        console.object(&Frame::of(&now, Some(&before)));
        if !console.flush() || args.once {
            return Ok(Exit::Done);
        }
        before = now;
    }
}

/// Prints one table of two readings, and the lanes of named rings.
fn once(
    args: &Args,
    observer: &Observer<'_>,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let signals = Signals::listen()?;
    let before = observer.look()?;
    if !signals.wait_until(Instant::now() + args.interval) {
        return Ok(signals.status().map_or(Exit::Done, Exit::Status));
    }
    let frame = Frame::of(&observer.look()?, Some(&before));
    if frame.rings.is_empty() && frame.params.is_empty() {
        console.note(&format!("no rings in {}", observer.base().path().display()));
        return Ok(Exit::Done);
    }
    console.text(&columns::limits(&frame).join("; "));
    console.text("");
    if !frame.rings.is_empty() {
        print(console, &RINGS, &frame.rings);
    }
    for line in frame.troubles().chain(frame.lines()) {
        console.text(&line);
    }
    for ring in frame.rings.iter().filter(|_| !args.names.is_empty()) {
        console.text("");
        console.text(&columns::about(ring));
        print(console, &LANES, &ring.lanes);
    }
    Ok(Exit::Done)
}

fn print<R>(console: &mut Console<'_>, columns: &[TableColumn<R>], rows: &[R]) {
    let side = |right| if right { Align::Right } else { Align::Left };
    let titles: Vec<(&str, Align)> =
        columns.iter().map(|column| (column.title, side(column.right))).collect();
    let cells = |row| columns.iter().map(|column| (column.cell)(row)).collect();
    console.table(&titles, &rows.iter().map(cells).collect::<Vec<_>>());
}
