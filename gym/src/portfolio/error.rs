//! Errors of the portfolio environment. Nothing has changed when one is returned.

use backcast_core::ShownNumber;
use backcast_market::WindowError;
use thiserror::Error;

use crate::contract::EpisodeError;

/// Error of building, resetting or stepping a portfolio environment.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum PortfolioError {
    /// A setting outside its range.
    #[error("`{option}` is {}, but must be {rule}", ShownNumber(*value))]
    BadOption {
        /// Name of the setting.
        option: &'static str,
        /// Value given.
        value: f64,
        /// Values that the setting may have.
        rule: &'static str,
    },
    /// No sub-environment, or so many that the observations of a step would exceed a gibibyte.
    #[error(
        "`num_envs` is {num_envs}, but must be 1 to {limit}: with {tickers} tickers and \
         {indicators} \
         indicators, the observations of more would exceed a gibibyte"
    )]
    BadNumEnvs {
        /// Requested number of sub-environments.
        num_envs: usize,
        /// Maximum number of sub-environments.
        limit: usize,
        /// Number of tickers of each sub-environment.
        tickers: usize,
        /// Number of indicators of each ticker.
        indicators: usize,
    },
    /// Histories of a step that would exceed a gibibyte.
    #[error(
        "`history` is {history} days of {rows} tickers and {columns} columns: those of \
         {num_envs} portfolio(s) would exceed a gibibyte; make at most {limit}, or show fewer days"
    )]
    TooMuchHistory {
        /// Requested number of sub-environments.
        num_envs: usize,
        /// Maximum number of sub-environments with such histories.
        limit: usize,
        /// Number of days shown.
        history: usize,
        /// Number of tickers shown, macro tickers included.
        rows: usize,
        /// Number of columns of the panel.
        columns: usize,
    },
    /// There is no memory for the portfolios or their records.
    #[error(
        "there is no memory for {num_envs} portfolios or another day of their records; make fewer, \
         show less of each, or do not record them"
    )]
    NoRoom {
        /// Requested or present number of sub-environments.
        num_envs: usize,
    },
    /// There is no ticker to trade.
    #[error(
        "no ticker to trade: `tickers` is empty or the panel holds macro tickers only; \
         name at least one that is not a macro ticker"
    )]
    NoTickers,
    /// A ticker that is not in the panel.
    #[error(
        "ticker {ticker:?} is not in the panel, which holds {count} tickers from {first:?} to \
         {last:?}; \
         name some of those"
    )]
    UnknownTicker {
        /// Name given.
        ticker: String,
        /// Number of tickers of the panel.
        count: usize,
        /// First ticker of the panel.
        first: String,
        /// Last ticker of the panel.
        last: String,
    },
    /// A macro ticker among the tickers to trade.
    #[error("ticker {ticker:?} is a macro ticker of this panel and is never traded; leave it out")]
    MacroTicker {
        /// Name given.
        ticker: String,
    },
    /// Initial shares of a ticker that no portfolio trades.
    #[error(
        "initial_shares has shares of {ticker:?}, which no portfolio trades; trade it, or leave \
         it out"
    )]
    SharesNotTraded {
        /// Name given.
        ticker: String,
    },
    /// A ticker named twice.
    #[error("ticker {ticker:?} is at positions {first} and {second} of `{list}`; keep one")]
    DuplicateTicker {
        /// `tickers` or `macro_tickers`.
        list: &'static str,
        /// Name given.
        ticker: String,
        /// First position, from 0.
        first: usize,
        /// Second position, from 0.
        second: usize,
    },
    /// More tickers are requested than can be traded.
    #[error(
        "`num_tickers` is {asked}, but there are {available} to choose from, macro tickers left \
         out; ask for at \
         most {available}, or 0 for all"
    )]
    TooManyTickers {
        /// Requested number of tickers.
        asked: usize,
        /// Number of tickers that can be traded.
        available: usize,
    },
    /// Portfolios of different sizes.
    #[error(
        "environment {env} has {found} tickers, but those before it have {expected}; give every \
         environment the same number"
    )]
    UnequalTickers {
        /// Index of the sub-environment.
        env: usize,
        /// Number of tickers of this sub-environment.
        found: usize,
        /// Number of tickers of the sub-environments before.
        expected: usize,
    },
    /// A tradable ticker among the macro tickers to show.
    #[error(
        "ticker {ticker:?} is no macro ticker of this panel; name it as one where the panel is \
         loaded"
    )]
    NotMacro {
        /// Name given.
        ticker: String,
    },
    /// An indicator that is not in the panel.
    #[error("indicator {indicator:?} is not in the panel; name some of {}", known.join(", "))]
    UnknownIndicator {
        /// Name given.
        indicator: String,
        /// The panel's indicators.
        known: Vec<String>,
    },
    /// An indicator named twice.
    #[error("indicator {indicator:?} is named twice; keep one")]
    DuplicateIndicator {
        /// Name given.
        indicator: String,
    },
    /// A range of days that reaches beyond the panel or holds no step.
    #[error(
        "`days` is {start}..{end}, but must lie within 0..{panel_days} and hold at least two \
         days, one \
         to act on and one to arrive at"
    )]
    BadDays {
        /// First day.
        start: usize,
        /// One past the last day.
        end: usize,
        /// Number of days of the panel.
        panel_days: usize,
    },
    /// Too little memory for histories.
    #[error("there is no memory for {numbers} numbers of history; show fewer days")]
    NoMemory {
        /// Numbers of one history: days times tickers times columns.
        numbers: usize,
    },
    /// A history of a length that the panel does not serve.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// No day on which an episode could start.
    #[error(
        "no start day: an episode starts where a ticker has a row, on day {low} or later (the \
         first, \
         {earliest:?}, has rows from day {listed}, indicators are {indicator_lag} day(s) old) and \
         on day {high} \
         or earlier (four fifths of `days`), but there is no such day; let `days` reach further, \
         or lower \
         `indicator_lag`"
    )]
    NoStartDay {
        /// First possible start day of any ticker.
        low: usize,
        /// Last day to start on: four fifths of the range, less one.
        high: usize,
        /// `indicator_lag`.
        indicator_lag: usize,
        /// Ticker that is listed first.
        earliest: String,
        /// Day on which it is listed first.
        listed: usize,
    },
    /// A start day outside the range of days.
    #[error(
        "`start_day` of environment {env} is {day}, but must lie in {first} to {last}{}",
        lagged(*day, *indicator_lag)
    )]
    BadStartDay {
        /// Index of the sub-environment.
        env: usize,
        /// Requested start day.
        day: usize,
        /// First day allowed.
        first: usize,
        /// Last day allowed.
        last: usize,
        /// `indicator_lag`.
        indicator_lag: usize,
    },
    /// A start day on which no ticker is listed.
    #[error(
        "`start_day` of environment {env} is {day}, on which none of its {tickers} ticker(s) has \
         a row; start \
         where one of them has"
    )]
    StartNotListed {
        /// Index of the sub-environment.
        env: usize,
        /// Requested start day.
        day: usize,
        /// Number of tickers of the sub-environment.
        tickers: usize,
    },
    /// A start day on which the initial shares have no price yet.
    #[error(
        "`start_day` of environment {env} is {day}, but initial_shares has shares of {ticker:?}, \
         which has rows \
         from day {listed}; start there or later, or leave it out of initial_shares"
    )]
    SharesNotListed {
        /// Index of the sub-environment.
        env: usize,
        /// Requested start day.
        day: usize,
        /// Ticker with initial shares.
        ticker: String,
        /// First day of the ticker.
        listed: usize,
    },
    /// A start shifted beyond the last possible start day.
    #[error(
        "`shifted_start` is {shift}, but episodes of environment {env} start on days {first} to \
         {last} \
         where all its tickers are listed, and none of those is left; shift by less"
    )]
    ShiftTooLarge {
        /// Index of the sub-environment.
        env: usize,
        /// Requested shift in days.
        shift: usize,
        /// First day to start on.
        first: usize,
        /// Last day to start on.
        last: usize,
    },
    /// An action that is no number in `[-1, 1]`.
    #[error(
        "the action of environment {env} for {ticker:?} is {}, but must lie in [-1, 1]",
        ShownNumber(*value)
    )]
    BadAction {
        /// Index of the sub-environment.
        env: usize,
        /// Ticker of the action.
        ticker: String,
        /// Number given.
        value: f64,
    },
    /// A step beyond the last day, after an episode that plays on.
    #[error("environment {env} is on day {day}, the last one; reset it before the next step")]
    OutOfDays {
        /// Index of the sub-environment.
        env: usize,
        /// Current day of the sub-environment.
        day: i32,
    },
    /// A reset or step that the state of the sub-environments does not allow.
    #[error(transparent)]
    Episode(#[from] EpisodeError),
}

