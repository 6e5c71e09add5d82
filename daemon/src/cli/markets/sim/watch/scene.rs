//! A running market and what a frame shows of it.

use std::collections::VecDeque;

use backcast_sim::{Archetype, CASH_PER_TICK, ConfigError, DepthLevel, Market, Preset, Side};
use serde::Serialize;

use crate::cli::signals::Signals;

/// Maximum levels of the book that a frame has on each side.
pub(super) const LEVELS: usize = 8;
/// Maximum trades that a frame has.
const TRADES: usize = 16;
/// Ticks whose mid-prices are kept.
const KEPT: usize = 1_200;
/// Maximum ticks between two checks for signals, before the first frame.
const WARM_UP_PIECE: u64 = 10_000;

/// A market that runs, with the recent past of every symbol.
#[derive(Debug)]
pub(super) struct Scene {
    preset: Preset,
    market: Market,
    past: Vec<Past>,
}

/// Recent past of one symbol.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Mid-price in currency after each of the last [`KEPT`] ticks, oldest first.
    mids: VecDeque<f64>,
    /// Incoming orders that traded, newest first.
    trades: VecDeque<TradeFrame>,
}

/// JSON of one frame of one symbol. Prices and profits are in currency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MarketFrame {
    pub(super) preset: &'static str,
    pub(super) seed: u64,
    pub(super) tick: u64,
    pub(super) symbol: u16,
    pub(super) symbols: u16,
    /// Best price of a buy order; null while the book has none.
    pub(super) best_bid: Option<f64>,
    /// Best price of a sell order; null while the book has none.
    pub(super) best_ask: Option<f64>,
    pub(super) mid_price: f64,
    pub(super) last_price: f64,
    /// Mean volume over about 100 ticks.
    pub(super) volume_shares_per_tick: f64,
    /// Factor on the rates at which agents act.
    pub(super) arousal: f64,
    /// Levels from the best price outwards.
    pub(super) bids: Vec<LevelFrame>,
    pub(super) asks: Vec<LevelFrame>,
    /// Incoming orders that traded, newest first.
    pub(super) trades: Vec<TradeFrame>,
    pub(super) agents: Vec<GroupFrame>,
}

/// JSON of one price level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct LevelFrame {
    pub(super) price: f64,
    pub(super) shares: i32,
}

/// JSON of an incoming order that traded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct TradeFrame {
    pub(super) tick: u64,
    /// `buy` or `sell`.
    pub(super) side: &'static str,
    /// Mean price over its fills.
    pub(super) price: f64,
    pub(super) shares: i32,
    /// Archetype that sent it; null in a call auction.
    pub(super) archetype: Option<&'static str>,
}

/// JSON of the totals of one archetype.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct GroupFrame {
    pub(super) archetype: &'static str,
    pub(super) agents: u32,
    pub(super) long_shares: i64,
    pub(super) short_shares: i64,
    pub(super) open_orders: u64,
    pub(super) profit: f64,
}

impl Scene {
    pub(super) fn new(preset: Preset, seed: u64, symbols: u16) -> Result<Self, ConfigError> {
        let mut config = preset.config();
        config.symbols = symbols;
        let market = Market::new(&config, seed)?;
        let past = vec![Past::default(); usize::from(symbols)];
        Ok(Self { preset, market, past })
    }

    pub(super) fn symbols(&self) -> u16 {
        self.market.symbols()
    }

    /// Runs the market for `ticks` ticks before the first frame. A signal ends it early.
    pub(super) fn warm_up(&mut self, ticks: u64, signals: &Signals) {
        let mut left = ticks;
        while left > 0 && signals.status().is_none() {
            let piece = left.min(WARM_UP_PIECE);
            self.advance(piece);
            left -= piece;
        }
    }

    /// Runs the market for `ticks` ticks.
    pub(super) fn advance(&mut self, ticks: u64) {
        let Self { market, past, .. } = self;
        for _ in 0..ticks {
            market.tick();
            for (symbol, past) in (0..).zip(past.iter_mut()) {
                past.take(market, symbol);
            }
        }
    }

    /// Returns the mid-prices of the last ticks, oldest first.
    pub(super) fn mids(&self, symbol: u16) -> impl ExactSizeIterator<Item = f64> {
        self.past[usize::from(symbol)].mids.iter().copied()
    }

