//! The rows of a ring, piece by piece, beside writers that may overwrite them meanwhile.

use std::ops::{ControlFlow, Range};

use backcast_core::{ReadError, Ring, Rows};
use backcast_files::{OnProgress, Progress};

use crate::error::ExportError;

/// Bytes of rows in memory at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Consecutive rows of a lane.
pub(crate) type Place = (u32, Range<u64>);

/// Why a walk ended before the last row.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Somebody asked to stop.
    Asked,
    /// Rows cannot be read, or there is no place for them.
    Export(ExportError),
}

impl From<ExportError> for Halt {
    fn from(error: ExportError) -> Self {
        Self::Export(error)
    }
}

/// Rows that are to be read: what was readable when it began.
pub(crate) struct Walk<'a, 'p> {
    ring: &'a Ring,
    spans: Vec<Range<u64>>,
    piece_rows: u64,
    /// The rows that [`next`](Self::next) gives.
    next: (usize, u64),
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
        let next = (0, spans.first().map_or(0, |span| span.start));
        Self { ring, spans, piece_rows, next, progress, on_progress, lapped: 0 }
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

    /// Goes back to the first row.
    pub(crate) fn rewind(&mut self) {
        self.next = (0, self.spans.first().map_or(0, |span| span.start));
        (self.progress.rows, self.progress.bytes, self.lapped) = (0, 0, 0);
    }

    /// Where the next `rows` rows are, lane after lane, in order. Nowhere: those were all.
    pub(crate) fn next(&mut self, rows: u64) -> Vec<Place> {
        let mut places = Vec::new();
        let mut left = rows;
        let (mut lane, mut from) = self.next;
        while let Some(span) = self.spans.get(lane) {
            if left == 0 {
                break;
            }
            let to = span.end.min(from.saturating_add(left));
            if from < to {
                places.push((u32::try_from(lane).unwrap_or(u32::MAX), from..to));
                left -= to - from;
            }
            from = to;
            if to == span.end {
                lane += 1;
                from = self.spans.get(lane).map_or(0, |span| span.start);
            }
        }
        self.next = (lane, from);
        places
    }

    /// Passes over the next `rows` rows, which are done.
    pub(crate) fn skip(&mut self, rows: u64) -> Vec<Place> {
        let places = self.next(rows);
        self.progress.rows += places.iter().map(|(_, rows)| rows.end - rows.start).sum::<u64>();
        places
    }

    /// Whether [`next`](Self::next) has no more rows.
    pub(crate) fn is_over(&self) -> bool {
        self.spans
            .iter()
            .skip(self.next.0)
            .enumerate()
            .all(|(at, span)| if at == 0 { self.next.1 >= span.end } else { span.is_empty() })
    }

    /// Hands the rows of these places to `take`, in order, until it wants no more. Rows that were
    /// overwritten are left out and counted.
    pub(crate) fn read(
        &mut self,
        places: &[Place],
        mut take: impl FnMut(u32, &Rows) -> bool,
    ) -> Result<(), Halt> {
        for (lane, span) in places {
            let mut next = span.start;
            while next < span.end {
                let end = span.end.min(next + self.piece_rows);
                match self.ring.rows(*lane, next..end) {
                    Ok(rows) => {
                        if !take(*lane, &rows) {
                            return Ok(());
                        }
                        self.count(end - next)?;
                        next = end;
                    }
                    Err(ReadError::Lapped { .. } | ReadError::NotReadable { .. }) => {
                        // A piece further on than the writer is now; it goes on writing.
                        let oldest = self.ring.lane_span(*lane).map_or(span.end, |now| now.start);
                        let on = oldest.saturating_add(self.piece_rows).clamp(next + 1, span.end);
                        self.lapped += on - next;
                        self.count(on - next)?;
                        next = on;
                    }
                    Err(error) => return Err(Halt::Export(error.into())),
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, rows: u64) -> Result<(), Halt> {
        self.progress.rows += rows;
        let row_bytes = self.ring.schema().row_bytes() as u64;
        self.progress.bytes = self.progress.rows.saturating_mul(row_bytes);
        let stop = self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress));
        if stop == Some(ControlFlow::Break(())) {
            return Err(Halt::Asked);
        }
        Ok(())
    }
}
