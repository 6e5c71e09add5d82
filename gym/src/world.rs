//! The market an environment lives on: its tickers, its days, its rules, and where episodes may start.

use backcast_market::{Panel, PanelRows, PriceColumn};

use crate::{
    departures::Departures,
    error::EnvError,
    observation::Shape,
    options::PortfolioOptions,
    rules::{Bidding, Delisting, StopLossDay, StopLossPrice},
    starts::Starts,
    stream::Stream,
    table::{DayTable, HistoryTable, copy_rows},
};

/// Of a panel's row.
pub(crate) const CLOSE: usize = PriceColumn::Close as usize;

/// Everything that the sub-environments share and no step changes.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) panel: Panel,
    pub(crate) options: PortfolioOptions,
    pub(crate) rules: Rules,
    /// Positions in the panel of what can be drawn, in action order.
    pool: Vec<usize>,
    /// Some portfolios have tickers of their own.
    named_each: bool,
    /// Tickers of each portfolio, `T`.
    pub(crate) n_tickers: usize,
    /// Macro tickers shown.
    pub(crate) macros: Vec<usize>,
    /// Panel columns of the indicators shown.
    columns: Vec<usize>,
    /// Are these all of them, in the panel's order?
    all_columns: bool,
    pub(crate) indicators: Vec<String>,
    /// First day and one past the last.
    pub(crate) days: (usize, usize),
    starts: Starts,
    /// Where all portfolios have the same tickers and there are many of them.
    table: Option<DayTable>,
    histories: Option<HistoryTable>,
}

/// The settings in the form that a step needs; what differs by ticker is indexed by its position in the panel.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) initial_amount: f64,
    /// Empty: none.
    pub(crate) initial_shares: Vec<i32>,
    pub(crate) failure_threshold: f64,
    /// Shares per action of 1.
    pub(crate) hmax: f64,
    /// Fees as fractions.
    pub(crate) costs: Vec<Sides>,
    /// Where they are the same for all tickers.
    pub(crate) same_costs: Option<Sides>,
    pub(crate) fixed_fee: f64,
    /// Factors on prices.
    pub(crate) slippage: Sides,
    pub(crate) bidding: Bidding,
    pub(crate) stop_loss_tolerance: f64,
    pub(crate) stop_loss_price: StopLossPrice,
    pub(crate) stop_loss_day: StopLossDay,
    /// `[T, D]`.
    pub(crate) tradable: Option<(Vec<bool>, usize)>,
    /// Tickers whose holdings are settled on their last day; none of them where holdings are kept.
    pub(crate) departures: Departures,
    pub(crate) max_episode_steps: u32,
    /// Steps of an episode after which a holding is still not too large to be counted.
    pub(crate) countable_steps: u32,
    pub(crate) valued_at_close: bool,
}

/// One number for purchases, one for sales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub(crate) buy: f64,
    pub(crate) sell: f64,
}

impl Rules {
    /// The same for each of `tickers` tickers.
    pub(crate) fn uniform(options: &PortfolioOptions, tickers: usize) -> Self {
        let slip = options.slippage_bps / 10_000.0;
        let costs = Sides { buy: options.buy_cost_pct, sell: options.sell_cost_pct };
        Self {
            initial_amount: options.initial_amount,
            initial_shares: Vec::new(),
            failure_threshold: options.failure_threshold,
            hmax: f64::from(options.hmax),
            costs: vec![costs; tickers],
            same_costs: Some(costs),
            fixed_fee: options.fixed_fee,
            slippage: Sides { buy: 1.0 + slip, sell: 1.0 - slip },
            bidding: options.bidding,
            stop_loss_tolerance: options.stop_loss_tolerance,
            stop_loss_price: options.stop_loss_calculation,
            stop_loss_day: options.stop_loss_day,
            tradable: None,
            departures: Departures::default(),
            max_episode_steps: options.max_episode_steps.unwrap_or(u32::MAX),
            countable_steps: i32::MAX.unsigned_abs() / options.hmax.max(1),
            valued_at_close: options.valued_at_close(),
        }
    }

