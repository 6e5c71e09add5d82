//! Reads the rows of a ring while writers overwrite them.
//!
//! Each append to a full lane overwrites its oldest row. The reader therefore copies rows before
//! they are compressed, and starts with the lane whose next row is overwritten soonest. Rows
//! overwritten before they are read are counted.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use backcast_core::{Ring, Rows};
use backcast_files::{OnProgress, Progress};

use crate::error::ExportError;

/// Bytes of rows in one copy.
const PIECE_BYTES: u64 = 1 << 20;
/// Maximum attempts to copy a lane's first rows while its writer overwrites all of them.
const ATTEMPTS: u32 = 8;

/// The exported rows of one lane.
#[derive(Debug)]
struct LaneRows {
    rows: Range<u64>,
    /// First row that is not read yet.
    next: u64,
    capacity: u64,
    /// One past the newest row when the export began.
    head: u64,
}

impl LaneRows {
    fn of(ring: &Ring, lane: u32) -> Self {
        let rows = ring.lane_span(lane).unwrap_or(0..0);
        let capacity = ring.lane_capacity_of(lane).unwrap_or(0);
        Self { next: rows.start, head: rows.end, rows, capacity }
    }

    fn is_read(&self) -> bool {
        self.next >= self.rows.end
    }

    /// Returns whether the next published row overwrites one of the exported rows.
    fn is_full(&self) -> bool {
        self.rows.end - self.rows.start >= self.capacity
    }
}

/// Reader of the rows that were readable when the export began, in groups.
pub(crate) struct RowReader<'a, 'p> {
    ring: &'a Ring,
    lanes: Vec<LaneRows>,
    /// Rows read and not yet taken.
    ahead: VecDeque<Rows>,
    ahead_bytes: u64,
    max_ahead_bytes: u64,
    piece_rows: u64,
    /// Maximum rows of a group.
    group_rows: u64,
    /// Rows read of the current group.
    group_read: u64,
    progress: Progress,
    on_progress: Option<OnProgress<'p>>,
    /// Rows that writers overwrote before they were read.
    lapped: u64,
}

impl<'a, 'p> RowReader<'a, 'p> {
    /// Selects the readable rows of every lane. If a lane is full and has a writer, also copies its
    /// first rows, and selects the rows that are readable at that moment.
    pub(crate) fn begin(
        ring: &'a Ring,
        group_rows: u64,
        max_ahead_bytes: u64,
        on_progress: Option<OnProgress<'p>>,
    ) -> Self {
        let row_bytes = (ring.schema().row_bytes() as u64).max(1);
        let mut reader = Self {
            ring,
            lanes: (0..ring.lanes()).map(|lane| LaneRows::of(ring, lane)).collect(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            max_ahead_bytes,
            piece_rows: (PIECE_BYTES / row_bytes).clamp(1, 1 << 16),
            group_rows: group_rows.max(1),
            group_read: 0,
            progress: Progress::default(),
            on_progress,
            lapped: 0,
        };
        let held = ring.stats().lane_stats.into_iter().map(|stats| stats.held);
        let full: Vec<u32> = (0..)
            .zip(reader.lanes.iter().zip(held))
            .filter(|(_, (lane, held))| *held && lane.is_full())
            .map(|(number, _)| number)
            .collect();
        let share = max_ahead_bytes.max(PIECE_BYTES) / row_bytes / (full.len() as u64).max(1);
        for number in full {
            reader.begin_lane(number, share.clamp(1, reader.piece_rows));
        }
        let rows = reader.lanes.iter().map(|lane| lane.rows.end - lane.rows.start);
        reader.progress.total_rows = rows.sum();
        reader.progress.total_bytes = reader.progress.total_rows.saturating_mul(row_bytes);
        reader
    }

    /// Copies the first rows of a lane. Rows overwritten before the copy was validated do not
    /// belong to the export.
    fn begin_lane(&mut self, number: u32, rows: u64) {
        for _ in 0..ATTEMPTS {
            let Some(now) = self.ring.lane_span(number) else { return };
            let end = now.end.min(now.start + rows.min(self.group_rows - self.group_read));
            let Ok(read) = self.ring.remaining_rows(number, now.start..end) else { return };
            let Some(lane) = self.lanes.get_mut(number as usize) else { return };
            let (_, found) = read.place();
            (lane.rows, lane.head, lane.next) = (found.start..now.end, now.end, found.start);
            if !found.is_empty() {
                self.push(number, read);
                return;
            }
        }
    }

    pub(crate) fn ring(&self) -> &'a Ring {
        self.ring
    }