impl PortfolioError {
    /// Returns the message for a single environment, without numbers, masks and modes.
    #[must_use]
    pub fn for_single(&self) -> String {
        match self {
            Self::Episode(error) => error.for_single(),
            Self::OutOfDays { day, .. } => {
                format!("the episode is on day {day}, the last one; reset the environment")
            }
            Self::BadAction { ticker, value, .. } => {
                format!("the action for {ticker:?} is {value}, but must lie in [-1, 1]")
            }
            Self::BadStartDay { day, first, last, indicator_lag, .. } => {
                let lagged = lagged(*day, *indicator_lag);
                format!("`start_day` is {day}, but must lie in {first} to {last}{lagged}")
            }
            Self::StartNotListed { day, tickers, .. } => format!(
                "`start_day` is {day}, on which none of the {tickers} ticker(s) has a row; start \
                 where one of them has"
            ),
            Self::SharesNotListed { day, ticker, listed, .. } => format!(
                "`start_day` is {day}, but initial_shares has shares of {ticker:?}, which has \
                 rows from day \
                 {listed}; start there or later, or leave it out of initial_shares"
            ),
            Self::ShiftTooLarge { shift, first, last, .. } => format!(
                "`shifted_start` is {shift}, but episodes start on days {first} to {last} where \
                 all tickers are \
                 listed, and none of those is left; shift by less"
            ),
            other => other.to_string(),
        }
    }
}

/// Returns the end of a message: `day` cannot show indicators that are `lag` days old. Empty if it
/// can.
fn lagged(day: usize, lag: usize) -> String {
    if day < lag {
        format!(
            ": the indicators shown are {lag} day(s) old, and day {day} has none before it; start \
             later, or show those of the day itself with an indicator_lag of 0, which is look-ahead"
        )
    } else {
        String::new()
    }
}
