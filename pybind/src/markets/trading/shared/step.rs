//! Steps of several agents in one market: actions by agent in, results by agent out.

use backcast_core::DType;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::wrong_type;
use crate::array::convert::{ShapeText, Target, array_of};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::refuse_void;
use crate::markets::trading::shared::{AgentForm, SharedMarket, listed};

/// Observations, rewards, terminations, truncations and infos by agent.
type Step<'py> = (
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
);

#[pymethods]
impl SharedMarket {
    /// Take one decision of every agent that still acts.
    ///
    /// Parameters
    /// ----------
    /// actions : dict of str to array_like
    ///     Action of each of these agents, and of no other.
    ///
    /// Returns
    /// -------
    /// (dict, dict, dict, dict, dict)
    ///     Observations, rewards, terminations, truncations and infos of the agents that acted.
    ///     When an episode of an agent ended, its info holds ``metrics``.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an action is missing or out of range, or the environment has to be reset first.
    ///     Nothing has changed then. An exception of a reward is raised after the step.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> Result<Step<'py>, Failure> {
        let actions = actions.cast::<PyDict>().map_err(|_| {
            wrong_type(actions, "actions", "a dict with the action of each agent by its name")
        })?;
        let active = self.env.with(|shared| Ok(shared.env.active().to_vec()))?;
        let numbers = self.numbers_of(actions, &active)?;
        let (observations, outcomes) = self.form.observe(py, |out| {
            self.env.with(|shared| {
                if shared.env.active() != active {
                    let message = "another thread reset or stepped the environment meanwhile; \
                                   give each thread its own";
                    return Err(Failure::new(ErrorClass::Env, message));
                }
                refuse_void(shared.failed)?;
                let done = shared.env.step_into(&numbers, out);
                done.map_err(|error| self.reworded(&error))?;
                shared.failed = shared.has_agents() && self.raised.is_kept();
                shared.look(false);
                Ok(self.outcomes(&shared.env, |agent| active[agent]))
            })
        })?;
        self.raised.raise()?;
        let [by_agent, rewards, terminated, truncated, infos] = [(); 5].map(|()| PyDict::new(py));
        for (agent, outcome) in outcomes {
            let AgentForm { name, choices, .. } = &self.agents[agent];
            by_agent.set_item(name, observations.get_item(agent)?)?;
            rewards.set_item(name, outcome.first.0)?;
            terminated.set_item(name, outcome.first.1)?;
            truncated.set_item(name, outcome.first.2)?;
            infos.set_item(name, outcome.infos(py, *choices, false)?)?;
        }
        Ok((by_agent, rewards, terminated, truncated, infos))
    }
}

impl SharedMarket {
    /// Reads the actions of the agents that still act, one agent after the other. Numbers of the
    /// others are NaN, which is no action.
    fn numbers_of(
        &self,
        actions: &Bound<'_, PyDict>,
        active: &[bool],
    ) -> Result<Vec<f64>, Failure> {
        let acting = || self.agents.iter().zip(active).filter(|(_, active)| **active);
        let refuse = |why: String| {
            let names: Vec<_> = acting().map(|(form, _)| format!("'{}'", form.name)).collect();
            let message = format!("{why}; give one for each of env.agents: {}", listed(&names));
            Failure::new(ErrorClass::Env, message)
        };
        let mut numbers = Vec::with_capacity(self.agents.len());
        for (form, active) in self.agents.iter().zip(active) {
            if !active {
                numbers.resize(numbers.len() + form.action_len, f64::NAN);
                continue;
            }
            let missing = || refuse(format!("actions has none for agent '{}'", form.name));
            form.read(&actions.get_item(&form.name)?.ok_or_else(missing)?, &mut numbers)?;
        }
        let count = acting().count();
        // Without an agent that acts the environment itself refuses the step.
        if actions.len() > count && count > 0 {
            for name in actions.keys() {
                let agent = self.number_of(&name)?;
                if !active[agent] {
                    let name = &self.agents[agent].name;
                    return Err(refuse(format!("actions has one for '{name}', which has left")));
                }
            }
        }
        Ok(numbers)
    }
}

impl AgentForm {
    /// Reads an action of this agent and adds its numbers to those of the agents before it.
    fn read(&self, action: &Bound<'_, PyAny>, numbers: &mut Vec<f64>) -> Result<(), Failure> {
        let what = &format!("actions['{}']", self.name);
        let target = Target { what, class: ErrorClass::Env, dtype: DType::F64 };
        let array = array_of(action, target)?;
        let full = [self.action_len];
        let commands: Vec<usize>;
        let short = if self.choices.commands > 0 {
            commands = self.choices.command_shape();
            &commands[..]
        } else {
            &full[usize::from(self.action_len == 1)..]
        };
        if array.shape() != full && array.shape() != short {
            let (got, wanted) = (ShapeText(array.shape()), ShapeText(short));
            return Err(target.refuse(format!("got shape {got}; give {wanted}")));
        }
        let bytes = bytes_of(&array).unwrap_or_default();
        numbers
            .extend(bytes.chunks_exact(size_of::<f64>()).map(bytemuck::pod_read_unaligned::<f64>));
        Ok(())
    }
}
