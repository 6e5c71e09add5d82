//! Samples of all seeds together, for facts that one seed is too noisy for.

use super::impact::SizeImpact;
use super::rules::{Rule, annual_sharpe};

/// Days below which a Sharpe ratio says nothing.
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
    /// Whether each long run stayed alive.
    pub(super) endured: Vec<bool>,
    /// Whether each seed conserved cash and shares.
    pub(super) conserved: Vec<bool>,
    /// Whether each seed repeated itself exactly.
    pub(super) same_hash: Vec<bool>,
}

impl PooledSamples {
    /// Returns a number of the measured impact, if it was measured.
    pub(super) fn impact(&self, number: impl Fn(&[SizeImpact]) -> f64) -> Option<f64> {
        (!self.sizes.is_empty()).then(|| number(&self.sizes))
    }

    /// Returns the annual Sharpe ratio of a rule over the days of all seeds, if they are enough to
    /// tell: its standard error is 1.6 at [`SHARPE_DAYS`].
    pub(super) fn sharpe(&self, rule: Rule) -> Option<f64> {
        let at = Rule::ALL.iter().position(|each| *each == rule)?;
        let profits = self.profits.get(at)?;
        (profits.len() >= SHARPE_DAYS).then(|| annual_sharpe(profits))
    }

    /// Returns the share that holds, if any was asked.
    pub(super) fn share(held: &[bool]) -> Option<f64> {
        let count = held.iter().filter(|held| **held).count();
        (!held.is_empty()).then(|| count as f64 / held.len() as f64)
    }
}
