//! Samples of all seeds together, for facts for which one seed is too noisy.

use super::fitted::Fitted;
use super::impact::SizeImpact;
use super::manipulation::ScheduleResult;
use super::opening::Activity;
use super::rules::{Rule, annual_sharpe};
use super::significance::family_p;

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
    /// Fitted rules, if they were measured.
    pub(super) fitted: Option<Fitted>,
    /// Best schedules of the search for price manipulation; empty if there was none.
    pub(super) schedules: Vec<ScheduleResult>,
    /// Activity after resets; empty if it was not measured.
    pub(super) openings: Vec<Activity>,
    /// Activity of the recordings.
    pub(super) later: Vec<Activity>,
    /// Whether each long run never got stuck, kept its price in range, and conserved cash and
    /// shares.
    pub(super) endured: Vec<bool>,
    /// Whether each seed conserved cash and shares.
    pub(super) conserved: Vec<bool>,
    /// Whether each seed repeated itself exactly.
    pub(super) same_hash: Vec<bool>,
}

impl PooledSamples {
    /// Applies `number` to the measured impact; `None` if impact was not measured.
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

    /// Returns the p-value of the fitted rules' gains, corrected for the number of rules. `None` if
    /// they were not measured.
    pub(super) fn fitted_p(&self) -> Option<f64> {
        let rules = &self.fitted.as_ref()?.rules;
        family_p(&rules.iter().map(|rule| rule.p).collect::<Vec<_>>())
    }

    /// Returns the largest share of the variance that a forecast explains, over all horizons.
    pub(super) fn explained(&self) -> Option<f64> {
        self.fitted.as_ref()?.explained.iter().copied().reduce(f64::max)
    }

    /// Returns the p-value of the best schedules' gains, corrected for the number of schedules.
    /// `None` if there was no search.
    pub(super) fn manipulation_p(&self) -> Option<f64> {
        family_p(&self.schedules.iter().map(|result| result.p).collect::<Vec<_>>())
    }

    /// Returns the ratio of a mean after resets to the mean over the recordings. `None` if resets
    /// were not measured.
    pub(super) fn opening(&self, of: impl Fn(&Activity) -> f64) -> Option<f64> {
        let mean = |all: &[Activity]| of(&Activity::average(all));
        (!self.openings.is_empty()).then(|| mean(&self.openings) / mean(&self.later))
    }

    /// Returns the fraction of `held` that is true; `None` if `held` is empty.
    pub(super) fn share(held: &[bool]) -> Option<f64> {
        let count = held.iter().filter(|held| **held).count();
        (!held.is_empty()).then(|| count as f64 / held.len() as f64)
    }
}