    fn new(panel: &Panel, options: &PortfolioOptions) -> Result<Self, EnvError> {
        let (tickers, days) = (panel.tickers().len(), panel.days());
        let mut rules = Self::uniform(options, tickers);
        for (name, &(buy, sell)) in &options.ticker_costs {
            rules.costs[traded(panel, name)?] = Sides { buy, sell };
            rules.same_costs = None;
        }
        if !options.initial_shares.is_empty() {
            rules.initial_shares = vec![0; tickers];
        }
        for (name, &shares) in &options.initial_shares {
            let ticker = traded(panel, name)?;
            rules.initial_shares[ticker] =
                i32::try_from(shares).map_err(|_| EnvError::BadOption {
                    option: "initial_shares",
                    value: f64::from(shares),
                    rule: "at most 2147483647 shares of a ticker",
                })?;
        }
        if options.delisting == Delisting::Settle {
            rules.departures = Departures::of(panel);
        }
        let most = rules.initial_shares.iter().copied().max().unwrap_or_default();
        rules.countable_steps = (i32::MAX - most).unsigned_abs() / options.hmax;
        if let Some(tradable) = &options.tradable {
            check_length("tradable", tickers * days, Some(tradable.len()))?;
            rules.tradable = Some((tradable.clone(), days));
        }
        Ok(rules)
    }

    /// Tickers of which portfolios begin with shares.
    fn held_at_start(&self) -> impl Iterator<Item = usize> {
        let shares = self.initial_shares.iter().enumerate();
        shares.filter_map(|(ticker, shares)| (*shares > 0).then_some(ticker))
    }

    pub(crate) fn tradable(&self, ticker: usize, day: usize) -> bool {
        self.tradable.as_ref().is_none_or(|(tradable, days)| tradable[ticker * days + day])
    }
}

/// A world opened for one call.
#[derive(Clone, Copy)]
pub(crate) struct WorldView<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) rules: &'a Rules,
    pub(crate) macros: &'a [usize],
    columns: &'a [usize],
    all_columns: bool,
    pub(crate) indicator_lag: usize,
    pub(crate) last_day: usize,
    pub(crate) table: Option<&'a DayTable>,
}

impl WorldView<'_> {
    /// Write the indicators of `day` to the part of `out` that is environment `env`'s.
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

