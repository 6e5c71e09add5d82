//! The state of all portfolios, one buffer per field, and what one step does to one of them.

use backcast_market::PriceColumn;

use crate::{
    account::{Account, Market, Tally},
    metrics::Sums,
    observation::{Observation, Shape, zeros},
    orders::Orders,
    record::{Fill, Record},
    rules::StopLossDay,
    stream::Stream,
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
    /// What the last step did, `[N]`.
    pub(crate) tallies: Vec<Tally>,
    /// Of the running episodes, `[N]`.
    pub(crate) sums: Vec<Sums>,
    /// Orders executed in the last step of all, in order; empty unless they are recorded.
    pub(crate) fills: Vec<Fill>,
    /// `[N]`, or empty.
    pub(crate) records: Vec<Record>,
    /// The last close known of each ticker, `[N, T]`: the fill price, and the value in a gap.
    closes: Vec<f64>,
    /// Of the portfolio valued last, what it has of each ticker at the open and at the close, `[T]`.
    mornings: Vec<f64>,
    evenings: Vec<f64>,
    orders: Orders,
    /// Leave the indicators out of `obs`; they are in the table.
    pub(crate) lean: bool,
}

/// One sub-environment in a call: which, its tickers, and its random numbers.
pub(crate) struct Turn<'a> {
    pub(crate) env: usize,
    pub(crate) tickers: &'a [usize],
    pub(crate) stream: &'a mut Stream,
}

impl Batch {
    /// `None` where memory does not suffice.
    pub(crate) fn new(n: usize, shape: Shape, record: bool) -> Option<Self> {
        Some(Self {
            obs: Observation::zeros(n, shape)?,
            rewards: zeros(n)?,
            terminated: zeros(n)?,
            truncated: zeros(n)?,
            value_at_close: zeros(n)?,
            phase: zeros(n)?,
            tallies: zeros(n)?,
            sums: zeros(n)?,
            fills: Vec::new(),
            records: zeros(if record { n } else { 0 })?,
            closes: zeros(n.checked_mul(shape.tickers)?)?,
            mornings: zeros(shape.tickers)?,
            evenings: zeros(shape.tickers)?,
            orders: Orders::with_capacity(shape.tickers),
            lean: false,
        })
    }

    /// Begin an episode: cash, and nothing held but what the settings give.
    pub(crate) fn begin(&mut self, world: &WorldView<'_>, turn: &mut Turn<'_>, day: usize) {
        let (env, tickers) = (turn.env, turn.tickers);
        let mine = env * tickers.len()..(env + 1) * tickers.len();
        self.obs.cash[env] = world.rules.initial_amount;
        self.obs.shares[mine.clone()].fill(0);
        self.obs.avg_buy_price[mine.clone()].fill(0.0);
        self.closes[mine.clone()].fill(0.0);
        self.tallies[env] = Tally::default();
        self.phase[env] = Phase::Running;
        self.wake(world, turn, day);
        if !world.rules.initial_shares.is_empty() {
            for (at, &ticker) in mine.zip(tickers) {
                self.obs.shares[at] = world.rules.initial_shares[ticker];
                let held = self.obs.shares[at] > 0;
                self.obs.avg_buy_price[at] = if held { self.obs.open[at] } else { 0.0 };
            }
        }
        self.value(world, turn);
        self.sums[env] = Sums::begin(self.value_at_close[env]);
        if let Some(record) = self.records.get_mut(env) {
            std::mem::swap(&mut record.running, &mut record.before);
            record.running.begin(tickers);
        }
        self.log(turn);
    }

    /// Reward and flags of a sub-environment that was reset.
    pub(crate) fn clear_outcome(&mut self, env: usize) {
        self.rewards[env] = 0.0;
        self.terminated[env] = false;
        self.truncated[env] = false;
    }

    /// One day of one running portfolio: trade today, sleep, wake up at tomorrow's open.
    pub(crate) fn step<A: Copy + Into<f64>>(
        &mut self,
        world: &WorldView<'_>,
        turn: &mut Turn<'_>,
        actions: &[A],
    ) {
        let (env, rules) = (turn.env, world.rules);
        let first_fill = self.fills.len();
        let mine = env * turn.tickers.len()..(env + 1) * turn.tickers.len();
        // Days were checked to fit when the episode began and end before the panel does.
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        self.tallies[env] = Tally::default();
        let (open, shares) = (&self.obs.open[mine.clone()], &self.obs.shares[mine]);
        self.orders.collect(actions, rules.hmax, open, shares);
        if rules.tradable.is_some() {
            self.orders.retain(rules.hmax, |ticker| rules.tradable(turn.tickers[ticker], day));
        }
        let stop = rules.stop_loss_tolerance > 0.0;
        self.trade(world, turn, day, |orders, account, open| {
            orders.fill(account);
            if stop && rules.stop_loss_day == StopLossDay::Same {
                account.stop_losses(open);
            }
        });

        let day = day + 1;
        self.wake(world, turn, day);
        if stop && rules.stop_loss_day == StopLossDay::Next {
            self.trade(world, turn, day, |_, account, open| account.stop_losses(open));
        }
        let begin = self.value_at_close[env];
        self.value(world, turn);
        let end = self.value_at_close[env];
        self.sums[env].arrive(end);
        self.rewards[env] = if begin > 0.0 && end > 0.0 { (end / begin).ln() } else { 0.0 };
        self.terminated[env] = end <= rules.failure_threshold;
        let enough = self.sums[env].length >= rules.max_episode_steps;
        self.truncated[env] = day >= world.last_day || enough;
        if self.terminated[env] || self.truncated[env] {
            self.phase[env] = Phase::Ended;
        }
        self.log(turn);
        if let Some(record) = self.records.get_mut(env) {
            record.running.note(&self.fills[first_fill..]);
        }
    }

