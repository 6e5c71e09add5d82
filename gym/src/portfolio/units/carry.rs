//! Payments on positions that are held into the next day: borrowing, interest, splits, dividends.

use backcast_market::PanelRow;

use super::{UnitTerms, fills::UnitAccount};
use crate::portfolio::setup::CLOSE;

/// Distance from a whole number within which a split makes whole shares.
const WHOLE: f64 = 1e-9;

impl UnitAccount<'_> {
    /// Charges what short positions and owed cash cost until the next bar, at the closes.
    pub(super) fn charge(&mut self) {
        let terms = &self.today.rules.terms;
        if terms.borrow <= 0.0 && terms.loan <= 0.0 {
            return;
        }
        let mut short = 0.0;
        for (&units, &close) in self.units.iter().zip(self.today.closes) {
            short -= units.min(0.0) * close;
        }
        let interest = (-*self.cash).max(0.0) * terms.loan;
        let borrow = short * terms.borrow;
        *self.cash -= borrow + interest;
        self.sums.costs += borrow + interest;
        *self.details.borrow += borrow;
        *self.details.interest += interest;
    }

    /// Splits the positions, and then pays dividends, by the rows of the next day.
    pub(super) fn pay_next_day(&mut self) {
        let terms = &self.today.rules.terms;
        if terms.dividends.is_none() && terms.splits.is_none() {
            return;
        }
        for (ticker, &position) in self.today.tickers.iter().enumerate() {
            let held = self.units[ticker];
            if held == 0.0 {
                continue;
            }
            let row = self.today.rows.row(position, self.today.day + 1);
            if let Some(column) = terms.splits {
                let ratio = row.value(column);
                if ratio > 0.0 {
                    let close = self.today.closes[ticker] / ratio;
                    let after = split(held * ratio, terms.fractional);
                    *self.cash += (held * ratio - after) * close;
                    self.units[ticker] = after;
                    self.averages[ticker] =
                        if after == 0.0 { 0.0 } else { self.averages[ticker] / ratio };
                }
            }
            if let Some(column) = terms.dividends {
                let paid = self.units[ticker] * row.value(column);
                *self.cash += paid;
                *self.details.dividends += paid;
            }
        }
    }
}

impl UnitTerms {
    /// Returns what one unit that was held before the bar of `row` is worth at its close, with the
    /// split and the dividend of the bar.
    pub(crate) fn worth_of_old_unit(&self, row: PanelRow<'_>) -> f64 {
        let paid = self.dividends.map_or(0.0, |column| row.value(column));
        (row.value(CLOSE) + paid) * self.units_of_old_unit(row)
    }

    /// Returns how many units one that was held before the bar of `row` has become by its split.
    pub(crate) fn units_of_old_unit(&self, row: PanelRow<'_>) -> f64 {
        let ratio = self.splits.map_or(0.0, |column| row.value(column));
        if ratio > 0.0 { ratio } else { 1.0 }
    }
}

/// Returns the units after a split: whole ones unless fractions are allowed, cut towards zero.
fn split(units: f64, fractional: bool) -> f64 {
    if fractional {
        return units;
    }
    let nearest = units.round();
    if (units - nearest).abs() <= WHOLE { nearest } else { units.trunc() }
}
