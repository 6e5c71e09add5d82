//! Counters and properties of a ring, and waiting until it holds enough.

use backcast_core::Ring;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::ReplayBuffer;
use crate::argument::{Argument, count, timeout_of, whole};
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::replay::schema::Schema;
use crate::warning::warn_if_unlinked;

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Return the range of sequence numbers that can be read from a lane.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     From 0 to ``lanes - 1``.
    ///
    /// Returns
    /// -------
    /// (int, int)
    ///     The oldest row, and one past the newest.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If the ring has no such lane.
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (lane=Argument::Missing))]
    #[pyo3(text_signature = "($self, lane)")]
    fn lane_span(&self, py: Python<'_>, lane: Argument<i128>) -> Result<(u64, u64), Failure> {
        let number = count(lane, "lane", 0, ErrorClass::Sample)?;
        let (span, lanes) = self.ask(py, |ring| (ring.lane_span(number), ring.lanes()))?;
        let span = span.ok_or_else(|| {
            Failure::new(
                ErrorClass::Sample,
                format!("there is no lane {number}; the ring has lanes 0 to {}", lanes - 1),
            )
        })?;
        Ok((span.start, span.end))
    }

    /// Wait until the ring holds enough transitions, or until enough rows were published.
    ///
    /// Sleeps in the kernel and is woken by writers; Ctrl-C interrupts it.
    ///
    /// Parameters
    /// ----------
    /// min_size : int, optional
    ///     Transitions to wait for.
    /// timeout : float, optional
    ///     Seconds to wait at most; without end when left out.
    /// rows_published : int, optional
    ///     Rows published over all lanes, as ``stats()["rows_published"]`` counts them, to wait for
    ///     instead of transitions. In a full ring the number of transitions does not grow.
    ///
    /// Returns
    /// -------
    /// int
    ///     Transitions in the ring, or rows published.
    ///
    /// Raises
    /// ------
    /// WaitTimeoutError
    ///     If the time ran out; the message gives the number of transitions or rows, the lanes
    ///     whose newest row waits for its successor, and who writes.
    /// ArgumentError
    ///     If neither or both of ``min_size`` and ``rows_published`` are given, a number is
    ///     negative, or the ring can never hold that many transitions.
    /// ClosedError
    ///     If the buffer was closed.
    /// NotFoundError
    ///     If the ring was removed or replaced, and the buffer has ``on_unlinked="error"``.
    ///
    /// Warns
    /// -----
    /// UnlinkedWarning
    ///     If the ring was removed or replaced; the wait continues.
    /// WaitWarning
    ///     After 10 s, once, with the reason as in the error.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> buf.wait(0, timeout=5)
    /// 0
    #[pyo3(signature = (min_size=None, timeout=None, *, rows_published=None))]
    #[pyo3(text_signature = "($self, min_size=None, timeout=None, *, rows_published=None)")]
    fn wait(
        &self,
        py: Python<'_>,
        min_size: Option<Argument<i128>>,
        timeout: Option<Argument<f64>>,
        rows_published: Option<Argument<i128>>,
    ) -> Result<u64, Failure> {
        let transitions = "transitions from 0 to 2**64 - 1";
        let min_size = min_size
            .map(|given| whole(given, "min_size", transitions, ErrorClass::Argument))
            .transpose()?;
        let rows = rows_published
            .map(|given| {
                whole(given, "rows_published", "rows from 0 to 2**64 - 1", ErrorClass::Argument)
            })
            .transpose()?;
        let timeout = timeout_of(timeout)?;
        let ring = self.ring()?;
        // A close of the buffer ends the wait too. A lost name raises a warning meanwhile.
        let waiting = ring.clone().interrupted_by(self.ring.closing().interrupt_on(&ring));
        let waited = match (min_size, rows) {
            (Some(size), None) => py.detach(|| waiting.wait_for(size, timeout)),
            (None, Some(rows)) => py.detach(|| waiting.wait_for_rows(rows, timeout)),
            _ => {
                let got = if rows.is_some() { "both" } else { "neither" };
                return Err(bad_argument(format!(
                    "wait takes either min_size or rows_published, got {got}; give one of them"
                )));
            }
        };
        warn_if_unlinked(py, &ring)?;
        Ok(waited?)
    }

    /// Return counters and sizes.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Counters of the ring: ``transitions`` that can be drawn; ``rows_published`` so far, the
    ///     final rows of episodes, overwritten rows and rows before a load included; ``capacity``
    ///     and ``lanes``; ``cuts`` and ``suspect_resets``; the lists of dicts ``lane_stats``,
    ///     ``readers``, ``pins``, ``tables`` (of priorities), ``claims`` and ``learned`` (the other
    ///     tables); ``initial`` of a table is the priority of new transitions, and ``stride`` the
    ///     steps from one that has a priority to the next, None if only the first of an episode
    ///     has one; ``limiter``, a dict or None, with ``inserts``, ``samples``, ``deletes``,
    ///     ``may_insert``, ``may_sample`` and ``waiters``. A lane has ``head``, ``rows``,
    ///     ``transitions``, ``episodes``, ``held``, ``pid`` of its writer or of the last one,
    ///     ``dropped`` and ``stalls``. Sizes are in rows, or in bytes where the key says so;
    ///     ``created_unix_ns`` is a wall clock. The call takes O(lanes + readers) and stops no
    ///     process. ``unlinked`` is True once the ring was removed or replaced: no process can
    ///     attach to it any more.
    ///     ``first_kept`` of a lane is the first row that :meth:`clear` or :meth:`drop_episode` has
    ///     not dropped. ``readers`` are those that hold a slot now, in any process. ``ages`` of a
    ///     reader has the form of :meth:`Sampler.stats`: transitions that it has drawn, by their
    ///     age. The ages and the other counters of a reader begin at zero when it takes its slot.
    ///     :func:`backcast.plot.stats` draws the ages. ``notices`` are the warnings of this handle
    ///     and its writers and samplers, the last one of each kind: dicts of ``kind``, ``count``
    ///     and ``text``.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> stats = bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=100, lanes=4).stats()
    /// >>> stats["capacity"], stats["row_bytes"], stats["lane_stats"][0]["held"]
    /// (100, 28, False)
    #[pyo3(signature = (), text_signature = "($self)")]
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let stats = self.ask(py, Ring::whole_stats)??;
        Ok(crate::replay::buffer::stats::as_dict(py, &stats)?)
    }

    /// The ring's name; None when it is private to this process.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The ring's directory; None when it is private to this process.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// Number of lanes: single-writer ring buffers of rows.
    #[getter]
    fn lanes(&self) -> Result<u32, Failure> {
        self.ring.with(|ring| Ok(ring.lanes()))
    }

    /// Rows that each lane keeps.
    #[getter]
    fn lane_capacity(&self) -> Result<u64, Failure> {
        self.ring.with(|ring| Ok(ring.lane_capacity()))
    }

    /// Rows that all lanes keep.
    #[getter]
    fn capacity(&self) -> Result<u64, Failure> {
        self.ring.with(|ring| Ok(ring.capacity()))
    }

    /// True after :meth:`close`.
    #[getter]
    fn closed(&self) -> bool {
        self.ring.is_closed()
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize, Failure> {
        let transitions = self.ask(py, Ring::len)?;
        Ok(usize::try_from(transitions).map_err(PyErr::from)?)
    }
}
