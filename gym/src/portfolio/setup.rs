//! Panel, settings and tables that all portfolios of an environment share.

use std::ops::Range;

use backcast_market::{Panel, PanelRows, PriceColumn};

use super::{
    error::PortfolioError,
    observation::{MOST_BYTES, ObservationShape},
    options::PortfolioOptions,
    rewards::Reward,
    rules::TradingRules,
    selection::{benchmark_of, check_pool, choose_indicators, choose_macros, choose_tickers},
    start_days::StartDays,
    table::{DayTable, HistoryTable, copy_rows},
};
use crate::contract::EnvStream;

/// Position of the open in a row of a panel.
pub(crate) const OPEN: usize = PriceColumn::Open as usize;
/// Position of the close in a row of a panel.
pub(crate) const CLOSE: usize = PriceColumn::Close as usize;

/// State that all sub-environments share and that no step changes.
#[derive(Clone, Debug)]
pub(crate) struct PortfolioSetup {
    pub(crate) panel: Panel,
    pub(crate) options: PortfolioOptions,
    pub(crate) rules: TradingRules,
    /// Positions in the panel of the tickers that portfolios without tickers of their own trade or
    /// draw from, in action order.
    pool: Vec<usize>,
    /// Whether the caller gave a list of tickers for each portfolio. The lists may be empty.
    named_each: bool,
    /// Number of tickers of each portfolio, `T`.
    pub(crate) n_tickers: usize,
    /// Positions in the panel of the macro tickers shown.
    pub(crate) macros: Vec<usize>,
    /// Panel columns of the indicators shown.
    columns: Vec<usize>,
    /// Whether `columns` holds all indicators in the panel's order.
    all_columns: bool,
    pub(crate) indicators: Vec<String>,
    /// First day, and the day after the last one.
    pub(crate) days: (usize, usize),
    start_days: StartDays,
    benchmark: Option<usize>,
    /// Prices by day, if many portfolios share their tickers.
    table: Option<DayTable>,
    /// All columns by day, if many portfolios share their tickers and show histories.
    histories: Option<HistoryTable>,
}

/// Borrowed parts of a [`PortfolioSetup`] that one call needs.
#[derive(Clone, Copy)]
pub(crate) struct SetupView<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) rules: &'a TradingRules,
    pub(crate) macros: &'a [usize],
    columns: &'a [usize],
    all_columns: bool,
    pub(crate) indicator_lag: usize,
    pub(crate) last_day: usize,
    /// Days or bars of a year, for annualised metrics.
    pub(crate) bars_per_year: f64,
    pub(crate) reward: &'a Reward,
    /// Position of the benchmark of the reward.
    pub(crate) benchmark: Option<usize>,
    pub(crate) table: Option<&'a DayTable>,
}

impl SetupView<'_> {
    /// Returns the last known close of a ticker on a day; 0 before its first row.
    pub(crate) fn last_close(&self, ticker: usize, day: usize) -> f64 {
        let close = |day| self.rows.row(ticker, day).value(CLOSE);
        (0..=day).rev().map(close).find(|&close| close > 0.0).unwrap_or_default()
    }

    /// Writes the indicators of `day` to the part of `out` that belongs to environment `env`.
    pub(crate) fn copy_indicators(
        &self,
        tickers: &[usize],
        day: usize,
        out: &mut [f64],
        env: usize,
    ) {
        let width = self.columns.len();
        if width == 0 {
            return;
        }
        let out = &mut out[env * tickers.len() * width..(env + 1) * tickers.len() * width];
        for (out, &ticker) in out.chunks_exact_mut(width).zip(tickers) {
            let row = self.rows.row(ticker, day);
            if self.all_columns {
                row.copy_indicators(out);
            } else {
                for (out, &column) in out.iter_mut().zip(self.columns) {
                    *out = row.value(column);
                }
            }
        }
    }
}

/// Returns whether the volume of a ticker is 0 wherever it has a row.
pub(crate) fn has_no_volume(panel: &Panel, ticker: usize, mut days: Range<usize>) -> bool {
    let rows = panel.rows();
    !days.any(|day| rows.row(ticker, day).value(PriceColumn::Volume as usize) > 0.0)
}

