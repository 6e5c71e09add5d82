//! Settings of trading environments, read from a dict.

use std::str::FromStr;
use std::sync::Arc;

use backcast_core::plumbing::closest_name;
use backcast_gym::{
    ExternalAgentConfig, ParseChoiceError, PnlDeltaReward, RewardFactory, RewardScale,
    RiskAdjustedReward, SimulationConfig, TradingEnvConfig, TradingError, TradingResetOptions,
};
use backcast_sim::{AccountConfig, CASH_PER_TICK, Limits, MarketConfig};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString};

use crate::argument::{Argument, FromArgument, count_in, found, shown, whole, wrong_type};
use crate::error::{ErrorClass, Failure, signals};
use crate::markets::callback::FirstException;
use crate::markets::contract::reset::mask_of;
use crate::markets::simulation::agent::AgentResets;
use crate::markets::simulation::config::market_of;
use crate::markets::simulation::{UserAgents, agents_of};
use crate::markets::trading::reward::PythonReward;

/// Maximum number of shares of one account.
const MOST_SHARES: u32 = 100_000_000;
/// Maximum cash of one account, in cash units.
const MOST_CASH: f64 = 1e16;

/// Settings of an environment, and the exception of its rewards.
pub(super) struct Settings {
    pub(super) config: TradingEnvConfig,
    pub(super) raised: FirstException,
}

/// Reads the settings, with defaults for missing ones, for `count` agents that have a reward each.
///
/// `check` may refuse them before the Python rewards are made.
pub(super) fn settings_of(
    given: &Bound<'_, PyDict>,
    count: usize,
    check: impl FnOnce(&TradingEnvConfig) -> Result<(), TradingError>,
) -> Result<Settings, Failure> {
    let given = Given(given);
    let default = TradingEnvConfig::default();
    let market = given.market()?;
    let frame_skip = given.number("frame_skip", 1..=1_000_000)?.unwrap_or(default.frame_skip);
    let of_steps = match given.whole("max_episode_steps")? {
        Some(0) => {
            let message = "max_episode_steps is 0; give a whole number from 1 up, or None";
            return Err(Failure::new(ErrorClass::Env, message));
        }
        steps => steps.map(|steps| steps.saturating_mul(frame_skip.into())),
    };
    // The first of both limits ends an episode.
    let limits = [given.whole("max_ticks")?, of_steps];
    let max_ticks = limits.into_iter().flatten().min().unwrap_or(default.max_ticks);
    let raised = FirstException::default();
    let mut config = TradingEnvConfig {
        agent: given.agent(&market)?,
        max_ticks,
        warmup_ticks: given.whole("warmup_ticks")?.unwrap_or(default.warmup_ticks),
        frame_skip,
        seed: given.whole("seed")?,
        seed_space: given.word("seed_space")?,
        reward: RewardFactory::default(),
        features: given.word("features")?,
        private_features: given
            .get("private_features", "True or False")?
            .unwrap_or(default.private_features),
        mark: given.word("mark")?,
        bankruptcy_equity: given
            .get("bankruptcy_equity", "an amount of currency units")?
            .unwrap_or(default.bankruptcy_equity),
        initial_margin: given
            .get("initial_margin", "0, or a fraction from maintenance_margin to 1")?
            .unwrap_or(default.initial_margin),
        maintenance_margin: given
            .get("maintenance_margin", "a fraction in [0, 1); 0 calls below an equity of 0")?
            .unwrap_or(default.maintenance_margin),
        warm_snapshots: given
            .number("warm_snapshots", 0..=1_024)?
            .unwrap_or(default.warm_snapshots),
        simulation: SimulationConfig {
            market,
            agents: given.agents(&raised)?,
            interrupt: signals::interrupt(),
        },
    };
    check(&config)?;
    config.reward = given.reward(count, &raised)?;
    Ok(Settings { config, raised })
}

/// Reads the settings of one of several agents in `market`, with defaults for missing ones.
pub(super) fn agent_of(
    given: &Bound<'_, PyDict>,
    market: &MarketConfig,
) -> Result<ExternalAgentConfig, Failure> {
    Given(given).agent(market)
}