    pub(super) fn frame(&self, symbol: u16) -> MarketFrame {
        let market = &self.market;
        let unit = market.config().tick_size;
        let price = |ticks: i32| f64::from(ticks) * unit;
        let levels = |side: Side| -> Vec<LevelFrame> {
            let mut levels = [DepthLevel::default(); LEVELS];
            let count = market.depth(symbol, side, &mut levels);
            let level = |level: &DepthLevel| LevelFrame {
                price: price(level.price),
                shares: level.quantity,
            };
            levels.iter().take(count).map(level).collect()
        };
        let group = |archetype: Archetype| {
            let totals = market.group_totals(symbol, archetype);
            GroupFrame {
                archetype: archetype.name(),
                agents: totals.agents,
                long_shares: totals.long,
                short_shares: totals.short,
                open_orders: totals.open_orders,
                profit: real(totals.profit) * unit / real(CASH_PER_TICK),
            }
        };
        let tape = market.tape(symbol);
        MarketFrame {
            preset: self.preset.name(),
            seed: market.seed(),
            tick: market.now(),
            symbol,
            symbols: market.symbols(),
            best_bid: market.best_bid(symbol).map(price),
            best_ask: market.best_ask(symbol).map(price),
            mid_price: market.mid(symbol) * unit,
            last_price: price(market.last_price(symbol)),
            volume_shares_per_tick: tape.volume_rate(),
            arousal: tape.arousal(),
            bids: levels(Side::Buy),
            asks: levels(Side::Sell),
            trades: self.past[usize::from(symbol)].trades.iter().copied().collect(),
            agents: Archetype::ALL.map(group).to_vec(),
        }
    }
}

impl Past {
    fn take(&mut self, market: &Market, symbol: u16) {
        let unit = market.config().tick_size;
        if self.mids.len() == KEPT {
            self.mids.pop_front();
        }
        self.mids.push_back(market.mid(symbol) * unit);
        // Older orders would be dropped again: at most `TRADES` are kept.
        let orders = market.market_orders(symbol);
        for order in orders.iter().skip(orders.len().saturating_sub(TRADES)) {
            self.trades.truncate(TRADES - 1);
            self.trades.push_front(TradeFrame {
                tick: market.now(),
                side: if order.side == Side::Buy { "buy" } else { "sell" },
                price: real(order.notional) / f64::from(order.quantity.max(1)) * unit,
                shares: order.quantity,
                archetype: market.archetype_of(symbol, order.account).map(Archetype::name),
            });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few figures")]
fn real(whole: i64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_state_of_the_market() {
        let mut scene = Scene::new(Preset::Normal, 7, 2).unwrap();
        scene.advance(2_000);
        let mut market = Preset::Normal.config();
        market.symbols = 2;
        let mut market = Market::new(&market, 7).unwrap();
        market.run(2_000);
        for symbol in 0..2 {
            let frame = scene.frame(symbol);
            assert_eq!((frame.tick, frame.symbols), (2_000, 2));
            // A side may have fewer levels.
            assert!((2..=LEVELS).contains(&frame.bids.len()), "{}", frame.bids.len());
            let bid = f64::from(market.best_bid(symbol).unwrap()) / 100.0;
            assert!((frame.best_bid.unwrap() - bid).abs() < 1e-9);
            assert!((frame.bids[0].price - bid).abs() < 1e-9);
            assert!(frame.bids[1].price < bid && frame.asks[0].price > bid);
            assert_eq!(frame.agents.iter().map(|group| group.agents).sum::<u32>(), 100);
            let sum = |of: fn(&GroupFrame) -> i64| frame.agents.iter().map(of).sum::<i64>();
            assert_eq!(sum(|group| group.long_shares), sum(|group| group.short_shares));
            assert!(frame.trades.len() == 16 && frame.trades[0].tick <= 2_000);
            assert!(frame.trades.is_sorted_by_key(|trade| std::cmp::Reverse(trade.tick)));
            assert_eq!(scene.mids(symbol).len(), KEPT);
            assert!((scene.mids(symbol).last().unwrap() - frame.mid_price).abs() < 1e-12);
        }
    }
}
