//! Portfolios in units: fractions of shares, short positions, limits, and payments on positions.
//!
//! [`Portfolios`](super::portfolios::Portfolios) fills orders for whole long shares in bulk. All
//! other settings are served here, order by order. Where both apply, every number is equal to the
//! last bit.

mod carry;
mod details;
mod fills;
mod orders;
mod step;
mod terms;

pub use details::{OrderLimit, StepDetails};
pub(crate) use terms::UnitTerms;

use std::ops::Range;

use super::{lines::LINE, observation::Observation};
use crate::contract::zeros;

/// Units of all portfolios, and the details of the last step.
#[derive(Clone, Debug)]
pub(crate) struct UnitBooks {
    /// Number of tickers of a portfolio, padded to lines: `W`.
    width: usize,
    fractional: bool,
    /// Units held, negative if short, `[N, W]`.
    units: Vec<f64>,
    pub(crate) details: StepDetails,
    /// Tickers in the sequence of execution; the buffer is reused.
    sequence: Vec<usize>,
}

impl UnitBooks {
    /// Returns `n` portfolios without positions, or `None` where memory does not suffice.
    pub(crate) fn new(n: usize, tickers: usize, fractional: bool) -> Option<Self> {
        let width = tickers.checked_next_multiple_of(LINE)?;
        Some(Self {
            width,
            fractional,
            units: zeros(n.checked_mul(width)?)?,
            details: StepDetails::new(n, tickers)?,
            sequence: Vec::with_capacity(tickers),
        })
    }

    fn lines_of(&self, env: usize) -> Range<usize> {
        env * self.width..(env + 1) * self.width
    }

    /// Returns the units of a portfolio, padded to lines.
    pub(crate) fn units(&self, env: usize) -> &[f64] {
        &self.units[self.lines_of(env)]
    }

    /// Begins an episode with whole shares.
    pub(crate) fn begin(&mut self, env: usize, shares: &[i32]) {
        let mine = self.lines_of(env);
        for (units, &shares) in self.units[mine].iter_mut().zip(shares) {
            *units = f64::from(shares);
        }
    }

    /// Copies the units of a portfolio to the observation: as whole shares unless they are
    /// fractions.
    pub(crate) fn show(&self, env: usize, tickers: usize, obs: &mut Observation) {
        let mine = env * tickers..(env + 1) * tickers;
        let units = &self.units(env)[..tickers];
        if self.fractional {
            obs.units[mine].copy_from_slice(units);
            return;
        }
        for (shares, &units) in obs.shares[mine].iter_mut().zip(units) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within an i32")]
            let whole = units as i32;
            *shares = whole;
        }
    }
}
