//! Settings of portfolio environments, read from a dict.

use std::collections::BTreeMap;
use std::str::FromStr;

use backcast_core::DType;
use backcast_gym::{Actions, Margin, ParseChoiceError, PortfolioOptions, Reward};
use backcast_market::Panel;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList, PyTuple};

use crate::argument::{
    Argument, FromArgument, autoreset_mode_of, count, count_in, found, names_of, read, text_of,
    wrong_type,
};
use crate::array::convert::{ShapeText, Target, array_of};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::markets::panel::when_of;

/// Reads the settings, with defaults for missing ones. Positions and masks are those of `panel`.
pub(crate) fn options_of(
    settings: &Bound<'_, PyDict>,
    panel: &Panel,
) -> Result<PortfolioOptions, Failure> {
    let sizes = (panel.tickers().len(), panel.days());
    let given = Settings(settings);
    let default = PortfolioOptions::default();
    let fraction = "a fraction in [0, 1); one percent is 0.01";
    Ok(PortfolioOptions {
        initial_amount: given
            .get("initial_amount", "an amount above 0")?
            .unwrap_or(default.initial_amount),
        failure_threshold: given
            .get("failure_threshold", "an amount")?
            .unwrap_or(default.failure_threshold),
        actions: given.actions()?,
        hmax: given
            .named("hmax")?
            .map(|asked| count_in(asked, "hmax", 1..=i32::MAX.unsigned_abs(), ErrorClass::Env))
            .transpose()?
            .unwrap_or(default.hmax),
        fractional: given.get("fractional", "True or False")?.unwrap_or_default(),
        margin: given.margin()?,
        max_position: given.get("max_position", "a fraction of the equity, 0.2, or None")?,
        max_volume: given.get("max_volume", "a fraction of a bar's volume, 0.1, or None")?,
        buy_cost_pct: given.get("buy_cost_pct", fraction)?.unwrap_or(default.buy_cost_pct),
        sell_cost_pct: given.get("sell_cost_pct", fraction)?.unwrap_or(default.sell_cost_pct),
        ticker_costs: given.ticker_costs(fraction)?,
        fixed_fee: given.get("fixed_fee", "an amount per order")?.unwrap_or_default(),
        slippage_bps: given
            .get("slippage_bps", "basis points; one percent is 100")?
            .unwrap_or_default(),
        slippage_per_share: given
            .get("slippage_per_share", "an amount of cash per share")?
            .unwrap_or_default(),
        impact_bps: given
            .get("impact_bps", "basis points; one percent is 100")?
            .unwrap_or_default(),
        dividends: given.get("dividends", "the name of a column, \"dividend\"")?,
        splits: given.get("splits", "the name of a column, \"split\"")?,
        bidding: given.word("bidding")?,
        stop_loss_tolerance: given
            .get("stop_loss_tolerance", "a fraction of the price paid, 0.8; 0 never sells")?
            .unwrap_or_default(),
        stop_loss_calculation: given.word("stop_loss_calculation")?,
        stop_loss_day: given.word("stop_loss_day")?,
        tickers: given.names("tickers", "[\"AAPL\", \"MSFT\"]")?,
        num_tickers: given.count("num_tickers")?,
        shuffle_tickers: given.get("shuffle_tickers", "True or False")?.unwrap_or_default(),
        tradable: given.one("tradable")?.map(|mask| tradable_of(&mask, sizes)).transpose()?,
        delisting: given.word("delisting")?,
        initial_shares: given.initial_shares()?,
        indicators: given.names("indicators", "[\"macd\", \"rsi\"]")?,
        macro_tickers: given.names("macro_tickers", "[\"VIX\"]")?.unwrap_or_default(),
        days: given.one("days")?.map(|days| days_of(&days, panel)).transpose()?,
        indicator_lag: match given.one("indicator_lag")? {
            Some(_) => given.count("indicator_lag")?,
            None => default.indicator_lag,
        },
        valuation: given.one("valuation")?.map(|_| given.word("valuation")).transpose()?,
        history: given.count("history")?,
        history_length: given.count("history_length")?,
        autoreset_mode: given
            .named("autoreset_mode")?
            .map(|mode| autoreset_mode_of(mode, ErrorClass::Env))
            .transpose()?
            .unwrap_or(default.autoreset_mode),
        play_on: given.get("play_on", "True or False")?.unwrap_or_default(),
        max_episode_steps: given
            .named("max_episode_steps")?
            .map(|steps| count(steps, "max_episode_steps", 1, ErrorClass::Env))
            .transpose()?,
        reward: given.reward()?,
        step_info: given.get("step_info", "True or False")?.unwrap_or_default(),
        generator: given.word("generator")?,
        record: given.get("record", "True or False")?.unwrap_or_default(),
    })
}

