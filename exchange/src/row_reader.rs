//! Reads the rows of a ring while writers overwrite them.
//!
//! A full lane loses its oldest row with every row that its writer appends. So the reader keeps its distance
//! from the writers: rows are read before they are packed, and the lane whose next row is overwritten soonest
//! is read first. Rows that are overwritten all the same are counted, row by row.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use backcast_core::{Ring, Rows};
use backcast_files::{OnProgress, Progress};

use crate::error::ExportError;

/// Bytes of rows that are copied at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// How often the first rows of a lane are read again if its writer overwrites all of them meanwhile.
const ATTEMPTS: u32 = 8;

/// Consecutive rows of a lane.
pub(crate) type Place = (u32, Range<u64>);

/// Why reading ended before the last row.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The caller asked to stop.
    Asked,
    /// Rows cannot be read, or there is no place for them.
    Export(ExportError),
}

impl From<ExportError> for Halt {
    fn from(error: ExportError) -> Self {
        Self::Export(error)
    }
}

/// The rows of one lane that are exported.
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

    /// Whether the next row that is published overwrites one of these.
    fn is_full(&self) -> bool {
        self.rows.end - self.rows.start >= self.capacity
    }
}

/// Reads what was readable when the export began, lane after lane unless writers are at work.
pub(crate) struct RowReader<'a, 'p> {
    ring: &'a Ring,
    lanes: Vec<LaneRows>,
    /// Rows that are read and not yet taken.
    ahead: VecDeque<Rows>,
    ahead_bytes: u64,
    /// Bytes up to which rows are read ahead.
    most_ahead: u64,
    piece_rows: u64,
    /// Rows that are taken together.
    unit_rows: u64,
    /// Rows read of the unit that is being read.
    unit_read: u64,
    /// Lanes that are written are read first.
    follows_writers: bool,
    /// Rows were read lane after lane so far.
    in_order: bool,
    progress: Progress,
    on_progress: Option<OnProgress<'p>>,
    /// Rows that writers overwrote before they were read.
    lapped: u64,
}

