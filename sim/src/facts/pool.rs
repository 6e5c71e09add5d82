//! Samples of all seeds together, for facts for which one seed is too noisy.

use super::impact::SizeImpact;
use super::rules::{Rule, annual_sharpe};

/// Minimum number of days for which a Sharpe ratio is computed.
const SHARPE_DAYS: usize = 100;

/// Samples of all seeds.
#[derive(Debug, Default)]
pub(super) struct PooledSamples {
    /// Impact by size; empty if it was not measured.
    pub(super) sizes: Vec<SizeImpact>,
    /// Daily profits of each rule, in the order of [`Rule::ALL`].
    pub(super) profits: Vec<Vec<f64>>,
    /// Daily profits of random orders beyond their costs.
    pub(super) random_profits: Vec<f64>,
    /// Whether each long run never got stuck, kept its price in range, and conserved cash and
    /// shares.
    pub(super) endured: Vec<bool>,
    /// Whether each seed conserved cash and shares.
    pub(super) conserved: Vec<bool>,
    /// Whether each seed repeated itself exactly.
    pub(super) same_hash: Vec<bool>,
}

impl PooledSamples {
    /// Returns `number` of the measured impact; `None` if impact was not measured.
    pub(super) fn impact(&self, number: impl Fn(&[SizeImpact]) -> f64) -> Option<f64> {
        (!self.sizes.is_empty()).then(|| number(&self.sizes))
    }

    /// Returns the annual Sharpe ratio of a rule over the days of all seeds. Returns `None` for
    /// fewer than [`SHARPE_DAYS`] days, at which the standard error is 1.6.
    pub(super) fn sharpe(&self, rule: Rule) -> Option<f64> {
        let at = Rule::ALL.iter().position(|each| *each == rule)?;
        let profits = self.profits.get(at)?;
        (profits.len() >= SHARPE_DAYS).then(|| annual_sharpe(profits))
    }

    /// Returns the fraction of `held` that is true; `None` if it is empty.
    pub(super) fn share(held: &[bool]) -> Option<f64> {
        let count = held.iter().filter(|held| **held).count();
        (!held.is_empty()).then(|| count as f64 / held.len() as f64)
    }
}
