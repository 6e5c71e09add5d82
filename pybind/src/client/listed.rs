//! What there is in the daemon's directory: listed, told of, and removed.

use backcast_daemon::Client as Asking;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::Client;
use crate::error::Failure;
use crate::given::{Given, method, refuse_strangers};
use crate::place::{kind, name_of};

#[pymethods]
impl Client {
    /// List all rings and panels.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     The objects of ``backcast --json ls``.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn list<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("list"))?;
        self.told(py, Asking::list)
    }

    /// Tell everything about one ring.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    ///
    /// Returns
    /// -------
    /// dict
    ///     The object of ``backcast --json stat``.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    #[pyo3(signature = (name=Given::Missing, *extra, **unknown), text_signature = "($self, name)")]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("stats"))?;
        let name = name_of(name)?;
        self.told(py, |asking| asking.stats(&name))
    }

    /// Remove a ring or panel by name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// kind : {"ring", "panel"}, optional
    ///     Needed when a ring and a panel share the name.
    /// force : bool, default False
    ///     Also when a live process holds it.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    /// InUseError
    ///     If a live process holds it.
    #[pyo3(signature = (name=Given::Missing, kind=None, force=false.into(), *extra, **unknown))]
    #[pyo3(text_signature = "($self, name, kind=None, force=False)")]
    fn remove<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        kind: Option<Given<String>>,
        force: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("remove"))?;
        let name = name_of(name)?;
        let kind = kind.map(self::kind).transpose()?;
        let force = force.get("force", "True or False")?;
        self.told(py, |asking| asking.remove(&name, kind, force))
    }

    /// Remove what nobody holds and nobody asked to keep.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn gc<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("gc"))?;
        self.told(py, Asking::gc)
    }
}