    /// Let `deal` trade on `day`, at its prices.
    fn trade(
        &mut self,
        world: &WorldView<'_>,
        turn: &mut Turn<'_>,
        day: usize,
        deal: impl FnOnce(&mut Orders, &mut Account<'_>, &[f64]),
    ) {
        let env = turn.env;
        let mine = env * turn.tickers.len()..(env + 1) * turn.tickers.len();
        let mut account = Account {
            env,
            cash: &mut self.obs.cash[env],
            shares: &mut self.obs.shares[mine.clone()],
            avg_buy_price: &mut self.obs.avg_buy_price[mine.clone()],
            sums: &mut self.sums[env],
            tally: &mut self.tallies[env],
            stream: turn.stream,
            fills: (!self.records.is_empty()).then_some(&mut self.fills),
            today: Market {
                rows: world.rows,
                day,
                tickers: turn.tickers,
                closes: &self.closes[mine.clone()],
                rules: world.rules,
            },
        };
        deal(&mut self.orders, &mut account, &self.obs.open[mine]);
    }

    /// Show the morning of `day`, and note its close for the reward and the next fill.
    fn wake(&mut self, world: &WorldView<'_>, turn: &Turn<'_>, day: usize) {
        let (env, tickers) = (turn.env, turn.tickers);
        let mine = env * tickers.len()..(env + 1) * tickers.len();
        let opens = &mut self.obs.open[mine.clone()];
        let closes = &mut self.closes[mine];
        // Panels hold at most i32::MAX days, and no episode starts before day `indicator_lag`.
        self.obs.day[env] = i32::try_from(day).unwrap_or(i32::MAX);
        let (macros, from) = (world.macros, day - world.indicator_lag);
        if let Some(table) = world.table {
            let (today, before) = (table.day(day), table.day(from));
            opens.copy_from_slice(today.open);
            note_closes(closes, today.close, today.open);
            copy_env(&mut self.obs.macro_open, today.macro_open, env);
            if !self.lean {
                copy_env(&mut self.obs.indicators, before.indicators, env);
                copy_env(&mut self.obs.macro_indicators, before.macro_indicators, env);
            }
            return;
        }
        for ((open, close), &ticker) in opens.iter_mut().zip(closes).zip(tickers) {
            let row = world.rows.row(ticker, day);
            *open = row.value(OPEN);
            // Otherwise `close` still holds the last one known: what a ticker without a row is worth.
            if *open > 0.0 {
                *close = row.value(CLOSE);
            }
        }
        world.copy_indicators(tickers, from, &mut self.obs.indicators, env);
        if !macros.is_empty() {
            let opens = &mut self.obs.macro_open[env * macros.len()..(env + 1) * macros.len()];
            for (open, &ticker) in opens.iter_mut().zip(macros) {
                *open = world.rows.row(ticker, day).value(OPEN);
            }
            world.copy_indicators(macros, from, &mut self.obs.macro_indicators, env);
        }
    }

    /// Value a portfolio in the morning and in the evening of its day.
    fn value(&mut self, world: &WorldView<'_>, turn: &Turn<'_>) {
        let env = turn.env;
        let mine = env * turn.tickers.len()..(env + 1) * turn.tickers.len();
        let (open, closes) = (&self.obs.open[mine.clone()], &self.closes[mine.clone()]);
        let (mornings, evenings) = (&mut self.mornings, &mut self.evenings);
        worth(open, closes, &self.obs.shares[mine], mornings, evenings);
        let (mut morning, mut evening) = (0.0, 0.0);
        for (of_morning, of_evening) in mornings.iter().zip(evenings.iter()) {
            morning += of_morning;
            evening += of_evening;
        }
        let cash = self.obs.cash[env];
        self.value_at_close[env] = cash + evening;
        self.obs.total_asset[env] =
            cash + if world.rules.valued_at_close { evening } else { morning };
    }

    fn log(&mut self, turn: &Turn<'_>) {
        let (env, tickers) = (turn.env, turn.tickers.len());
        if let Some(record) = self.records.get_mut(env) {
            let shares = &self.obs.shares[env * tickers..(env + 1) * tickers];
            let (day, cash) = (self.obs.day[env], self.obs.cash[env]);
            record.running.arrive(day, cash, shares, self.value_at_close[env]);
        }
    }
}

/// What is held of each ticker, valued at the open (without one at the close) and at the close.
#[inline(never)]
fn worth(open: &[f64], closes: &[f64], shares: &[i32], mornings: &mut [f64], evenings: &mut [f64]) {
    let prices = open.iter().zip(closes).zip(shares);
    let values = mornings.iter_mut().zip(evenings);
    for (((&open, &close), &held), (morning, evening)) in prices.zip(values) {
        let held = f64::from(held);
        *morning = held * if open > 0.0 { open } else { close };
        *evening = held * close;
    }
}

/// Note the new closes of tickers that have a row; those of the others stay.
#[inline(never)]
fn note_closes(closes: &mut [f64], new: &[f64], open: &[f64]) {
    for ((close, &new), &open) in closes.iter_mut().zip(new).zip(open) {
        *close = if open > 0.0 { new } else { *close };
    }
}

/// Write one environment's part of a field.
fn copy_env(field: &mut [f64], from: &[f64], env: usize) {
    field[env * from.len()..(env + 1) * from.len()].copy_from_slice(from);
}
