//! `backcast._native.SharedMarket`: several agents of the caller in one market.

mod inspect;
mod step;

use std::sync::Arc;

use backcast_gym::{MultiAgentTradingEnv, TradingError};
use backcast_sim::{Market, MarketConfig};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString};

use crate::argument::{found, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::FirstException;
use crate::markets::calling_handle::CallingHandle;
use crate::markets::contract::reset::{Seed, seed_of};
use crate::markets::trading::observation::ObservationForm;
use crate::markets::trading::outcome::{Choices, TradingOutcome};
use crate::markets::trading::settings::{
    Settings, UnknownOptions, agent_of, reset_options_of, settings_of,
};
use crate::markets::trading::trail::Trails;

/// Several agents that trade in one market, behind the environment of ``backcast.envs``.
///
/// Use :func:`backcast.envs.parallel_trading_env`, which describes the world and the settings.
///
/// Parameters
/// ----------
/// agents : dict of str to dict
///     Settings of each agent by its name: those of :class:`backcast.envs.AgentSettings`.
/// settings : dict
///     Settings of the market and its episodes: see :class:`backcast.envs.TradingSettings`. Those
///     of an agent are not read. ``background``: agents of the user in the market.
/// trails : bool
///     Keep prices, equity and trades of the last steps, for pictures.
///
/// Raises
/// ------
/// EnvError
///     If a setting is out of its range.
#[pyclass(module = "backcast._native", name = "SharedMarket", frozen)]
pub(crate) struct SharedMarket {
    env: CallingHandle<Shared>,
    market: Arc<MarketConfig>,
    agents: Vec<AgentForm>,
    /// Number of values in the observation of one agent.
    width: usize,
    form: ObservationForm,
    raised: FirstException,
}

/// The environment with the trails of its agents.
#[derive(Clone)]
struct Shared {
    env: MultiAgentTradingEnv,
    trails: Option<Trails>,
    /// Whether an agent of the user raised since the last reset.
    failed: bool,
}

/// Name and action of one agent.
#[derive(Clone)]
struct AgentForm {
    name: String,
    choices: Choices,
    /// Number of values in an action, over all symbols.
    action_len: usize,
}

#[pymethods]
impl SharedMarket {
    /// Maximum number of agents.
    #[classattr]
    const MOST_AGENTS: usize = MultiAgentTradingEnv::MOST_AGENTS;

    #[new]
    #[pyo3(signature = (agents, settings, *, trails=false))]
    fn new(
        py: Python<'_>,
        agents: &Bound<'_, PyDict>,
        settings: &Bound<'_, PyDict>,
        trails: bool,
    ) -> Result<Self, Failure> {
        let Settings { config, raised } = settings_of(settings, agents.len(), |_| Ok(()))?;
        let mut names = Vec::with_capacity(agents.len());
        let mut configs = Vec::with_capacity(agents.len());
        for (name, own) in agents {
            let Some(name) = found(py, name.extract::<String>())? else {
                return Err(wrong_type(&name, "the name of an agent", "a string"));
            };
            let own = own.cast::<PyDict>().map_err(|_| {
                wrong_type(&own, &format!("agents[{name:?}]"), "a dict of the agent's settings")
            })?;
            let read = agent_of(own, &config.simulation.market);
            configs.push(read.map_err(|failure| about(&name, failure))?);
            names.push(name);
        }
        let env = py.detach(|| MultiAgentTradingEnv::new(config, configs));
        let env = env.map_err(|error| worded(&names, &error))?;
        raised.raise()?;
        let trails = trails.then(|| Trails::new(names.len()));
        Ok(Self::around(Shared { env, trails, failed: false }, names, raised))
    }

    /// Begin an episode of all agents.
    ///
    /// Parameters
    /// ----------
    /// seed : int, optional
    ///     Seed of a new stream of episode seeds; None continues the present one.
    /// options : dict, optional
    ///     ``"episode_seed"``, ``"shares"`` and ``"cash"``. Other names are ignored, unless they
    ///     are almost one of these.
    ///
    /// Returns
    /// -------
    /// (dict, dict)
    ///     Observations and infos by agent.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an option or the seed is not valid. An exception of a reward is raised afterwards.
    #[pyo3(signature = (*, seed=None, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyDict>, Bound<'py, PyDict>), Failure> {
        let seed = match seed.map(|seed| seed_of(seed, None)).transpose()? {
            Some(Seed::One(seed)) => Some(seed),
            _ => None,
        };
        let read = |options| reset_options_of(options, None, &self.market, UnknownOptions::Ignored);
        let (choices, _) = options.map(read).transpose()?.unwrap_or_default();
        let (observations, outcomes) = self.form.observe(py, |out| {
            self.env.with(|shared| {
                let begun = shared.env.reset_into(seed, choices, out);
                begun.map_err(|error| self.reworded(&error))?;
                shared.failed = shared.has_agents() && self.raised.is_kept();
                shared.look(true);
                Ok(self.outcomes(&shared.env, |_| true))
            })
        })?;
        self.raised.raise()?;
        let (by_agent, infos) = (PyDict::new(py), PyDict::new(py));
        for (agent, outcome) in outcomes {
            let form = &self.agents[agent];
            by_agent.set_item(&form.name, observations.get_item(agent)?)?;
            infos.set_item(&form.name, outcome.infos(py, form.choices, false)?)?;
        }
        Ok((by_agent, infos))
    }

    /// Release the memory of the market. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.env.close())?;
        self.form.forget();
        Ok(())
    }

    /// Return an independent copy in the same state, random streams and rewards included.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let clone = || py.detach(|| self.env.with(|shared| Ok(shared.clone())));
        let (copy, raised) = self.raised.separated(clone);
        let copy = copy?;
        raised.raise()?;
        let names = self.agents.iter().map(|form| form.name.clone()).collect();
        Ok(Self::around(copy, names, raised))
    }

    fn __repr__(&self) -> String {
        format!("<backcast._native.SharedMarket: {}>", self.__str__())
    }

    /// Return the text that the environment shows in its repr.
    fn __str__(&self) -> String {
        let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let background = self.market.population.total();
        let state = self.env.describe(|shared| {
            let acting = shared.env.active().iter().filter(|active| **active).count();
            format!("{acting} of them act, {} ticks a step", shared.env.config().frame_skip)
        });
        format!(
            "{} and {background} in the background, {}, {state}",
            plural(self.agents.len(), "agent"),
            plural(usize::from(self.market.symbols), "symbol")
        )
    }
}

