//! State of all portfolios, one buffer per field, and the step of one of them.

use std::ops::Range;

use backcast_core::plumbing::{copy_slice, run_simd};

use super::{
    account::{MarketDay, PortfolioAccount, StepTotals},
    choices::{StopLossDay, StopLossPrice},
    lines::LINE,
    observation::{Observation, ObservationShape},
    options::PortfolioOptions,
    orders::Orders,
    own_prices::OwnPrices,
    prices::{Prices, ValueHoldings},
    record::{EpisodeRecord, MOST_FILLS, PortfolioFill},
    rewards::{RewardState, StepFields},
    setup::{CLOSE, OPEN, SetupView},
    units::UnitBooks,
};
use crate::contract::{EnvStream, EpisodeSums, StepOutcome, zeros};

/// Buffers of `N` portfolios.
///
/// Day and cash are stored in the observation only. Shares and average prices are padded to lines
/// and copied into the observation at the end of a step.
#[derive(Clone, Debug)]
pub(crate) struct Portfolios {
    pub(crate) obs: Observation,
    /// Value at the close of the current day, `[N]`: the base of the next reward.
    pub(crate) value_at_close: Vec<f64>,
    /// Totals of the last step, `[N]`.
    pub(crate) totals: Vec<StepTotals>,
    /// Sums of the running episodes, `[N]`.
    pub(crate) sums: Vec<EpisodeSums>,
    /// Orders, stop losses and settlements of the last step, in sequence; empty unless recorded.
    pub(crate) fills: Vec<PortfolioFill>,
    /// Records of episodes, `[N]`; empty unless recorded.
    pub(crate) records: Vec<EpisodeRecord>,
    /// Number of tickers of a portfolio, padded to lines: `W`.
    width: usize,
    /// Shares held, `[N, W]`.
    shares: Vec<i32>,
    /// Average buy prices, `[N, W]`.
    pub(super) averages: Vec<f64>,
    pub(super) own: OwnPrices,
    /// Whether the table serves this episode, `[N]`. It does if every ticker had a row when the
    /// episode began: then no close in the table is older than the episode.
    pub(super) uses_table: Vec<bool>,
    orders: Orders,
    /// Shares of one portfolio before its orders; the buffer is reused.
    held: Vec<i32>,
    /// Units, for settings that whole long shares cannot express.
    pub(crate) books: Option<Box<UnitBooks>>,
    /// States of the rewards, `[N]`.
    reward_states: Vec<RewardState>,
    /// Fields of the last step, for rewards of callers.
    pub(crate) steps: StepFields,
    /// Whether `obs` leaves the indicators out, since they are in the table.
    pub(crate) omits_indicators: bool,
}

/// State of a portfolio before a step.
pub(super) struct StepStart {
    first_fill: usize,
    value: f64,
    costs: f64,
    traded: f64,
}

/// One sub-environment during a call: its number, tickers and random stream.
pub(crate) struct SubEnv<'a> {
    pub(crate) env: usize,
    pub(crate) tickers: &'a [usize],
    pub(crate) stream: EnvStream<'a>,
}

impl Portfolios {
    /// Returns `n` empty portfolios, or `None` where memory does not suffice.
    pub(crate) fn new(
        n: usize,
        shape: ObservationShape,
        options: &PortfolioOptions,
    ) -> Option<Self> {
        let record = options.record;
        let books = if options.is_plain() {
            None
        } else {
            Some(Box::new(UnitBooks::new(n, shape.tickers, shape.fractional)?))
        };
        let width = shape.tickers.checked_next_multiple_of(LINE)?;
        let all = n.checked_mul(width)?;
        Some(Self {
            obs: Observation::zeros(n, shape)?,
            value_at_close: zeros(n)?,
            totals: zeros(n)?,
            sums: zeros(n)?,
            fills: Vec::new(),
            records: zeros(if record { n } else { 0 })?,
            width,
            shares: zeros(all)?,
            averages: zeros(all)?,
            own: OwnPrices::new(all)?,
            uses_table: zeros(n)?,
            orders: Orders::with_capacity(width),
            held: Vec::new(),
            books,
            reward_states: zeros(n)?,
            steps: StepFields::new(n)?,
            omits_indicators: false,
        })
    }

    /// Allocates memory for the records of one day; `false` if there is not enough.
    pub(crate) fn reserve_records(&mut self, tickers: usize) -> bool {
        if self.records.is_empty() {
            return true;
        }
        let most = (self.records.len() * tickers).checked_mul(MOST_FILLS);
        most.is_some_and(|most| {
            self.fills.try_reserve(most.saturating_sub(self.fills.len())).is_ok()
        }) && self.records.iter_mut().all(|record| record.reserve(tickers))
    }

