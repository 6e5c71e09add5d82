//! `backcast top`: rings as they fill and are drawn from, live or as lines.

mod app;
mod columns;
mod frame;
mod keys;
mod live;
mod newest;
mod reading;
mod screen;
mod view;

use std::time::{Duration, Instant};

use backcast_core::Base;

use crate::console::{Align, Console};
use crate::doctor::Here;
use crate::error::{CliError, Exit};
use crate::signals::Signals;
use columns::{Column, LANES, RINGS};
use frame::Frame;
use reading::Observer;
use view::Palette;

/// Watch rings: fill, rates, readers, leases, lane by lane.
///
/// On a terminal a live view, with keys (? shows them); anywhere else one table, over one interval.
/// Rings that appear and go are followed. Nothing is held between two looks, so watching keeps no ring
/// alive.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast top
  backcast top pong breakout --interval 0.5
  backcast top --once
  backcast --json top | jq '.rings[] | [.name, .publish_rate_per_s]'")]
pub(crate) struct Args {
    /// Rings to watch; all without one.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Seconds between two looks, 0.05 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", allow_negative_numbers = true,
          value_parser = interval)]
    interval: Duration,
    /// One table or JSON object over one interval, also on a terminal.
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(3600);
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|interval| (LEAST..=MOST).contains(interval))
        .ok_or_else(|| "not within 0.05 to 3600 seconds; give a number, such as 0.5".to_owned())
}

/// Returns an exit status: of a signal, if one ended it.
pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<u8, CliError> {
    let observer = Observer::new(base, &Here, &args.names)?;
    if console.json() {
        return lines(args, &observer, console);
    }
    if args.once || !console.out_is_terminal() {
        return once(args, &observer, console);
    }
    let palette = Palette { colours: console.colours() };
    console.flush();
    let interval = args.interval;
    let ended = screen::guarded(|| live::run(&observer, interval, palette, console.terminal()));
    let ended = ended.map_err(|source| CliError::Terminal { source })?;
    Ok(ended.unwrap_or(Exit::Done.status()))
}

/// One object per interval, until the reader leaves or a signal comes.
fn lines(args: &Args, observer: &Observer<'_>, console: &mut Console<'_>) -> Result<u8, CliError> {
    let signals = Signals::listen()?;
    let mut before = observer.look()?;
    loop {
        if !signals.wait_until(Instant::now() + args.interval) {
            return Ok(signals.status().unwrap_or(Exit::Done.status()));
        }
        let now = observer.look()?;
        console.object(&Frame::of(&now, Some(&before)));
        if !console.flush() || args.once {
            return Ok(Exit::Done.status());
        }
        before = now;
    }
}

/// Two looks, one table; of rings that were named, their lanes too.
fn once(args: &Args, observer: &Observer<'_>, console: &mut Console<'_>) -> Result<u8, CliError> {
    let signals = Signals::listen()?;
    let before = observer.look()?;
    if !signals.wait_until(Instant::now() + args.interval) {
        return Ok(signals.status().unwrap_or(Exit::Done.status()));
    }
    let frame = Frame::of(&observer.look()?, Some(&before));
    if frame.rings.is_empty() {
        console.note(&format!("no rings in {}", observer.base().path().display()));
        return Ok(Exit::Done.status());
    }
    console.text(&columns::limits(&frame).join("; "));
    console.text("");
    print(console, &RINGS, &frame.rings);
    for ring in frame.rings.iter().filter(|_| !args.names.is_empty()) {
        console.text("");
        console.text(&columns::about(ring));
        print(console, &LANES, &ring.lanes);
    }
    Ok(Exit::Done.status())
}

fn print<R>(console: &mut Console<'_>, columns: &[Column<R>], rows: &[R]) {
    let side = |right| if right { Align::Right } else { Align::Left };
    let titles: Vec<(&str, Align)> =
        columns.iter().map(|column| (column.title, side(column.right))).collect();
    let cells = |row| columns.iter().map(|column| (column.cell)(row)).collect();
    console.table(&titles, &rows.iter().map(cells).collect::<Vec<_>>());
}