impl PortfolioSetup {
    /// Checks the options against the panel. `each` lists the tickers of single portfolios. It is
    /// empty if the options name them.
    pub(crate) fn new(
        panel: Panel,
        options: PortfolioOptions,
        each: &[Vec<usize>],
    ) -> Result<Self, PortfolioError> {
        options.check()?;
        let mut pool = choose_tickers(&panel, options.tickers.as_deref())?;
        let n_tickers = each.iter().map(Vec::len).find(|&len| len > 0);
        let n_tickers = match (n_tickers, options.num_tickers) {
            (Some(len), _) => len,
            (None, 0) => pool.len(),
            (None, asked) => asked,
        };
        if each.iter().all(Vec::is_empty) && !options.shuffle_tickers {
            pool.truncate(n_tickers);
        }
        if each.is_empty() || each.iter().any(Vec::is_empty) {
            check_pool(&pool, n_tickers)?;
        }
        let (columns, indicators) = choose_indicators(&panel, options.indicators.as_deref())?;
        let all_columns = columns.iter().copied().eq(PriceColumn::ALL.len()..panel.columns().len());
        let macros = choose_macros(&panel, &options.macro_tickers)?;
        let panel_days = panel.days();
        let (start, end) = options.days.unwrap_or((0, panel_days));
        if end > panel_days || end.saturating_sub(start) < 2 {
            return Err(PortfolioError::BadDays { start, end, panel_days });
        }
        panel.check_window("history", options.history)?;
        let mut used: Vec<usize> = each.iter().flatten().chain(&pool).copied().collect();
        used.sort_unstable();
        used.dedup();
        let (lag, history) = (options.indicator_lag, options.history_length.max(options.history));
        let rules = TradingRules::new(&panel, &options)?;
        let benchmark = benchmark_of(&panel, &options.reward)?;
        if let Some(option) = options.needs_volume()
            && used.iter().all(|&ticker| has_no_volume(&panel, ticker, start..end))
        {
            let first = used.first().map_or("", |&ticker| panel.tickers()[ticker].as_str());
            let (tickers, first) = (used.len(), first.to_owned());
            return Err(PortfolioError::NoVolume { option, tickers, first, start, end: end - 1 });
        }
        let held = rules.held_at_start();
        let start_days = StartDays::new(&panel, &used, held, start..end, lag, history);
        let setup = Self {
            panel,
            options,
            rules,
            pool,
            named_each: !each.is_empty(),
            n_tickers,
            macros,
            columns,
            all_columns,
            indicators,
            days: (start, end),
            start_days,
            benchmark,
            table: None,
            histories: None,
        };
        if !setup.options.play_on {
            setup.check_threshold()?;
            setup.check_shares()?;
            for tickers in each.iter().filter(|tickers| !tickers.is_empty()) {
                setup.check_starts(tickers)?;
            }
            if each.is_empty() && !setup.draws_tickers() {
                setup.check_starts(&setup.pool)?;
            }
        }
        Ok(setup)
    }

    /// Returns an upper bound of a portfolio's value at the start of an episode: its cash, and all
    /// initial shares at their highest closes.
    pub(crate) fn most_at_start(&self) -> f64 {
        let rows = self.panel.rows();
        let days = 0..self.panel.days();
        let highest = |ticker: usize| {
            let closes = days.clone().map(|day| rows.row(ticker, day).value(CLOSE));
            closes.fold(0.0, f64::max) * f64::from(self.rules.initial_shares[ticker])
        };
        self.rules.initial_amount + self.rules.held_at_start().map(highest).sum::<f64>()
    }

    fn check_threshold(&self) -> Result<(), PortfolioError> {
        // Without initial shares, `PortfolioOptions::check` has compared the threshold with the
        // cash.
        let threshold = self.rules.failure_threshold;
        if self.rules.initial_shares.is_empty() || threshold < self.most_at_start() {
            return Ok(());
        }
        Err(PortfolioError::BadOption {
            option: "failure_threshold",
            value: threshold,
            rule: "below what `initial_amount` and `initial_shares` are ever worth, or every \
                   episode ends at once",
        })
    }

    /// Refuses initial shares of a ticker that no portfolio trades. Accepts any if the caller gave
    /// a list of tickers for each portfolio.
    pub(crate) fn check_shares(&self) -> Result<(), PortfolioError> {
        let lost = |ticker: &usize| !self.named_each && !self.pool.contains(ticker);
        let lost = self.rules.held_at_start().find(lost);
        lost.map_or(Ok(()), |ticker| {
            Err(PortfolioError::SharesNotTraded { ticker: self.panel.tickers()[ticker].clone() })
        })
    }