struct Settings<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    /// Returns a setting that is given and is not None.
    fn one(&self, name: &str) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    fn named<T: FromArgument>(&self, name: &str) -> Result<Option<Argument<T>>, Failure> {
        Ok(self.one(name)?.map(|value| value.extract().unwrap_or_else(|never| match never {})))
    }

    fn get<T: FromArgument>(&self, name: &str, wanted: &str) -> Result<Option<T>, Failure> {
        self.named::<T>(name)?.map(|given| given.get(name, wanted)).transpose()
    }

    /// Returns a field of an object of options, which cannot be None. Returns `None` if there is no
    /// such object.
    fn field<T: FromArgument>(&self, name: &str, wanted: &str) -> Result<Option<T>, Failure> {
        let Some(value) = self.0.get_item(name)? else { return Ok(None) };
        let given: Argument<T> = value.extract().unwrap_or_else(|never| match never {});
        given.get(name, wanted).map(Some)
    }

    fn count(&self, name: &str) -> Result<usize, Failure> {
        let given = self.named::<i128>(name)?;
        Ok(given.map_or(Ok(0), |asked| count(asked, name, 0, ErrorClass::Env))? as usize)
    }

    fn word<T: Default + FromStr<Err = ParseChoiceError>>(&self, name: &str) -> Result<T, Failure> {
        let Some(word) = self.get::<String>(name, "one of its words, a string")? else {
            return Ok(T::default());
        };
        word.parse().map_err(|error| Failure::new(ErrorClass::Env, error))
    }

    /// Reads the kind of actions. What serves one kind alone is named after its object.
    fn actions(&self) -> Result<Actions, Failure> {
        let Some(word) = self.get::<String>("actions", "one of its words, a string")? else {
            return Ok(Actions::default());
        };
        match word.as_str() {
            "shares" => Ok(Actions::Shares),
            "weights" => {
                let leverage = self.field("Weights.leverage", "a sum of weights, 1.0")?;
                Ok(leverage.map_or_else(Actions::weights, |leverage| Actions::Weights { leverage }))
            }
            "discrete" => Ok(match self.one("Discrete.choices")? {
                Some(given) => Actions::Discrete { choices: choices_of(&given)? },
                None => Actions::sell_hold_buy(),
            }),
            _ => {
                let message = format!(
                    "actions is {word:?}; write \"shares\", \"weights\" or \"discrete\", or give \
                     backcast.envs.Weights(...) or Discrete(...)"
                );
                Err(Failure::new(ErrorClass::Env, message))
            }
        }
    }

    fn margin(&self) -> Result<Option<Margin>, Failure> {
        let fraction = "a fraction of the positions, 0.5";
        let rate = "a fraction a year, 0.05; 0 costs nothing";
        let Some(initial) = self.field("Margin.initial", fraction)? else { return Ok(None) };
        let default = Margin::default();
        Ok(Some(Margin {
            initial,
            maintenance: self.field("Margin.maintenance", fraction)?.unwrap_or(default.maintenance),
            borrow_rate: self.field("Margin.borrow_rate", rate)?.unwrap_or(default.borrow_rate),
            loan_rate: self.field("Margin.loan_rate", rate)?.unwrap_or(default.loan_rate),
        }))
    }

    /// Reads the reward. What serves one reward alone is named after its object.
    fn reward(&self) -> Result<Reward, Failure> {
        let Some(word) = self.get::<String>("reward", "one of its words, a string")? else {
            return Ok(Reward::default());
        };
        let number = |name, wanted| self.field::<f64>(name, wanted);
        match word.as_str() {
            "log_return" => Ok(Reward::LogReturn),
            "pnl" => Ok(Reward::Pnl),
            "differential_sharpe" => {
                let rate = number("DifferentialSharpe.rate", "a weight in (0, 1), 0.01")?;
                Ok(Reward::DifferentialSharpe { rate: rate.unwrap_or(0.01) })
            }
            "drawdown" => {
                let weight = number("Drawdown.weight", "a factor of at least 0, 1.0")?;
                Ok(Reward::Drawdown { weight: weight.unwrap_or(1.0) })
            }
            "excess" => {
                let ticker = self.field("Excess.ticker", "the name of a ticker, \"SPY\"")?;
                let message = "reward is \"excess\", which needs a ticker to compare with; give \
                               backcast.envs.Excess(\"SPY\")";
                let ticker = ticker.ok_or_else(|| Failure::new(ErrorClass::Env, message))?;
                Ok(Reward::Excess { ticker })
            }
            _ => {
                let message = format!(
                    "reward is {word:?}; write \"log_return\", \"pnl\", \
                     \"differential_sharpe\" or \"drawdown\", or give \
                     backcast.envs.Excess(\"SPY\") or a function of a PortfolioStep"
                );
                Err(Failure::new(ErrorClass::Env, message))
            }
        }
    }

    /// Reads a sequence of names.
    fn names(&self, name: &str, example: &str) -> Result<Option<Vec<String>>, Failure> {
        self.one(name)?.map(|given| names_of(&given, name, example)).transpose()
    }

    /// Reads the fees (buy, sell) by ticker.
    fn ticker_costs(&self, wanted: &str) -> Result<BTreeMap<String, (f64, f64)>, Failure> {
        const NAME: &str = "ticker_costs";
        let all = "the fees (buy, sell) by ticker, {\"AAPL\": (0.01, 0.01)}";
        let given: BTreeMap<String, (Argument<f64>, Argument<f64>)> = self.by_ticker(NAME, all)?;
        let fee = |given: Argument<f64>, ticker: &str, order| {
            given.get(&format!("the fee of '{ticker}' for {order}, in {NAME},"), wanted)
        };
        let read = |(ticker, (buying, selling)): (String, (Argument<f64>, Argument<f64>))| {
            let fees = (fee(buying, &ticker, "buying")?, fee(selling, &ticker, "selling")?);
            Ok((ticker, fees))
        };
        given.into_iter().map(read).collect()
    }

    /// Reads the initial shares by ticker.
    fn initial_shares(&self) -> Result<BTreeMap<String, u32>, Failure> {
        const NAME: &str = "initial_shares";
        let given: BTreeMap<String, Argument<i128>> =
            self.by_ticker(NAME, "shares by ticker, {\"AAPL\": 10}")?;
        let read = |(ticker, shares): (String, Argument<i128>)| {
            let shares =
                count(shares, &format!("the number of '{ticker}' in {NAME}"), 0, ErrorClass::Env)?;
            Ok((ticker, shares))
        };
        given.into_iter().map(read).collect()
    }

    fn by_ticker<V>(&self, name: &str, wanted: &str) -> Result<BTreeMap<String, V>, Failure>
    where
        V: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(given) = self.one(name)? else { return Ok(BTreeMap::new()) };
        read(&given, name, wanted)
    }
}

