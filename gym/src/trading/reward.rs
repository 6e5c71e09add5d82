//! Rewards of the trading environment.
//!
//! A [`RewardFactory`] builds a reward function for each agent of each sub-environment, so that
//! each keeps its own state. The environment calls that function after every decision, and at the
//! start of every episode.

use std::{fmt, sync::Arc};

use backcast_sim::{MarketConfig, SlotFill};

use super::episode::EpisodeState;
use crate::contract::choice;

/// Fraction of the equity at the start of an episode at which logarithms of equity end.
const LEAST_EQUITY: f64 = 1e-4;
/// Standard deviation of returns below which the Sharpe bonus is 0.
const SMALLEST_DEVIATION: f64 = 1e-12;

/// One decision and its result, as a reward function sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RewardInput<'a> {
    /// State before the decision.
    pub prev: &'a EpisodeState,
    /// Numbers of the action, symbol by symbol.
    pub action: &'a [f64],
    /// State after the last tick of the step.
    pub curr: &'a EpisodeState,
    /// All fills of the agent in this step, in sequence.
    pub fills: &'a [SlotFill],
    /// Settings of the market, which has the currency units of a price tick.
    pub market: &'a MarketConfig,
    /// Equity at the start of the episode, after the warm-up, in currency units.
    pub initial_equity: f64,
    /// True if the episode ended by bankruptcy or a margin call.
    pub terminated: bool,
    /// True if the episode reached its time limit.
    pub truncated: bool,
}

/// Clones a boxed reward function; implemented for every `RewardFunction + Clone`.
pub trait CloneReward {
    /// Returns a copy in a box of its own.
    fn clone_boxed(&self) -> Box<dyn RewardFunction>;
}

impl<T: RewardFunction + Clone + 'static> CloneReward for T {
    fn clone_boxed(&self) -> Box<dyn RewardFunction> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn RewardFunction> {
    fn clone(&self) -> Self {
        // `self.clone_boxed()` would call the implementation for the box itself.
        (**self).clone_boxed()
    }
}

/// Computes the reward of each decision, and may keep a state.
pub trait RewardFunction: CloneReward + fmt::Debug + Send {
    /// Starts an episode in state `start`. Does nothing by default.
    fn reset(&mut self, start: &EpisodeState) {
        let _ = start;
    }

    /// Returns the reward of one decision.
    fn compute(&mut self, input: &RewardInput<'_>) -> f64;
}

/// Builder of one reward function for each agent of each sub-environment.
#[derive(Clone)]
pub struct RewardFactory(Arc<dyn Fn() -> Box<dyn RewardFunction> + Send + Sync>);

impl RewardFactory {
    /// Returns a factory that calls `build` for each agent of each sub-environment.
    #[must_use]
    pub fn new<R: RewardFunction + 'static>(build: impl Fn() -> R + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(build())))
    }

    /// Builds a reward function.
    pub(super) fn build(&self) -> Box<dyn RewardFunction> {
        (self.0)()
    }
}

impl Default for RewardFactory {
    /// Returns a factory of [`PnlDeltaReward`].
    fn default() -> Self {
        Self::new(PnlDeltaReward::default)
    }
}

impl fmt::Debug for RewardFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RewardFactory").field(&self.build()).finish()
    }
}

choice!(
    /// Unit of a change of equity in a reward.
    RewardScale, "scale", {
        /// Fraction of the equity at the start of the episode, or currency units if that is not
        /// positive. The default.
        #[default]
        InitialEquity = "initial_equity",
        /// Currency units.
        Currency = "currency",
        /// Logarithm of the ratio of equities. An equity below 1/10,000 of that at the start of the
        /// episode counts as that much. So the rewards of an episode add up to -9.21 at ruin, and
        /// never to less. Penalties are fractions of the equity at the start of the episode.
        LogReturn = "log_return",
    }
);

impl RewardScale {
    fn change(self, input: &RewardInput<'_>) -> f64 {
        let (before, after) = (input.prev.equity, input.curr.equity);
        match self {
            Self::Currency => after - before,
            Self::InitialEquity => (after - before) / base(input),
            Self::LogReturn => {
                let least = LEAST_EQUITY * base(input);
                (after.max(least) / before.max(least)).ln()
            }
        }
    }

