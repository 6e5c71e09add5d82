//! State and end of an episode.

use backcast_sim::{CASH_PER_TICK, Market};

use crate::contract::choice;

choice!(
    /// Price at which positions are valued.
    MarkPrice, "mark", {
        /// The proceeds of closing the position now, less the taker fee:
        /// [`Market::liquidation_value`]. The default: an agent cannot raise its equity by its own
        /// impact on the price.
        #[default]
        Liquidation = "liquidation",
        /// The mid-price. A position that is large for the book shows a profit that it cannot
        /// realise.
        Mid = "mid",
    }
);

/// State of an episode after a tick. Amounts are in currency units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EpisodeState {
    /// Ticks of the market since its start, the warm-up included.
    pub tick: u64,
    /// Decisions since the warm-up.
    pub decisions: u64,
    /// Cash.
    pub cash: f64,
    /// Cash plus positions at the mark price.
    pub equity: f64,
    /// Profit of closed positions since the start of the episode, fees excluded.
    pub realized_pnl: f64,
    /// Highest equity of the episode.
    pub peak_equity: f64,
    /// Mid-price of the first symbol.
    pub mid_price: f64,
    /// Position in the first symbol, in shares; negative is short.
    pub position: i32,
    /// Absolute values of all positions at the mid-price, added up.
    pub gross_value: f64,
    /// Fees paid since the start of the episode.
    pub fees: f64,
    /// Paid for borrowed shares since the start of the episode.
    pub borrowing: f64,
    /// Value of all fills since the start of the episode.
    pub traded: f64,
    /// Number of fills since the start of the episode.
    pub fills: u64,
}

impl EpisodeState {
    /// Returns the fall from the highest equity.
    #[must_use]
    pub fn drawdown(&self) -> f64 {
        self.peak_equity - self.equity
    }

    /// Reads the state of the account of one slot. Leaves `decisions` and `traded` 0, sets
    /// `peak_equity` to the present equity, and counts the borrowing of the warm-up; the caller
    /// replaces them.
    pub(super) fn read(market: &Market, slot: usize, mark: MarkPrice) -> Self {
        let unit = market.config().cash_unit();
        let totals = market.totals(slot).unwrap_or_default();
        let cash = market.cash(slot).unwrap_or_default();
        let mut equity = market.equity(slot).unwrap_or_default();
        let mut gross = 0.0;
        for symbol in 0..market.symbols() {
            let position = market.position(slot, symbol).unwrap_or_default();
            let twice_mid = (market.mid(symbol) * 2.0) as i64;
            let at_mid = i64::from(position) * twice_mid * (CASH_PER_TICK / 2);
            gross += at_mid.abs() as f64;
            if mark == MarkPrice::Liquidation {
                equity += market.liquidation_value(slot, symbol).unwrap_or(at_mid) - at_mid;
            }
        }
        Self {
            tick: market.now(),
            decisions: 0,
            cash: cash as f64 * unit,
            equity: equity as f64 * unit,
            realized_pnl: market.realised(slot).unwrap_or_default() as f64 * unit,
            peak_equity: equity as f64 * unit,
            mid_price: market.mid(0) * market.config().tick_size,
            position: market.position(slot, 0).unwrap_or_default(),
            gross_value: gross * unit,
            fees: totals.fees as f64 * unit,
            borrowing: market.borrowing(slot).unwrap_or_default() as f64 * unit,
            traded: 0.0,
            fills: totals.fills,
        }
    }
}

/// Limits at which an episode ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EpisodeLimits {
    /// Ticks after the warm-up.
    pub(super) max_ticks: u64,
    /// Equity at or below which the agent is bankrupt.
    pub(super) bankruptcy_equity: f64,
    /// Lowest equity as a fraction of the gross value of the positions.
    pub(super) maintenance_margin: f64,
}

impl EpisodeLimits {
    /// Returns whether the agent is bankrupt.
    pub(super) fn is_bankrupt(&self, state: &EpisodeState) -> bool {
        state.equity <= self.bankruptcy_equity
    }

    /// Returns whether the equity is below the maintenance margin.
    pub(super) fn is_margin_call(&self, state: &EpisodeState) -> bool {
        state.equity < self.maintenance_margin * state.gross_value
    }
}

/// Details of the last reset or step. Amounts are in currency units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Ticks of the market since its start, the warm-up included.
    pub tick: u64,
    /// Decisions since the warm-up: 0 after a reset.
    pub decisions: u64,
    /// Equity after the last tick.
    pub equity: f64,
    /// Change of equity in the step.
    pub pnl: f64,
    /// Profit of closed positions since the start of the episode, fees excluded.
    pub realized_pnl: f64,
    /// Mid-price of the first symbol.
    pub mid_price: f64,
    /// Position in the first symbol, in shares.
    pub position: i32,
    /// Fees paid in the step.
    pub fees: f64,
    /// Paid for borrowed shares in the step.
    pub borrowing: f64,
    /// Fills in the step.
    pub fills: u64,
    /// Requests that the market refused in the step, on arrival.
    pub refused: u64,
    /// Orders of the action that were not sent, since limits, cash or open orders left no room for
    /// them.
    pub masked: u32,
    /// True if the episode ended by a margin call: positions are valued at liquidation then.
    pub margin_call: bool,
    /// Seed of the episode.
    pub episode_seed: u64,
    /// Warm snapshot that the episode started from; `None` after a warm-up of its own.
    pub snapshot: Option<u32>,
}

/// Result of a step, with an observation of its own.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepResult {
    /// Observation after the last tick of the step.
    pub observation: Vec<f32>,
    /// Reward of the step.
    pub reward: f64,
    /// True if the episode ended by bankruptcy or a margin call.
    pub terminated: bool,
    /// True if the episode reached its time limit.
    pub truncated: bool,
    /// Details of the step.
    pub info: StepInfo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bankruptcy_and_margin_are_judged_by_equity() {
        let limits =
            EpisodeLimits { max_ticks: 10, bankruptcy_equity: 0.0, maintenance_margin: 0.25 };
        let state =
            |equity, gross_value| EpisodeState { equity, gross_value, ..EpisodeState::default() };
        for (equity, gross, bankrupt, call) in [
            (100.0, 400.0, false, false),
            (99.0, 400.0, false, true),
            (1.0, 0.0, false, false),
            (0.0, 0.0, true, false),
            (-1.0, 10.0, true, true),
        ] {
            let state = state(equity, gross);
            assert_eq!(limits.is_bankrupt(&state), bankrupt, "{equity} {gross}");
            assert_eq!(limits.is_margin_call(&state), call, "{equity} {gross}");
        }
    }
}
