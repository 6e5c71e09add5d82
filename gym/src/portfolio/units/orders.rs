//! Orders of one day in units: what an action asks for, and the sequence of execution.

use super::{details::OrderLimit, fills::UnitAccount};

/// Fraction of the equity below which an order of fractions of shares is no order. It is far above
/// the rounding errors of a position that is on its weight already.
const DUST: f64 = 1e-9;

impl UnitAccount<'_> {
    /// Turns actions into orders, and finds their sequence: sales first, the largest first, ties in
    /// ticker order. Orders for tickers that are not traded today are refused.
    pub(super) fn ask<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        open: &[f64],
        sequence: &mut Vec<usize>,
    ) {
        let (rules, terms) = (self.today.rules, &self.today.rules.terms);
        let scale = terms.leverage.map(|leverage| {
            let gross: f64 = actions.iter().map(|&weight| weight.into().abs()).sum();
            if gross > leverage { leverage / gross } else { 1.0 }
        });
        let equity = self.equity.max(0.0);
        sequence.clear();
        for (ticker, &action) in actions.iter().enumerate() {
            let action: f64 = action.into();
            let close = self.today.closes[ticker];
            let mut order = match scale {
                None => action * rules.hmax,
                Some(scale) if close > 0.0 => action * scale * equity / close - self.units[ticker],
                Some(_) => 0.0,
            };
            if !terms.fractional {
                order = order.trunc();
            } else if close > 0.0 && order.abs() * close < DUST * equity {
                order = 0.0;
            }
            if order == 0.0 {
                // Without a price a weight has no size in units.
                if scale.is_some() && close <= 0.0 && action != 0.0 {
                    self.details.limits[ticker] = OrderLimit::Listing;
                }
                continue;
            }
            self.details.orders[ticker] = order;
            let position = self.today.tickers[ticker];
            if open[ticker] > 0.0 && rules.tradable(position, self.today.day) {
                sequence.push(ticker);
            } else {
                self.details.limits[ticker] = OrderLimit::Listing;
            }
        }
        let orders = &*self.details.orders;
        sequence.sort_by(|&one, &other| {
            let (one, other) = (orders[one], orders[other]);
            (one > 0.0).cmp(&(other > 0.0)).then(other.abs().total_cmp(&one.abs()))
        });
    }

    /// Executes the orders of the day in `sequence`.
    pub(super) fn execute_all(&mut self, sequence: &[usize]) {
        for &ticker in sequence {
            let order = self.details.orders[ticker];
            let (size, limit) = self.cut(ticker, order);
            let limit = if size == 0.0 {
                limit
            } else {
                let found = self.execute(ticker, size, false);
                if found == OrderLimit::None { limit } else { found }
            };
            self.details.limits[ticker] = limit;
        }
    }

    /// Cuts an order to what is held, and to the limits of positions and of the volume. Returns it
    /// with the last rule that did so.
    fn cut(&self, ticker: usize, order: f64) -> (f64, OrderLimit) {
        /// Largest position, as a number of units.
        const MOST: f64 = i32::MAX as f64;
        let terms = &self.today.rules.terms;
        let (held, close) = (self.units[ticker], self.today.closes[ticker]);
        let (mut size, mut limit) = (order, OrderLimit::None);
        let mut within = |low: f64, high: f64, rule| {
            let cut = size.clamp(low.min(0.0), high.max(0.0));
            if cut.abs() < size.abs() {
                (size, limit) = (cut, rule);
            }
        };
        let lowest = if terms.margin.is_some() { -MOST } else { 0.0 };
        within(lowest - held, MOST - held, OrderLimit::Holding);
        if let Some(share) = terms.max_position {
            let most = share * self.equity.max(0.0) / close;
            within(-most - held, most - held, OrderLimit::Position);
        }
        if let Some(share) = terms.max_volume {
            let most = share * self.volume(ticker);
            within(-most, most, OrderLimit::Volume);
        }
        (if terms.fractional { size } else { size.trunc() }, limit)
    }
}
