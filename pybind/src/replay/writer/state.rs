//! State behind a writer's handle, which one thread at a time uses.

use std::sync::Arc;

use backcast_core::plumbing::LaneAlias;
use backcast_core::{Suspended, Writer as CoreWriter};
use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::error::{ErrorClass, Failure};
use crate::replay::writer::fast_arguments::FastArguments;

/// Core writer, with the caches of the append that has the lock.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) writer: CoreWriter,
    /// Fast arguments; `None` while a row is reserved, and for a schema of too many columns.
    pub(crate) fast_arguments: Option<FastArguments>,
    pub(crate) reserved: Option<SuspendedRow>,
    /// Window of the last reserved row, for the next one.
    pub(crate) window: Option<Arc<LaneAlias>>,
    /// Array that an append returned, reused by the next one if nothing else refers to it.
    pub(super) spare: Option<Py<PyUntypedArray>>,
}

/// Reserved row of the core, and the fast arguments that wait for its end.
#[derive(Debug)]
pub(crate) struct SuspendedRow {
    pub(crate) row: Suspended,
    pub(crate) fast_arguments: Option<FastArguments>,
}

impl WriterState {
    /// Returns the writer, unless a row is reserved.
    pub(crate) fn free(&mut self) -> Result<&mut CoreWriter, Failure> {
        if self.reserved.is_some() {
            return Err(Failure::new(
                ErrorClass::Append,
                "a row of this writer is reserved; commit it or give it up first",
            ));
        }
        Ok(&mut self.writer)
    }
}
