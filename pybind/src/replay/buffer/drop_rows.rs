//! `ReplayBuffer.clear` and `drop_episode`: rows that readers ignore from now on.

use backcast_core::DropError;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;

use super::ReplayBuffer;
use crate::argument::{Argument, count, whole};
use crate::error::{ErrorClass, Failure};

impl From<DropError> for Failure {
    fn from(error: DropError) -> Self {
        match error {
            DropError::Segment(error) => error.into(),
            DropError::Denied { .. } => Self::of(ErrorClass::Storage, error),
            DropError::Outrun { .. } => Self::of(ErrorClass::Lapped, error),
            error => Self::of(ErrorClass::Argument, error),
        }
    }
}

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Drop every transition so far.
    ///
    /// Writers of all processes go on, and so do indices: an episode that goes on keeps the rows
    /// after this call, and history windows begin there, as at the start of an episode. Readers of
    /// all processes ignore the dropped rows from their next call on, and tables of priorities and
    /// claims from their next draw on. Leases and batches that exist keep their rows; so do those
    /// that ``batches(prefetch=)`` has drawn ahead, and snapshots. A rate limiter counts the
    /// transitions as deleted. No memory is freed. O(lanes), no copy.
    ///
    /// Every process that may write the file ``ring.low`` of the ring may call this, which means
    /// the processes of its user. A call that is killed may have cleared only some lanes; another
    /// call clears the rest.
    ///
    /// Returns
    /// -------
    /// int
    ///     Transitions that could be drawn and no longer can.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If the buffer is a snapshot.
    /// StorageError
    ///     If this process may not write ``ring.low``.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(5):
    /// ...         index = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> buf.clear(), len(buf), buf.lane_span(0)
    /// (4, 0, (5, 5))
    #[pyo3(signature = (), text_signature = "($self)")]
    fn clear(&self, py: Python<'_>) -> Result<u64, Failure> {
        Ok(self.ask(py, backcast_core::Ring::clear)??)
    }

    /// Drop the oldest episode of a lane.
    ///
    /// Writers, readers and tables go on as after :meth:`clear`. O(log rows).
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     From 0 to ``lanes - 1``.
    /// episode : int, optional
    ///     Its number, as in the column ``episode``; the oldest one when left out. Rows are dropped
    ///     from the oldest on, so any other episode needs ``older=True``.
    /// older : bool, default False
    ///     Drop all episodes before ``episode`` too.
    ///
    /// Returns
    /// -------
    /// int
    ///     Transitions that could be drawn and no longer can.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If the lane or the episode does not exist, the episode has not ended, it is not the
    ///     oldest and ``older`` is False, or the buffer is a snapshot. Nothing is dropped then.
    /// LappedError
    ///     If writers overwrite rows faster than the episode can be found.
    /// StorageError
    ///     If this process may not write ``ring.low``.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in (0, 1, 2, 0, 1, 2):
    /// ...         end = t == 2
    /// ...         index = writer.append(obs=t, next_obs=t + 1, terminated=end, truncated=False)
    /// >>> buf.drop_episode(0), len(buf)
    /// (3, 3)
    #[pyo3(signature = (lane=Argument::Missing, episode=None, *, older=false.into()))]
    #[pyo3(text_signature = "($self, lane, episode=None, *, older=False)")]
    fn drop_episode(
        &self,
        py: Python<'_>,
        lane: Argument<i128>,
        episode: Option<Argument<i128>>,
        older: Argument<bool>,
    ) -> Result<u64, Failure> {
        let lane = count(lane, "lane", 0, ErrorClass::Argument)?;
        let numbers = "an episode from 0 to 2**64 - 1";
        let episode = episode
            .map(|given| whole(given, "episode", numbers, ErrorClass::Argument))
            .transpose()?;
        let older = older.get("older", "True or False")?;
        Ok(self.ask(py, |ring| ring.drop_episode(lane, episode, older))??)
    }
}