    /// Returns the tickers that portfolios without tickers of their own trade, or draw from.
    pub(crate) fn tradable_pool(&self) -> &[usize] {
        &self.pool
    }

    /// Returns whether portfolios without tickers of their own draw them.
    pub(crate) fn draws_tickers(&self) -> bool {
        self.pool.len() > self.n_tickers
    }

    /// Returns the first tickers of the pool: those of a portfolio that does not draw tickers.
    pub(crate) fn first_tickers(&self) -> &[usize] {
        self.pool.get(..self.n_tickers).unwrap_or_default()
    }

    /// Draws the tickers to trade, which keep the order of the pool. With a shift, draws only
    /// tickers that have a start day at least `shift` days after their first.
    ///
    /// Uses selection sampling: Knuth, *The Art of Computer Programming* 2, algorithm S.
    pub(crate) fn draw_tickers(&self, shift: usize, stream: &mut EnvStream<'_>, out: &mut [usize]) {
        let could = |ticker: &&usize| shift == 0 || self.start_days.any(&[**ticker], shift);
        let (mut left, mut wanted) = (self.pool.iter().filter(could).count(), out.len());
        for &ticker in self.pool.iter().filter(could) {
            if stream.below(left as u64) < wanted as u64 {
                let position = out.len() - wanted;
                out[position] = ticker;
                wanted -= 1;
                if wanted == 0 {
                    return;
                }
            }
            left -= 1;
        }
    }

    /// Refuses tickers without a day on which an episode can start.
    pub(crate) fn check_starts(&self, tickers: &[usize]) -> Result<(), PortfolioError> {
        if self.start_days.any(tickers, 0) {
            return Ok(());
        }
        let (low, earliest) = self.start_days.earliest(tickers);
        Err(PortfolioError::NoStartDay {
            low,
            high: self.start_days.high(),
            indicator_lag: self.options.indicator_lag,
            earliest: self.panel.tickers()[earliest].clone(),
            listed: self.panel.first_day(earliest).unwrap_or(self.panel.days()),
        })
    }

    /// Checks a start day that the caller chose. It must lie within the days, have `indicator_lag`
    /// days before it, and leave one step at least. It may be later than any drawn day. Unless the
    /// tickers are about to be drawn (`None`), all initial shares must have a price, and one ticker
    /// must be listed.
    pub(crate) fn check_start(
        &self,
        env: usize,
        day: usize,
        tickers: Option<&[usize]>,
    ) -> Result<(), PortfolioError> {
        let indicator_lag = self.options.indicator_lag;
        let (first, last) = (self.days.0.max(indicator_lag), self.days.1 - 2);
        if !(first..=last).contains(&day) {
            return Err(PortfolioError::BadStartDay { env, day, first, last, indicator_lag });
        }
        let Some(tickers) = tickers else { return Ok(()) };
        if !tickers.iter().any(|&ticker| self.panel.listed(ticker, day)) {
            return Err(PortfolioError::StartNotListed { env, day, tickers: tickers.len() });
        }
        let listed = self.start_days.held_from(tickers);
        if day < listed {
            let late = |ticker: &&usize| self.start_days.held_from(&[**ticker]) == listed;
            let ticker = tickers.iter().find(late).map_or(0, |&ticker| ticker);
            let ticker = self.panel.tickers()[ticker].clone();
            return Err(PortfolioError::SharesNotListed { env, day, ticker, listed });
        }
        Ok(())
    }

    /// Draws a start day from the stream of an environment.
    pub(crate) fn draw_start(
        &self,
        tickers: &[usize],
        shift: usize,
        stream: &mut EnvStream<'_>,
    ) -> usize {
        self.start_days.draw(tickers, shift, stream)
    }

