//! Execution of one order: price, fees, what cash and margin allow, and the books.

use backcast_market::PriceColumn;

use super::details::OrderLimit;
use crate::{
    contract::{EnvStream, EpisodeSums},
    portfolio::{
        account::{MarketDay, SURELY_PAID, StepTotals, drawn_price},
        choices::{Bidding, StopLossPrice},
        record::PortfolioFill,
    },
};

/// Fraction of an order by which margin may fall short, so that rounding does not cut orders that
/// use all of it.
const ROUNDING: f64 = 1e-12;

/// Details of one portfolio, `[T]` each, and its costs by kind.
pub(super) struct DetailRow<'a> {
    pub(super) orders: &'a mut [f64],
    pub(super) fills: &'a mut [f64],
    pub(super) limits: &'a mut [OrderLimit],
    pub(super) fees: &'a mut f64,
    pub(super) slippage: &'a mut f64,
    pub(super) impact: &'a mut f64,
    pub(super) borrow: &'a mut f64,
    pub(super) interest: &'a mut f64,
    pub(super) dividends: &'a mut f64,
    pub(super) liquidated: &'a mut bool,
}

/// One portfolio on one day.
pub(super) struct UnitAccount<'a> {
    pub(super) env: usize,
    pub(super) cash: &'a mut f64,
    pub(super) units: &'a mut [f64],
    pub(super) averages: &'a mut [f64],
    pub(super) sums: &'a mut EpisodeSums,
    pub(super) totals: &'a mut StepTotals,
    pub(super) stream: EnvStream<'a>,
    pub(super) fills: Option<&'a mut Vec<PortfolioFill>>,
    pub(super) details: DetailRow<'a>,
    pub(super) today: MarketDay<'a>,
    /// Equity at the closes before the orders of the day.
    pub(super) equity: f64,
    /// Equity and value of all positions at the closes, after the orders so far.
    pub(super) now: Balance,
    /// Cash that the last order brought.
    pub(super) flow: f64,
}

/// Equity, and the value of all positions, long and short.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    pub(super) equity: f64,
    pub(super) gross: f64,
}

/// Price of an order, and its parts by which it is worse than the price asked.
struct Quote {
    asked: f64,
    price: f64,
    slippage: f64,
    impact: f64,
}

