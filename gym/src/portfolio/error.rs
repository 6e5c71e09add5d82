//! Errors of the portfolio environment. Nothing has changed when one is returned.
#![expect(missing_docs, reason = "the messages show the fields")]

use backcast_core::plumbing::ShownNumber;
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
        option: &'static str,
        /// Value given.
        value: f64,
        rule: &'static str,
    },
    /// Settings that exclude each other.
    #[error("`{option}` cannot be combined with {other}: {remedy}")]
    Together { option: &'static str, other: &'static str, remedy: &'static str },
    /// A setting names a column that the panel does not have.
    #[error("`{option}` is {column:?}, which is no column of the panel; {}", columns(known))]
    UnknownColumn {
        option: &'static str,
        column: String,
        /// The panel's indicators.
        known: Vec<String>,
    },
    /// A number of dividends or splits that has no meaning.
    #[error(
        "column {column:?} of {ticker:?} on {date} is {}, but `{option}` needs numbers from 0 up",
        ShownNumber(*value)
    )]
    BadCell { option: &'static str, column: String, ticker: String, date: String, value: f64 },
    /// A setting that needs volumes, where no ticker has any.
    #[error(
        "`{option}` needs volumes, but that of {} is 0 on all of the days {start} to {end}, so \
         that no order could be filled; leave `{option}` out, or load a panel with volumes \
         (`derive` gives volumes of 0)",
        all_of(*tickers, first)
    )]
    NoVolume { option: &'static str, tickers: usize, first: String, start: usize, end: usize },
    /// A benchmark that is not in the panel.
    #[error(
        "the benchmark {ticker:?} is not in the panel, which holds {count} tickers from {first:?} \
         to {last:?}; name one of those"
    )]
    UnknownBenchmark { ticker: String, count: usize, first: String, last: String },
    /// No sub-environment, or so many that the observations of a step would exceed a gibibyte.
    #[error(
        "`num_envs` is {num_envs}, but must be 1 to {limit}: with {tickers} tickers and \
         {indicators} \
         indicators, the observations of more would exceed a gibibyte"
    )]
    BadNumEnvs { num_envs: usize, limit: usize, tickers: usize, indicators: usize },
    /// Histories of a step that would exceed a gibibyte.
    #[error(
        "`history` is {history} days of {rows} tickers and {columns} columns: those of \
         {num_envs} portfolio(s) would exceed a gibibyte; make at most {limit}, or show fewer days"
    )]
    TooMuchHistory { num_envs: usize, limit: usize, history: usize, rows: usize, columns: usize },
    /// There is no memory for the portfolios or their records.
    #[error(
        "there is no memory for {num_envs} portfolios or another day of their records; make fewer, \
         show less of each, or do not record them"
    )]
    NoRoom { num_envs: usize },
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
    UnknownTicker { ticker: String, count: usize, first: String, last: String },
    /// A macro ticker among the tickers to trade.
    #[error("ticker {ticker:?} is a macro ticker of this panel and is never traded; leave it out")]
    MacroTicker { ticker: String },
    /// Initial shares of a ticker that no portfolio trades.
    #[error(
        "initial_shares has shares of {ticker:?}, which no portfolio trades; trade it, or leave \
         it out"
    )]
    SharesNotTraded { ticker: String },
    /// A ticker named twice.
    #[error("ticker {ticker:?} is at positions {first} and {second} of `{list}`; keep one")]
    DuplicateTicker { list: &'static str, ticker: String, first: usize, second: usize },
    /// More tickers are requested than can be traded.
    #[error(
        "`num_tickers` is {asked}, but there are {available} to choose from, macro tickers left \
         out; ask for at \
         most {available}, or 0 for all"
    )]
    TooManyTickers { asked: usize, available: usize },
    /// Portfolios of different sizes.
    #[error(
        "environment {env} has {found} tickers, but those before it have {expected}; give every \
         environment the same number"
    )]
    UnequalTickers { env: usize, found: usize, expected: usize },
    /// A tradable ticker among the macro tickers to show.
    #[error(
        "ticker {ticker:?} is no macro ticker of this panel; name it as one where the panel is \
         loaded"
    )]
    NotMacro { ticker: String },
    /// An indicator that is not in the panel.
    #[error("indicator {indicator:?} is not in the panel{}", choice(known))]
    UnknownIndicator {
        indicator: String,
        /// The panel's indicators.
        known: Vec<String>,
    },
    /// An indicator named twice.
    #[error("indicator {indicator:?} is named twice; keep one")]
    DuplicateIndicator { indicator: String },
    /// A range of days that reaches beyond the panel or holds no step.
    #[error(
        "`days` is {start}..{end}, but must lie within 0..{panel_days} and hold at least two \
         days, one \
         to act on and one to arrive at"
    )]
    BadDays { start: usize, end: usize, panel_days: usize },
    /// Too little memory for histories.
    #[error("there is no memory for {numbers} numbers of history; show fewer days")]
    NoMemory { numbers: usize },
    /// A history of a length that the panel does not serve.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// No day on which an episode could start.
    #[error(
        "no start day: an episode starts on a day on which its tickers have a row, and had one \
         {indicator_lag} day(s) before (`indicator_lag`), from day {low} (the first, {earliest:?}, \
         has rows from day {listed}) to day {high} (four fifths of `days`), but there is no such \
         day; let `days` reach further, lower `indicator_lag`, or leave out tickers with other \
         hours"
    )]
    NoStartDay { low: usize, high: usize, indicator_lag: usize, earliest: String, listed: usize },
    /// A start day outside the range of days.
    #[error(
        "`start_day` of environment {env} is {day}, but must lie in {first} to {last}{}",
        lagged(*day, *indicator_lag)
    )]
    BadStartDay {
        env: usize,
        day: usize,
        first: usize,
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
    StartNotListed { env: usize, day: usize, tickers: usize },
    /// A start day on which the initial shares have no price yet.
    #[error(
        "`start_day` of environment {env} is {day}, but initial_shares has shares of {ticker:?}, \
         which has rows \
         from day {listed}; start there or later, or leave it out of initial_shares"
    )]
    SharesNotListed { env: usize, day: usize, ticker: String, listed: usize },
    /// A start shifted beyond the last possible start day.
    #[error(
        "`shifted_start` is {shift}, but episodes of environment {env} start on days {first} to \
         {last} \
         where all its tickers are listed, and none of those is left; shift by less"
    )]
    ShiftTooLarge { env: usize, shift: usize, first: usize, last: usize },
    /// An action that is no number in the range of its kind, or no whole number if it is discrete.
    #[error(
        "the action of environment {env} for {ticker:?} is {}, but must {}",
        ShownNumber(*value),
        within(*whole, *range)
    )]
    BadAction {
        env: usize,
        ticker: String,
        /// Number given.
        value: f64,
        /// Lowest and highest number.
        range: (f64, f64),
        /// Whether the number must be whole.
        whole: bool,
    },
    /// A step beyond the last day, after an episode that plays on.
    #[error("environment {env} is on day {day}, the last one; reset it before the next step")]
    OutOfDays { env: usize, day: i32 },
    /// A reset or step that the state of the sub-environments does not allow.
    #[error(transparent)]
    Episode(#[from] EpisodeError),
}

