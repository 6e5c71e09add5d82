//! Properties of several agents in one market: spaces, metrics, book, pictures.

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::Argument;
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::metrics::{self, StopLosses};
use crate::markets::trading::inspect::{
    ActionForm, BookArrays, FeatureRow, Sides, action_form, feature_row, nothing_drawn, picture_of,
};
use crate::markets::trading::observation::ObservationForm;
use crate::markets::trading::shared::SharedMarket;

#[pymethods]
impl SharedMarket {
    /// Names of the agents that act in the next step.
    #[getter]
    fn acting(&self) -> Result<Vec<String>, Failure> {
        self.env.with(|shared| {
            let agents = self.agents.iter().zip(shared.env.active());
            Ok(agents.filter(|(_, acts)| **acts).map(|(form, _)| form.name.clone()).collect())
        })
    }

    /// Number of symbols, ``S``.
    #[getter]
    fn symbols(&self) -> u16 {
        self.market.symbols
    }

    /// Return the form of an agent's action: see ``TradingBatch.action_form``.
    fn action_form(&self, agent: &Bound<'_, PyAny>) -> Result<ActionForm, Failure> {
        let agent = self.number_of(agent)?;
        let form = &self.agents[agent];
        self.env.with(|shared| {
            Ok(action_form(shared.env.agent(agent).config(), form.choices, form.action_len))
        })
    }

    /// Entries of an observation: symbol, name, unit, lowest and highest value.
    #[getter]
    fn features(&self) -> Result<Vec<FeatureRow>, Failure> {
        self.env.with(|shared| Ok(shared.env.observation_entries().map(feature_row).collect()))
    }

    /// Return observations of all ``K`` agents, one after the other, float32 ``[K * F]``.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset.
    fn state<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let form = ObservationForm::new(None, self.agents.len() * self.width, false);
        let (state, ()) = form.observe(py, |out| {
            self.env
                .with(|shared| shared.env.observe_into(out).map_err(|error| self.reworded(&error)))
        })?;
        Ok(state)
    }

    /// Return metrics of the running episode of each agent so far.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset.
    fn metrics_so_far<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let so_far = self.env.with(|shared| {
            let of = |agent| shared.env.metrics_so_far(agent).ok_or_else(never_reset);
            (0..self.agents.len()).map(of).collect::<Result<Vec<_>, Failure>>()
        })?;
        let by_agent = PyDict::new(py);
        for (form, metrics) in self.agents.iter().zip(so_far) {
            let metrics = metrics::so_far(py, vec![metrics], false, StopLosses::None)?;
            by_agent.set_item(&form.name, metrics)?;
        }
        Ok(by_agent)
    }

    /// Return the order book of a symbol: see ``TradingBatch.book``.
    fn book<'py>(
        &self,
        py: Python<'py>,
        symbol: Argument<i128>,
        levels: Argument<i128>,
    ) -> Result<BookArrays<'py>, Failure> {
        let sides = Sides::of(symbol, levels, usize::from(self.market.symbols))?;
        self.env.with(|shared| Ok(sides.read(shared.env.market())))?.arrays(py)
    }

    /// Draw the running episode of one agent, of an environment that keeps trails.
    ///
    /// Parameters
    /// ----------
    /// agent : str
    ///     Agent.
    /// ansi : bool
    ///     Draw text instead of pixels.
    ///
    /// Returns
    /// -------
    /// ndarray or str
    ///     uint8 ``[480, 640, 3]``, or lines of text.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If there is no such agent or no trail is kept, or before the first reset.
    fn picture<'py>(
        &self,
        py: Python<'py>,
        agent: &Bound<'_, PyAny>,
        ansi: bool,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let agent = self.number_of(agent)?;
        let scene = self.env.with(|shared| {
            let trails = shared.trails.as_ref().ok_or_else(nothing_drawn)?;
            shared.env.metrics_so_far(agent).ok_or_else(never_reset)?;
            Ok(trails.scene(agent, shared.env.market()))
        })?;
        picture_of(py, &scene, ansi)
    }
}

fn never_reset() -> Failure {
    let error = backcast_gym::EpisodeError::NotReset { env: 0 };
    Failure::of(ErrorClass::Env, error.for_single())
}