impl World {
    /// `each`: tickers of single portfolios, whose number is not known to the options.
    pub(crate) fn new(
        panel: Panel,
        options: PortfolioOptions,
        each: &[Vec<usize>],
    ) -> Result<Self, EnvError> {
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
            return Err(EnvError::BadDays { start, end, panel_days });
        }
        panel.check_window("history", options.history)?;
        let mut used: Vec<usize> = each.iter().flatten().chain(&pool).copied().collect();
        used.sort_unstable();
        used.dedup();
        let (lag, history) = (options.indicator_lag, options.history_length.max(options.history));
        let rules = Rules::new(&panel, &options)?;
        let held = rules.held_at_start();
        let starts = Starts::new(&panel, &used, held, start..end, lag, history);
        let world = Self {
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
            starts,
            table: None,
            histories: None,
        };
        if !world.options.play_on {
            world.check_threshold()?;
            world.check_shares()?;
            for tickers in each.iter().filter(|tickers| !tickers.is_empty()) {
                world.check_starts(tickers)?;
            }
            if each.is_empty() && !world.draws_tickers() {
                world.check_starts(&world.pool)?;
            }
        }
        Ok(world)
    }

    /// The most that a portfolio can be worth when its episode begins: what it holds at the highest close of all days.
    pub(crate) fn most_at_start(&self) -> f64 {
        let rows = self.panel.rows();
        let days = 0..self.panel.days();
        let highest = |ticker: usize| {
            let closes = days.clone().map(|day| rows.row(ticker, day).value(CLOSE));
            closes.fold(0.0, f64::max) * f64::from(self.rules.initial_shares[ticker])
        };
        self.rules.initial_amount + self.rules.held_at_start().map(highest).sum::<f64>()
    }

    fn check_threshold(&self) -> Result<(), EnvError> {
        // Whether cash alone suffices was asked with the options.
        let threshold = self.rules.failure_threshold;
        if self.rules.initial_shares.is_empty() || threshold < self.most_at_start() {
            return Ok(());
        }
        Err(EnvError::BadOption {
            option: "failure_threshold",
            value: threshold,
            rule: "below what `initial_amount` and `initial_shares` are ever worth, or every episode ends at once",
        })
    }

    /// Refuse shares at the start of tickers that nobody will ever have. Whose tickers are named portfolio by portfolio
    /// may be others in the next episode.
    pub(crate) fn check_shares(&self) -> Result<(), EnvError> {
        let lost = |ticker: &usize| !self.named_each && !self.pool.contains(ticker);
        let lost = self.rules.held_at_start().find(lost);
        lost.map_or(Ok(()), |ticker| {
            Err(EnvError::SharesNotTraded { ticker: self.panel.tickers()[ticker].clone() })
        })
    }

    /// Positions in the panel of what portfolios may trade, unless they name tickers of their own.
    pub(crate) fn tradable_pool(&self) -> &[usize] {
        &self.pool
    }

    /// Do portfolios without tickers of their own draw them?
    pub(crate) fn draws_tickers(&self) -> bool {
        self.pool.len() > self.n_tickers
    }

    /// The first tickers of the pool: those of a portfolio that does not draw.
    pub(crate) fn first_tickers(&self) -> &[usize] {
        self.pool.get(..self.n_tickers).unwrap_or_default()
    }

    /// Draw which tickers to trade; they keep the pool's order. With a shift, of those alone that could
    /// start so late. Selection sampling: Knuth, *The Art of Computer Programming* 2, algorithm S.
    pub(crate) fn draw_tickers(&self, shift: usize, stream: &mut Stream, out: &mut [usize]) {
        let could = |ticker: &&usize| shift == 0 || self.starts.any(&[**ticker], shift);
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

    pub(crate) fn check_starts(&self, tickers: &[usize]) -> Result<(), EnvError> {
        if self.starts.any(tickers, 0) {
            return Ok(());
        }
        let (low, earliest) = self.starts.earliest(tickers);
        Err(EnvError::NoStartDay {
            low,
            high: self.starts.high(),
            indicator_lag: self.options.indicator_lag,
            earliest: self.panel.tickers()[earliest].clone(),
            listed: self.panel.first_day(earliest).unwrap_or(self.panel.days()),
        })
    }

    /// Can the caller start environment `env` on `day`? Later than a drawn start is allowed, as long as
    /// one step remains. Some ticker has to be listed, unless they are about to be drawn.
    pub(crate) fn check_start(
        &self,
        env: usize,
        day: usize,
        tickers: Option<&[usize]>,
    ) -> Result<(), EnvError> {
        let indicator_lag = self.options.indicator_lag;
        let (first, last) = (self.days.0.max(indicator_lag), self.days.1 - 2);
        if !(first..=last).contains(&day) {
            return Err(EnvError::BadStartDay { env, day, first, last, indicator_lag });
        }
        let Some(tickers) = tickers else { return Ok(()) };
        if !tickers.iter().any(|&ticker| self.panel.listed(ticker, day)) {
            return Err(EnvError::StartNotListed { env, day, tickers: tickers.len() });
        }
        let listed = self.starts.held_from(tickers);
        if day < listed {
            let late = |ticker: &&usize| self.starts.held_from(&[**ticker]) == listed;
            let ticker = tickers.iter().find(late).map_or(0, |&ticker| ticker);
            let ticker = self.panel.tickers()[ticker].clone();
            return Err(EnvError::SharesNotListed { env, day, ticker, listed });
        }
        Ok(())
    }

    /// A start day from an environment's own stream.
    pub(crate) fn draw_start(&self, tickers: &[usize], shift: usize, stream: &mut Stream) -> usize {
        self.starts.draw(tickers, shift, stream)
    }

    /// Is there a start day for environment `env`, `shift` days later than the first or more? `None`: its tickers
    /// are about to be drawn, and for some choice of them there has to be one, whichever the draw will be.
    pub(crate) fn check_shift(
        &self,
        env: usize,
        shift: usize,
        tickers: Option<&[usize]>,
    ) -> Result<(), EnvError> {
        let (pool, count) = (&self.pool, self.n_tickers);
        let (any, first) = match tickers {
            Some(tickers) => (self.starts.any(tickers, shift), self.starts.low(tickers).0),
            None => (self.starts.any_of(pool, count, shift), self.starts.low_of(pool, count)),
        };
        if any {
            return Ok(());
        }
        Err(EnvError::ShiftTooLarge { env, shift, first, last: self.starts.high() })
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { tickers: self.n_tickers, indicators: self.columns.len(), macros: self.macros.len() }
    }

    pub(crate) fn view(&self) -> WorldView<'_> {
        WorldView {
            rows: self.panel.rows(),
            rules: &self.rules,
            macros: &self.macros,
            columns: &self.columns,
            all_columns: self.all_columns,
            indicator_lag: self.options.indicator_lag,
            last_day: self.days.1 - 1,
            table: self.table.as_ref(),
        }
    }

    /// Lay the days of `tickers` out for steps of many portfolios.
    pub(crate) fn lay_out(&mut self, tickers: &[usize]) {
        let first = self.days.0.saturating_sub(self.options.indicator_lag);
        let days = first..self.days.1;
        self.table = DayTable::new(&self.panel, tickers, &self.macros, &self.columns, days);
        if self.options.history > 0 {
            let shown: Vec<usize> = tickers.iter().chain(&self.macros).copied().collect();
            self.histories = HistoryTable::new(&self.panel, &shown);
        }
    }

    /// The indicators shown on `day`, those of the macro tickers too, where the days are laid out.
    pub(crate) fn laid_out(&self, day: usize) -> Option<[&[f64]; 2]> {
        let shown = self.table.as_ref()?.shown(day - self.options.indicator_lag);
        Some([shown.indicators, shown.macro_indicators])
    }

    /// Write so many days before `day`, zeros where the panel has none: `out` `[days, X, C]`, `mask` `[days, X]`.
    pub(crate) fn history_into(
        &self,
        tickers: &[usize],
        day: usize,
        days: usize,
        out: &mut [f32],
        mask: &mut [u8],
    ) {
        let rows = tickers.len() + self.macros.len();
        // Days before the panel's first.
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

    /// Ask for the last of the days before `day`, where they are laid out.
    pub(crate) fn ask_history(&self, day: usize) {
        if let (Some(table), Some(newest)) = (&self.histories, day.checked_sub(1)) {
            table.ask(newest);
        }
    }

    pub(crate) fn last_day(&self) -> usize {
        self.days.1 - 1
    }
}

