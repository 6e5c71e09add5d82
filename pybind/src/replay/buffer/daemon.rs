//! Rings of a daemon: the `daemon` argument, and `Client.load_snapshot`.

use std::path::PathBuf;

use backcast_core::Exist;
use backcast_daemon::Client as CoreClient;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::ReplayBuffer;
use crate::argument::Argument;
use crate::error::{Failure, bad_argument};
use crate::location::exist_of;
use crate::replay::client::{Client, DaemonOptions};

/// Reads the `daemon` argument. A daemon has a directory of its own, which excludes `dir`.
pub(super) fn daemon_of(
    given: Option<&Bound<'_, PyAny>>,
    dir: Option<&Argument<PathBuf>>,
) -> Result<Option<DaemonOptions>, Failure> {
    let daemon = given.map(DaemonOptions::given).transpose()?;
    if daemon.is_some() && dir.is_some() {
        return Err(bad_argument(
            "dir and daemon are both given, but the rings of a daemon are in its own directory; \
             give one of them",
        ));
    }
    Ok(daemon)
}

#[exact_arguments]
#[pymethods]
impl Client {
    /// Load a snapshot from the daemon's store as a ring, within its budget.
    ///
    /// Parameters
    /// ----------
    /// snapshot : str
    ///     ``"pong@epoch-10"``, or ``"pong"`` for the newest of that name.
    /// name : str, optional
    ///     Name of the ring, instead of the saved one.
    /// exist : {"error", "replace"}, default "error"
    ///     Policy when the name is taken. The old ring stays until the new one is complete.
    /// persistent : bool, default False
    ///     Keep the ring when no process holds it.
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
    /// ArgumentError
    ///     If an argument is invalid, such as ``exist="attach"``.
    /// ExistsError
    ///     If the name is taken.
    /// CorruptError
    ///     If the snapshot is damaged. No ring is made.
    /// OverBudgetError
    ///     If the ring exceeds the budget.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (
        snapshot=Argument::Missing, name=None, exist="error".into(), persistent=false.into()
    ))]
    #[pyo3(text_signature = "($self, snapshot, name=None, exist='error', persistent=False)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn load_snapshot(
        &self,
        py: Python<'_>,
        snapshot: Argument<String>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
    ) -> Result<ReplayBuffer, Failure> {
        let snapshot = snapshot.get("snapshot", "a snapshot, such as \"pong@epoch-10\"")?;
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        let exist = match exist_of(exist)? {
            Exist::Attach => {
                return Err(bad_argument("exist is 'attach'; give \"error\" or \"replace\""));
            }
            exist => exist,
        };
        let persistent = persistent.get("persistent", "True or False")?;
        let load = |asking: &CoreClient| asking.load(&snapshot, name.as_deref(), exist, persistent);
        let (ring, _) = self.ask(py, load)?;
        Ok(ReplayBuffer::of(ring))
    }
}
