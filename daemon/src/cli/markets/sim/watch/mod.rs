//! `backcast sim watch`: a running market in the terminal, as text, or as JSON.

mod live;
mod scene;
mod view;

use backcast_sim::Preset;
use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::markets::preset_arg::preset;
use crate::cli::signals::Signals;
use crate::cli::terminal::screen;
use crate::text::parse::whole;
use live::Pace;
use scene::Scene;

/// Watch a simulated market: price, order book, trades, totals of its agents.
///
/// Shows a live view on a terminal of 80 x 24 or more; keys change its speed or pause it. Elsewhere
/// --frames is needed: each frame is 23 lines of text, or one JSON object with --json. The market
/// belongs to the command and ends with it; equal seeds show equal markets.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast sim watch
  backcast sim watch --preset flash --seed 3 --symbols 2 --speed 600
  backcast sim watch --frames 1 --ticks 3600 --plain
  backcast --json sim watch --frames 100 | jq '[.tick, .mid_price]'")]
pub(crate) struct WatchArgs {
    /// The market to simulate: calm, normal, stressed, flash or teaching.
    #[arg(long, value_name = "NAME", default_value = "normal", value_parser = preset)]
    preset: Preset,
    /// Seed of the market.
    #[arg(long, default_value = "1", value_parser = whole(0_u64..=u64::MAX))]
    seed: u64,
    /// Symbols.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole(1..=64_u16))]
    symbols: u16,
    /// Ticks a second at the start; one tick stands for one second.
    #[arg(long, value_name = "TICKS", default_value_t = 60, value_parser = whole(1..=100_000_u32))]
    speed: u32,
    /// Ticks before the first frame.
    #[arg(long, value_name = "TICKS", default_value_t = 1_200,
          value_parser = whole(0..=1_000_000_000_u64))]
    ticks: u64,
    /// Number of frames to show, ten a second; then end.
    #[arg(long, value_name = "COUNT", value_parser = whole(1..=1_000_000_000_u64))]
    frames: Option<u64>,
    /// Print the frames as text, without waiting between them, also on a terminal.
    #[arg(long, requires = "frames")]
    plain: bool,
}

/// Error of the live view.
#[derive(Debug, Error)]
enum WatchError {
    #[error(
        "stdout is not a terminal; give --frames COUNT for so many frames of text, or --json for \
         JSON lines"
    )]
    NotATerminal,
    #[error("cannot use the terminal: {0}; `backcast sim watch --plain --frames 1` prints text")]
    Terminal(std::io::Error),
}

impl Fails for WatchError {
    fn exit(&self) -> Exit {
        match self {
            Self::NotATerminal => Exit::WrongUsage,
            Self::Terminal(_) => Exit::FoundProblems,
        }
    }
}

pub(crate) fn run(args: &WatchArgs, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let is_text = args.plain || !console.out_is_terminal();
    if is_text && args.frames.is_none() && !console.json() {
        return Err(WatchError::NotATerminal.into());
    }
    let mut scene = Scene::new(args.preset, args.seed, args.symbols)?;
    if console.json() || is_text {
        return lines(args, &mut scene, console);
    }
    let pace = Pace::new(args.speed);
    let colours = console.colours();
    console.flush();
    let ended = screen::guarded(|| {
        let warm_up = args.ticks;
        live::run(&mut scene, warm_up, args.frames, pace, colours, console.terminal())
    });
    Ok(ended.map_err(WatchError::Terminal)?.map_or(Exit::Done, Exit::Status))
}

/// Prints frames until there are enough, the reader closes the pipe, or a signal arrives.
fn lines(
    args: &WatchArgs,
    scene: &mut Scene,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let signals = Signals::listen()?;
    let pace = Pace::new(args.speed);
    scene.warm_up(args.ticks, &signals);
    for number in 0.. {
        if let Some(status) = signals.status() {
            return Ok(Exit::Status(status));
        }
        if number > 0 {
            scene.advance(pace.ticks_a_frame());
        }
        for symbol in 0..scene.symbols() {
            let frame = scene.frame(symbol);
            if console.json() {
                console.object(&frame);
            } else {
                let mids: Vec<f64> = scene.mids(symbol).collect();
                console.text_raw(&view::plain(&frame, &mids, pace.ticks_a_second()));
            }
        }
        if !console.flush() || args.frames.is_some_and(|frames| number + 1 >= frames) {
            break;
        }
    }
    Ok(Exit::Done)
}
