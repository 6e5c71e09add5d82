//! Pictures of a trading episode: pixels for videos, text for terminals.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "places on a picture of a few hundred pixels"
)]

mod canvas;
mod font;
mod raster;
mod text;

pub(crate) use raster::{HEIGHT, WIDTH, draw_pixels};
pub(crate) use text::draw_text;

/// One step of an episode. Amounts are in currency units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// Mid-price.
    pub(crate) price: f64,
    pub(crate) equity: f64,
    /// Shares bought in this step, negative if sold.
    pub(crate) traded: i32,
}

/// Shares at one price of the book.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PriceLevel {
    pub(crate) price: f64,
    pub(crate) shares: i32,
}

/// Contents of a picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// Last steps, oldest first; not empty.
    pub(crate) points: Vec<Point>,
    /// Levels of the book from the touch outwards.
    pub(crate) bids: Vec<PriceLevel>,
    pub(crate) asks: Vec<PriceLevel>,
    pub(crate) decisions: u64,
    pub(crate) position: i32,
    /// Equity at the start of the episode.
    pub(crate) initial_equity: f64,
    /// Number of decimals of a price.
    pub(crate) decimals: usize,
}

impl Scene {
    fn last(&self) -> Point {
        self.points.last().copied().unwrap_or_default()
    }

    /// Returns the profit since the start of the episode, in per cent of the initial equity.
    fn profit_percent(&self) -> f64 {
        let first = self.initial_equity;
        if first > 0.0 { 100.0 * (self.last().equity / first - 1.0) } else { 0.0 }
    }

    /// Returns the largest number of shares at one level, at least 1.
    fn most_shares(&self) -> i32 {
        self.bids.iter().chain(&self.asks).map(|level| level.shares).max().unwrap_or(0).max(1)
    }
}

/// Returns the lowest and the highest of `numbers`, moved apart if they differ by less than
/// `least`. Returns 0 and `least` without numbers, or if one is infinite.
fn range(numbers: impl Iterator<Item = f64>, least: f64) -> (f64, f64) {
    let (low, high) = numbers
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if !(low.is_finite() && high.is_finite()) {
        return (0.0, least);
    }
    let missing = (least - (high - low)).max(0.0) / 2.0;
    (low - missing, high + missing)
}