    /// Checks that environment `env` has a start day at least `shift` days after the first. If its
    /// tickers are about to be drawn (`None`), some choice of tickers must have one.
    pub(crate) fn check_shift(
        &self,
        env: usize,
        shift: usize,
        tickers: Option<&[usize]>,
    ) -> Result<(), PortfolioError> {
        let (pool, count) = (&self.pool, self.n_tickers);
        let (any, first) = match tickers {
            Some(tickers) => (self.start_days.any(tickers, shift), self.start_days.low(tickers).0),
            None => {
                (self.start_days.any_of(pool, count, shift), self.start_days.low_of(pool, count))
            }
        };
        if any {
            return Ok(());
        }
        Err(PortfolioError::ShiftTooLarge { env, shift, first, last: self.start_days.high() })
    }

    pub(crate) fn shape(&self) -> ObservationShape {
        ObservationShape {
            tickers: self.n_tickers,
            indicators: self.columns.len(),
            macros: self.macros.len(),
            fractional: self.options.fractional,
        }
    }

    /// Returns the shape of the history of one sub-environment: days, tickers, columns.
    pub(crate) fn history_shape(&self) -> [usize; 3] {
        let columns = self.panel.columns().len();
        [self.options.history, self.n_tickers + self.macros.len(), columns]
    }

    /// Refuses histories of `num_envs` portfolios, as float32 with a mask, above [`MOST_BYTES`].
    pub(crate) fn check_history(&self, num_envs: usize) -> Result<(), PortfolioError> {
        let [history, rows, columns] = self.history_shape();
        let row = columns.saturating_mul(size_of::<f32>()).saturating_add(1);
        let limit = MOST_BYTES / row.saturating_mul(rows).saturating_mul(history).max(1);
        if history == 0 || num_envs <= limit {
            return Ok(());
        }
        Err(PortfolioError::TooMuchHistory { num_envs, limit, history, rows, columns })
    }

    pub(crate) fn view(&self) -> SetupView<'_> {
        SetupView {
            rows: self.panel.rows(),
            rules: &self.rules,
            macros: &self.macros,
            columns: &self.columns,
            all_columns: self.all_columns,
            indicator_lag: self.options.indicator_lag,
            last_day: self.days.1 - 1,
            bars_per_year: self.panel.bars_per_year(),
            reward: &self.options.reward,
            benchmark: self.benchmark,
            table: self.table.as_ref(),
        }
    }

    /// Builds the tables by day for steps of many portfolios.
    pub(crate) fn build_tables(&mut self, tickers: &[usize]) {
        let first = self.days.0.saturating_sub(self.options.indicator_lag);
        let days = first..self.days.1;
        self.table = DayTable::new(&self.panel, tickers, &self.macros, &self.columns, days);
        if self.options.history > 0 {
            let shown: Vec<usize> = tickers.iter().chain(&self.macros).copied().collect();
            self.histories = HistoryTable::new(&self.panel, &shown);
        }
    }

    /// Returns the indicators shown on `day` and those of the macro tickers; `None` without a
    /// table.
    pub(crate) fn shown_indicators(&self, day: usize) -> Option<[&[f64]; 2]> {
        let shown = self.table.as_ref()?.shown(day - self.options.indicator_lag);
        Some([shown.indicators, shown.macro_indicators])
    }

    /// Writes the `days` days before `day`: `out` `[days, X, C]` and `mask` `[days, X]`. Days
    /// before the panel are zero.
    pub(crate) fn history_into(
        &self,
        tickers: &[usize],
        day: usize,
        days: usize,
        out: &mut [f32],
        mask: &mut [u8],
    ) {
        let rows = tickers.len() + self.macros.len();
        // Number of requested days that lie before the first day of the panel.
        let before = days.saturating_sub(day);
        let columns = self.panel.columns().len();
        out[..before * rows * columns].fill(0.0);
        mask[..before * rows].fill(0);
        let (out, mask) = (&mut out[before * rows * columns..], &mut mask[before * rows..]);
        let days = day - (days - before)..day;
        if let Some(table) = &self.histories {
            table.copy(days, out, mask);
        } else {
            let shown = tickers.iter().chain(&self.macros).copied();
            copy_rows(&self.panel, &shown, days, out, mask);
        }
    }

    /// Prefetches the day before `day`, if there is a table.
    pub(crate) fn prefetch_history(&self, day: usize) {
        if let (Some(table), Some(newest)) = (&self.histories, day.checked_sub(1)) {
            table.prefetch(newest);
        }
    }

    pub(crate) fn last_day(&self) -> usize {
        self.days.1 - 1
    }
}
