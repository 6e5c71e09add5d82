//! One agent from outside in a market: its decisions, its rewards, and the state of its episode.

use backcast_core::plumbing::prefetch_l2;
use backcast_sim::{DAY_TICKS, Market, OPEN_ORDERS, SlotFill, SlotTotals};

use super::{
    actions::ActionScheme,
    commands::{COMMAND_NUMBERS, OrderCommand, StepOrders},
    config::TradingEnvConfig,
    episode::{EpisodeLimits, EpisodeState, MarkPrice, StepInfo},
    external_agent::{ExternalAgent, ExternalAgentConfig},
    reward::{RewardFunction, RewardInput},
};
use crate::contract::{EpisodeMetrics, EpisodeSums, StepOutcome};

/// Fills of one step for which there is memory from the start.
pub(super) const FILLS: usize = 64;

/// Trading days of a year, for annualised metrics.
const DAYS_A_YEAR: f64 = 252.0;

/// The agent of one slot. The caller owns the market and runs it between [`decide`](Self::decide)
/// and [`arrive`](Self::arrive). After a termination the agent only [leaves](Self::leave).
#[derive(Clone, Debug)]
pub(super) struct AgentSeat {
    agent: ExternalAgent,
    reward: Box<dyn RewardFunction>,
    state: EpisodeState,
    initial_equity: f64,
    /// Paid for borrowed shares in the warm-up, in currency units.
    warmup_borrowing: f64,
    /// All fills of the step.
    fills: Vec<SlotFill>,
    /// Value of the fills of the step, in price ticks times shares.
    traded: i64,
    /// Numbers of the action of the step.
    action: Vec<f64>,
    /// Orders of commands.
    orders: StepOrders,
    masked: u32,
    /// Whether the agent was terminated and its open orders are still to be cancelled.
    leaving: bool,
    /// Totals of the slot before the step.
    before: SlotTotals,
    sums: EpisodeSums,
    info: StepInfo,
}

impl AgentSeat {
    /// Builds the agent of slot `slot` in a market of `symbols` symbols.
    pub(super) fn new(
        config: &TradingEnvConfig,
        agent: ExternalAgentConfig,
        slot: usize,
        symbols: u16,
    ) -> Self {
        Self {
            agent: ExternalAgent::new(agent, slot),
            reward: config.reward.build(),
            state: EpisodeState::default(),
            initial_equity: 0.0,
            warmup_borrowing: 0.0,
            fills: Vec::with_capacity(FILLS),
            traded: 0,
            action: vec![0.0; usize::from(symbols) * agent.numbers()],
            orders: Self::orders_for(&agent, symbols),
            masked: 0,
            leaving: false,
            before: SlotTotals::default(),
            sums: EpisodeSums::default(),
            info: StepInfo::default(),
        }
    }

    /// Allocates memory for the orders of a step; none without commands.
    pub(super) fn orders_for(agent: &ExternalAgentConfig, symbols: u16) -> StepOrders {
        if agent.actions != ActionScheme::LimitOrders {
            return StepOrders::default();
        }
        let symbols = usize::from(symbols);
        StepOrders::new(symbols * agent.commands as usize, symbols * OPEN_ORDERS)
    }

    pub(super) const fn agent(&self) -> &ExternalAgent {
        &self.agent
    }

    /// Returns how many numbers one action has, all symbols together.
    pub(super) fn action_len(&self) -> usize {
        self.action.len()
    }

    /// Begins an episode in a market whose warm-up has ended.
    pub(super) fn begin(
        &mut self,
        market: &Market,
        config: &TradingEnvConfig,
        seed: u64,
        snapshot: Option<u32>,
    ) {
        self.state = EpisodeState::read(market, self.agent.slot(), config.mark);
        self.initial_equity = self.state.equity;
        self.warmup_borrowing = std::mem::take(&mut self.state.borrowing);
        self.fills.clear();
        self.orders.clear();
        self.leaving = false;
        self.reward.reset(&self.state);
        let steps_a_day = DAY_TICKS as f64 / f64::from(config.frame_skip);
        self.sums = EpisodeSums::begin(self.state.equity, DAYS_A_YEAR * steps_a_day);
        self.info = StepInfo {
            tick: self.state.tick,
            equity: self.state.equity,
            realized_pnl: self.state.realized_pnl,
            mid_price: self.state.mid_price,
            position: self.state.position,
            episode_seed: seed,
            snapshot,
            ..StepInfo::default()
        };
    }

