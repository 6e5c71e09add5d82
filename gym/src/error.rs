//! What can go wrong with a portfolio environment. Nothing has changed when an error is returned.

use std::fmt;

use backcast_market::WindowError;
use thiserror::Error;

/// Making, resetting or stepping an environment failed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum EnvError {
    /// A setting outside its range.
    #[error("`{option}` is {}, but must be {rule}", Amount(*value))]
    BadOption {
        /// The setting.
        option: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// No sub-environment, or more than anybody has memory for.
    #[error(
        "`num_envs` is {num_envs}, but must be 1 to {limit}: with {tickers} tickers and {indicators} \
         indicators more would show over a gibibyte at every step"
    )]
    BadNumEnvs {
        /// Sub-environments asked for.
        num_envs: usize,
        /// The most there can be.
        limit: usize,
        /// Tickers of each.
        tickers: usize,
        /// Indicators of each ticker.
        indicators: usize,
    },
    /// Nothing to trade.
    #[error(
        "no ticker to trade: `tickers` is empty or the panel holds macro tickers only; \
         name at least one that is not a macro ticker"
    )]
    NoTickers,
    /// A ticker that the panel does not have.
    #[error(
        "ticker {ticker:?} is not in the panel, which holds {count} tickers from {first:?} to {last:?}; \
         name some of those"
    )]
    UnknownTicker {
        /// The name.
        ticker: String,
        /// Tickers of the panel.
        count: usize,
        /// The panel's first one.
        first: String,
        /// The panel's last one.
        last: String,
    },
    /// A macro ticker among those to trade.
    #[error("ticker {ticker:?} is a macro ticker of this panel and is never traded; leave it out")]
    MacroTicker {
        /// The name.
        ticker: String,
    },
    /// Shares that no portfolio would ever hold.
    #[error(
        "initial_shares has shares of {ticker:?}, which no portfolio trades; trade it, or leave it out"
    )]
    SharesNotTraded {
        /// The name.
        ticker: String,
    },
    /// A ticker named twice.
    #[error("ticker {ticker:?} stands at positions {first} and {second} of `{list}`; keep one")]
    DuplicateTicker {
        /// `tickers` or `macro_tickers`.
        list: &'static str,
        /// The name.
        ticker: String,
        /// Where it stands first, from 0.
        first: usize,
        /// Where it stands again.
        second: usize,
    },
    /// More tickers asked for than there are.
    #[error(
        "`num_tickers` is {asked}, but there are {available} to choose from, macro tickers left out; ask for at \
         most {available}, or 0 for all"
    )]
    TooManyTickers {
        /// Tickers asked for.
        asked: usize,
        /// Tickers there are.
        available: usize,
    },
    /// Portfolios of different sizes.
    #[error(
        "environment {env} has {found} tickers, but those before it have {expected}; give every \
         environment as many"
    )]
    UnequalTickers {
        /// The sub-environment.
        env: usize,
        /// Its tickers.
        found: usize,
        /// Tickers of those before.
        expected: usize,
    },
    /// A ticker to be shown as macro that is traded.
    #[error(
        "ticker {ticker:?} is no macro ticker of this panel; name it as one where the panel is loaded"
    )]
    NotMacro {
        /// The name.
        ticker: String,
    },
    /// An indicator that the panel does not have.
    #[error("indicator {indicator:?} is not in the panel; name some of {}", known.join(", "))]
    UnknownIndicator {
        /// The name.
        indicator: String,
        /// The panel's indicators.
        known: Vec<String>,
    },
    /// An indicator named twice.
    #[error("indicator {indicator:?} is named twice; keep one")]
    DuplicateIndicator {
        /// The name.
        indicator: String,
    },
    /// A range of days that holds no step.
    #[error(
        "`days` is {start}..{end}, but must lie within 0..{panel_days} and hold at least two days, one \
         to act on and one to arrive at"
    )]
    BadDays {
        /// First day.
        start: usize,
        /// One past the last day.
        end: usize,
        /// Days of the panel.
        panel_days: usize,
    },
    /// Memory that is not there.
    #[error("there is no memory for {numbers} numbers of history; show fewer days")]
    NoMemory {
        /// Numbers asked for.
        numbers: usize,
    },
    /// No history such as this.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// No day on which an episode could start.
    #[error(
        "no start day: an episode starts where a ticker has a row, on day {low} or later (the first, \
         {earliest:?}, has rows from day {listed}, indicators are {indicator_lag} day(s) old) and on day {high} \
         or earlier (four fifths of `days`), but there is no such day; let `days` reach further, or lower \
         `indicator_lag`"
    )]
    NoStartDay {
        /// First day that a ticker could have.
        low: usize,
        /// Last day to start on: four fifths of the range, less one.
        high: usize,
        /// `indicator_lag`.
        indicator_lag: usize,
        /// The ticker that is listed first.
        earliest: String,
        /// The day it is listed on.
        listed: usize,
    },
    /// A start day outside the range of days.
    #[error(
        "`start_day` of environment {env} is {day}, but must lie in {first} to {last}{}",
        lagged(*day, *indicator_lag)
    )]
    BadStartDay {
        /// The sub-environment.
        env: usize,
        /// The day asked for.
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
        "`start_day` of environment {env} is {day}, on which none of its {tickers} ticker(s) has a row; start \
         where one of them has"
    )]
    StartNotListed {
        /// The sub-environment.
        env: usize,
        /// The day asked for.
        day: usize,
        /// Tickers of the environment.
        tickers: usize,
    },
    /// A start day on which shares that an episode begins with have no price yet.
    #[error(
        "`start_day` of environment {env} is {day}, but initial_shares has shares of {ticker:?}, which has rows \
         from day {listed}; start there or later, or leave it out of initial_shares"
    )]
    SharesNotListed {
        /// The sub-environment.
        env: usize,
        /// The day asked for.
        day: usize,
        /// The ticker.
        ticker: String,
        /// Its first day.
        listed: usize,
    },
    /// A start shifted beyond the days on which episodes may start.
    #[error(
        "`shifted_start` is {shift}, but episodes of environment {env} start on days {first} to {last} \
         where all its tickers are listed, and none of those is left; shift by less"
    )]
    ShiftTooLarge {
        /// The sub-environment.
        env: usize,
        /// Days asked for.
        shift: usize,
        /// First day to start on.
        first: usize,
        /// Last day to start on.
        last: usize,
    },
    /// A slice of the wrong length.
    #[error("`{what}` holds {found} elements, but must hold {expected}")]
    BadLength {
        /// The argument.
        what: &'static str,
        /// Elements it must hold.
        expected: usize,
        /// Elements it holds.
        found: usize,
    },
    /// A reset of nothing.
    #[error("the reset mask selects none of the {num_envs} environments; select at least one")]
    EmptyMask {
        /// Sub-environments.
        num_envs: usize,
    },
    /// A first reset of only some: the others would have nothing to show.
    #[error(
        "the reset mask leaves out environment {env}, which was never reset; reset all of them first"
    )]
    LeftOut {
        /// The first of those left out.
        env: usize,
    },
    /// An action that is no number in `[-1, 1]`.
    #[error("the action of environment {env} for {ticker:?} is {value}, but must lie in [-1, 1]")]
    BadAction {
        /// The sub-environment.
        env: usize,
        /// The ticker.
        ticker: String,
        /// The action.
        value: f64,
    },
    /// A step, or a question about an episode, before the first reset.
    #[error("environment {env} was never reset; call reset first")]
    NotReset {
        /// The sub-environment.
        env: usize,
    },
    /// A step beyond the last day, without autoreset.
    #[error(
        "environment {env} is on day {day}, the last one there is; reset it before the next step"
    )]
    OutOfDays {
        /// The sub-environment.
        env: usize,
        /// The day.
        day: i32,
    },
    /// A step after the end of an episode without autoreset.
    #[error(
        "the episode of environment {env} has ended; with autoreset_mode=\"disabled\" reset it (a mask \
         selects it) before the next step"
    )]
    Finished {
        /// The sub-environment.
        env: usize,
    },
}

