//! Functions of the caller that a batch passes through: hindsight's rewards, and a transform.

use backcast_core::{GoalStrategy, Hindsight};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::wrong_type;
use crate::error::{ErrorClass, Failure};

/// Functions that change a batch after it was gathered, in the thread that receives it.
#[derive(Debug, Default)]
pub(crate) struct BatchFunctions {
    hindsight: Option<Py<PyAny>>,
    transform: Option<Py<PyAny>>,
    /// Transitions of n-step returns, and their discount unless a column has it.
    returns: Option<(u32, Option<f64>)>,
}

impl BatchFunctions {
    pub(crate) fn new(
        hindsight: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        if let Some(given) = transform.filter(|given| !given.is_callable()) {
            return Err(wrong_type(
                given,
                "transform",
                "a function that takes and returns a batch",
            ));
        }
        let kept = |given: Option<&Bound<'_, PyAny>>| given.map(|given| given.clone().unbind());
        Ok(Self { hindsight: kept(hindsight), transform: kept(transform), returns: None })
    }

    /// Sets the n-step returns of the batches, and their discount unless a column has it.
    pub(super) fn with_returns(self, n_step: Option<u32>, gamma: Option<f64>) -> Self {
        Self { returns: n_step.map(|n_step| (n_step, gamma)), ..self }
    }

    /// Passes a batch through the functions. `drawn` is false for a gather by index, which relabels
    /// no goal.
    pub(crate) fn apply<'py>(
        &self,
        batch: Bound<'py, PyDict>,
        drawn: bool,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let py = batch.py();
        if drawn {
            self.store_rewards(&batch)?;
        }
        let Some(transform) = &self.transform else { return Ok(batch.into_any()) };
        let changed = transform.bind(py).call1((batch,))?;
        if changed.is_none() {
            let message = "transform returned None; return the batch, changed in place or new";
            return Err(Failure::new(ErrorClass::Sample, message));
        }
        Ok(changed)
    }

    /// Stores the rewards of goals that were relabelled in a batch that was drawn, and the ends and
    /// n-step returns that follow from the new goals.
    pub(crate) fn store_rewards(&self, batch: &Bound<'_, PyDict>) -> Result<(), Failure> {
        if let Some(hindsight) = &self.hindsight {
            let py = batch.py();
            let hindsight = hindsight.bind(py);
            let discounts = matches!(self.returns, Some((_, None)));
            hindsight.call_method1(intern!(py, "_store_rewards"), (batch, discounts))?;
            if let Some((n_step, gamma)) = self.returns {
                let name = intern!(py, "_store_returns");
                hindsight.call_method1(name, (batch, n_step, gamma))?;
            }
        }
        Ok(())
    }
}

/// Reads the settings of a `backcast.Hindsight`.
pub(crate) fn hindsight_of(given: &Bound<'_, PyAny>) -> Result<Hindsight, Failure> {
    let py = given.py();
    let class = py.import(intern!(py, "backcast._hindsight"))?.getattr(intern!(py, "Hindsight"))?;
    if !given.is_instance(&class)? {
        return Err(wrong_type(given, "hindsight", "a backcast.Hindsight"));
    }
    let strategy: String = given.getattr(intern!(py, "strategy"))?.extract()?;
    let ratio: f64 = given.getattr(intern!(py, "ratio"))?.extract()?;
    let [achieved, desired] = ["achieved", "desired"]
        .map(|name| given.getattr(name).and_then(|name| name.extract::<String>()));
    let strategy = GoalStrategy::named(&strategy).unwrap_or_default();
    let goals = Hindsight::new(strategy).ratio(ratio).columns(&achieved?, &desired?);
    let keeps_ends = given.getattr(intern!(py, "terminated"))?.is_none();
    Ok(if keeps_ends { goals } else { goals.terminated() })
}