/// Converts an amount of currency units to cash units.
fn cash_units(what: &str, amount: f64, market: &MarketConfig) -> Result<i64, Failure> {
    let units = amount / market.tick_size * CASH_PER_TICK as f64;
    if (0.0..=MOST_CASH).contains(&units) {
        return Ok(units.round() as i64);
    }
    let most = MOST_CASH * market.tick_size / CASH_PER_TICK as f64;
    let message = format!("{what} is {amount}; give an amount from 0 to {most} currency units");
    Err(Failure::new(ErrorClass::Env, message))
}

/// Reads a number of shares; negative is short.
fn signed_shares(what: &str, given: Argument<i128>) -> Result<i32, Failure> {
    let wanted = format!("a whole number of shares from -{MOST_SHARES} to {MOST_SHARES}");
    let shares = given.get(what, &wanted)?;
    let refused = || Failure::new(ErrorClass::Env, format!("{what} is {shares}; give {wanted}"));
    let within = shares.unsigned_abs() <= u128::from(MOST_SHARES);
    i32::try_from(shares).ok().filter(|_| within).ok_or_else(refused)
}

struct Given<'a, 'py>(&'a Bound<'py, PyDict>);

/// Returns whether an object has the form of a market's settings.
fn is_config(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_plain = given.is_instance_of::<PyDict>() || given.is_instance_of::<PyString>();
    Ok(is_plain || given.getattr_opt("to_dict")?.is_some())
}

