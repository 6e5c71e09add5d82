//! `ReplayBuffer.resize`: a larger capacity while the ring is written and read.

use std::time::Duration;

use backcast_core::ResizeProgress;
use backcast_files::Progress;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::ReplayBuffer;
use crate::argument::{Argument, seconds_of};
use crate::capacity;
use crate::error::Failure;
use crate::progress::ProgressReporter;

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Make the ring larger while it is written and read.
    ///
    /// No row is lost, and indices do not change. Writers, samplers and buffers of every process
    /// switch to the larger memory automatically, a writer with its next append. Leases stay valid.
    /// Old and new memory exist at the same time. The old memory stays until no lease refers to it
    /// and every holder has used the ring again. Releases the interpreter; O(bytes).
    ///
    /// Parameters
    /// ----------
    /// capacity : int or str
    ///     Rows over all lanes, or bytes as text (``"16GiB"``): more than now. A call with the
    ///     current capacity finishes an interrupted resize.
    /// timeout : float, default 10.0
    ///     Seconds to wait for writers to relocate their lanes; the rest are relocated later.
    /// progress : callable, optional
    ///     Called now and then with the bytes done and the bytes in all. An exception that it
    ///     raises stops the call, and so does Ctrl-C. Until the first lane is relocated the ring
    ///     stays unchanged; after that, the other lanes are relocated automatically.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``capacity``, ``lane_capacity``, ``rows_copied``, and ``lanes_waiting``: lanes that are
    ///     relocated when their writers append next, or when other writers claim them.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If the capacity is less than the present one, or the buffer is private or a snapshot.
    /// SpaceError
    ///     If there is no room for the larger memory beside the old.
    /// InUseError
    ///     If another process resizes the ring, or an earlier resize to another size is not
    ///     finished.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create("grows", {"x": "f4"}, capacity=1_000)
    /// >>> with buf.writer() as writer:
    /// ...     index = writer.append(x=1.5, terminated=False, truncated=False)
    /// >>> buf.resize(5_000)["capacity"], buf.capacity
    /// (5000, 5000)
    /// >>> buf.rows(0, 0, 1)["x"]
    /// array([1.5], dtype=float32)
    /// >>> buf.close()
    #[pyo3(signature = (capacity=None, *, timeout=10.0.into(), progress=None))]
    #[pyo3(text_signature = "($self, capacity, *, timeout=10.0, progress=None)")]
    fn resize<'py>(
        &self,
        py: Python<'py>,
        capacity: Option<&Bound<'py, PyAny>>,
        timeout: Argument<f64>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let capacity = capacity::from_python(capacity)?;
        let timeout: Duration = seconds_of("timeout", timeout)?;
        let mut reporter = ProgressReporter::new(progress)?;
        let ring = self.ring()?;
        let lane_bytes = ring.stats().bytes_allocated / u64::from(ring.lanes().max(1));
        let mut shown = |progress: ResizeProgress| {
            reporter.report(&Progress {
                bytes: lane_bytes * u64::from(progress.lanes_copied),
                total_bytes: lane_bytes * u64::from(progress.lanes),
                ..Progress::default()
            })
        };
        let resized = py.detach(|| ring.resize(capacity, Some(timeout), &mut shown));
        let resized = reporter.finish(resized)?;
        let dict = PyDict::new(py);
        dict.set_item("capacity", resized.capacity)?;
        dict.set_item("lane_capacity", resized.lane_capacity)?;
        dict.set_item("rows_copied", resized.rows_copied)?;
        dict.set_item("lanes_waiting", resized.lanes_waiting)?;
        Ok(dict)
    }
}
