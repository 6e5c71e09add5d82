//! State of one slot, without which the agent's task would not be Markov.

use super::{Feature, FeatureGroup, FeatureSet, FeatureWriter, ObserveError, check};
use crate::{ledger::CASH_PER_TICK, market::Market};

/// Private features of one slot in one symbol.
///
/// With several symbols, the set is written once for each. Cash, equity, requests in flight and
/// time are then the same in each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivateFeatures {
    /// Number of the slot, from 0.
    pub slot: usize,
    /// Fraction of the episode that is left, 0 to 1. The caller defines episodes.
    pub time_left: f64,
}

const fn feature(name: &'static str, unit: &'static str, bound: f32) -> Feature {
    let group = FeatureGroup::Private;
    Feature { name, group, unit, low: -bound, high: bound, missing: 0.0 }
}

const FEATURES: [Feature; 11] = [
    feature("position", "fraction of limit", 1.0),
    feature("cash", "fraction of initial equity", 100.0),
    feature("equity_return", "fraction of initial equity", 100.0),
    feature("unrealised", "fraction of initial equity", 100.0),
    feature("open_buys", "fraction of long limit", 1.0),
    feature("open_sells", "fraction of short limit", 1.0),
    feature("in_flight", "requests", 64.0),
    feature("last_fill_size", "fraction of order limit, signed", 1.0),
    feature("last_fill_gap", "percent of mid", 100.0),
    feature("last_fill_age", "log ticks", 30.0),
    feature("time_left", "0..1", 1.0),
];

impl FeatureSet for PrivateFeatures {
    fn features(&self) -> &'static [Feature] {
        &FEATURES
    }

    fn observe(&self, market: &Market, symbol: u16, out: &mut [f32]) -> Result<(), ObserveError> {
        let slots = market.slot_count();
        let Some(config) = market.config().slots.get(self.slot) else {
            return Err(ObserveError::UnknownSlot { slot: self.slot, slots });
        };
        check(market, symbol, out, FEATURES.len())?;
        let unknown = |_| ObserveError::UnknownSlot { slot: self.slot, slots };
        let account = config.account;
        let position = market.position(self.slot, symbol).map_err(unknown)?;
        let limit = if position < 0 { account.limits.short } else { account.limits.long };
        let equity = market.equity(self.slot).map_err(unknown)? as f64;
        let cost = market.cost(self.slot, symbol).map_err(unknown)? as f64;
        let value = f64::from(position) * market.mid(symbol) * CASH_PER_TICK as f64;
        let (bid, offered) = market.ledger().open_shares(self.slot as u16, symbol);
        let fraction = |shares: i32, limit: i32| f64::from(shares) / f64::from(limit.max(1));
        let initial = market.initial_equity(self.slot).map_err(unknown)?.max(1) as f64;

        let mut writer = FeatureWriter::new(&FEATURES, out);
        writer.put(fraction(position, limit));
        writer.put(market.cash(self.slot).map_err(unknown)? as f64 / initial);
        writer.put(equity / initial - 1.0);
        writer.put((value - cost * f64::from(position.signum())) / initial);
        writer.put(fraction(bid, account.limits.long));
        writer.put(fraction(offered, account.limits.short.max(account.limits.long)));
        writer.put(market.in_flight(self.slot).map_err(unknown)? as f64);
        let fill = market.last_fill(self.slot).map_err(unknown)?;
        let fill = fill.filter(|fill| fill.symbol == symbol);
        writer
            .put(fill.map(|fill| fraction(fill.quantity * fill.side.sign(), account.limits.order)));
        writer.put(fill.map(|fill| 100.0 * (f64::from(fill.price) / market.mid(symbol) - 1.0)));
        writer.put(fill.map(|fill| ((market.now() - fill.tick) as f64).ln_1p()));
        writer.put(self.time_left);
        Ok(())
    }
}
