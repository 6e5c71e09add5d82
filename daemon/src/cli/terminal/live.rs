//! Loop of a live view: tick, draw, apply keys.

use std::io;
use std::time::{Duration, Instant};

use ratatui::Frame as Canvas;

use super::keys::{Action, KeyWait, Keyboard};
use super::screen::Screen;
use crate::cli::console::Stream;
use crate::cli::signals::{Resizes, Signals};

/// Exit status when the terminal closes: 128 plus SIGHUP.
const HUNG_UP: u8 = 129;
/// Interval of checks for signals.
const PIECE: Duration = Duration::from_millis(50);

/// Content of a view, and its answers to keys.
pub(crate) trait LiveView {
    /// Brings the view to the next frame. Returns false if the last one was shown.
    fn tick(&mut self) -> bool;

    /// Applies a key. Returns false to leave the view.
    fn act(&mut self, action: Action) -> bool;

    /// Draws the frame.
    fn draw(&self, canvas: &mut Canvas<'_>);
}

/// Shows a view, with a tick every `interval`, until its last frame was shown, a key leaves it, a
/// signal arrives or the terminal closes. Returns the exit status of a signal or a closed terminal.
pub(crate) fn show(
    view: &mut dyn LiveView,
    interval: Duration,
    signals: &Signals,
    out: &mut dyn Stream,
) -> io::Result<Option<u8>> {
    match run(view, interval, signals, out) {
        // The signal explains the failure of the terminal.
        Err(_) if signals.status().is_some() => Ok(signals.status()),
        Err(error) if is_gone(&error) => Ok(Some(HUNG_UP)),
        ended => ended,
    }
}

fn run(
    view: &mut dyn LiveView,
    interval: Duration,
    signals: &Signals,
    out: &mut dyn Stream,
) -> io::Result<Option<u8>> {
    let window = Resizes::listen()?;
    let mut keyboard = Keyboard::open()?;
    let mut screen = Screen::enter(out, signals)?;
    while view.tick() {
        let next = Instant::now() + interval;
        screen.draw(|canvas| view.draw(canvas))?;
        while Instant::now() < next {
            if let Some(status) = signals.status() {
                return Ok(Some(status));
            }
            let left = next.saturating_duration_since(Instant::now());
            let waited = keyboard.wait(left.min(PIECE))?;
            if waited == KeyWait::Closed {
                return Ok(Some(signals.status().unwrap_or(HUNG_UP)));
            }
            let resized = window.came();
            if resized {
                screen.forget();
            }
            if waited == KeyWait::Nothing && !resized {
                continue;
            }
            while let Some(action) = keyboard.action() {
                if !view.act(action) {
                    return Ok(None);
                }
            }
            screen.draw(|canvas| view.draw(canvas))?;
        }
    }
    Ok(None)
}

/// Returns whether a write failed because the terminal closed.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
