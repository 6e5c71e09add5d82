//! Makers: cancel and requote three levels on both sides.

use crate::{
    book::{OrderKind, Side},
    config::MakerConfig,
    rng::RandomStream,
    venue::AgentDesk,
};

/// Levels on each side.
const LEVELS: usize = 3;

pub(super) fn act(
    config: &MakerConfig,
    start: i32,
    stream: &mut RandomStream,
    desk: &mut AgentDesk<'_>,
) -> f64 {
    desk.cancel_all();
    let tape = desk.tape();
    let volatility = tape.variance.sqrt();
    let half = config.half_spread + config.spread_per_vol * volatility;
    let inventory = f64::from(desk.position() - start);
    let pushed = config.flow_shift * tape.flow + config.root_shift * tape.pressure;
    let centre = tape.mid() - config.skew * inventory + pushed;
    // Shifts the centre by up to half a tick, so that quotes do not all round to the same side.
    let centre = centre + stream.range(-0.5, 0.5);
    let limit = desk.limits().order;
    // The first level never crosses the book. The others keep their distance from it.
    let bid = f64::from(floor(centre - half));
    let bid = desk.best_ask().map_or(bid, |ask| bid.min(f64::from(ask - 1)));
    let ask = f64::from(ceil(centre + half));
    let ask = desk.best_bid().map_or(ask, |bid| ask.max(f64::from(bid + 1)));
    for level in 0..LEVELS {
        let away = config.level_step * level as f64;
        let size = super::shares(config.size * (1.0 + 0.5 * level as f64), limit);
        desk.place(Side::Buy, OrderKind::PostOnly, floor(bid - away), size);
        desk.place(Side::Sell, OrderKind::PostOnly, ceil(ask + away), size);
    }
    config.wait
}

/// Returns the price at or below `x`. The method of `f64` is a call in most builds.
fn floor(x: f64) -> i32 {
    let whole = x as i32;
    whole.saturating_sub(i32::from(x < f64::from(whole)))
}

/// Returns the price at or above `x`.
fn ceil(x: f64) -> i32 {
    let whole = x as i32;
    whole.saturating_add(i32::from(x > f64::from(whole)))
}
