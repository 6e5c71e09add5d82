//! The state of all portfolios, one buffer per field, and what one step does to one of them.

use std::ops::Range;

use backcast_core::{copy_numbers, wide};
use backcast_market::PriceColumn;

use crate::{
    account::{Account, Market, Tally},
    lines::LINE,
    metrics::Sums,
    observation::{Observation, Shape, zeros},
    orders::Orders,
    prices::{OwnPrices, Prices, Worth},
    record::{Fill, Record},
    rules::{StopLossDay, StopLossPrice},
    stream::Stream,
    world::{CLOSE, WorldView},
};

const OPEN: usize = PriceColumn::Open as usize;

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

/// Buffers of `N` portfolios. The observation is the state: day and cash live there. Shares and averages live in
/// lines of their own, and are copied there when a step is done.
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
    /// Numbers of a portfolio's tickers, in lines: `W`.
    width: usize,
    /// `[N, W]`.
    shares: Vec<i32>,
    /// `[N, W]`.
    averages: Vec<f64>,
    own: OwnPrices,
    /// Is there a table that has the same? Its closes are older than the episode, but every ticker had one when
    /// that began. `[N]`
    as_in_table: Vec<bool>,
    orders: Orders,
    /// What one portfolio held before its orders, kept between days for its memory.
    held: Vec<i32>,
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
        let width = shape.tickers.checked_next_multiple_of(LINE)?;
        let all = n.checked_mul(width)?;
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
            width,
            shares: zeros(all)?,
            averages: zeros(all)?,
            own: OwnPrices::new(all)?,
            as_in_table: zeros(n)?,
            orders: Orders::with_capacity(width),
            held: Vec::new(),
            lean: false,
        })
    }

    /// Begin an episode: cash, and nothing held but what the settings give.
    pub(crate) fn begin(&mut self, world: &WorldView<'_>, turn: &mut Turn<'_>, day: usize) {
        let (env, tickers) = (turn.env, turn.tickers);
        let mine = self.lines_of(env);
        self.obs.cash[env] = world.rules.initial_amount;
        self.shares[mine.clone()].fill(0);
        self.averages[mine.clone()].fill(0.0);
        self.own.closes[mine.clone()].fill(0.0);
        self.tallies[env] = Tally::default();
        self.phase[env] = Phase::Running;
        let listed =
            |prices: Prices<'_>| prices.open[..tickers.len()].iter().all(|&open| open > 0.0);
        self.as_in_table[env] = world.table.is_some_and(|table| listed(table.prices(day)));
        if !world.rules.initial_shares.is_empty() {
            for (at, &ticker) in mine.clone().zip(tickers) {
                self.shares[at] = world.rules.initial_shares[ticker];
                // What is held is worth its last close, though that is older than the episode.
                if self.shares[at] > 0 {
                    let close = |day| world.rows.row(ticker, day).value(CLOSE);
                    let before = (0..day).rev().map(close).find(|&close| close > 0.0);
                    let close = before.unwrap_or_default();
                    if world.rules.departures.gone_by(ticker, day) {
                        // Settled before the episode began.
                        self.obs.cash[env] += close * f64::from(self.shares[at]);
                        self.shares[at] = 0;
                    } else {
                        self.own.closes[at] = close;
                    }
                }
            }
        }
        self.wake(world, turn, day);
        if !world.rules.initial_shares.is_empty() {
            let Prices { mornings, .. } =
                self.own.or_table(world, self.as_in_table[env], mine.clone(), day);
            for (at, &morning) in mine.zip(&mornings[..tickers.len()]) {
                self.averages[at] = if self.shares[at] > 0 { morning } else { 0.0 };
            }
        }
        self.show(turn);
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

    /// Ask for the memory that the step of a portfolio will read.
    pub(crate) fn ask(&self, world: &WorldView<'_>, env: usize) {
        if let (Some(table), Some(&day)) = (world.table, self.obs.day.get(env)) {
            table.ask(usize::try_from(day).unwrap_or_default(), world.indicator_lag);
        }
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
        let mine = self.lines_of(env);
        // Days were checked to fit when the episode began and end before the panel does.
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        self.tallies[env] = Tally::default();
        let open = self.own.or_table(world, self.as_in_table[env], mine.clone(), day).open;
        self.orders.collect(actions, rules.hmax, open, &self.shares[mine]);
        if rules.tradable.is_some() {
            self.orders.retain(rules.hmax, |ticker| rules.tradable(turn.tickers[ticker], day));
        }
        let stop = rules.stop_loss_tolerance > 0.0;
        let same_day = stop && rules.stop_loss_day == StopLossDay::Same;
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        if same_day && rules.stop_loss_price == StopLossPrice::Low {
            // The low of the day may lie before a purchase at its close.
            let mine = self.lines_of(env);
            held.extend_from_slice(&self.shares[mine]);
        }
        let settles = rules.departures.any_on(day);
        self.trade(world, turn, day, |orders, account, open| {
            orders.fill(account);
            if same_day {
                account.stop_losses(open, &held);
            }
            if settles {
                account.settle_departures();
            }
        });
        self.held = held;

        let day = day + 1;
        self.wake(world, turn, day);
        if stop && rules.stop_loss_day == StopLossDay::Next {
            self.trade(world, turn, day, |_, account, open| account.stop_losses(open, &[]));
        }
        self.show(turn);
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
        let mine = self.lines_of(env);
        let counted = self.sums[env].length < world.rules.countable_steps;
        let Prices { open, closes, sound, .. } =
            self.own.or_table(world, self.as_in_table[env], mine.clone(), day);
        let mut account = Account {
            env,
            cash: &mut self.obs.cash[env],
            shares: &mut self.shares[mine.clone()],
            avg_buy_price: &mut self.averages[mine],
            sums: &mut self.sums[env],
            tally: &mut self.tallies[env],
            stream: turn.stream,
            fills: (!self.records.is_empty()).then_some(&mut self.fills),
            today: Market {
                rows: world.rows,
                day,
                tickers: turn.tickers,
                closes,
                sound: sound && counted,
                rules: world.rules,
            },
        };
        deal(&mut self.orders, &mut account, &open[..turn.tickers.len()]);
    }

    fn lines_of(&self, env: usize) -> Range<usize> {
        env * self.width..(env + 1) * self.width
    }

    /// Copy shares and averages to the observation.
    fn show(&mut self, turn: &Turn<'_>) {
        let (tickers, from) = (turn.tickers.len(), turn.env * self.width);
        let mine = turn.env * tickers..(turn.env + 1) * tickers;
        self.obs.shares[mine.clone()].copy_from_slice(&self.shares[from..from + tickers]);
        self.obs.avg_buy_price[mine].copy_from_slice(&self.averages[from..from + tickers]);
    }

    /// Show the morning of `day`, and note its close for the reward and the next fill.
    fn wake(&mut self, world: &WorldView<'_>, turn: &Turn<'_>, day: usize) {
        let (env, tickers) = (turn.env, turn.tickers);
        let shown = env * tickers.len()..(env + 1) * tickers.len();
        let mine = self.lines_of(env);
        // Panels hold at most i32::MAX days, and no episode starts before day `indicator_lag`.
        self.obs.day[env] = i32::try_from(day).unwrap_or(i32::MAX);
        let (macros, from) = (world.macros, day - world.indicator_lag);
        if let Some(table) = world.table {
            let today = table.prices(day);
            self.obs.open[shown].copy_from_slice(&today.open[..tickers.len()]);
            if !self.as_in_table[env] {
                self.own.note(today, mine);
            }
            if !macros.is_empty() {
                copy_env(&mut self.obs.macro_open, table.shown(day).macro_open, env);
            }
            if !self.lean {
                let before = table.shown(from);
                copy_env(&mut self.obs.indicators, before.indicators, env);
                copy_env(&mut self.obs.macro_indicators, before.macro_indicators, env);
            }
            return;
        }
        let OwnPrices { opens, closes, .. } = &mut self.own;
        let prices = opens[mine.clone()].iter_mut().zip(&mut closes[mine.clone()]);
        for ((open, close), &ticker) in prices.zip(tickers) {
            let row = world.rows.row(ticker, day);
            *open = row.value(OPEN);
            // Otherwise `close` still holds the last one known: what a ticker without a row is worth.
            if *open > 0.0 {
                *close = row.value(CLOSE);
            }
        }
        self.obs.open[shown].copy_from_slice(&self.own.opens[mine.start..][..tickers.len()]);
        self.own.note_mornings(mine);
        world.copy_indicators(tickers, from, &mut self.obs.indicators, env);
        if !macros.is_empty() {
            let opens = &mut self.obs.macro_open[env * macros.len()..(env + 1) * macros.len()];
            for (open, &ticker) in opens.iter_mut().zip(macros) {
                *open = world.rows.row(ticker, day).value(OPEN);
            }
            world.copy_indicators(macros, from, &mut self.obs.macro_indicators, env);
        }
        // Tickers lie far apart. By the time of the next step their rows of the next day have come.
        for &ticker in tickers.iter().chain(macros) {
            world.rows.ask(ticker, day + 1);
        }
    }

    /// Value a portfolio in the morning and in the evening of its day.
    fn value(&mut self, world: &WorldView<'_>, turn: &Turn<'_>) {
        let env = turn.env;
        let mine = self.lines_of(env);
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        let Prices { closes, mornings: prices, .. } =
            self.own.or_table(world, self.as_in_table[env], mine.clone(), day);
        let of = (&self.shares[mine][..], prices, closes);
        let (morning, evening) = wide(Worth, of, (&mut [], &mut []), ());
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

/// Write one environment's part of a field.
fn copy_env(field: &mut [f64], from: &[f64], env: usize) {
    copy_numbers(from, &mut field[env * from.len()..(env + 1) * from.len()]);
}
