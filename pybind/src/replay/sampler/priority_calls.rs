//! Calls of `backcast.Sampler` that read and set priorities.

use backcast_core::PriorityError;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::{Argument, required};
use crate::error::Failure;
use crate::replay::sampler::Sampler;
use crate::replay::sampler::priority::{SamplerPriorities, Updated};

impl Sampler {
    /// Returns the priorities. Fails for a sampler that draws without any.
    fn own_priorities(&self) -> Result<&SamplerPriorities, Failure> {
        self.priorities.as_ref().ok_or_else(|| PriorityError::NotPrioritised.into())
    }
}

#[exact_arguments]
#[pymethods]
impl Sampler {
    /// Set the priorities of transitions, from any process.
    ///
    /// :class:`Priority` draws a transition with probability proportional to
    /// ``(priority + eps) ** alpha``, which is stored as a multiple of ``2**-24`` (6e-8), and at
    /// least that. Scale priorities up if their powers are not far above it. By rank it is the
    /// priority that is stored so. The importance weights are computed from the stored numbers.
    /// Priorities can be set while an iterator of this sampler draws ahead; batches that were drawn
    /// already keep the old ones.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, [B]
    ///     Indices as in :attr:`Batch.index`, or as :meth:`Writer.append` returned them. -1, the
    ///     index of a masked place, is skipped, and counts as not set.
    /// priority : array_like of float, [B] or [B, H]
    ///     Finite numbers from 0 up, such as absolute TD errors. If a row is given twice, the later
    ///     priority counts. ``[B, H]`` holds the errors of one window for each index. The row of
    ///     that index gets ``eta * max + (1 - eta) * mean`` of them (R2D2).
    /// mask : array_like of bool, [B, H], optional
    ///     Places of the windows that count, such as :attr:`Batch.mask`; errors at other places are
    ///     not read. A window without any such place gets the priority 0, and is hardly drawn
    ///     again. Examples are a transition that ``gather(missing="mask")`` did not find, and a
    ///     sequence that ends within its burn-in, if ``mask`` has only the places after the
    ///     burn-in. To keep the priorities of these windows, update only the others: ``rows =
    ///     mask.any(axis=1)``, and ``index[rows]``, ``priority[rows]``, ``mask[rows]``.
    /// eta : float, default 0.9
    ///     Share of the maximum, 0 to 1.
    /// timeout : float, default 60
    ///     Seconds to wait for another process that sets priorities, which takes microseconds. One
    ///     that is stopped keeps the table locked: after 10 s a :class:`errors.WaitWarning` names
    ///     it.
    ///
    /// Returns
    /// -------
    /// int
    ///     Number of priorities that were not set, because their index is -1, or because their row
    ///     was overwritten or dropped, is no transition, or is not at a multiple of the ``stride``
    ///     of :class:`Sequence`. The newest row of a lane is no transition before its successor is
    ///     appended.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If a priority is negative, no number, or too large; if an index names a row that this
    ///     ring never had, or of whole episodes one inside an episode; or if the sampler draws
    ///     without priorities. Nothing was changed then.
    /// InUseError
    ///     If another process kept the table locked for ``timeout`` seconds.
    /// NotFoundError
    ///     If the table was removed (:meth:`ReplayBuffer.remove_table`).
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> sampler = buf.sampler(seed=7, select=bc.Priority(alpha=0.6, beta=0.4))
    /// >>> batch = sampler.sample(32)
    /// >>> sampler.update_priorities(batch.index, abs(batch["obs"] - 4))
    /// 0
    #[pyo3(signature = (index=None, priority=None, *, mask=None, eta=None, timeout=60.0.into()))]
    #[pyo3(text_signature = "($self, index, priority, *, mask=None, eta=0.9, timeout=60.0)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn update_priorities<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        priority: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        eta: Option<Argument<f64>>,
        timeout: Argument<f64>,
    ) -> Result<u64, Failure> {
        let index = required(index, "index", "what a batch has as its index, or append returned")?;
        let priority = required(priority, "priority", "one number for each index")?;
        self.own_priorities()?.update(py, Updated { index, priority, mask, eta, timeout })
    }

    /// Raise the mass with which new rows enter, for draws by priority.
    ///
    /// Learners that draw from several rings call it with the largest ``q_new`` of their blocks, so
    /// that new rows of each ring enter alike. Rows that have entered keep their priorities, and a
    /// smaller mass changes nothing. In a table with ``initial="held"`` it replaces the mass of the
    /// call before, and new rows enter with it or with the largest that a row of this ring has.
    ///
    /// Parameters
    /// ----------
    /// q : float
    ///     Mass, ``(priority + eps) ** alpha``; above 0.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If ``q`` is not above 0, the sampler draws without priorities or by rank, or the
    ///     ``alpha`` of the table can change.
    /// InUseError
    ///     If another process keeps the table locked for a minute.
    /// NotFoundError
    ///     If the table was removed.
    /// ClosedError
    ///     If the sampler was closed.
    #[pyo3(signature = (q=Argument::Missing), text_signature = "($self, q)")]
    fn raise_largest(&self, py: Python<'_>, q: Argument<f64>) -> Result<(), Failure> {
        let q = q.get("q", "a finite number above 0, such as the q_new of a block")?;
        self.own_priorities()?.raise_largest(py, q)
    }

    /// Exponent of the priorities that the table has now; None for a sampler without priorities.
    ///
    /// Can be set, for all samplers of the table in all processes, unless the table was made with a
    /// number as its ``alpha``. The next draw of each is by the new one. An exponent that the table
    /// had before gives the same draws again. Setting it computes the powers of all priorities
    /// again, for which draws wait. With a triple as its ``alpha``, a draw moves the exponent of
    /// the table first: so this is that of the last batch of all samplers, or the first one before
    /// any. By rank a table has none: it is that of the sampler's next batch, and cannot be set.
    #[getter]
    fn alpha(&self, py: Python<'_>) -> Result<Option<f64>, Failure> {
        let Some(priorities) = &self.priorities else { return Ok(None) };
        py.detach(|| priorities.alpha(|| self.draws.next_batch())).map(Some)
    }

    #[setter]
    fn set_alpha(&self, py: Python<'_>, given: Argument<f64>) -> Result<(), Failure> {
        let alpha = given.get("alpha", "a number from 0 up")?;
        self.own_priorities()?.set_alpha(py, alpha)
    }
}
