//! Objects in the daemon's directory: list, statistics and removal.

use backcast_daemon::Client as CoreClient;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Client;
use crate::argument::Argument;
use crate::error::Failure;
use crate::location::{kind_of, name_of};

#[exact_arguments]
#[pymethods]
impl Client {
    /// List all rings, panels and parameters, evicted rings included.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     The objects of ``backcast --json ls``.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If the daemon has ended.
    /// DaemonTimeoutError
    ///     If it stays silent.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn list_objects<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.answer(py, CoreClient::list)
    }

    /// Return counters and sizes of one ring.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring.
    ///
    /// Returns
    /// -------
    /// dict
    ///     The object of ``backcast --json stat``.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such ring.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (name=Argument::Missing), text_signature = "($self, name)")]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name_of(name)?;
        self.answer(py, |asking| asking.stats(&name))
    }

    /// Remove a ring, panel or set of parameters by name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the object.
    /// kind : {"ring", "panel", "params"}, optional
    ///     Needed when objects of two kinds share the name.
    /// force : bool, default False
    ///     Remove it even if a live process holds it.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such object.
    /// InUseError
    ///     If a live process holds it, and ``force`` is False.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (name=Argument::Missing, kind=None, force=false.into()))]
    #[pyo3(text_signature = "($self, name, kind=None, force=False)")]
    fn remove_object<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
        kind: Option<Argument<String>>,
        force: Argument<bool>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name_of(name)?;
        let kind = kind.map(kind_of).transpose()?;
        let force = force.get("force", "True or False")?;
        self.answer(py, |asking| asking.remove(&name, kind, force))
    }

    /// Remove objects that no process holds and that are not persistent.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If the daemon has ended.
    /// DaemonTimeoutError
    ///     If it stays silent.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn collect_garbage<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.answer(py, CoreClient::gc)
    }
}