    /// Begins an episode with the initial cash and shares.
    pub(crate) fn begin(&mut self, setup: &SetupView<'_>, sub: &mut SubEnv<'_>, day: usize) {
        let (env, tickers) = (sub.env, sub.tickers);
        let mine = self.lines_of(env);
        self.obs.cash[env] = setup.rules.initial_amount;
        self.shares[mine.clone()].fill(0);
        self.averages[mine.clone()].fill(0.0);
        self.own.closes[mine.clone()].fill(0.0);
        self.totals[env] = StepTotals::default();
        let listed =
            |prices: Prices<'_>| prices.open[..tickers.len()].iter().all(|&open| open > 0.0);
        self.uses_table[env] = setup.table.is_some_and(|table| listed(table.prices(day)));
        if !setup.rules.initial_shares.is_empty() {
            for (at, &ticker) in mine.clone().zip(tickers) {
                self.shares[at] = setup.rules.initial_shares[ticker];
                // A holding is valued at its last close, even if that is older than the episode.
                if self.shares[at] > 0 {
                    let close = |day| setup.rows.row(ticker, day).value(CLOSE);
                    let before = (0..day).rev().map(close).find(|&close| close > 0.0);
                    let close = before.unwrap_or_default();
                    if setup.rules.departures.gone_by(ticker, day) {
                        // The ticker left before the episode began, so the shares are cash.
                        self.obs.cash[env] += close * f64::from(self.shares[at]);
                        self.shares[at] = 0;
                    } else {
                        self.own.closes[at] = close;
                    }
                }
            }
        }
        self.arrive(setup, sub, day);
        if !setup.rules.initial_shares.is_empty() {
            let Prices { at_open, .. } =
                self.own.or_table(setup.table, self.uses_table[env], mine.clone(), day);
            for (at, &value) in mine.zip(&at_open[..tickers.len()]) {
                self.averages[at] = if self.shares[at] > 0 { value } else { 0.0 };
            }
        }
        let mut books = self.books.take();
        if let Some(books) = &mut books {
            let mine = self.lines_of(env);
            books.begin(env, &self.shares[mine]);
            books.show(env, tickers.len(), &mut self.obs);
            self.show_averages(sub);
        } else {
            self.show(sub);
        }
        self.value(setup, sub, books.as_deref());
        self.sums[env] = EpisodeSums::begin(self.value_at_close[env], setup.bars_per_year);
        let benchmark = setup.benchmark.map_or(0.0, |ticker| setup.last_close(ticker, day));
        self.reward_states[env] = RewardState::begin(benchmark);
        if let Some(record) = self.records.get_mut(env) {
            std::mem::swap(&mut record.running, &mut record.before);
            record.running.begin(tickers);
        }
        match &books {
            Some(books) => self.log(env, books.units(env)[..tickers.len()].iter().copied()),
            None => self.log_shares(sub),
        }
        self.books = books;
    }

    /// Prefetches the entries of the table that the step of a portfolio reads.
    pub(crate) fn prefetch(&self, setup: &SetupView<'_>, env: usize) {
        if let (Some(table), Some(&day)) = (setup.table, self.obs.day.get(env)) {
            table.prefetch(usize::try_from(day).unwrap_or_default(), setup.indicator_lag);
        }
    }

