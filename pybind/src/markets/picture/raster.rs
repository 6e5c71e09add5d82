//! Draws a picture of pixels: price with own trades, book depth, equity.

use super::{
    PriceLevel, Scene,
    canvas::{Area, Canvas, Colour},
    range,
};

/// Columns of a picture.
pub(crate) const WIDTH: usize = 640;
/// Rows of a picture.
pub(crate) const HEIGHT: usize = 480;

const BACKGROUND: Colour = [16, 20, 27];
const PANEL: Colour = [25, 31, 41];
const TEXT: Colour = [214, 221, 230];
const FAINT: Colour = [118, 128, 142];
const PRICE: Colour = [96, 165, 250];
const EQUITY: Colour = [250, 204, 21];
const BUY: Colour = [52, 199, 123];
const SELL: Colour = [239, 83, 80];

const PRICES: Area = Area { left: 10, top: 44, width: 450, height: 256 };
const DEPTH: Area = Area { left: 470, top: 44, width: 160, height: 256 };
const WORTH: Area = Area { left: 10, top: 330, width: 620, height: 140 };
/// Number of levels of one side that are shown.
pub(super) const LEVELS: usize = 12;

/// Draws a scene on `[HEIGHT, WIDTH, 3]` bytes.
pub(crate) fn draw_pixels(scene: &Scene, pixels: &mut [u8]) {
    let mut canvas = Canvas::new(pixels, WIDTH, BACKGROUND);
    let last = scene.last();
    let decimals = scene.decimals;
    let header = format!("STEP {}  MID {:.decimals$}  POS {:+}", scene.decisions, last.price, {
        scene.position
    });
    let end = canvas.text((10, 10), &header, 2, TEXT);
    let profit = scene.profit_percent();
    let colour = if profit < 0.0 { SELL } else { BUY };
    canvas.text((end + 24, 10), &format!("P/L {profit:+.2}%"), 2, colour);
    draw_prices(&mut canvas, scene);
    draw_depth(&mut canvas, scene);
    draw_equity(&mut canvas, scene);
}

fn draw_prices(canvas: &mut Canvas<'_>, scene: &Scene) {
    canvas.fill(PRICES, PANEL);
    let least = 10.0 / 10_f64.powi(scene.decimals as i32);
    let bounds = range(scene.points.iter().map(|point| point.price), least);
    let inner = Area { top: PRICES.top + 14, height: PRICES.height - 28, ..PRICES };
    let count = scene.points.len();
    let place = |at: usize| (inner.column(at, count), inner.row(scene.points[at].price, bounds));
    for at in 1..count {
        canvas.line(place(at - 1), place(at), PRICE);
    }
    for (at, point) in scene.points.iter().enumerate() {
        let (x, y) = place(at);
        if point.traded > 0 {
            canvas.triangle((x, y + 3), true, BUY);
        } else if point.traded < 0 {
            canvas.triangle((x, y - 3), false, SELL);
        }
    }
    label(canvas, PRICES, bounds, scene.decimals);
}

fn draw_depth(canvas: &mut Canvas<'_>, scene: &Scene) {
    canvas.fill(DEPTH, PANEL);
    let most = f64::from(scene.most_shares());
    let height = DEPTH.height / (2 * LEVELS as i32);
    let mut bar = |level: &PriceLevel, top: i32, colour: Colour| {
        let length = (f64::from(level.shares) / most * f64::from(DEPTH.width - 62)).ceil() as i32;
        let area = Area { left: DEPTH.left + 58, top: top + 1, width: length, height: height - 2 };
        canvas.fill(area, colour);
        let text = format!("{:.*}", scene.decimals, level.price);
        canvas.text((DEPTH.left + 4, top + 2), &text, 1, FAINT);
    };
    let middle = DEPTH.top + DEPTH.height / 2;
    for (at, level) in (0..).zip(scene.asks.iter().take(LEVELS)) {
        bar(level, middle - (at + 1) * height, SELL);
    }
    for (at, level) in (0..).zip(scene.bids.iter().take(LEVELS)) {
        bar(level, middle + at * height, BUY);
    }
}

fn draw_equity(canvas: &mut Canvas<'_>, scene: &Scene) {
    canvas.fill(WORTH, PANEL);
    let start = scene.initial_equity;
    let equities = scene.points.iter().map(|point| point.equity);
    let bounds = range(equities.chain([start]), 1.0);
    let inner = Area { top: WORTH.top + 14, height: WORTH.height - 28, ..WORTH };
    let level = inner.row(start, bounds);
    for x in (inner.left..inner.left + inner.width).step_by(6) {
        canvas.fill(Area { left: x, top: level, width: 3, height: 1 }, FAINT);
    }
    let count = scene.points.len();
    let place = |at: usize| (inner.column(at, count), inner.row(scene.points[at].equity, bounds));
    for at in 1..count {
        canvas.line(place(at - 1), place(at), EQUITY);
    }
    canvas.text((WORTH.left, WORTH.top - 12), "EQUITY", 1, FAINT);
    label(canvas, WORTH, bounds, 2);
}

/// Writes the highest and the lowest number of a panel.
fn label(canvas: &mut Canvas<'_>, area: Area, (low, high): (f64, f64), decimals: usize) {
    canvas.text((area.left + 4, area.top + 3), &format!("{high:.decimals$}"), 1, FAINT);
    let bottom = area.top + area.height - 10;
    canvas.text((area.left + 4, bottom), &format!("{low:.decimals$}"), 1, FAINT);
}
