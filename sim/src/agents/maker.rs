//! Makers: cancel and requote three levels on both sides, around the latent price or the mid-price.

use crate::{
    book::{OrderKind, Quote, Side},
    config::MakerConfig,
    rng::RandomStream,
    venue::AgentDesk,
};

/// Levels on each side.
const LEVELS: usize = 3;

/// Quotes of a maker that quotes around the latent price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker {
    bid: i32,
    ask: i32,
    /// Position of the maker when it quoted last.
    position: i32,
}

impl Maker {
    pub(super) const fn new() -> Self {
        Self { bid: 0, ask: 0, position: 0 }
    }

    /// Computes the quotes for the reference price. Keeps the open orders if the quotes and the
    /// position are unchanged and no order is missing; cancels them otherwise.
    pub(super) fn withdraw(
        &mut self,
        config: &MakerConfig,
        start: i32,
        offset: f64,
        desk: &mut AgentDesk<'_>,
    ) {
        let tape = desk.tape();
        let half = config.half_spread + config.spread_per_vol * tape.variance.sqrt();
        let pushed = config.flow_shift * tape.flow + config.root_shift * tape.pressure;
        let position = desk.position();
        let inventory = f64::from(position - start);
        let centre = tape.reference - config.skew * inventory + pushed + offset;
        let (bid, ask) = (floor(centre - half), ceil(centre + half));
        let whole = desk.open_count() == 2 * LEVELS;
        if whole && (bid, ask, position) == (self.bid, self.ask, self.position) {
            return;
        }
        desk.cancel_all();
        *self = Self { bid, ask, position };
    }

    /// Places the quotes, unless the old ones stand. Before that, trades with the orders of others
    /// that are at the quotes or better.
    pub(super) fn quote(&self, config: &MakerConfig, desk: &mut AgentDesk<'_>) {
        if desk.open_count() > 0 {
            return;
        }
        let limit = desk.limits().order;
        desk.sweep(Side::Buy, self.bid);
        desk.sweep(Side::Sell, self.ask);
        let quotes = quotes(config, limit, (f64::from(self.bid), f64::from(self.ask)));
        desk.quote(OrderKind::Limit, &quotes);
    }

    pub(super) const fn digest(self) -> u64 {
        (self.bid as u64) << 32 ^ (self.ask as u64 & 0xFFFF_FFFF) ^ (self.position as u64) << 16
    }
}

/// Quotes around the mid-price of the last tick.
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
    // The first level never crosses the book. The others keep their distance from the first.
    let bid = f64::from(floor(centre - half));
    let bid = desk.best_ask().map_or(bid, |ask| bid.min(f64::from(ask - 1)));
    let ask = f64::from(ceil(centre + half));
    let ask = desk.best_bid().map_or(ask, |bid| ask.max(f64::from(bid + 1)));
    desk.quote(OrderKind::PostOnly, &quotes(config, limit, (bid, ask)));
    config.wait
}

/// Returns the quotes of all levels, from the touch outwards: a bid and an ask in turn.
#[inline]
fn quotes(config: &MakerConfig, limit: i32, (bid, ask): (f64, f64)) -> [Quote; 2 * LEVELS] {
    std::array::from_fn(|at| {
        let level = (at / 2) as f64;
        let away = config.level_step * level;
        let quantity = super::shares(config.size * (1.0 + 0.5 * level), limit);
        match at % 2 {
            0 => Quote { side: Side::Buy, price: floor(bid - away), quantity },
            _ => Quote { side: Side::Sell, price: ceil(ask + away), quantity },
        }
    })
}

/// Returns the highest price at or below `x`. `f64::floor` compiles to a call in most builds.
fn floor(x: f64) -> i32 {
    let whole = x as i32;
    whole.saturating_sub(i32::from(x < f64::from(whole)))
}

/// Returns the lowest price at or above `x`.
fn ceil(x: f64) -> i32 {
    let whole = x as i32;
    whole.saturating_add(i32::from(x > f64::from(whole)))
}