impl<'py> Given<'_, 'py> {
    /// Returns a setting, unless it is missing or None.
    fn one(&self, name: &str) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    fn named<T: FromArgument>(&self, name: &str) -> Result<Option<Argument<T>>, Failure> {
        Ok(self.one(name)?.map(|value| value.extract().unwrap_or_else(|never| match never {})))
    }

    fn get<T: FromArgument>(&self, name: &str, wanted: &str) -> Result<Option<T>, Failure> {
        self.named::<T>(name)?.map(|given| given.get(name, wanted)).transpose()
    }

    fn number(
        &self,
        name: &str,
        limits: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, Failure> {
        let given = self.named::<i128>(name)?;
        given.map(|asked| count_in(asked, name, limits, ErrorClass::Env)).transpose()
    }

    fn whole(&self, name: &str) -> Result<Option<u64>, Failure> {
        let given = self.named::<i128>(name)?;
        let wanted = "a whole number from 0 up";
        given.map(|asked| whole(asked, name, wanted, ErrorClass::Env)).transpose()
    }

    fn word<T: Default + FromStr<Err = ParseChoiceError>>(&self, name: &str) -> Result<T, Failure> {
        let Some(word) = self.get::<String>(name, "one of its words, a string")? else {
            return Ok(T::default());
        };
        word.parse().map_err(|error| Failure::new(ErrorClass::Env, error))
    }

    /// Reads the market, from a preset or from settings.
    fn market(&self) -> Result<MarketConfig, Failure> {
        let preset = self.one("preset")?;
        let market = match (self.one("market")?, preset) {
            (Some(_), Some(preset)) => {
                let preset = shown(&preset)?;
                let message = format!(
                    "both preset ({preset}) and market are given; give one of them: \
                     sim.MarketConfig.preset(name) is a market to change"
                );
                return Err(Failure::new(ErrorClass::Env, message));
            }
            (Some(market), None) if is_config(&market)? => market_of(&market),
            (Some(market), None) => {
                let wanted = "a backcast.sim.MarketConfig, or a dict of settings by name";
                return Err(wrong_type(&market, "market", wanted));
            }
            (None, Some(preset)) if preset.is_instance_of::<PyString>() => market_of(&preset),
            (None, Some(preset)) => {
                return Err(wrong_type(&preset, "preset", "the name of a preset, \"normal\""));
            }
            (None, None) => Ok(MarketConfig::default()),
        };
        market.map_err(as_env_error)
    }

    fn agent(&self, market: &MarketConfig) -> Result<ExternalAgentConfig, Failure> {
        let default = ExternalAgentConfig::default();
        let shares = |name, least| {
            let number = self.number(name, least..=MOST_SHARES)?;
            Ok::<_, Failure>(number.map(|number| number as i32))
        };
        let start = self.named::<i128>("initial_shares")?;
        let start = start.map(|start| signed_shares("initial_shares", start)).transpose()?;
        let cash = self.get::<f64>("initial_cash", "an amount of currency units from 0 up")?;
        let cash = cash.map(|cash| cash_units("initial_cash", cash, market)).transpose()?;
        let limits = default.account.limits;
        let limits = Limits {
            long: shares("long_limit", 0)?.unwrap_or(limits.long),
            short: shares("short_limit", 0)?.unwrap_or(limits.short),
            order: shares("order_limit", 1)?.unwrap_or(limits.order),
        };
        let account = AccountConfig {
            cash: cash.unwrap_or(default.account.cash),
            shares: start.unwrap_or(default.account.shares),
            limits,
        };
        Ok(ExternalAgentConfig {
            account,
            latency_ticks: self
                .number("latency_ticks", 0..=1_000_000)?
                .unwrap_or(default.latency_ticks),
            order_size: shares("order_size", 1)?.unwrap_or(default.order_size),
            max_slippage: shares("max_slippage", 1)?.unwrap_or(default.max_slippage),
            max_offset: shares("max_offset", 1)?.unwrap_or(default.max_offset),
            allow_short: self.get("allow_short", "True or False")?.unwrap_or(default.allow_short),
            actions: self.word("actions")?,
            commands: self.number("commands", 1..=16)?.unwrap_or(default.commands),
        })
    }

    /// Reads agents of the user that trade in the market beside the built-in ones.
    fn agents(&self, raised: &FirstException) -> Result<UserAgents, Failure> {
        // Where agents from outside are called `agents`, those of the market are the background.
        for what in ["agents", "background"] {
            if let Some(given) = self.one(what)? {
                let read = agents_of(&given, what, AgentResets::Copies, raised);
                return read.map_err(as_env_error);
            }
        }
        Ok(UserAgents::new())
    }

    /// Reads the reward: a name with its parameters, or a Python factory.
    fn reward(&self, count: usize, raised: &FirstException) -> Result<RewardFactory, Failure> {
        let options = self.one("reward_options")?;
        let reward = self.one("reward")?;
        let Some(factory) = reward.filter(|reward| !reward.is_instance_of::<PyString>()) else {
            return self.named_reward(options.as_ref());
        };
        if !factory.is_callable() {
            let wanted = "\"pnl_delta\", \"risk_adjusted\", or a function that returns a reward";
            return Err(wrong_type(&factory, "reward", wanted));
        }
        if let Some(options) = options {
            let wanted = "None with a reward of your own, whose parameters your function knows";
            return Err(wrong_type(&options, "reward_options", wanted));
        }
        PythonReward::factory(&factory, count, raised)
    }

    fn named_reward(&self, options: Option<&Bound<'py, PyAny>>) -> Result<RewardFactory, Failure> {
        let name = self.get::<String>("reward", "the name of a reward")?;
        let name = name.unwrap_or_else(|| "pnl_delta".to_owned());
        let known: &[&str] = match name.as_str() {
            "pnl_delta" => &["scale"],
            "risk_adjusted" => &[
                "scale",
                "drawdown_penalty",
                "transaction_cost_per_trade",
                "sharpe_terminal_bonus",
            ],
            _ => {
                let message = format!(
                    "reward is \"{name}\"; write \"pnl_delta\" or \"risk_adjusted\", or give a \
                     function that returns a reward"
                );
                return Err(Failure::new(ErrorClass::Env, message));
            }
        };
        let empty = PyDict::new(self.0.py());
        let options = match options {
            Some(options) => options.cast::<PyDict>().map_err(|_| {
                let wanted = "a dict of the reward's parameters, {\"scale\": \"currency\"}";
                wrong_type(options, "reward_options", wanted)
            })?,
            None => &empty,
        };
        for key in options.keys() {
            let name_of = found(key.py(), key.extract::<String>())?.unwrap_or_default();
            if !known.contains(&name_of.as_str()) {
                let key = key.repr()?;
                let hint = closest_name(&name_of, known.iter().copied())
                    .map_or_else(|| "it".to_owned(), |near| format!("did you mean '{near}'? It"));
                let message = format!(
                    "reward_options has {key}, which \"{name}\" does not take; {hint} takes {}",
                    known.join(", ")
                );
                return Err(Failure::new(ErrorClass::Env, message));
            }
        }
        let options = Given(options);
        let scale: RewardScale = options.word("scale")?;
        if name == "pnl_delta" {
            return Ok(RewardFactory::new(move || PnlDeltaReward { scale }));
        }
        let weight = |name| {
            let weight = options.get::<f64>(name, "a number")?.unwrap_or_default();
            if weight.is_finite() {
                return Ok(weight);
            }
            let message = format!("{name} is {weight}; give a finite number");
            Err(Failure::new(ErrorClass::Env, message))
        };
        let weights = [
            weight("drawdown_penalty")?,
            weight("transaction_cost_per_trade")?,
            weight("sharpe_terminal_bonus")?,
        ];
        if weights.iter().all(|weight| *weight == 0.0) {
            let message = "reward \"risk_adjusted\" is \"pnl_delta\" without a weight; give \
                           drawdown_penalty, transaction_cost_per_trade or sharpe_terminal_bonus \
                           in reward_options"
                .to_owned();
            return Err(Failure::new(ErrorClass::Env, message));
        }
        let [drawdown, fill, sharpe] = weights;
        let reward = RiskAdjustedReward::new(drawdown, fill, sharpe);
        Ok(RewardFactory::new(move || reward.with_scale(scale)))
    }
}

