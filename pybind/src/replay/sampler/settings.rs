//! Settings of a sampler, as its attributes.

use backcast_core::{PolicyVersion, SampleError};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Sampler;
use super::selector::in_python;
use crate::argument::{Argument, whole};
use crate::error::{ErrorClass, Failure};

#[pymethods]
impl Sampler {
    /// The seed, also of a sampler that was not given one.
    #[getter]
    fn seed(&self) -> u64 {
        self.draws.seed
    }

    /// Length of the history window, ``H``, or None.
    ///
    /// If ``history`` or ``columns`` named columns, a dict of their windows. None with sequences.
    #[getter]
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.windows.history_of(py)
    }

    /// Length of the future window, ``F``, or 0.
    #[getter]
    fn future(&self) -> u32 {
        self.windows.future
    }

    /// Transitions of n-step returns, or None.
    #[getter]
    fn n_step(&self) -> Option<u32> {
        self.windows.n_step
    }

    /// Discount of n-step returns, "discount" for those of the column, or None.
    #[getter]
    fn gamma<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.windows.gamma_of(py)
    }

    /// Selector: a word, or an object such as ``Priority``.
    #[getter]
    pub(super) fn select<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let beta = self.priorities.as_ref().map(|of| of.beta_of(py)).transpose()?;
        in_python(py, &self.selector, beta.flatten())
    }

    /// Rule for windows beyond their episode: "mask", "reject" or "clamp".
    #[getter]
    fn boundary(&self) -> &'static str {
        self.windows.boundary.as_str()
    }

    /// Rank of this learner, from 0, and the number of learners that share the draws of the seed.
    #[getter]
    fn share(&self) -> (u32, u32) {
        self.windows.share
    }

    /// Maximum age of rows: a number of rows, a dict by key of a batch, or None.
    #[getter]
    fn max_age<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.windows.max_age.in_python(py)
    }

    /// Version of the policy that the learner has published last, or None before it is set.
    ///
    /// ``policy_age`` in a batch counts from it, and is never below 0. Before it is set,
    /// ``policy_age`` counts from the largest ``policy_version`` in the newest rows of the lanes.
    /// Set it after each publish, also while batches are drawn ahead, and after a return to an
    /// older checkpoint, whose versions are smaller. Each sampler has its own; :meth:`state` keeps
    /// it. Needs a column ``policy_version``.
    #[getter]
    fn policy_version(&self) -> Option<u64> {
        self.draws.policy_version.as_ref().and_then(PolicyVersion::get)
    }

    #[setter]
    fn set_policy_version(&self, version: Argument<i128>) -> Result<(), Failure> {
        let Some(known) = &self.draws.policy_version else {
            return Err(SampleError::NoPolicyVersion.into());
        };
        let wanted = "a whole number from 0 up";
        known.set(whole(version, "policy_version", wanted, ErrorClass::Sample)?);
        Ok(())
    }

    /// Sequences, whole episodes or rollouts, or None if transitions are drawn.
    #[getter]
    pub(super) fn form<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.windows.form_of(py)
    }
}
