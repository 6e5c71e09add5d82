//! Results of a step of portfolios: rewards, flags and ended episodes.

use backcast_gym::{EpisodeMetrics, PortfolioVectorEnv as CoreEnv, StepDetails};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::error::Failure;
use crate::markets::contract::metrics::{self, StopLosses};
use crate::markets::portfolio::details;
use crate::markets::portfolio::observation::{LastObservation, ObservationForm};

/// Results of a step, copied while the environment was locked.
pub(crate) struct PortfolioOutcome {
    /// Reward and flags of the first portfolio.
    pub(crate) first: (f64, bool, bool),
    /// Metrics of the episodes that ended, if any did.
    ends: Option<Vec<Option<EpisodeMetrics>>>,
    /// Orders, fills and costs, if they are kept.
    details: Option<StepDetails>,
    /// Last observations of the episodes that ended, in same-step mode.
    finals: Option<Vec<Option<LastObservation>>>,
}

impl PortfolioOutcome {
    /// Copies the results of the last step.
    pub(crate) fn of(env: &CoreEnv, results: Option<[&mut [u8]; 3]>) -> Self {
        let ended = env.ended();
        let any = ended.contains(&true);
        // An environment that ended and began in one step was in same-step mode, even if its mode
        // has changed since.
        let restarted = |at: usize| ended[at] && env.began()[at];
        let same_step = any && (0..ended.len()).any(restarted);
        let last = |at: usize| {
            let obs = restarted(at).then(|| env.final_row(at)).flatten()?;
            let days = history_of(env, at, obs.day[0]);
            Some(LastObservation { obs, days })
        };
        if let Some([rewards, terminated, truncated]) = results {
            rewards.copy_from_slice(bytemuck::cast_slice(env.rewards()));
            terminated.copy_from_slice(bytemuck::cast_slice(env.terminated()));
            truncated.copy_from_slice(bytemuck::cast_slice(env.truncated()));
        }
        let came_to = |(at, &ended): (usize, &bool)| ended.then(|| env.metrics()[at]);
        Self {
            first: (env.rewards()[0], env.terminated()[0], env.truncated()[0]),
            details: env.details().cloned(),
            ends: any.then(|| ended.iter().enumerate().map(came_to).collect()),
            finals: same_step.then(|| (0..ended.len()).map(last).collect()),
        }
    }

    /// Returns the infos of the step. `many` chooses the form of vector environments.
    pub(crate) fn infos<'py>(
        &self,
        py: Python<'py>,
        form: &ObservationForm,
        many: bool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let infos = PyDict::new(py);
        if let Some(details) = &self.details {
            details::add(&infos, details, many)?;
        }
        if let Some(ends) = &self.ends {
            metrics::add(&infos, ends, many, StopLosses::Counted)?;
            if let Some(finals) = &self.finals {
                let last = PyDict::new(py);
                metrics::add(&last, ends, true, StopLosses::Counted)?;
                // Gymnasium looks there for the infos of the step that ended an episode.
                if let Some(details) = &self.details {
                    details::add(&last, details, true)?;
                }
                add_finals(form, &infos, finals, last)?;
            }
        }
        Ok(infos)
    }
}

/// Adds final observations and infos in the form of Gymnasium's vector environments.
fn add_finals(
    form: &ObservationForm,
    infos: &Bound<'_, PyDict>,
    finals: &[Option<LastObservation>],
    last: Bound<'_, PyDict>,
) -> Result<(), Failure> {
    let py = infos.py();
    let rows = finals
        .iter()
        .map(|last| match last {
            Some(last) => Ok(form.row(py, last)?.unbind()),
            None => Ok(py.None()),
        })
        .collect::<Result<Vec<Py<PyAny>>, Failure>>()?;
    let ended = || PyArray1::from_iter(py, finals.iter().map(Option::is_some));
    infos.set_item("final_obs", PyArray1::from_vec(py, rows))?;
    infos.set_item("_final_obs", ended())?;
    infos.set_item("final_info", last)?;
    infos.set_item("_final_info", ended())?;
    Ok(())
}

/// Returns the history of the last observation of an episode, if histories are shown.
fn history_of(env: &CoreEnv, at: usize, day: i32) -> Option<(Vec<f32>, Vec<u8>)> {
    let [history, rows, columns] = env.history_shape();
    let cells = history * rows;
    let (mut out, mut mask) = (vec![0.0; cells * columns], vec![0; cells]);
    let day = usize::try_from(day).ok().filter(|_| history > 0)?;
    env.history_into(at, day, &mut out, &mut mask).ok()?;
    Some((out, mask))
}
