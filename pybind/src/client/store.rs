//! The daemon's store: rings saved to it, loaded from it, and what is in it.

use backcast_core::Exist;
use backcast_daemon::Client as Asking;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::Client;
use crate::buffer::ReplayBuffer;
use crate::error::{Failure, bad_argument};
use crate::given::{Given, method, refuse_strangers};
use crate::place::{exist, name_of};

#[pymethods]
impl Client {
    /// Save a ring to the daemon's store, beside its writers.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// label : str, optional
    ///     Label of the snapshot; the first of s1, s2, ... that is free, when left out.
    /// replace : bool, default False
    ///     Put it in the place of the snapshot that has the label.
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
    ///     If the label has a snapshot.
    /// SpaceError
    ///     If the disk is full. What was saved before is not touched.
    #[pyo3(signature = (name=Given::Missing, label=None, replace=false.into(), *extra, **unknown))]
    #[pyo3(text_signature = "($self, name, label=None, replace=False)")]
    fn save<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        label: Option<Given<String>>,
        replace: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("save"))?;
        let name = name_of(name)?;
        let label = label.map(|label| label.get("label", "a str, or None")).transpose()?;
        let replace = replace.get("replace", "True or False")?;
        self.told(py, |asking| asking.save(&name, label.as_deref(), replace))
    }

    /// Make a ring of a snapshot in the daemon's store, within its budget.
    ///
    /// Parameters
    /// ----------
    /// snapshot : str
    ///     ``"pong@epoch-10"``, or ``"pong"`` for the newest of that name.
    /// name : str, optional
    ///     Of the ring, if not the one that was saved.
    /// exist : {"error", "replace"}, default "error"
    ///     When the name is taken. The old ring stays until the new one is whole.
    /// persistent : bool, default False
    ///     Keep the ring when nobody holds it.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     The ring, held by this process.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such snapshot.
    /// CorruptError
    ///     If a byte of it changed; no ring was made.
    /// OverBudgetError
    ///     If it does not fit.
    #[pyo3(signature = (
        snapshot=Given::Missing, name=None, exist="error".into(), persistent=false.into(), *extra,
        **unknown
    ))]
    #[pyo3(text_signature = "($self, snapshot, name=None, exist='error', persistent=False)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn load<'py>(
        &self,
        py: Python<'py>,
        snapshot: Given<String>,
        name: Option<Given<String>>,
        exist: Given<String>,
        persistent: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<ReplayBuffer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("load"))?;
        let snapshot = snapshot.get("snapshot", "a snapshot, such as \"pong@epoch-10\"")?;
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        let exist = match self::exist(exist)? {
            Exist::Attach => {
                return Err(bad_argument("exist is 'attach'; give \"error\" or \"replace\""));
            }
            exist => exist,
        };
        let persistent = persistent.get("persistent", "True or False")?;
        let load = |asking: &Asking| asking.load(&snapshot, name.as_deref(), exist, persistent);
        let (ring, _) = self.ask(py, load)?;
        Ok(ReplayBuffer::of(ring))
    }

    /// List what is in the daemon's store.
    ///
    /// Parameters
    /// ----------
    /// name : str, optional
    ///     Of one ring; all, when left out.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``name`` (``"pong@s1"``), ``saved_unix_ns``, ``lane_count``, ``rows`` and ``size_bytes`` of
    ///     each snapshot, oldest first.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (name=None, *extra, **unknown), text_signature = "($self, name=None)")]
    fn snapshots<'py>(
        &self,
        py: Python<'py>,
        name: Option<Given<String>>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("snapshots"))?;
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        self.told(py, |asking| asking.snapshots(name.as_deref()))
    }
}
