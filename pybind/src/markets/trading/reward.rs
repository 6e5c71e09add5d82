//! Rewards written in Python.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use backcast_gym::{
    EpisodeState as CoreState, RewardFactory, RewardFunction, RewardInput as CoreInput,
};
use numpy::PyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::{Argument, no_constructor, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::{CallbackObject, FirstException};
use crate::markets::trading::fill::Fills;

/// A reward written in Python: a callable object with its own state. `None` if the factory has no
/// object left, as when debug output builds a reward.
#[derive(Clone, Debug)]
pub(super) struct PythonReward(Option<CallbackObject>);

impl PythonReward {
    /// Calls the Python factory once for each of `count` agents.
    pub(super) fn factory(
        factory: &Bound<'_, PyAny>,
        count: usize,
        raised: &FirstException,
    ) -> Result<RewardFactory, Failure> {
        let mut objects = VecDeque::with_capacity(count);
        for _ in 0..count {
            let object = factory.call0().map_err(|error| explained(factory, error))?;
            if !object.is_callable() {
                let wanted = "a function or an object to call with a RewardInput";
                return Err(wrong_type(&object, "what reward() returned", wanted));
            }
            objects.push_back(CallbackObject::new(object.unbind(), raised));
        }
        let objects = Mutex::new(objects);
        Ok(RewardFactory::new(move || {
            Self(objects.lock().unwrap_or_else(PoisonError::into_inner).pop_front())
        }))
    }
}

/// Explains the error of a factory that takes arguments: most likely it is the reward itself.
fn explained(factory: &Bound<'_, PyAny>, error: PyErr) -> Failure {
    let py = factory.py();
    // Python refuses the call before the function is entered. What the function itself raises has a
    // traceback.
    if !error.is_instance_of::<PyTypeError>(py) || error.traceback(py).is_some() {
        return error.into();
    }
    let wanted = format!(
        "a function without arguments that makes the reward of one environment, reward=lambda: \
         reward, since it is called once for each ({})",
        error.value(py)
    );
    wrong_type(factory, "reward", &wanted)
}

impl RewardFunction for PythonReward {
    fn reset(&mut self, start: &CoreState) {
        if let Some(object) = &self.0 {
            object.reset((EpisodeState(*start),));
        }
    }

    fn compute(&mut self, input: &CoreInput<'_>) -> f64 {
        let reward = self.0.as_ref().and_then(|object| {
            object.call(|object| {
                let given = object.call1((RewardInput::of(input),))?;
                let Ok(given) = given.extract::<Argument<f64>>();
                let reward = given.get("what the reward returned", "a number")?;
                if reward.is_finite() {
                    return Ok(reward);
                }
                let message = format!("the reward returned {reward}; give a finite number");
                Err(Failure::new(ErrorClass::Env, message))
            })
        });
        reward.unwrap_or_default()
    }
}

/// State of an episode after a tick. Amounts are in currency units.
#[pyclass(module = "backcast.envs", name = "EpisodeState", frozen)]
pub(crate) struct EpisodeState(CoreState);

#[pymethods]
impl EpisodeState {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("EpisodeState", "a trading environment gives them to its reward"))
    }

    /// Ticks of the market since its start, the warm-up included.
    #[getter]
    fn tick(&self) -> u64 {
        self.0.tick
    }

    /// Decisions since the warm-up.
    #[getter]
    fn decisions(&self) -> u64 {
        self.0.decisions
    }

    /// Cash.
    #[getter]
    fn cash(&self) -> f64 {
        self.0.cash
    }

    /// Cash plus positions at the mark price.
    #[getter]
    fn equity(&self) -> f64 {
        self.0.equity
    }

    /// Profit of closed positions, fees excluded.
    #[getter]
    fn realized_pnl(&self) -> f64 {
        self.0.realized_pnl
    }

    /// Highest equity of the episode.
    #[getter]
    fn peak_equity(&self) -> f64 {
        self.0.peak_equity
    }

    /// Mid-price of the first symbol.
    #[getter]
    fn mid_price(&self) -> f64 {
        self.0.mid_price
    }

    /// Shares of the first symbol; negative is short.
    #[getter]
    fn position(&self) -> i32 {
        self.0.position
    }

    /// Sum of the absolute values of all positions, long and short.
    #[getter]
    fn gross_value(&self) -> f64 {
        self.0.gross_value
    }

    /// Fees paid since the start of the episode.
    #[getter]
    fn fees(&self) -> f64 {
        self.0.fees
    }

    /// Paid for borrowed shares since the start of the episode.
    #[getter]
    fn borrowing(&self) -> f64 {
        self.0.borrowing
    }

    /// Value of all fills since the start of the episode.
    #[getter]
    fn traded(&self) -> f64 {
        self.0.traded
    }

    /// Number of fills since the start of the episode.
    #[getter]
    fn fills(&self) -> u64 {
        self.0.fills
    }

    fn __repr__(&self) -> String {
        let CoreState { tick, equity, position, .. } = self.0;
        format!("<backcast.envs.EpisodeState: tick {tick}, equity {equity}, position {position}>")
    }
}

/// One decision and its result: the argument of a reward written in Python.
#[pyclass(module = "backcast.envs", name = "RewardInput", frozen)]
pub(crate) struct RewardInput {
    prev: CoreState,
    curr: CoreState,
    action: Vec<f64>,
    fills: Fills,
    initial_equity: f64,
    terminated: bool,
    truncated: bool,
}

impl RewardInput {
    fn of(input: &CoreInput<'_>) -> Self {
        Self {
            prev: *input.prev,
            curr: *input.curr,
            action: input.action.to_vec(),
            fills: Fills::of(input.fills, input.market),
            initial_equity: input.initial_equity,
            terminated: input.terminated,
            truncated: input.truncated,
        }
    }
}

#[pymethods]
impl RewardInput {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("RewardInput", "a trading environment calls its reward with one"))
    }

    /// State before the decision.
    #[getter]
    fn prev(&self) -> EpisodeState {
        EpisodeState(self.prev)
    }

    /// State after the last tick of the step.
    #[getter]
    fn curr(&self) -> EpisodeState {
        EpisodeState(self.curr)
    }

    /// Numbers of the action, symbol by symbol.
    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.action)
    }

    /// All fills of the step in sequence, a tuple of `backcast.envs.Fill`.
    #[getter]
    fn fills<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.fills.tuple(py)
    }

    /// Equity at the start of the episode, after the warm-up.
    #[getter]
    fn initial_equity(&self) -> f64 {
        self.initial_equity
    }

    /// True if bankruptcy or a margin call ended the episode.
    #[getter]
    fn terminated(&self) -> bool {
        self.terminated
    }

    /// True if the time limit ended the episode.
    #[getter]
    fn truncated(&self) -> bool {
        self.truncated
    }
}
