//! The state of all portfolios, one buffer per field, and what one step does to one of them.

use backcast_market::PriceColumn;

use crate::{
    account::{Account, Orders},
    observation::{Observation, zeros},
    world::WorldView,
};

const OPEN: usize = PriceColumn::Open as usize;
const CLOSE: usize = PriceColumn::Close as usize;

/// Where a sub-environment is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Never reset.
    #[default]
    New,
    /// In an episode.
    Running,
    /// The episode has ended and no other has begun.
    Ended,
}

/// Buffers of `N` portfolios. The observation *is* the state: day, cash, shares and averages live there.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) obs: Observation,
    pub(crate) rewards: Vec<f64>,
    pub(crate) terminated: Vec<bool>,
    pub(crate) truncated: Vec<bool>,
    /// Value at the close of the current day, `[N]`: where the next reward begins.
    pub(crate) value_at_close: Vec<f64>,
    pub(crate) phase: Vec<Phase>,
    /// Steps of the episode so far, `[N]`.
    steps: Vec<u32>,
    /// The last close known of each ticker, `[N, T]`: the fill price, and the value in a gap.
    closes: Vec<f64>,
    orders: Orders,
}

impl Batch {
    /// `None` where memory does not suffice.
    pub(crate) fn new(n: usize, tickers: usize, indicators: usize) -> Option<Self> {
        Some(Self {
            obs: Observation::zeros(n, tickers, indicators)?,
            rewards: zeros(n)?,
            terminated: zeros(n)?,
            truncated: zeros(n)?,
            value_at_close: zeros(n)?,
            phase: zeros(n)?,
            steps: zeros(n)?,
            closes: zeros(n.checked_mul(tickers)?)?,
            orders: Orders::with_capacity(tickers),
        })
    }

    /// Begin an episode: all cash, nothing held.
    pub(crate) fn begin(&mut self, world: &WorldView<'_>, env: usize, day: usize) {
        let tickers = world.tickers.len();
        let mine = env * tickers..(env + 1) * tickers;
        self.obs.cash[env] = world.initial_amount;
        self.obs.shares[mine.clone()].fill(0);
        self.obs.avg_buy_price[mine.clone()].fill(0.0);
        self.closes[mine].fill(0.0);
        self.steps[env] = 0;
        self.phase[env] = Phase::Running;
        self.arrive(world, env, day);
    }

    /// Reward and flags of a sub-environment that was reset.
    pub(crate) fn clear_outcome(&mut self, env: usize) {
        self.rewards[env] = 0.0;
        self.terminated[env] = false;
        self.truncated[env] = false;
    }

    /// One day of one running portfolio: trade at today's close, sleep, wake up at tomorrow's open.
    pub(crate) fn step<A: Copy + Into<f64>>(
        &mut self,
        world: &WorldView<'_>,
        env: usize,
        actions: &[A],
    ) {
        let tickers = world.tickers.len();
        let mine = env * tickers..(env + 1) * tickers;
        let shares = &mut self.obs.shares[mine.clone()];
        self.orders.collect(actions, world.costs, &self.obs.open[mine.clone()], shares);
        let mut account = Account {
            cash: &mut self.obs.cash[env],
            shares,
            avg_buy_price: &mut self.obs.avg_buy_price[mine.clone()],
        };
        self.orders.fill(&mut account, &self.closes[mine], world.costs);

        // Days were checked to fit when the episode began and end before the panel does.
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default() + 1;
        let begin = self.value_at_close[env];
        self.arrive(world, env, day);
        let end = self.value_at_close[env];
        self.steps[env] += 1;
        self.rewards[env] = if begin > 0.0 && end > 0.0 { (end / begin).ln() } else { 0.0 };
        self.terminated[env] = end <= world.failure_threshold;
        self.truncated[env] = day >= world.last_day || self.steps[env] >= world.max_episode_steps;
        if self.terminated[env] || self.truncated[env] {
            self.phase[env] = Phase::Ended;
        }
    }

    /// Show the morning of `day`, and note its close for the reward and the next fill.
    fn arrive(&mut self, world: &WorldView<'_>, env: usize, day: usize) {
        let tickers = world.tickers.len();
        let mine = env * tickers..(env + 1) * tickers;
        let (mut morning, mut evening) = (0.0, 0.0);
        let held = &self.obs.shares[mine.clone()];
        let buffers = self.obs.open[mine.clone()].iter_mut().zip(&mut self.closes[mine]);
        for (((open, close), &held), &ticker) in buffers.zip(held).zip(world.tickers) {
            let row = world.rows.row(ticker, day);
            let held = f64::from(held);
            *open = row.value(OPEN);
            // `close` still holds the last one known: what a ticker without a row is worth.
            morning += held * if *open > 0.0 { *open } else { *close };
            if *open > 0.0 {
                *close = row.value(CLOSE);
            }
            evening += held * *close;
        }
        self.obs.total_asset[env] = self.obs.cash[env] + morning;
        self.value_at_close[env] = self.obs.cash[env] + evening;

        // Panels hold at most i32::MAX days, and no episode starts before day `indicator_lag`.
        self.obs.day[env] = i32::try_from(day).unwrap_or(i32::MAX);
        let width = world.indicators;
        let from = day - world.indicator_lag;
        let indicators =
            &mut self.obs.indicators[env * tickers * width..(env + 1) * tickers * width];
        if width > 0 {
            for (out, &ticker) in indicators.chunks_exact_mut(width).zip(world.tickers) {
                world.rows.row(ticker, from).copy_indicators(out);
            }
        }
    }
}
