//! Snapshots in the daemon's store: saving and listing.

use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Client;
use crate::argument::Argument;
use crate::error::Failure;
use crate::location::name_of;

#[exact_arguments]
#[pymethods]
impl Client {
    /// Save a ring to the daemon's store, while it may be written.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring.
    /// label : str, optional
    ///     Label of the snapshot. Default: the first free one of s1, s2, and so on.
    /// replace : bool, default False
    ///     Replace a snapshot of that label.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name`` (``"pong@s1"``), ``rows``, ``written_rows``, ``written_files``, ``size_bytes``,
    ///     ``lapped_rows``, ``freed_bytes``.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such ring.
    /// ExistsError
    ///     If a snapshot has that label already.
    /// SpaceError
    ///     If the disk is full. Earlier snapshots are not touched.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (name=Argument::Missing, label=None, replace=false.into()))]
    #[pyo3(text_signature = "($self, name, label=None, replace=False)")]
    fn save_snapshot<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
        label: Option<Argument<String>>,
        replace: Argument<bool>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name_of(name)?;
        let label = label.map(|label| label.get("label", "a str, or None")).transpose()?;
        let replace = replace.get("replace", "True or False")?;
        self.answer(py, |asking| asking.save(&name, label.as_deref(), replace))
    }

    /// List the snapshots in the daemon's store.
    ///
    /// Parameters
    /// ----------
    /// name : str, optional
    ///     Name of one ring. Default: all rings.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``name`` (``"pong@s1"``), ``saved_unix_ns``, ``lane_count``, ``rows`` and ``size_bytes``
    ///     of each snapshot, in the order of names and for each name oldest first.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If the daemon has ended.
    /// DaemonTimeoutError
    ///     If it stays silent.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (name=None), text_signature = "($self, name=None)")]
    fn list_snapshots<'py>(
        &self,
        py: Python<'py>,
        name: Option<Argument<String>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        self.answer(py, |asking| asking.snapshots(name.as_deref()))
    }
}
