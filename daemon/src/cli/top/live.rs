//! Loop of the live view: read, draw, apply keys.

use std::io;
use std::time::{Duration, Instant};

use super::app::App;
use super::newest::Newest;
use super::reading::Observer;
use super::view::{self, Palette};
use crate::cli::console::Stream;
use crate::cli::signals::{Resizes, Signals};
use crate::cli::terminal::keys::{Keyboard, Waited};
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::{HUNG_UP, is_gone};

/// Rows to copy for the page of a lane: more than most terminals show.
const NEWEST_ROWS: u64 = 64;
/// Interval of checks for signals.
const PIECE: Duration = Duration::from_millis(50);

/// Shows the rings until a key, a signal or the end of the terminal. Returns the exit status of a
/// signal or a closed terminal.
pub(crate) fn run(
    observer: &Observer<'_>,
    interval: Duration,
    palette: Palette,
    out: &mut dyn Stream,
) -> io::Result<Option<u8>> {
    let signals = Signals::listen()?;
    match show(observer, interval, palette, out, &signals) {
        // The signal explains the failure of the terminal.
        Err(_) if signals.status().is_some() => Ok(signals.status()),
        Err(error) if is_gone(&error) => Ok(Some(HUNG_UP)),
        ended => ended,
    }
}

fn show(
    observer: &Observer<'_>,
    interval: Duration,
    palette: Palette,
    out: &mut dyn Stream,
    signals: &Signals,
) -> io::Result<Option<u8>> {
    let window = Resizes::listen()?;
    let mut keyboard = Keyboard::open()?;
    let mut screen = Screen::enter(out, signals)?;
    let mut app = App::new();
    let place = observer.base().path().display().to_string();
    loop {
        look(&mut app, observer);
        let next = Instant::now() + interval;
        screen.draw(|canvas| view::draw(canvas, &app, &place, palette))?;
        while Instant::now() < next {
            if let Some(status) = signals.status() {
                return Ok(Some(status));
            }
            let left = next.saturating_duration_since(Instant::now());
            let waited = keyboard.wait(left.min(PIECE))?;
            if waited == Waited::Closed {
                return Ok(Some(signals.status().unwrap_or(HUNG_UP)));
            }
            let resized = window.came();
            if resized {
                screen.forget();
            }
            if waited == Waited::Nothing && !resized {
                continue;
            }
            while let Some(action) = keyboard.action() {
                if !app.act(action) {
                    return Ok(None);
                }
                newest(&mut app, observer);
            }
            screen.draw(|canvas| view::draw(canvas, &app, &place, palette))?;
        }
    }
}

fn look(app: &mut App, observer: &Observer<'_>) {
    match observer.look() {
        Ok(reading) => app.take(reading),
        Err(error) => app.failure = Some(error.to_string()),
    }
    newest(app, observer);
}

fn newest(app: &mut App, observer: &Observer<'_>) {
    app.newest =
        app.wants_rows().map(|(ring, lane)| Newest::read(observer.base(), ring, lane, NEWEST_ROWS));
}