    /// Steps one portfolio by one day: trades today and arrives at the open of the next day.
    pub(crate) fn step<A: Copy + Into<f64>>(
        &mut self,
        setup: &SetupView<'_>,
        sub: &mut SubEnv<'_>,
        actions: &[A],
    ) -> StepOutcome {
        if let Some(mut books) = self.books.take() {
            let outcome = self.step_units(&mut books, setup, sub, actions);
            self.books = Some(books);
            return outcome;
        }
        let (env, rules) = (sub.env, setup.rules);
        let start = self.start_step(env);
        let mine = self.lines_of(env);
        // Days of a running episode are not negative and lie within the panel.
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        self.totals[env] = StepTotals::default();
        let open = self.own.or_table(setup.table, self.uses_table[env], mine.clone(), day).open;
        self.orders.collect(actions, rules.hmax, open, &self.shares[mine]);
        if rules.tradable.is_some() {
            self.orders.retain(rules.hmax, |ticker| rules.tradable(sub.tickers[ticker], day));
        }
        let stop = rules.stop_loss_tolerance > 0.0;
        let same_day = stop && rules.stop_loss_day != StopLossDay::Next;
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        let spares_purchases = rules.stop_loss_day == StopLossDay::Same;
        if same_day && spares_purchases && rules.stop_loss_price == StopLossPrice::Low {
            // The low of the day may be older than a purchase at its close.
            let mine = self.lines_of(env);
            held.extend_from_slice(&self.shares[mine]);
        }
        let settles = rules.departures.any_on(day);
        self.trade(setup, sub, day, |orders, account, open| {
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
        self.arrive(setup, sub, day);
        if stop && rules.stop_loss_day == StopLossDay::Next {
            self.trade(setup, sub, day, |_, account, open| account.stop_losses(open, &[]));
        }
        self.show(sub);
        self.value(setup, sub, None);
        self.finish_step(setup, sub, &start, None)
    }

    /// Returns the state before a step.
    #[inline]
    pub(super) fn start_step(&self, env: usize) -> StepStart {
        let EpisodeSums { costs, traded, .. } = self.sums[env];
        StepStart { first_fill: self.fills.len(), value: self.value_at_close[env], costs, traded }
    }

    /// Ends a step whose portfolio has arrived at the next day, and returns its outcome. `units`
    /// are those that a record keeps; without any, it keeps the shares of the observation.
    #[inline]
    pub(super) fn finish_step(
        &mut self,
        setup: &SetupView<'_>,
        sub: &SubEnv<'_>,
        start: &StepStart,
        units: Option<&[f64]>,
    ) -> StepOutcome {
        let (env, rules) = (sub.env, setup.rules);
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        let (begin, end) = (start.value, self.value_at_close[env]);
        let drawdown = self.sums[env].drawdown();
        self.sums[env].arrive(end);
        let sums = &self.sums[env];
        let at_limit = sums.length >= rules.max_episode_steps;
        let benchmark = setup.benchmark.map_or((0.0, 0.0), |ticker| {
            let row = setup.rows.row(ticker, day);
            (row.value(CLOSE), rules.terms.worth_of_old_unit(row))
        });
        let reward =
            self.reward_states[env].reward(setup.reward, (begin, end), drawdown, sums, benchmark);
        self.steps.value_before[env] = begin;
        self.steps.value[env] = end;
        self.steps.costs[env] = sums.costs - start.costs;
        self.steps.traded[env] = sums.traded - start.traded;
        self.steps.first[env] = sums.length == 1;
        self.steps.acted[env] = true;
        match units {
            Some(units) => self.log(env, units.iter().copied()),
            None => self.log_shares(sub),
        }
        if let Some(record) = self.records.get_mut(env) {
            record.running.enter_fills(&self.fills[start.first_fill..]);
        }
        StepOutcome {
            reward,
            terminated: end <= rules.failure_threshold,
            truncated: day >= setup.last_day || at_limit,
        }
    }

    /// Clears what the last step left of a portfolio that is reset instead of stepped.
    pub(crate) fn clear_step(&mut self, env: usize) {
        self.steps.acted[env] = false;
        if let Some(books) = &mut self.books {
            books.details.clear(env);
        }
    }

    /// Calls `deal` with the account of a portfolio at the prices of `day`.
    fn trade(
        &mut self,
        setup: &SetupView<'_>,
        sub: &mut SubEnv<'_>,
        day: usize,
        deal: impl FnOnce(&mut Orders, &mut PortfolioAccount<'_>, &[f64]),
    ) {
        let env = sub.env;
        let mine = self.lines_of(env);
        let counted = self.sums[env].length < setup.rules.countable_steps;
        let Prices { open, closes, sound, .. } =
            self.own.or_table(setup.table, self.uses_table[env], mine.clone(), day);
        let mut account = PortfolioAccount {
            env,
            cash: &mut self.obs.cash[env],
            shares: &mut self.shares[mine.clone()],
            avg_buy_price: &mut self.averages[mine],
            sums: &mut self.sums[env],
            totals: &mut self.totals[env],
            stream: sub.stream.reborrow(),
            fills: (!self.records.is_empty()).then_some(&mut self.fills),
            today: MarketDay {
                rows: setup.rows,
                day,
                tickers: sub.tickers,
                closes,
                sound: sound && counted,
                rules: setup.rules,
            },
        };
        deal(&mut self.orders, &mut account, &open[..sub.tickers.len()]);
    }

    /// Returns the range of a portfolio in the padded buffers.
    fn lines_of(&self, env: usize) -> Range<usize> {
        env * self.width..(env + 1) * self.width
    }

    /// Copies average prices to the observation.
    pub(super) fn show_averages(&mut self, sub: &SubEnv<'_>) {
        let (tickers, from) = (sub.tickers.len(), sub.env * self.width);
        let mine = sub.env * tickers..(sub.env + 1) * tickers;
        self.obs.avg_buy_price[mine].copy_from_slice(&self.averages[from..from + tickers]);
    }

    /// Copies shares and average prices to the observation.
    fn show(&mut self, sub: &SubEnv<'_>) {
        let (tickers, from) = (sub.tickers.len(), sub.env * self.width);
        let mine = sub.env * tickers..(sub.env + 1) * tickers;
        self.obs.shares[mine.clone()].copy_from_slice(&self.shares[from..from + tickers]);
        self.obs.avg_buy_price[mine].copy_from_slice(&self.averages[from..from + tickers]);
    }

    /// Shows the open and the indicators of `day`, and keeps its close for the reward and the next
    /// fill.
    pub(super) fn arrive(&mut self, setup: &SetupView<'_>, sub: &SubEnv<'_>, day: usize) {
        let (env, tickers) = (sub.env, sub.tickers);
        let shown = env * tickers.len()..(env + 1) * tickers.len();
        let mine = self.lines_of(env);
        // A panel has at most i32::MAX days, and no episode starts before day `indicator_lag`.
        self.obs.day[env] = i32::try_from(day).unwrap_or(i32::MAX);
        let (macros, from) = (setup.macros, day - setup.indicator_lag);
        if let Some(table) = setup.table {
            let today = table.prices(day);
            self.obs.open[shown].copy_from_slice(&today.open[..tickers.len()]);
            if !self.uses_table[env] {
                self.own.enter(today, mine);
            }
            if !macros.is_empty() {
                copy_env(&mut self.obs.macro_open, table.shown(day).macro_open, env);
            }
            if !self.omits_indicators {
                let before = table.shown(from);
                copy_env(&mut self.obs.indicators, before.indicators, env);
                copy_env(&mut self.obs.macro_indicators, before.macro_indicators, env);
            }
            return;
        }
        let OwnPrices { opens, closes, .. } = &mut self.own;
        let prices = opens[mine.clone()].iter_mut().zip(&mut closes[mine.clone()]);
        for ((open, close), &ticker) in prices.zip(tickers) {
            let row = setup.rows.row(ticker, day);
            *open = row.value(OPEN);
            // Without a row, the last known close stays as the value of the ticker.
            if *open > 0.0 {
                *close = row.value(CLOSE);
            }
        }
        self.obs.open[shown].copy_from_slice(&self.own.opens[mine.start..][..tickers.len()]);
        self.own.update_values(mine);
        setup.copy_indicators(tickers, from, &mut self.obs.indicators, env);
        if !macros.is_empty() {
            let opens = &mut self.obs.macro_open[env * macros.len()..(env + 1) * macros.len()];
            for (open, &ticker) in opens.iter_mut().zip(macros) {
                *open = setup.rows.row(ticker, day).value(OPEN);
            }
            setup.copy_indicators(macros, from, &mut self.obs.macro_indicators, env);
        }
        // Tickers are far apart in the panel: prefetch the rows of the next step.
        for &ticker in tickers.iter().chain(macros) {
            setup.rows.prefetch(ticker, day + 1);
        }
    }

    /// Values a portfolio at the open and at the close of its day.
    pub(super) fn value(
        &mut self,
        setup: &SetupView<'_>,
        sub: &SubEnv<'_>,
        books: Option<&UnitBooks>,
    ) {
        let env = sub.env;
        let mine = self.lines_of(env);
        let day = usize::try_from(self.obs.day[env]).unwrap_or_default();
        let Prices { closes, at_open, .. } =
            self.own.or_table(setup.table, self.uses_table[env], mine.clone(), day);
        let (at_open, at_close) = match books {
            None => {
                let holdings = (&self.shares[mine][..], at_open, closes);
                run_simd(ValueHoldings, holdings, (&mut [], &mut []), ())
            }
            Some(books) => {
                let holdings = (books.units(env), at_open, closes);
                run_simd(ValueHoldings, holdings, (&mut [], &mut []), ())
            }
        };
        let cash = self.obs.cash[env];
        self.value_at_close[env] = cash + at_close;
        self.obs.total_asset[env] =
            cash + if setup.rules.valued_at_close { at_close } else { at_open };
    }

    /// Appends the day to the record of the episode.
    fn log(&mut self, env: usize, units: impl Iterator<Item = f64>) {
        if let Some(record) = self.records.get_mut(env) {
            let (day, cash) = (self.obs.day[env], self.obs.cash[env]);
            record.running.arrive(day, cash, units, self.value_at_close[env]);
        }
    }

    /// Appends the day with whole shares to the record of the episode.
    fn log_shares(&mut self, sub: &SubEnv<'_>) {
        if let Some(record) = self.records.get_mut(sub.env) {
            let (env, tickers) = (sub.env, sub.tickers.len());
            let shares = self.obs.shares[env * tickers..][..tickers].iter().copied();
            let (day, cash) = (self.obs.day[env], self.obs.cash[env]);
            record.running.arrive(day, cash, shares.map(f64::from), self.value_at_close[env]);
        }
    }
}

/// Writes the part of a field that belongs to one environment.
fn copy_env(field: &mut [f64], from: &[f64], env: usize) {
    copy_slice(from, &mut field[env * from.len()..(env + 1) * from.len()]);
}