/// The position of a ticker that may be traded.
fn traded(panel: &Panel, name: &str) -> Result<usize, EnvError> {
    let all = panel.tickers();
    let Ok(ticker) = all.binary_search_by(|known| known.as_str().cmp(name)) else {
        return Err(EnvError::UnknownTicker {
            ticker: name.to_owned(),
            count: all.len(),
            first: all[0].clone(),
            last: all[all.len() - 1].clone(),
        });
    };
    if panel.is_macro(ticker) {
        return Err(EnvError::MacroTicker { ticker: name.to_owned() });
    }
    Ok(ticker)
}

/// The positions of tickers that may be traded, each named once.
pub(crate) fn positions(panel: &Panel, names: &[String]) -> Result<Vec<usize>, EnvError> {
    let mut chosen: Vec<usize> = Vec::new();
    for name in names {
        let ticker = traded(panel, name)?;
        named_once("tickers", &chosen, ticker, name)?;
        chosen.push(ticker);
    }
    Ok(chosen)
}

/// Refuse a ticker that is among those `chosen` from a list before it.
fn named_once(
    list: &'static str,
    chosen: &[usize],
    ticker: usize,
    name: &str,
) -> Result<(), EnvError> {
    let Some(first) = chosen.iter().position(|&other| other == ticker) else { return Ok(()) };
    let (ticker, second) = (name.to_owned(), chosen.len());
    Err(EnvError::DuplicateTicker { list, ticker, first, second })
}

fn choose_tickers(panel: &Panel, names: Option<&[String]>) -> Result<Vec<usize>, EnvError> {
    let chosen = match names {
        Some(names) => positions(panel, names)?,
        None => (0..panel.tickers().len()).filter(|&ticker| !panel.is_macro(ticker)).collect(),
    };
    if chosen.is_empty() { Err(EnvError::NoTickers) } else { Ok(chosen) }
}

fn check_pool(pool: &[usize], asked: usize) -> Result<(), EnvError> {
    let available = pool.len();
    if asked > available { Err(EnvError::TooManyTickers { asked, available }) } else { Ok(()) }
}

fn choose_macros(panel: &Panel, names: &[String]) -> Result<Vec<usize>, EnvError> {
    let mut chosen: Vec<usize> = Vec::new();
    for name in names {
        let ticker = match traded(panel, name) {
            Err(EnvError::MacroTicker { .. }) => panel.token(name).unwrap_or(1) as usize - 1,
            Err(error) => return Err(error),
            Ok(_) => return Err(EnvError::NotMacro { ticker: name.clone() }),
        };
        named_once("macro_tickers", &chosen, ticker, name)?;
        chosen.push(ticker);
    }
    Ok(chosen)
}

fn choose_indicators(
    panel: &Panel,
    names: Option<&[String]>,
) -> Result<(Vec<usize>, Vec<String>), EnvError> {
    let all = panel.indicators();
    let Some(names) = names else {
        let columns = PriceColumn::ALL.len()..panel.columns().len();
        return Ok((columns.collect(), all.to_vec()));
    };
    let mut columns: Vec<usize> = Vec::new();
    for name in names {
        let Some(at) = all.iter().position(|known| known == name) else {
            let (indicator, known) = (name.clone(), all.to_vec());
            return Err(EnvError::UnknownIndicator { indicator, known });
        };
        let column = PriceColumn::ALL.len() + at;
        if columns.contains(&column) {
            return Err(EnvError::DuplicateIndicator { indicator: name.clone() });
        }
        columns.push(column);
    }
    Ok((columns, names.to_vec()))
}

pub(crate) fn check_length(
    what: &'static str,
    expected: usize,
    found: Option<usize>,
) -> Result<(), EnvError> {
    match found {
        Some(found) if found != expected => Err(EnvError::BadLength { what, expected, found }),
        _ => Ok(()),
    }
}