impl<'a, 'p> RowReader<'a, 'p> {
    /// Reads nothing yet, but what there is to read is what there is now.
    pub(crate) fn new(
        ring: &'a Ring,
        unit_rows: u64,
        most_ahead: u64,
        on_progress: Option<OnProgress<'p>>,
    ) -> Self {
        let row_bytes = (ring.schema().row_bytes() as u64).max(1);
        let mut reader = Self {
            ring,
            lanes: (0..ring.lanes()).map(|lane| LaneRows::of(ring, lane)).collect(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            most_ahead,
            piece_rows: (PIECE_BYTES / row_bytes).clamp(1, 1 << 16),
            unit_rows: unit_rows.max(1),
            unit_read: 0,
            follows_writers: false,
            in_order: true,
            progress: Progress::default(),
            on_progress,
            lapped: 0,
        };
        reader.count_total();
        reader
    }

    /// Follows the writers from now on: what there is to read is what is readable when each lane's first rows
    /// are copied, here, for lanes that lose a row with the next append.
    pub(crate) fn follow_writers(&mut self) {
        self.follows_writers = true;
        for number in 0..self.ring.lanes() {
            if let Some(lane) = self.lanes.get_mut(number as usize) {
                *lane = LaneRows::of(self.ring, number);
            }
        }
        let held = self.ring.stats().lane_stats.into_iter().map(|stats| stats.held);
        let full: Vec<u32> = (0..)
            .zip(self.lanes.iter().zip(held))
            .filter(|(_, (lane, held))| *held && lane.is_full())
            .map(|(number, _)| number)
            .collect();
        let share =
            self.most_ahead.max(PIECE_BYTES) / self.row_bytes() / (full.len() as u64).max(1);
        for number in full {
            self.begin_lane(number, share.clamp(1, self.piece_rows));
        }
        self.count_total();
    }

    /// Copies the first rows of a lane. Those that were overwritten before the copy is known to be whole were
    /// not there when the export of the lane began.
    fn begin_lane(&mut self, number: u32, rows: u64) {
        for _ in 0..ATTEMPTS {
            let Some(now) = self.ring.lane_span(number) else { return };
            let end = now.end.min(now.start + rows.min(self.unit_left()));
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

    /// Rows of each lane.
    pub(crate) fn spans(&self) -> Vec<Range<u64>> {
        self.lanes.iter().map(|lane| lane.rows.clone()).collect()
    }

    /// Rows that are taken together.
    pub(crate) fn unit_rows(&self) -> u64 {
        self.unit_rows
    }

    /// Rows that were overwritten before they were read.
    pub(crate) fn lapped(&self) -> u64 {
        self.lapped
    }

    /// Whether rows came lane after lane and without a gap, as they would of a ring that nobody writes.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.in_order && self.lapped == 0
    }

    /// Whether no row is left to take.
    pub(crate) fn is_over(&self) -> bool {
        self.ahead.is_empty() && self.lanes.iter().all(LaneRows::is_read)
    }

    /// Goes back to the first row.
    pub(crate) fn rewind(&mut self) {
        self.ahead.clear();
        for lane in &mut self.lanes {
            lane.next = lane.rows.start;
        }
        (self.ahead_bytes, self.unit_read, self.lapped, self.in_order) = (0, 0, 0, true);
        (self.progress.rows, self.progress.bytes) = (0, 0);
    }

    /// Passes over a unit of rows, lane after lane, which is done already. Returns where they are.
    pub(crate) fn skip_unit(&mut self) -> Vec<Place> {
        let mut places = Vec::new();
        let mut left = self.unit_rows;
        for (number, lane) in (0..).zip(&mut self.lanes) {
            let end = lane.rows.end.min(lane.next.saturating_add(left));
            if lane.next < end {
                left -= end - lane.next;
                places.push((number, lane.next..end));
                lane.next = end;
            }
        }
        self.progress.rows += self.unit_rows - left;
        places
    }

    /// Hands the next rows to `take`, of a unit as many as there are. Returns how many: none if there are no
    /// more. Rows that were overwritten are left out and counted.
    pub(crate) fn read_unit<E: From<Halt>>(
        &mut self,
        mut take: impl FnMut(u32, &Rows) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut taken = 0;
        while taken < self.unit_rows {
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

    /// Reads pieces until one is there, and as many more as may be read ahead.
    fn read_ahead(&mut self) -> Result<(), Halt> {
        while self.ahead.is_empty() || self.ahead_bytes < self.most_ahead {
            let Some(number) = self.next_lane() else { break };
            let Some(lane) = self.lanes.get_mut(number as usize) else { break };
            let end =
                lane.rows.end.min(lane.next + self.piece_rows.min(self.unit_rows - self.unit_read));
            let read =
                self.ring.remaining_rows(number, lane.next..end).map_err(ExportError::from)?;
            let (_, found) = read.place();
            self.lapped += found.start - lane.next;
            lane.next = found.start;
            if !found.is_empty() {
                self.push(number, read);
            }
        }
        Ok(())
    }

    /// Appends rows, which are the next ones of their lane.
    fn push(&mut self, number: u32, rows: Rows) {
        let before = self.lanes.iter().take(number as usize);
        self.in_order &= before.into_iter().all(LaneRows::is_read);
        if let Some(lane) = self.lanes.get_mut(number as usize) {
            lane.next = rows.place().1.end;
        }
        let count = rows.len() as u64;
        self.unit_read = (self.unit_read + count) % self.unit_rows;
        self.ahead_bytes += count * self.row_bytes();
        self.ahead.push_back(rows);
    }

    /// The lane to read next: the one that is overwritten soonest at the pace of its writer so far, else the
    /// first one.
    fn next_lane(&self) -> Option<u32> {
        let mut unread = (0..).zip(&self.lanes).filter(|(_, lane)| !lane.is_read());
        let first = unread.clone().next()?;
        if !self.follows_writers || self.lanes.len() == 1 {
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

    fn unit_left(&self) -> u64 {
        self.unit_rows - self.unit_read
    }

    fn row_bytes(&self) -> u64 {
        (self.ring.schema().row_bytes() as u64).max(1)
    }

    fn count_total(&mut self) {
        self.progress.total_rows =
            self.lanes.iter().map(|lane| lane.rows.end - lane.rows.start).sum();
        self.progress.total_bytes = self.progress.total_rows.saturating_mul(self.row_bytes());
    }

    /// Counts rows as done, and tells the caller.
    fn count(&mut self, rows: u64) -> Result<(), Halt> {
        self.progress.rows += rows;
        self.progress.bytes = self.progress.rows.saturating_mul(self.row_bytes());
        let stop = self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress));
        if stop == Some(ControlFlow::Break(())) {
            return Err(Halt::Asked);
        }
        Ok(())
    }
}
