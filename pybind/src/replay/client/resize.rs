//! Larger rings within the daemon's budget.

use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Client;
use crate::argument::{Argument, seconds_of};
use crate::capacity;
use crate::error::Failure;
use crate::location::name_of;

#[exact_arguments]
#[pymethods]
impl Client {
    /// Make a ring larger within the daemon's budget, while it is written and read.
    ///
    /// Like :meth:`ReplayBuffer.resize`, but only if the larger memory fits the budget beside the
    /// old one. The daemon restores an evicted ring first.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring.
    /// capacity : int or str
    ///     Rows over all lanes, or bytes as text (``"16GiB"``); not less than the present capacity.
    ///     With ``--when-full shrink`` the daemon may grant less.
    /// timeout : float, default 10.0
    ///     Seconds that the daemon waits for writers to relocate their lanes, at most an hour. The
    ///     rest are relocated later, at their writers' next appends.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name``, ``capacity_rows``, ``lane_capacity_rows``, ``allocated_bytes``,
    ///     ``copied_rows``, ``waiting_lanes`` (lanes that are relocated when their writers append
    ///     next, or end), and ``shrunk``.
    ///
    /// Raises
    /// ------
    /// OverBudgetError
    ///     If the larger ring exceeds the daemon's budget; the ring is unchanged.
    /// NotFoundError
    ///     If there is no such ring.
    /// ArgumentError
    ///     If the capacity is less than the present one.
    /// InUseError
    ///     If another process resizes the ring, or an earlier resize to another size is not
    ///     finished.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (name=Argument::Missing, capacity=None, *, timeout=10.0.into()))]
    #[pyo3(text_signature = "($self, name, capacity, *, timeout=10.0)")]
    fn resize<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
        capacity: Option<&Bound<'py, PyAny>>,
        timeout: Argument<f64>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name_of(name)?;
        let capacity = capacity::from_python(capacity)?;
        let timeout = seconds_of("timeout", timeout)?;
        self.answer(py, |asking| asking.resize(&name, capacity, timeout))
    }
}
