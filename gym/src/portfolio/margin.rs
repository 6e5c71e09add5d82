//! Short positions and loans: what they need and what they cost.

use super::error::PortfolioError;

/// Terms on which a portfolio may be short and may owe cash.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Margin {
    /// Smallest equity over the value of all positions after an order that opens one, in `(0, 1]`.
    pub initial: f64,
    /// Smallest equity over the value of all positions after the orders of a bar, in
    /// `[0, initial]`. Below it every position is closed.
    pub maintenance: f64,
    /// Fee of short positions, as a fraction of their value a year; at least 0.
    pub borrow_rate: f64,
    /// Interest on cash owed, as a fraction a year; at least 0.
    pub loan_rate: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { initial: 0.5, maintenance: 0.25, borrow_rate: 0.0, loan_rate: 0.0 }
    }
}

impl Margin {
    /// Refuses numbers outside their ranges.
    pub(crate) fn check(&self) -> Result<(), PortfolioError> {
        let refuse = |option, value, rule| Err(PortfolioError::BadOption { option, value, rule });
        let Self { initial, maintenance, borrow_rate, loan_rate } = *self;
        if !(initial > 0.0 && initial <= 1.0) {
            let rule = "a fraction of the positions in (0, 1]; 0.5 allows twice the equity";
            return refuse("Margin.initial", initial, rule);
        }
        if !(maintenance >= 0.0 && maintenance <= initial) {
            let rule = "a fraction of the positions, at least 0 and at most Margin.initial";
            return refuse("Margin.maintenance", maintenance, rule);
        }
        for (option, rate) in [("Margin.borrow_rate", borrow_rate), ("Margin.loan_rate", loan_rate)]
        {
            if !(rate.is_finite() && rate >= 0.0) {
                return refuse(option, rate, "a finite fraction a year, at least 0");
            }
        }
        Ok(())
    }
}