impl EnvError {
    /// What it says to who has one environment: no word of numbers, masks and modes, which that one does not have.
    #[must_use]
    pub fn of_one(&self) -> String {
        match self {
            Self::Finished { .. } => "the episode has ended; call reset()".to_owned(),
            Self::NotReset { .. } => "the environment was never reset; call reset first".to_owned(),
            Self::OutOfDays { day, .. } => {
                format!("the episode is on day {day}, the last one there is; call reset()")
            }
            Self::BadAction { ticker, value, .. } => {
                format!("the action for {ticker:?} is {value}, but must lie in [-1, 1]")
            }
            Self::BadStartDay { day, first, last, indicator_lag, .. } => {
                let lagged = lagged(*day, *indicator_lag);
                format!("`start_day` is {day}, but must lie in {first} to {last}{lagged}")
            }
            Self::StartNotListed { day, tickers, .. } => format!(
                "`start_day` is {day}, on which none of the {tickers} ticker(s) has a row; start where one of them has"
            ),
            Self::SharesNotListed { day, ticker, listed, .. } => format!(
                "`start_day` is {day}, but initial_shares has shares of {ticker:?}, which has rows from day \
                 {listed}; start there or later, or leave it out of initial_shares"
            ),
            Self::ShiftTooLarge { shift, first, last, .. } => format!(
                "`shifted_start` is {shift}, but episodes start on days {first} to {last} where all tickers are \
                 listed, and none of those is left; shift by less"
            ),
            other => other.to_string(),
        }
    }
}

/// Says why the first days are no start where indicators are lagged.
fn lagged(day: usize, lag: usize) -> String {
    if day < lag {
        format!(
            ": the indicators shown are {lag} day(s) old, and day {day} has none before it; start later, or show \
             those of the day itself with indicator_lag=0, which is look-ahead"
        )
    } else {
        String::new()
    }
}

/// A number in words; without its hundreds of digits where it has them.
struct Amount(f64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < 1e16 { write!(f, "{}", self.0) } else { write!(f, "{:e}", self.0) }
    }
}