impl UnitAccount<'_> {
    /// Returns equity and positions at the closes.
    pub(super) fn balance(&self) -> Balance {
        let mut balance = Balance { equity: *self.cash, gross: 0.0 };
        for (&units, &close) in self.units.iter().zip(self.today.closes) {
            balance.equity += units * close;
            balance.gross += units.abs() * close;
        }
        balance
    }

    pub(super) fn volume(&self, ticker: usize) -> f64 {
        self.today.row(ticker).value(PriceColumn::Volume as usize)
    }

    fn quote(&mut self, ticker: usize, size: f64) -> Quote {
        let rules = self.today.rules;
        let (terms, buys) = (&rules.terms, size > 0.0);
        let asked = if rules.bidding == Bidding::Default {
            self.today.closes[ticker]
        } else {
            drawn_price(rules.bidding, self.today.row(ticker), buys, &mut self.stream)
        };
        let impact = if terms.impact > 0.0 {
            asked * terms.impact * (size.abs() / self.volume(ticker)).sqrt()
        } else {
            0.0
        };
        let worse = terms.per_share + impact;
        let price = if buys {
            asked * rules.slippage.buy + worse
        } else {
            asked * rules.slippage.sell - worse
        };
        Quote { asked, price, slippage: asked * terms.slippage + terms.per_share, impact }
    }

    /// Executes an order of `size` units as far as cash or margin allow. A `forced` order closes a
    /// position whatever it costs. Returns the rule that cut it.
    pub(super) fn execute(&mut self, ticker: usize, size: f64, forced: bool) -> OrderLimit {
        let rules = self.today.rules;
        let quote = self.quote(ticker, size);
        if !(quote.price > 0.0 && quote.price.is_finite()) {
            return OrderLimit::Price;
        }
        let (held, buys) = (self.units[ticker], size > 0.0);
        let fee_pct = rules.costs[self.today.tickers[ticker]];
        let fee_pct = if buys { fee_pct.buy } else { fee_pct.sell };
        let asked = size.abs();
        let number = if forced {
            asked
        } else if rules.terms.margin.is_some() {
            self.within_margin(ticker, size, &quote, fee_pct)
        } else if buys {
            self.within_cash(asked, quote.price * (1.0 + fee_pct), quote.price, 1.0 + fee_pct)
        } else {
            asked
        };
        if number <= 0.0 {
            return OrderLimit::Funds;
        }
        let value = quote.price * number;
        let flow = if buys {
            -(value * (1.0 + fee_pct) + rules.fixed_fee)
        } else {
            value * (1.0 - fee_pct) - rules.fixed_fee
        };
        // The fixed fee may exceed the value of a sale and the cash together.
        if rules.terms.margin.is_none() && *self.cash + flow < 0.0 {
            return OrderLimit::Funds;
        }
        *self.cash += flow;
        self.flow = flow;
        self.book(ticker, held, if buys { number } else { -number }, flow);
        let fee = value * fee_pct + rules.fixed_fee;
        let worse = if buys { quote.price - quote.asked } else { quote.asked - quote.price };
        self.sums.costs += fee + worse * number;
        self.sums.orders += 1;
        self.sums.traded += value;
        *self.details.fees += fee;
        *self.details.slippage += quote.slippage * number;
        *self.details.impact += quote.impact * number;
        self.details.fills[ticker] += if buys { number } else { -number };
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        let whole = number as i64;
        self.totals.shares_traded += whole;
        self.note(PortfolioFill {
            env: self.env,
            ticker,
            price: quote.price,
            fee,
            quantity: if buys { number } else { -number },
            is_stop_loss: false,
            is_settlement: false,
        });
        if number < asked { OrderLimit::Funds } else { OrderLimit::None }
    }

    /// Returns how many of `asked` units the cash pays for.
    fn within_cash(&self, asked: f64, unit: f64, price: f64, factor: f64) -> f64 {
        let fixed = self.today.rules.fixed_fee;
        let cost = |number: f64| price * number * factor + fixed;
        if cost(asked) <= *self.cash * SURELY_PAID {
            return asked;
        }
        let affordable = (*self.cash - fixed) / unit;
        if self.today.rules.terms.fractional {
            // Leaves room for the rounding of quotient and cost, so that no cash is overdrawn.
            return asked.min(affordable * (1.0 - 4.0 * f64::EPSILON)).max(0.0);
        }
        let number = asked.min(affordable.trunc()).max(0.0);
        // The quotient may have been rounded up to a whole number.
        if number > 0.0 && cost(number) > *self.cash { number - 1.0 } else { number }
    }

    /// Returns how many units of an order the margin allows: all that make the position smaller,
    /// and those beyond for which the equity after the order is still `initial` of all positions.
    fn within_margin(&self, ticker: usize, size: f64, quote: &Quote, fee_pct: f64) -> f64 {
        let rules = self.today.rules;
        let Some(margin) = rules.terms.margin else { return size.abs() };
        let (held, close) = (self.units[ticker], self.today.closes[ticker]);
        let closing = if held * size < 0.0 { held.abs().min(size.abs()) } else { 0.0 };
        let opening = size.abs() - closing;
        if opening <= 0.0 {
            return closing;
        }
        // Equity lost by each unit.
        let worse = if size > 0.0 { quote.price - close } else { close - quote.price };
        let lost = worse + quote.price * fee_pct;
        let Balance { equity, gross } = self.now;
        let room =
            equity - lost * closing - rules.fixed_fee - margin.initial * (gross - close * closing);
        let needed = margin.initial * close + lost;
        let most = if needed > 0.0 { room / needed } else { f64::INFINITY };
        let opened = if opening * (1.0 - ROUNDING) <= most { opening } else { most.max(0.0) };
        if rules.terms.fractional { closing + opened } else { closing + opened.trunc() }
    }

    /// Enters a change of `change` units for `flow` of cash in position, average price and balance.
    fn book(&mut self, ticker: usize, held: f64, change: f64, flow: f64) {
        let close = self.today.closes[ticker];
        let after = held + change;
        let average = &mut self.averages[ticker];
        if held * change >= 0.0 {
            // The position grows.
            let paid = held.abs() * *average + flow.abs();
            *average = paid / after.abs();
        } else if after == 0.0 {
            *average = 0.0;
        } else if held * after < 0.0 {
            // The position changes its side.
            *average = flow.abs() / change.abs();
        }
        self.units[ticker] = after;
        self.now.equity += flow + change * close;
        self.now.gross += (after.abs() - held.abs()) * close;
    }

    fn note(&mut self, fill: PortfolioFill) {
        if let Some(fills) = &mut self.fills {
            fills.push(fill);
        }
    }

    /// Sells every holding whose price has fallen below its limit, by the rules of
    /// [`PortfolioAccount::stop_losses`](crate::portfolio::account::PortfolioAccount).
    pub(super) fn stop_losses(&mut self, open: &[f64], before: &[f64]) {
        let rules = self.today.rules;
        for (ticker, &open) in open.iter().enumerate() {
            let held = self.units[ticker];
            if held <= 0.0 || open <= 0.0 || before.get(ticker).is_some_and(|&before| held > before)
            {
                continue;
            }
            let price = match rules.stop_loss_price {
                StopLossPrice::Close => self.today.closes[ticker],
                StopLossPrice::Low => self.today.row(ticker).value(PriceColumn::Low as usize),
            };
            if price >= self.averages[ticker] * rules.stop_loss_tolerance
                || !rules.tradable(self.today.tickers[ticker], self.today.day)
            {
                continue;
            }
            if self.execute(ticker, -held, false) == OrderLimit::None {
                self.sums.stop_losses += 1;
                self.totals.loss_cut_amount += self.flow;
                if let Some(fill) = self.fills.as_mut().and_then(|fills| fills.last_mut()) {
                    fill.is_stop_loss = true;
                }
            }
        }
    }

    /// Closes every position that can be traded today, at its close and whatever it costs, if the
    /// equity is below the maintenance margin. Longs come first.
    pub(super) fn liquidate(&mut self, open: &[f64]) {
        let rules = self.today.rules;
        let Some(margin) = rules.terms.margin else { return };
        let Balance { equity, gross } = self.balance();
        if gross <= 0.0 || equity >= margin.maintenance * gross {
            return;
        }
        for long in [true, false] {
            for (ticker, &open) in open.iter().enumerate() {
                let held = self.units[ticker];
                let tradable =
                    open > 0.0 && rules.tradable(self.today.tickers[ticker], self.today.day);
                if held != 0.0 && (held > 0.0) == long && tradable {
                    *self.details.liquidated |=
                        self.execute(ticker, -held, true) == OrderLimit::None;
                }
            }
        }
    }

    /// Turns positions of tickers that have their last row today into cash at the close. This is
    /// not an order: it costs nothing and is not counted as a trade.
    pub(super) fn settle_departures(&mut self) {
        let MarketDay { rules, day, tickers, closes, .. } = self.today;
        for (ticker, &position) in tickers.iter().enumerate() {
            let held = self.units[ticker];
            if held == 0.0 || !rules.departures.is_last(position, day) {
                continue;
            }
            *self.cash += closes[ticker] * held;
            (self.units[ticker], self.averages[ticker]) = (0.0, 0.0);
            self.note(PortfolioFill {
                env: self.env,
                ticker,
                price: closes[ticker],
                fee: 0.0,
                quantity: -held,
                is_stop_loss: false,
                is_settlement: true,
            });
        }
    }
}
