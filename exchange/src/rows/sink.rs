//! Stores the rows of a file in a ring that has no name yet.

use std::ops::ControlFlow;

use backcast_core::{Filling, Schema};
use backcast_files::{OnProgress, Progress};

use crate::error::ImportError;

/// A ring that is being filled, and the progress of the import.
pub(crate) struct Sink<'f, 'r, 'p> {
    filling: &'f mut Filling<'r>,
    on_progress: &'f mut Option<OnProgress<'p>>,
    progress: Progress,
    row_bytes: u64,
}

impl<'f, 'r, 'p> Sink<'f, 'r, 'p> {
    /// Returns a sink for `rows` rows over all lanes. Every lane must have begun.
    pub(crate) fn new(
        filling: &'f mut Filling<'r>,
        schema: &Schema,
        rows: u64,
        on_progress: &'f mut Option<OnProgress<'p>>,
    ) -> Self {
        let row_bytes = (schema.row_bytes() as u64).max(1);
        let total_bytes = rows.saturating_mul(row_bytes);
        let progress = Progress { total_rows: rows, total_bytes, ..Progress::default() };
        Self { filling, on_progress, progress, row_bytes }
    }

    /// Stores the next rows of a lane: one buffer per column, built-in columns first.
    pub(crate) fn rows(
        &mut self,
        lane: u32,
        rows: u64,
        columns: &[&[u8]],
    ) -> Result<(), ImportError> {
        self.filling.rows(lane, rows, columns)?;
        self.progress.rows += rows;
        self.progress.bytes = self.progress.rows.saturating_mul(self.row_bytes);
        Ok(())
    }

    /// Returns the sequence number of the lane's next row.
    pub(crate) fn next(&self, lane: u32) -> u64 {
        self.filling.missing(lane).ok().flatten().map_or(0, |missing| missing.start)
    }

    /// Reports progress. Returns an error if the caller asks to stop.
    pub(crate) fn step(&mut self) -> Result<(), ImportError> {
        match self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress)) {
            Some(ControlFlow::Break(())) => Err(ImportError::Interrupted),
            _ => Ok(()),
        }
    }
}