    /// Converts an amount in currency units to the unit of the reward.
    fn amount(self, amount: f64, input: &RewardInput<'_>) -> f64 {
        match self {
            Self::Currency => amount,
            Self::InitialEquity | Self::LogReturn => amount / base(input),
        }
    }
}

/// Returns the equity at the start of the episode, or 1 if it is not positive.
fn base(input: &RewardInput<'_>) -> f64 {
    if input.initial_equity > 0.0 { input.initial_equity } else { 1.0 }
}

/// Reward that is the change of equity in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PnlDeltaReward {
    /// Unit of the reward.
    pub scale: RewardScale,
}

impl RewardFunction for PnlDeltaReward {
    fn compute(&mut self, input: &RewardInput<'_>) -> f64 {
        self.scale.change(input)
    }
}

/// Reward that is the change of equity, minus penalties, plus a Sharpe bonus at the end of the
/// episode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RiskAdjustedReward {
    /// Unit of the change of equity and of the penalties.
    pub scale: RewardScale,
    /// Weight of the increase of the drawdown in this step. A drawdown is charged once, not in
    /// every step that it lasts.
    pub drawdown_penalty: f64,
    /// Amount in currency units that is subtracted for each fill, besides the fees of the account.
    pub transaction_cost_per_trade: f64,
    /// Weight of the Sharpe ratio of the returns of all steps, not annualised. The bonus is added
    /// in the last step, terminated or truncated. The ratio is 0 with fewer than two returns or
    /// without variance.
    pub sharpe_terminal_bonus: f64,
    returns: RunningReturns,
}

impl RiskAdjustedReward {
    /// Returns a reward with these weights, scaled by the initial equity.
    #[must_use]
    pub fn new(
        drawdown_penalty: f64,
        transaction_cost_per_trade: f64,
        sharpe_terminal_bonus: f64,
    ) -> Self {
        Self {
            drawdown_penalty,
            transaction_cost_per_trade,
            sharpe_terminal_bonus,
            ..Self::default()
        }
    }

    /// Sets the unit of the reward.
    #[must_use]
    pub fn with_scale(mut self, scale: RewardScale) -> Self {
        self.scale = scale;
        self
    }
}

impl RewardFunction for RiskAdjustedReward {
    fn reset(&mut self, _: &EpisodeState) {
        self.returns = RunningReturns::default();
    }

    fn compute(&mut self, input: &RewardInput<'_>) -> f64 {
        let RewardInput { prev, curr, .. } = input;
        self.returns.enter(prev.equity, curr.equity);
        let deeper = (curr.drawdown() - prev.drawdown()).max(0.0);
        let fills = curr.fills.saturating_sub(prev.fills) as f64;
        let mut reward = self.scale.change(input)
            - self.drawdown_penalty * self.scale.amount(deeper, input)
            - fills * self.scale.amount(self.transaction_cost_per_trade, input);
        if input.terminated || input.truncated {
            reward += self.sharpe_terminal_bonus * self.returns.sharpe();
        }
        reward
    }
}

/// Mean and variance of returns (Welford, *Note on a method for calculating corrected sums of
/// squares and products*, 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RunningReturns {
    count: f64,
    mean: f64,
    squares: f64,
}

impl RunningReturns {
    fn enter(&mut self, before: f64, after: f64) {
        let gain = if before > 0.0 { after / before - 1.0 } else { 0.0 };
        self.count += 1.0;
        let distance = gain - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (gain - self.mean);
    }