    /// Prefetches the buffer of the action, which lies outside of the seat.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_l2(&self.action);
    }

    /// Sends the orders of an action with checked numbers.
    pub(super) fn decide<A: Copy + Into<f64>>(&mut self, market: &mut Market, action: &[A]) {
        for (number, &given) in self.action.iter_mut().zip(action) {
            *number = given.into();
        }
        self.before = market.totals(self.agent.slot()).unwrap_or_default();
        self.masked = 0;
        self.traded = 0;
        self.fills.clear();
        self.agent.prepare(market);
        let numbers = self.agent.config().numbers();
        if self.agent.config().actions == ActionScheme::LimitOrders {
            return self.command(market);
        }
        for (symbol, numbers) in (0..).zip(self.action.chunks_exact(numbers)) {
            self.masked += self.agent.act(market, symbol, numbers).masked;
        }
    }

    /// Sends the requests of all commands of the action.
    fn command(&mut self, market: &mut Market) {
        let commands = self.agent.config().commands as usize;
        let numbers = self.action.chunks_exact(COMMAND_NUMBERS);
        self.orders.begin();
        for (row, numbers) in numbers.enumerate() {
            let symbol = (row / commands) as u16;
            let command = OrderCommand::of(numbers);
            match command.send(market, self.agent.slot(), symbol) {
                Ok(Some(number)) => self.orders.note(row, command, number),
                Ok(None) => {}
                // The checks of the configuration rule out refusals but of orders without a price
                // or without shares.
                Err(_) => self.masked += 1,
            }
        }
    }

    /// Adds the fills of the last tick to those of the step.
    #[inline]
    pub(super) fn watch(&mut self, market: &Market) {
        for fill in market.fills(self.agent.slot()).unwrap_or_default() {
            self.traded += i64::from(fill.price) * i64::from(fill.quantity);
            self.fills.push(*fill);
        }
        if self.agent.config().actions == ActionScheme::LimitOrders {
            self.orders.arrived(market.reports(self.agent.slot()).unwrap_or_default());
        }
    }

    /// Ends the step after its last tick: reads the state and computes the reward. `truncated` says
    /// whether the time limit is reached.
    pub(super) fn arrive(
        &mut self,
        market: &Market,
        config: &TradingEnvConfig,
        limits: &EpisodeLimits,
        truncated: bool,
    ) -> StepOutcome {
        let slot = self.agent.slot();
        let prev = self.state;
        let mut state = EpisodeState::read(market, slot, config.mark);
        let margin_call = limits.is_margin_call(&state);
        if margin_call && config.mark != MarkPrice::Liquidation {
            state.equity = EpisodeState::read(market, slot, MarkPrice::Liquidation).equity;
        }
        state.borrowing -= self.warmup_borrowing;
        state.decisions = prev.decisions + 1;
        state.peak_equity = prev.peak_equity.max(state.equity);
        state.traded = prev.traded + self.traded as f64 * market.config().tick_size;
        let terminated = margin_call || limits.is_bankrupt(&state);
        let reward = self.reward.compute(&RewardInput {
            prev: &prev,
            action: &self.action,
            curr: &state,
            fills: &self.fills,
            market: market.config(),
            initial_equity: self.initial_equity,
            terminated,
            truncated,
        });
        self.sums.arrive(state.equity);
        self.sums.traded += state.traded - prev.traded;
        self.sums.costs += state.fees - prev.fees;
        self.sums.orders += (state.fills - prev.fills) as u32;
        let totals = market.totals(slot).unwrap_or_default();
        self.info = StepInfo {
            tick: state.tick,
            decisions: state.decisions,
            equity: state.equity,
            pnl: state.equity - prev.equity,
            realized_pnl: state.realized_pnl,
            mid_price: state.mid_price,
            position: state.position,
            fees: state.fees - prev.fees,
            borrowing: state.borrowing - prev.borrowing,
            fills: state.fills - prev.fills,
            refused: totals.refused - self.before.refused,
            masked: self.masked,
            margin_call,
            episode_seed: self.info.episode_seed,
            snapshot: self.info.snapshot,
        };
        self.state = state;
        if self.agent.config().actions == ActionScheme::LimitOrders {
            self.orders.read(market, slot);
        }
        self.leaving = terminated;
        StepOutcome { reward, terminated, truncated }
    }

    /// Cancels all open orders of an agent that was terminated, once.
    pub(super) fn leave(&mut self, market: &mut Market) {
        if std::mem::take(&mut self.leaving) {
            self.agent.withdraw(market);
        }
    }

    /// Writes a mask of the choices of a discrete scheme, symbol by symbol: false for a choice that
    /// limits, cash or open orders rule out now.
    pub(super) fn mask(&self, market: &Market, out: &mut [bool]) {
        let Some(choices) = self.agent.config().actions.choices() else { return };
        for (symbol, out) in (0..).zip(out.chunks_exact_mut(choices)) {
            self.agent.mask(market, symbol, out);
        }
    }

    pub(super) const fn state(&self) -> &EpisodeState {
        &self.state
    }

    pub(super) const fn info(&self) -> &StepInfo {
        &self.info
    }

    /// Returns all fills of the last step.
    pub(super) fn fills(&self) -> &[SlotFill] {
        &self.fills
    }

    /// Exchanges the fills of the last step for the memory of those that another step had.
    pub(super) fn swap_fills(&mut self, fills: &mut Vec<SlotFill>) {
        std::mem::swap(&mut self.fills, fills);
    }

    /// Returns the orders of commands.
    pub(super) const fn orders(&self) -> &StepOrders {
        &self.orders
    }

    /// Exchanges the orders for the memory of those of another step.
    pub(super) fn swap_orders(&mut self, orders: &mut StepOrders) {
        std::mem::swap(&mut self.orders, orders);
    }

    pub(super) fn metrics(&self) -> EpisodeMetrics {
        self.sums.metrics()
    }
}