impl Shared {
    /// Returns whether agents of the user trade in the market.
    fn has_agents(&self) -> bool {
        !self.env.config().simulation.agents.is_empty()
    }

    /// Records the state after a call in the trails.
    fn look(&mut self, began: bool) {
        if let Some(trails) = &mut self.trails {
            for agent in 0..self.env.agents() {
                trails.look(agent, self.env.state(agent), began);
            }
        }
    }
}

impl SharedMarket {
    fn around(shared: Shared, names: Vec<String>, raised: FirstException) -> Self {
        let env = &shared.env;
        let market = Arc::clone(Market::config(env.market()));
        let symbols = usize::from(market.symbols);
        let form = |(agent, name)| AgentForm {
            name,
            choices: Choices::of(env.agent(agent).config(), symbols),
            action_len: env.action_range(agent).len(),
        };
        let agents: Vec<_> = names.into_iter().enumerate().map(form).collect();
        let width = env.observation_size();
        Self {
            form: ObservationForm::new(Some(agents.len()), width, false),
            agents,
            width,
            market,
            raised,
            env: CallingHandle::of_environment(shared),
        }
    }

    /// Copies the results of the agents that acted in the last call.
    fn outcomes(
        &self,
        env: &MultiAgentTradingEnv,
        acted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, TradingOutcome)> {
        let of = |agent| (agent, TradingOutcome::of_agent(env, agent, self.agents[agent].choices));
        (0..self.agents.len()).filter(|agent| acted(*agent)).map(of).collect()
    }

    /// Returns the number of an agent.
    fn number_of(&self, name: &Bound<'_, PyAny>) -> Result<usize, Failure> {
        let given = name.cast::<PyString>().ok().map(|name| name.to_string_lossy().into_owned());
        let at = given.and_then(|given| self.agents.iter().position(|form| form.name == given));
        if let Some(at) = at {
            return Ok(at);
        }
        let known: Vec<_> = self.agents.iter().map(|form| format!("'{}'", form.name)).collect();
        let message = format!("there is no agent {}; there are {}", name.repr()?, listed(&known));
        Err(Failure::new(ErrorClass::Env, message))
    }

    /// Adds the name of the agent to an error.
    fn reworded(&self, error: &TradingError) -> Failure {
        match error {
            TradingError::Agent { agent, error } => {
                let name = self.agents.get(*agent).map_or("", |form| &form.name);
                about(name, Failure::of(ErrorClass::Env, error.for_single()))
            }
            TradingError::Interrupted { .. } => Failure::interrupted(error),
            other => Failure::of(ErrorClass::Env, other.for_single()),
        }
    }
}

/// Adds the name of the agent to an error of building an environment.
fn worded(names: &[String], error: &TradingError) -> Failure {
    match error {
        TradingError::Agent { agent, error } => {
            let name = names.get(*agent).map_or("", String::as_str);
            about(name, Failure::new(ErrorClass::Env, error))
        }
        TradingError::Interrupted { .. } => Failure::interrupted(error),
        other => Failure::new(ErrorClass::Env, other),
    }
}

/// Adds the name of its agent to an error.
fn about(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Typed(class, message) => Failure::new(class, format!("agent '{name}': {message}")),
        raised @ Failure::Python(_) => raised,
    }
}

/// Returns the first of many words, and how many more there are.
fn listed(words: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = words[..words.len().min(SHOWN)].join(", ");
    match words.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
