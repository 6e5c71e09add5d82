//! The rows of a ring, piece by piece, beside writers that may overwrite them meanwhile.

use std::ops::{ControlFlow, Range};

use backcast_core::{ReadError, Ring, Rows};
use backcast_files::{OnProgress, Progress};

use crate::error::ExportError;

/// Bytes of rows in memory at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Rows that are to be read: what was readable when it began.
pub(crate) struct Walk<'a, 'p> {
    ring: &'a Ring,
    spans: Vec<Range<u64>>,
    piece_rows: u64,
    progress: Progress,
    on_progress: Option<OnProgress<'p>>,
    /// Rows that writers overwrote before they were read.
    lapped: u64,
}

impl<'a, 'p> Walk<'a, 'p> {
    pub(crate) fn new(ring: &'a Ring, on_progress: Option<OnProgress<'p>>) -> Self {
        let spans: Vec<Range<u64>> =
            (0..ring.lanes()).map(|lane| ring.lane_span(lane).unwrap_or(0..0)).collect();
        let row_bytes = ring.schema().row_bytes() as u64;
        let total_rows: u64 = spans.iter().map(|span| span.end - span.start).sum();
        let total_bytes = total_rows.saturating_mul(row_bytes);
        let progress = Progress { total_rows, total_bytes, ..Progress::default() };
        let piece_rows = (PIECE_BYTES / row_bytes.max(1)).clamp(1, 1 << 16);
        Self { ring, spans, piece_rows, progress, on_progress, lapped: 0 }
    }

    pub(crate) fn ring(&self) -> &'a Ring {
        self.ring
    }

    /// Rows of each lane.
    pub(crate) fn spans(&self) -> &[Range<u64>] {
        &self.spans
    }

    pub(crate) fn lapped(&self) -> u64 {
        self.lapped
    }

    /// Hands every row to `take`, lane after lane, in order. Rows that were overwritten are left out
    /// and counted.
    pub(crate) fn rows(
        &mut self,
        mut take: impl FnMut(u32, &Rows) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        for (lane, span) in (0..).zip(self.spans.clone()) {
            let mut next = span.start;
            while next < span.end {
                let end = span.end.min(next + self.piece_rows);
                match self.ring.rows(lane, next..end) {
                    Ok(rows) => {
                        take(lane, &rows)?;
                        self.count(end - next)?;
                        next = end;
                    }
                    Err(ReadError::Lapped { .. } | ReadError::NotReadable { .. }) => {
                        // A piece further on than the writer is now; it goes on writing.
                        let oldest = self.ring.lane_span(lane).map_or(span.end, |now| now.start);
                        let on = oldest.saturating_add(self.piece_rows).clamp(next + 1, span.end);
                        self.lapped += on - next;
                        self.count(on - next)?;
                        next = on;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, rows: u64) -> Result<(), ExportError> {
        self.progress.rows += rows;
        let row_bytes = self.ring.schema().row_bytes() as u64;
        self.progress.bytes = self.progress.rows.saturating_mul(row_bytes);
        let stop = self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress));
        if stop == Some(ControlFlow::Break(())) {
            return Err(ExportError::Interrupted);
        }
        Ok(())
    }
}