    fn sharpe(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        let deviation = (self.squares / (self.count - 1.0)).sqrt();
        if deviation < SMALLEST_DEVIATION { 0.0 } else { self.mean / deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(equity: f64, peak_equity: f64, fills: u64) -> EpisodeState {
        EpisodeState { equity, peak_equity, fills, ..EpisodeState::default() }
    }

    fn reward(
        function: &mut dyn RewardFunction,
        prev: EpisodeState,
        curr: EpisodeState,
        ends: bool,
    ) -> f64 {
        function.compute(&RewardInput {
            prev: &prev,
            action: &[1.0],
            curr: &curr,
            fills: &[],
            market: &MarketConfig::default(),
            initial_equity: 1_000.0,
            terminated: false,
            truncated: ends,
        })
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn a_known_profit_gives_the_exact_reward_in_every_unit() {
        let (prev, curr) = (state(1_000.0, 1_000.0, 0), state(1_012.5, 1_012.5, 2));
        for (scale, expected) in [
            (RewardScale::Currency, 12.5),
            (RewardScale::InitialEquity, 0.0125),
            (RewardScale::LogReturn, 1.0125_f64.ln()),
        ] {
            near(reward(&mut PnlDeltaReward { scale }, prev, curr, false), expected);
        }
        let mut log = PnlDeltaReward { scale: RewardScale::LogReturn };
        // Ruin costs the logarithm of 1/10,000 from any way there, and nothing further.
        let ruin = 1e-4_f64.ln();
        for (from, to, wanted) in [
            (1_000.0, -5.0, ruin),
            (1_000.0, 0.0, ruin),
            (1.0, -1e9, -(10_f64.ln())),
            (-5.0, -9.0, 0.0),
        ] {
            let found = reward(&mut log, state(from, 1_000.0, 0), state(to, 1_000.0, 0), true);
            near(found, wanted);
        }
        near(reward(&mut log, state(-5.0, 1_000.0, 0), prev, false), -ruin);
    }

    #[test]
    fn an_episode_without_equity_at_its_start_has_finite_rewards() {
        for &scale in RewardScale::ALL {
            let mut risk = RiskAdjustedReward::new(1.0, 1.0, 1.0).with_scale(scale);
            for initial_equity in [0.0, -10.0] {
                let (prev, curr) = (state(initial_equity, 0.0, 0), state(-20.0, 0.0, 1));
                let found = risk.compute(&RewardInput {
                    prev: &prev,
                    action: &[],
                    curr: &curr,
                    fills: &[],
                    market: &MarketConfig::default(),
                    initial_equity,
                    terminated: true,
                    truncated: false,
                });
                assert!(found.is_finite() && found < 0.0, "{scale} {initial_equity}: {found}");
            }
        }
    }

    #[test]
    fn a_drawdown_is_charged_when_it_deepens_and_not_while_it_lasts() {
        let mut risk = RiskAdjustedReward::new(2.0, 0.0, 0.0).with_scale(RewardScale::Currency);
        let (top, low, lower) =
            (state(1_000.0, 1_000.0, 0), state(990.0, 1_000.0, 0), state(985.0, 1_000.0, 0));
        near(reward(&mut risk, top, low, false), -10.0 - 2.0 * 10.0);
        near(reward(&mut risk, low, low, false), 0.0);
        near(reward(&mut risk, low, lower, false), -5.0 - 2.0 * 5.0);
        near(reward(&mut risk, lower, low, false), 5.0);
    }

    #[test]
    fn fills_cost_what_is_asked_and_holding_costs_nothing() {
        let mut risk = RiskAdjustedReward::new(0.0, 0.5, 0.0).with_scale(RewardScale::Currency);
        let start = state(1_000.0, 1_000.0, 0);
        near(reward(&mut risk, start, state(1_000.0, 1_000.0, 3), false), -1.5);
        near(reward(&mut risk, start, start, false), 0.0);
    }

    #[test]
    fn the_sharpe_bonus_is_paid_once_at_the_end() {
        let path = [1_000.0, 1_010.0, 1_005.0, 1_020.0, 1_021.0];
        let returns: Vec<f64> = path.windows(2).map(|pair| pair[1] / pair[0] - 1.0).collect();
        let count = returns.len() as f64;
        let mean = returns.iter().sum::<f64>() / count;
        let deviation =
            (returns.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
        let (mut risk, mut plain) =
            (RiskAdjustedReward::new(0.0, 0.0, 3.0), RiskAdjustedReward::default());
        let first = state(path[0], path[0], 0);
        for _ in 0..2 {
            risk.reset(&first);
            let mut extra = 0.0;
            for (at, pair) in path.windows(2).enumerate() {
                let (prev, curr) = (state(pair[0], 1_021.0, 0), state(pair[1], 1_021.0, 0));
                let ends = at + 2 == path.len();
                extra = reward(&mut risk, prev, curr, ends) - reward(&mut plain, prev, curr, ends);
                assert!(ends || extra.abs() < 1e-15, "step {at}");
            }
            assert!((extra - 3.0 * mean / deviation).abs() < 1e-9, "{extra}");
        }
        risk.reset(&first);
        near(reward(&mut risk, first, state(1_010.0, 1_010.0, 0), true), 0.01);
        risk.reset(&first);
        near(reward(&mut risk, first, first, false) + reward(&mut risk, first, first, true), 0.0);
    }
}