    /// Returns the exported rows of each lane.
    pub(crate) fn spans(&self) -> Vec<Range<u64>> {
        self.lanes.iter().map(|lane| lane.rows.clone()).collect()
    }

    pub(crate) fn group_rows(&self) -> u64 {
        self.group_rows
    }

    /// Returns the number of rows that were overwritten before they were read.
    pub(crate) fn lapped(&self) -> u64 {
        self.lapped
    }

    /// Passes the rows of the next group to `take` and returns their number; 0 after the last
    /// group. Overwritten rows are left out and counted.
    pub(crate) fn read_group<E: From<ExportError>>(
        &mut self,
        mut take: impl FnMut(u32, &Rows) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut taken = 0;
        while taken < self.group_rows {
            let lapped = self.lapped;
            self.read_ahead().map_err(E::from)?;
            let Some(rows) = self.ahead.pop_front() else {
                if self.lapped > lapped {
                    self.count(self.lapped - lapped)?;
                }
                break;
            };
            let count = rows.len() as u64;
            self.ahead_bytes -= count * self.row_bytes();
            take(rows.place().0, &rows)?;
            taken += count;
            self.count(count + self.lapped - lapped)?;
        }
        Ok(taken)
    }

    /// Reads at least one piece, and more up to the limit of reading ahead.
    fn read_ahead(&mut self) -> Result<(), ExportError> {
        while self.ahead.is_empty() || self.ahead_bytes < self.max_ahead_bytes {
            let Some(number) = self.next_lane() else { break };
            let Some(lane) = self.lanes.get_mut(number as usize) else { break };
            let rows = self.piece_rows.min(self.group_rows - self.group_read);
            let end = lane.rows.end.min(lane.next + rows);
            let read = self.ring.remaining_rows(number, lane.next..end)?;
            let (_, found) = read.place();
            self.lapped += found.start - lane.next;
            lane.next = found.start;
            if !found.is_empty() {
                self.push(number, read);
            }
        }
        Ok(())
    }

    /// Queues the next rows of a lane.
    fn push(&mut self, number: u32, rows: Rows) {
        if let Some(lane) = self.lanes.get_mut(number as usize) {
            lane.next = rows.place().1.end;
        }
        let count = rows.len() as u64;
        self.group_read = (self.group_read + count) % self.group_rows;
        self.ahead_bytes += count * self.row_bytes();
        self.ahead.push_back(rows);
    }

    /// Picks the unread lane whose next row is overwritten soonest, at its writer's pace since the
    /// export began. Picks the first unread lane if no writer has published rows since then.
    fn next_lane(&self) -> Option<u32> {
        let mut unread = (0..).zip(&self.lanes).filter(|(_, lane)| !lane.is_read());
        let first = unread.clone().next()?;
        if self.lanes.len() == 1 {
            return Some(first.0);
        }
        let mut soonest = (first.0, u64::MAX, 0);
        for (number, lane) in &mut unread {
            let head = self.ring.lane_span(number).map_or(lane.head, |now| now.end);
            let published = head.saturating_sub(lane.head);
            // Rows that may be published before the next row to be read is overwritten.
            let left = (lane.next + lane.capacity).saturating_sub(head);
            let (_, least, most) = soonest;
            if u128::from(left) * u128::from(most) < u128::from(least) * u128::from(published) {
                soonest = (number, left, published);
            }
        }
        Some(soonest.0)
    }

    fn row_bytes(&self) -> u64 {
        (self.ring.schema().row_bytes() as u64).max(1)
    }

    /// Counts rows as done and reports progress. Fails if the callback asks to stop.
    fn count(&mut self, rows: u64) -> Result<(), ExportError> {
        self.progress.rows += rows;
        self.progress.bytes = self.progress.rows.saturating_mul(self.row_bytes());
        let stop = self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress));
        if stop == Some(ControlFlow::Break(())) {
            return Err(ExportError::Interrupted);
        }
        Ok(())
    }
}