/// Reads the fractions of discrete actions.
fn choices_of(given: &Bound<'_, PyAny>) -> Result<Vec<f64>, Failure> {
    const NAME: &str = "Discrete.choices";
    let each: Vec<Argument<f64>> = read(given, NAME, "fractions of hmax, (-1, 0, 1)")?;
    each.into_iter().map(|choice| choice.get(NAME, "fractions of hmax")).collect()
}

/// Reads the first day and one past the last: positions, or dates and times that name them. Also
/// takes the only range of a fold's training days.
fn days_of(given: &Bound<'_, PyAny>, panel: &Panel) -> Result<(usize, usize), Failure> {
    // Files of settings hold lists, not tuples.
    let pair =
        given.cast::<PyList>().map_or_else(|_| given.clone(), |list| list.to_tuple().into_any());
    if let Ok(ranges) = pair.cast::<PyTuple>()
        && !ranges.is_empty()
        && ranges
            .iter()
            .all(|range| range.is_instance_of::<PyTuple>() || range.is_instance_of::<PyList>())
    {
        if ranges.len() > 1 {
            let count = ranges.len();
            return Err(Failure::new(
                ErrorClass::Env,
                format!(
                    "days has {count} ranges, and an environment has one; make one for each range"
                ),
            ));
        }
        return days_of(&ranges.get_item(0)?, panel);
    }
    let wanted = "the first day and one past the last, as whole numbers, dates or None";
    let days: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = found(given.py(), pair.extract())?;
    let (start, end) = days.ok_or_else(|| wrong_type(given, "days", wanted))?;
    let day = |asked: Bound<'_, PyAny>, what| -> Result<usize, Failure> {
        let Ok(asked) = asked.extract::<Argument<i128>>();
        Ok(count(asked, what, 0, ErrorClass::Env)? as usize)
    };
    let first = "the first day of days";
    let start = match first_day_of(&start, panel, first)? {
        Some(day) => day,
        None if start.is_none() => 0,
        None => day(start, first)?,
    };
    let end = match position_of(&end, panel)? {
        Some(day) => day,
        None if end.is_none() => panel.days(),
        None => day(end, "the end of days")?,
    };
    Ok((start, end))
}

