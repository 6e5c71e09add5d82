//! Warnings of appends: blocking leases, rows that contradict the autoreset mode, a lost name.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::Writer;
use crate::error::{Failure, in_python};
use crate::replay::writer::state::WriterState;
use crate::warning::{warn, warn_as, warn_unlinked};

impl Writer {
    /// Raises the pending warnings: of a lost name, of rows that contradict the autoreset mode, and
    /// of a lease that made an append wait or drop rows. If another thread uses the writer by now,
    /// its append raises them.
    #[cold]
    pub(crate) fn warn_pending(&self, py: Python<'_>) -> Result<(), Failure> {
        let take = |pen: &mut WriterState| {
            let ring = pen.writer.ring();
            let unlinked = ring.take_unlinked().then(|| ring.clone());
            (pen.writer.take_stall(), pen.writer.take_warning(), unlinked)
        };
        let (stall, warning, unlinked) = self.handle.try_with(take).unwrap_or_default();
        if let Some(ring) = unlinked {
            warn_unlinked(py, &ring)?;
        }
        if let Some(warning) = warning {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            let class = CLASS.import(py, "backcast.errors", "WriterWarning")?;
            warn_as(class, &in_python(&warning.to_string()), 1)?;
        }
        if let Some(stall) = stall {
            warn(py, &in_python(&stall.to_string()))?;
        }
        Ok(())
    }
}
