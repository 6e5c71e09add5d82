//! The market an environment lives on: its tickers, its days, and where episodes may start.

use backcast_market::{Panel, PanelRows};

use crate::{account::Costs, error::EnvError, options::PortfolioOptions, stream::Stream};

/// Everything that the sub-environments share and no step changes.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) panel: Panel,
    pub(crate) options: PortfolioOptions,
    /// Positions in the panel, in action order.
    pub(crate) tickers: Vec<usize>,
    pub(crate) names: Vec<String>,
    /// First day and one past the last.
    days: (usize, usize),
    /// Days on which a drawn episode may start, ascending; not empty.
    starts: Vec<usize>,
}

/// A world opened for one call.
#[derive(Clone, Copy)]
pub(crate) struct WorldView<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) tickers: &'a [usize],
    pub(crate) indicators: usize,
    pub(crate) indicator_lag: usize,
    pub(crate) last_day: usize,
    pub(crate) costs: Costs,
    pub(crate) initial_amount: f64,
    pub(crate) failure_threshold: f64,
    pub(crate) max_episode_steps: u32,
}

impl World {
    pub(crate) fn new(panel: Panel, options: PortfolioOptions) -> Result<Self, EnvError> {
        options.check()?;
        let tickers = choose_tickers(&panel, options.tickers.as_deref())?;
        let names = tickers.iter().map(|&ticker| panel.tickers()[ticker].clone()).collect();
        let panel_days = panel.days();
        let (start, end) = options.days.unwrap_or((0, panel_days));
        if end > panel_days || end.saturating_sub(start) < 2 {
            return Err(EnvError::BadDays { start, end, panel_days });
        }
        let mut world =
            Self { panel, options, tickers, names, days: (start, end), starts: Vec::new() };
        world.starts = world.find_starts()?;
        Ok(world)
    }

    /// The days from `low` to `high` on which every ticker is listed.
    ///
    /// `low`: the latest first day of the tickers (and `indicator_lag` more) and of the panel's macro
    /// tickers, which windows around the day will show. `high`: four fifths of the range, less one.
    fn find_starts(&self) -> Result<Vec<usize>, EnvError> {
        let lag = self.options.indicator_lag;
        let (start, end) = self.days;
        let mut latest = (self.tickers[0], 0);
        let macros = (0..self.panel.tickers().len()).filter(|&ticker| self.panel.is_macro(ticker));
        for ticker in self.tickers.iter().copied().chain(macros) {
            // A ticker has at least one row; a panel that says otherwise leaves no day to start.
            let listed = self.panel.first_day(ticker).unwrap_or(self.panel.days());
            let history = if self.panel.is_macro(ticker) { 0 } else { lag };
            if listed.saturating_add(history) > latest.1 {
                latest = (ticker, listed.saturating_add(history));
            }
        }
        let low = latest.1.max(start);
        let high = start + (end - start) * 4 / 5 - 1;
        let starts: Vec<usize> = (low..=high).filter(|&day| self.unlisted(day).is_none()).collect();
        if starts.is_empty() {
            return Err(EnvError::NoStartDay {
                low,
                high,
                indicator_lag: lag,
                latest: self.panel.tickers()[latest.0].clone(),
                listed: self.panel.first_day(latest.0).unwrap_or(self.panel.days()),
            });
        }
        Ok(starts)
    }

    /// A ticker and a day that an episode from `day` would miss. `day` is at least `indicator_lag`.
    fn unlisted(&self, day: usize) -> Option<(usize, usize)> {
        let needed = [day, day - self.options.indicator_lag];
        self.tickers.iter().enumerate().find_map(|(position, &ticker)| {
            let missing = needed.into_iter().find(|&day| !self.panel.listed(ticker, day));
            missing.map(|day| (position, day))
        })
    }

    /// Can the caller start environment `env` on `day`? Later than a drawn start is allowed, as long as
    /// one step remains.
    pub(crate) fn check_start(&self, env: usize, day: usize) -> Result<(), EnvError> {
        let indicator_lag = self.options.indicator_lag;
        let (first, last) = (self.days.0.max(indicator_lag), self.days.1 - 2);
        if !(first..=last).contains(&day) {
            return Err(EnvError::BadStartDay { env, day, first, last });
        }
        match self.unlisted(day) {
            None => Ok(()),
            Some((position, missing)) => Err(EnvError::StartNotListed {
                env,
                day,
                ticker: self.names[position].clone(),
                missing,
                indicator_lag,
            }),
        }
    }

    /// A start day from an environment's own stream: uniform over those allowed.
    pub(crate) fn draw_start(&self, stream: &mut Stream) -> usize {
        let draw = stream.below(self.starts.len() as u64);
        usize::try_from(draw).map_or(self.starts[0], |draw| self.starts[draw])
    }

    pub(crate) fn view(&self) -> WorldView<'_> {
        let options = &self.options;
        WorldView {
            rows: self.panel.rows(),
            tickers: &self.tickers,
            indicators: self.panel.indicators().len(),
            indicator_lag: options.indicator_lag,
            last_day: self.days.1 - 1,
            costs: Costs {
                hmax: f64::from(options.hmax),
                buy_factor: 1.0 + options.buy_cost_pct,
                sell_factor: 1.0 - options.sell_cost_pct,
            },
            initial_amount: options.initial_amount,
            failure_threshold: options.failure_threshold,
            max_episode_steps: options.max_episode_steps.unwrap_or(u32::MAX),
        }
    }
}

fn choose_tickers(panel: &Panel, names: Option<&[String]>) -> Result<Vec<usize>, EnvError> {
    let all = panel.tickers();
    let mut chosen: Vec<usize> = Vec::new();
    let Some(names) = names else {
        chosen.extend((0..all.len()).filter(|&ticker| !panel.is_macro(ticker)));
        return if chosen.is_empty() { Err(EnvError::NoTickers) } else { Ok(chosen) };
    };
    for (second, name) in names.iter().enumerate() {
        let Ok(ticker) = all.binary_search(name) else {
            return Err(EnvError::UnknownTicker {
                ticker: name.clone(),
                count: all.len(),
                first: all[0].clone(),
                last: all[all.len() - 1].clone(),
            });
        };
        if panel.is_macro(ticker) {
            return Err(EnvError::MacroTicker { ticker: name.clone() });
        }
        if let Some(first) = chosen.iter().position(|&other| other == ticker) {
            return Err(EnvError::DuplicateTicker { ticker: name.clone(), first, second });
        }
        chosen.push(ticker);
    }
    if chosen.is_empty() { Err(EnvError::NoTickers) } else { Ok(chosen) }
}
