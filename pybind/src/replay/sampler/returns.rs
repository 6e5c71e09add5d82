//! Returns over windows, for the Python module `backcast.returns`.

use backcast_core::{
    Discount, ReturnSteps, ReturnsError, VTraceOptions, gae, lambda_returns, retrace, vtrace,
};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error::{ErrorClass, Failure};

impl From<ReturnsError> for Failure {
    fn from(error: ReturnsError) -> Self {
        Self::new(ErrorClass::Sample, error)
    }
}

/// Array of float64, `[B * T]`.
type Flat<'py> = Bound<'py, PyArray1<f64>>;

/// Compute lambda-returns; with `values`, return generalised advantages before them.
///
/// With `ratios`, return the targets of Retrace; with the limits `clips` too, return advantages and
/// targets of V-trace. All arrays are one-dimensional, and hold one value for each of `B * T`
/// transitions.
#[pyfunction]
#[pyo3(signature = (
    steps, rewards, next_values, values, terminated, truncated, mask, discounts, gamma, lam, ratios,
    clips
))]
#[expect(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "the arguments of the Python call"
)]
pub(crate) fn _window_returns<'py>(
    py: Python<'py>,
    steps: usize,
    rewards: PyReadonlyArray1<'py, f64>,
    next_values: Option<PyReadonlyArray1<'py, f64>>,
    values: Option<PyReadonlyArray1<'py, f64>>,
    terminated: PyReadonlyArray1<'py, bool>,
    truncated: PyReadonlyArray1<'py, bool>,
    mask: PyReadonlyArray1<'py, bool>,
    discounts: Option<PyReadonlyArray1<'py, f64>>,
    gamma: f64,
    lam: f64,
    ratios: Option<PyReadonlyArray1<'py, f64>>,
    clips: Option<(f64, f64)>,
) -> Result<(Option<Flat<'py>>, Flat<'py>), Failure> {
    let numbers = |array: &PyReadonlyArray1<'py, f64>| array.as_array().to_vec();
    let flags = |array: &PyReadonlyArray1<'py, bool>| array.as_array().to_vec();
    let rewards = numbers(&rewards);
    let [next_values, values, discounts, ratios] =
        [&next_values, &values, &discounts, &ratios].map(|array| array.as_ref().map(numbers));
    let [terminated, truncated, mask] = [&terminated, &truncated, &mask].map(flags);
    let (advantages, returns) = py.detach(|| {
        let steps = ReturnSteps {
            steps,
            rewards: &rewards,
            next_values: next_values.as_deref(),
            terminated: &terminated,
            truncated: &truncated,
            mask: Some(&mask),
        };
        let discount = discounts.as_deref().map_or(Discount::Constant(gamma), Discount::Steps);
        match (&values, &ratios, clips) {
            (None, ..) => lambda_returns(steps, discount, lam).map(|returns| (None, returns)),
            (Some(values), None, _) => gae(steps, values, discount, lam)
                .map(|(advantages, returns)| (Some(advantages), returns)),
            (Some(values), Some(ratios), None) => {
                retrace(steps, values, ratios, discount, lam).map(|targets| (None, targets))
            }
            (Some(values), Some(ratios), Some((rho_clip, c_clip))) => {
                let options = VTraceOptions { lambda: lam, rho_clip, c_clip };
                vtrace(steps, values, ratios, discount, options)
                    .map(|(targets, advantages)| (Some(advantages), targets))
            }
        }
    })?;
    let array = |numbers| PyArray1::from_vec(py, numbers);
    Ok((advantages.map(array), array(returns)))
}
