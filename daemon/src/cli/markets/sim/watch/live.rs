//! A simulated market as a live view, and its speed.

use std::io;
use std::time::Duration;

use ratatui::Frame as Canvas;

use super::scene::Scene;
use super::view::{self, Run};
use crate::cli::console::Stream;
use crate::cli::signals::Signals;
use crate::cli::terminal::keys::Action;
use crate::cli::terminal::live::{LiveView, show};

/// Frames a second.
const FRAMES: u32 = 10;
/// Time between two frames.
const INTERVAL: Duration = Duration::from_millis(1_000 / FRAMES as u64);
/// Maximum speed, in ticks a second.
const FASTEST: f64 = 100_000.0;
/// Minimum speed, in ticks a second.
const SLOWEST: f64 = 1.0;

/// Speed of the market, in ticks a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ticks_a_second: f64,
    paused: bool,
    /// Fraction of a tick that is not run yet.
    owed: f64,
}

impl Pace {
    pub(super) fn new(ticks_a_second: u32) -> Self {
        Self { ticks_a_second: ticks_a_second.into(), paused: false, owed: 0.0 }
    }

    pub(super) const fn ticks_a_second(self) -> f64 {
        self.ticks_a_second
    }

    /// Returns the whole ticks between two frames, at least 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10,000")]
    pub(super) fn ticks_a_frame(self) -> u64 {
        (self.ticks_a_second / f64::from(FRAMES)).round().max(1.0) as u64
    }

    /// Returns the ticks to run before the next frame.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10,001")]
    fn due(&mut self) -> u64 {
        if self.paused {
            return 0;
        }
        self.owed += self.ticks_a_second / f64::from(FRAMES);
        let ticks = self.owed.floor();
        self.owed -= ticks;
        ticks as u64
    }

    fn scale(&mut self, factor: f64) {
        self.ticks_a_second = (self.ticks_a_second * factor).clamp(SLOWEST, FASTEST);
    }
}

/// Choices that keys change.
#[derive(Clone, Copy, Debug)]
struct Shown {
    pace: Pace,
    symbol: u16,
    symbols: u16,
}

impl Shown {
    /// Applies an action. Returns false to leave the view.
    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Quit => return false,
            Action::Up => self.pace.scale(2.0),
            Action::Down => self.pace.scale(0.5),
            Action::PageUp => self.pace.scale(10.0),
            Action::PageDown => self.pace.scale(0.1),
            Action::Enter => self.pace.paused = !self.pace.paused,
            Action::NextSort => self.symbol = (self.symbol + 1) % self.symbols,
            Action::PreviousSort => self.symbol = (self.symbol + self.symbols - 1) % self.symbols,
            Action::Back | Action::Reverse | Action::Help => {}
        }
        true
    }
}

/// A running market as a live view.
struct MarketView<'a> {
    scene: &'a mut Scene,
    shown: Shown,
    /// Maximum number of frames; `None` for no limit.
    frames: Option<u64>,
    /// Frames shown, the present one included.
    number: u64,
    colours: bool,
}

impl LiveView for MarketView<'_> {
    fn tick(&mut self) -> bool {
        if self.frames.is_some_and(|frames| self.number >= frames) {
            return false;
        }
        if self.number > 0 {
            self.scene.advance(self.shown.pace.due());
        }
        self.number += 1;
        true
    }

    fn act(&mut self, action: Action) -> bool {
        self.shown.act(action)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        let Shown { pace, symbol, .. } = self.shown;
        let Pace { ticks_a_second: ticks_per_s, paused, .. } = pace;
        let frame = self.scene.frame(symbol);
        let mids: Vec<f64> = self.scene.mids(symbol).collect();
        view::draw(canvas, &frame, &mids, Run { ticks_per_s, paused, colours: self.colours });
    }
}

/// Shows the market until the user quits, a signal arrives, the last frame has been shown or the
/// terminal closes. Returns the exit status of a signal or a closed terminal.
pub(super) fn run(
    scene: &mut Scene,
    warm_up: u64,
    frames: Option<u64>,
    pace: Pace,
    colours: bool,
    out: &mut dyn Stream,
) -> io::Result<Option<u8>> {
    let signals = Signals::listen()?;
    scene.warm_up(warm_up, &signals);
    if let Some(status) = signals.status() {
        return Ok(Some(status));
    }
    let shown = Shown { pace, symbol: 0, symbols: scene.symbols() };
    let mut view = MarketView { scene, shown, frames, number: 0, colours };
    show(&mut view, INTERVAL, &signals, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_speed_and_symbol_within_their_limits() {
        let mut shown = Shown { pace: Pace::new(60), symbol: 0, symbols: 3 };
        let mut act = |action| {
            assert!(shown.act(action));
            (shown.pace.ticks_a_second, shown.symbol)
        };
        assert_eq!(act(Action::Up), (120.0, 0));
        assert_eq!(act(Action::Down), (60.0, 0));
        assert_eq!(act(Action::PreviousSort), (60.0, 2));
        assert_eq!(act(Action::NextSort), (60.0, 0));
        for _ in 0..20 {
            act(Action::PageUp);
        }
        assert_eq!(act(Action::Back), (FASTEST, 0));
        for _ in 0..40 {
            act(Action::Down);
        }
        assert_eq!(act(Action::Back), (SLOWEST, 0));
        assert!(!shown.act(Action::Quit));
    }

    #[test]
    fn slow_markets_tick_in_some_frames_and_paused_ones_in_none() {
        let mut pace = Pace::new(4);
        assert_eq!((0..20).map(|_| pace.due()).sum::<u64>(), 8);
        pace.paused = true;
        assert_eq!(pace.due(), 0);
        assert_eq!((Pace::new(4).ticks_a_frame(), Pace::new(600).ticks_a_frame()), (1, 60));
    }
}