/// Turns an error about a market into one about an environment's settings.
fn as_env_error(failure: Failure) -> Failure {
    match failure {
        Failure::Typed(ErrorClass::Sim, message) => Failure::Typed(ErrorClass::Env, message),
        other => other,
    }
}

/// Whether a reset refuses options with unknown names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownOptions {
    Refused,
    /// They are ignored, unless their names are almost those of known ones.
    Ignored,
}

/// Reads the `options` of a reset.
pub(super) fn reset_options_of(
    options: &Bound<'_, PyAny>,
    num_envs: Option<usize>,
    market: &Arc<MarketConfig>,
    unknown: UnknownOptions,
) -> Result<(TradingResetOptions, Option<Vec<bool>>), Failure> {
    const KNOWN: [&str; 4] = ["episode_seed", "shares", "cash", "reset_mask"];
    let known = &KNOWN[..KNOWN.len() - usize::from(num_envs.is_none())];
    let options = options
        .cast::<PyDict>()
        .map_err(|_| wrong_type(options, "options", "a dict, {\"episode_seed\": 5}, or None"))?;
    let (mut choices, mut mask) = (TradingResetOptions::default(), None);
    for (key, value) in options {
        let Ok(number) = value.extract::<Argument<i128>>();
        let name = found(key.py(), key.extract::<String>())?.unwrap_or_default();
        match (name.as_str(), num_envs) {
            ("episode_seed", _) => {
                let wanted = format!("a whole number from 0 to {}", u64::MAX);
                choices.episode_seed =
                    Some(whole(number, "episode_seed", &wanted, ErrorClass::Env)?);
            }
            ("shares", _) => {
                choices.shares = Some(signed_shares("shares", number)?);
            }
            ("cash", _) => {
                let Ok(cash) = value.extract::<Argument<f64>>();
                let cash = cash.get("cash", "an amount of currency units from 0 up")?;
                choices.cash = Some(cash_units("cash", cash, market)?);
            }
            ("reset_mask", Some(num_envs)) => mask = Some(mask_of(&value, num_envs)?),
            _ => {
                let near = closest_name(&name, known.iter().copied());
                if unknown == UnknownOptions::Ignored && near.is_none() {
                    continue;
                }
                let (last, others) = known.split_last().unwrap_or((&"nothing", &[]));
                let others = others.join("\", \"");
                let key = key.repr()?;
                let begin = near.map_or_else(
                    || "reset".to_owned(),
                    |near| format!("did you mean \"{near}\"? Reset"),
                );
                let message =
                    format!("options has {key}; {begin} knows \"{others}\" and \"{last}\"");
                return Err(Failure::new(ErrorClass::Env, message));
            }
        }
    }
    Ok((choices, mask))
}
