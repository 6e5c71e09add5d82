//! `ReplayBuffer.remove_table`: removes one table of a ring.

use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;

use super::ReplayBuffer;
use crate::argument::{Argument, seconds_of};
use crate::error::Failure;

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Remove a table of priorities, of claims, or of learned columns, damaged or not.
    ///
    /// The rows and the other tables stay. The next sampler that names a table of priorities or
    /// claims makes it anew; :meth:`table` makes one of learned columns. Samplers and tables that
    /// have it open, in any process, keep its memory. From then on these calls raise NotFoundError:
    /// updates of priorities, updates and reads of learned values, and draws that enter new rows or
    /// begin a pass. On the command line: ``backcast rm NAME --table TABLE``.
    ///
    /// Parameters
    /// ----------
    /// table : str
    ///     Name of the table, such as ``"priority"``.
    /// timeout : float, default 5.0
    ///     Seconds to wait for a process that has the table locked, but at least 0.1 s. A change
    ///     locks it for microseconds.
    /// force : bool, default False
    ///     Remove it even if a process keeps it locked. A table of that name can be made again once
    ///     that process continues or has ended.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If the ring has no such table.
    /// InUseError
    ///     If a process kept the table locked for ``timeout`` seconds; the message names it.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> sampler = buf.sampler(select=bc.Priority(0.6))
    /// >>> buf.remove_table("priority")
    /// >>> fresh = buf.sampler(select=bc.Priority(0.9))  # another alpha: the table is made anew
    #[pyo3(signature = (table=Argument::Missing, *, timeout=5.0.into(), force=false.into()))]
    #[pyo3(text_signature = "($self, table, *, timeout=5.0, force=False)")]
    fn remove_table(
        &self,
        py: Python<'_>,
        table: Argument<String>,
        timeout: Argument<f64>,
        force: Argument<bool>,
    ) -> Result<(), Failure> {
        let table = table.get("table", "the name of a table, such as \"priority\"")?;
        let timeout = seconds_of("timeout", timeout)?;
        let force = force.get("force", "True or False")?;
        Ok(self.ask(py, |ring| ring.remove_table(&table, timeout, force))??)
    }
}
