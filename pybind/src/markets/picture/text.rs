//! Draws a picture of text: at most 19 lines, with colours of ANSI terminals.

use std::fmt::Write;

use super::{PriceLevel, Scene, range};

const COLUMNS: usize = 78;
/// Rows of the price curve.
const ROWS: usize = 8;
/// Number of levels of one side of the book.
const LEVELS: usize = 4;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// Draws a scene as lines of text.
pub(crate) fn draw_text(scene: &Scene) -> String {
    let mut out = String::new();
    let last = scene.last();
    let decimals = scene.decimals;
    let profit = scene.profit_percent();
    let colour = if profit < 0.0 { RED } else { GREEN };
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        "step {}  mid {:.decimals$}  position {:+}  equity {:.2} {colour}{profit:+.2}%{PLAIN}",
        scene.decisions, last.price, scene.position, last.equity
    );
    draw_prices(&mut out, scene);
    let most = f64::from(scene.most_shares());
    let mut level = |level: &PriceLevel, colour: &str| {
        let length = (f64::from(level.shares) / most * 50.0).ceil() as usize;
        let bar = "█".repeat(length);
        let (price, shares) = (level.price, level.shares);
        let _ = writeln!(out, "{price:>10.decimals$} {shares:>7} {colour}{bar}{PLAIN}");
    };
    for ask in scene.asks.iter().take(LEVELS).rev() {
        level(ask, RED);
    }
    for bid in scene.bids.iter().take(LEVELS) {
        level(bid, GREEN);
    }
    let points = &scene.points[scene.points.len().saturating_sub(COLUMNS)..];
    let bounds = range(points.iter().map(|point| point.equity), 1.0);
    let _ = write!(out, "equity {:.2} to {:.2}\n{}\n", bounds.0, bounds.1, {
        points.iter().map(|point| bar(point.equity, bounds)).collect::<String>()
    });
    out
}

/// Draws the price of the last steps, with `+` and `-` where shares were bought and sold.
fn draw_prices(out: &mut String, scene: &Scene) {
    let points = &scene.points[scene.points.len().saturating_sub(COLUMNS)..];
    let least = 10.0 / 10_f64.powi(scene.decimals as i32);
    let (low, high) = range(points.iter().map(|point| point.price), least);
    let row = |price: f64| {
        let share = (price - low) / (high - low);
        ((1.0 - share) * (ROWS - 1) as f64).round() as usize
    };
    for line in 0..ROWS {
        for point in points.iter().map(|point| (row(point.price) == line).then_some(point)) {
            match point {
                None => out.push(' '),
                Some(point) if point.traded > 0 => out.extend([GREEN, "+", PLAIN]),
                Some(point) if point.traded < 0 => out.extend([RED, "-", PLAIN]),
                Some(_) => out.push('•'),
            }
        }
        out.push('\n');
    }
}

fn bar(number: f64, (low, high): (f64, f64)) -> char {
    let share = if high > low { (number - low) / (high - low) } else { 0.0 };
    BARS[((share * (BARS.len() - 1) as f64).round() as usize).min(BARS.len() - 1)]
}