/// Returns the position of a date or a time on which something begins; `None` for other objects.
pub(super) fn first_day_of(
    given: &Bound<'_, PyAny>,
    panel: &Panel,
    what: &str,
) -> Result<Option<usize>, Failure> {
    let day = position_of(given, panel)?;
    if day != Some(panel.days()) {
        return Ok(day);
    }
    let (Some(first), Some(last)) = (panel.date(0), panel.date(panel.days() - 1)) else {
        return Ok(day);
    };
    let asked = text_of(given)?;
    Err(Failure::new(
        ErrorClass::Env,
        format!(
            "{what} is {asked}, after the last day of the panel; give a date from {first} to {last}"
        ),
    ))
}

/// Returns the position of a date or a time; `None` for other objects.
pub(super) fn position_of(
    given: &Bound<'_, PyAny>,
    panel: &Panel,
) -> Result<Option<usize>, Failure> {
    let when = when_of(given, panel.calendar())?;
    let found = when.map(|when| panel.position(&when)).transpose();
    found.map_err(|error| Failure::of(ErrorClass::Env, error))
}

/// Reads booleans `[T, D]` over the panel, or `[T]` for all days.
fn tradable_of(
    given: &Bound<'_, PyAny>,
    (tickers, days): (usize, usize),
) -> Result<Vec<bool>, Failure> {
    let target = Target { what: "tradable", class: ErrorClass::Env, dtype: DType::Bool };
    let array = array_of(given, target)?;
    let flags = bytes_of(&array).unwrap_or_default().iter().map(|&byte| byte != 0);
    match *array.shape() {
        [rows, columns] if (rows, columns) == (tickers, days) => Ok(flags.collect()),
        [rows] if rows == tickers => {
            Ok(flags.flat_map(|flag| std::iter::repeat_n(flag, days)).collect())
        }
        _ => {
            let (got, all, one) =
                (ShapeText(array.shape()), ShapeText(&[tickers, days]), ShapeText(&[tickers]));
            let message = format!(
                "tradable: got shape {got}; give {all}, one per ticker and day of the panel, or \
                 {one}"
            );
            Err(Failure::new(ErrorClass::Env, message))
        }
    }
}