impl PortfolioError {
    /// Returns the message for a single environment. It names no environment number.
    #[must_use]
    pub fn for_single(&self) -> String {
        match self {
            Self::Episode(error) => error.for_single(),
            Self::OutOfDays { day, .. } => {
                format!("the episode is on day {day}, the last one; reset the environment")
            }
            Self::BadAction { ticker, value, range, whole, .. } => {
                let within = within(*whole, *range);
                format!("the action for {ticker:?} is {value}, but must {within}")
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

/// Returns the rule that an action broke.
fn within(whole: bool, (low, high): (f64, f64)) -> String {
    if whole {
        format!("be a whole number from {low} to {high}, the position of a choice")
    } else {
        format!("lie in [{low}, {high}]")
    }
}

/// Returns words for all of some tickers.
fn all_of(tickers: usize, first: &str) -> String {
    if tickers == 1 { format!("{first:?}") } else { format!("all {tickers} tickers to trade") }
}

/// Returns what to do about a column that the panel lacks.
fn columns(known: &[String]) -> String {
    match known {
        [] => "load the panel with it, or leave the setting out".to_owned(),
        known => format!("name one of {}", known.join(", ")),
    }
}

/// Returns which indicators there are to name.
fn choice(known: &[String]) -> String {
    match known {
        [] => ", which has none; leave `indicators` out, or load the panel with it".to_owned(),
        known => format!("; name some of {}", known.join(", ")),
    }
}

/// Returns the end of a message about a `day` that cannot show indicators `lag` days old. Returns
/// an empty text if it can.
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
