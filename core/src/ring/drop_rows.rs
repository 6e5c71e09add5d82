//! Drops rows: raises the marks below which every reader ignores rows.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::low_mark::raise_mark;
use backcast_layout::protocol::still_whole;
use backcast_layout::{Lane, LowMark, LowMarks, SegmentError};

use super::Ring;
use super::lane_inspection::InspectedLane;
use crate::error::DropError;
use crate::limiter;
use crate::row_flags::FINAL;
use crate::row_header::RowHeader;

/// Attempts to read headers of rows that a writer overwrites meanwhile.
const ATTEMPTS: u32 = 64;

impl Ring {
    /// Drops every row published so far, in all lanes, and returns the number of transitions that
    /// could be drawn and no longer can.
    ///
    /// Writers continue as before: an episode that goes on keeps the rows after this call, and its
    /// history begins with them. Readers in all processes ignore the dropped rows from their next
    /// call on, and tables at their next draw; leases and batches that exist keep theirs. A rate
    /// limiter counts the transitions as deleted. Needs write access to `ring.low`; a process that
    /// is killed meanwhile has cleared some lanes. O(lanes), no copy.
    ///
    /// ```
    /// use backcast_core::{DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// let mut append = |obs: f32| -> Result<(), Box<dyn std::error::Error>> {
    ///     let obs = [obs];
    ///     let columns = StepColumns::of(ring.schema()).with("obs", &obs)?;
    ///     writer.append(&columns.step(&[false], &[false])?)?;
    ///     Ok(())
    /// };
    /// for t in 0..5 {
    ///     append(t as f32)?;
    /// }
    /// assert_eq!((ring.clear()?, ring.len()), (4, 0));
    /// append(5.0)?;
    /// append(6.0)?;
    /// assert_eq!(ring.lane_span(0), Some(5..7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> Result<u64, DropError> {
        let marks = self.writable_marks()?;
        let heads = (0..self.lanes()).filter_map(|lane| Some((lane, self.inspect_lane(lane)?)));
        let dropped =
            heads.map(|(lane, found)| self.drop_below(&marks, lane, found.rows.end)).sum();
        self.count_dropped();
        Ok(dropped)
    }

    /// Drops the oldest episode of a lane, and returns the number of transitions dropped. With
    /// `episode`, fails unless the oldest one has this number in the column `episode`. With `older`
    /// too, drops this episode and all before it.
    ///
    /// Effects and access are those of [`clear`](Self::clear). An episode that has not ended is
    /// refused. O(log rows).
    pub fn drop_episode(
        &self,
        lane: u32,
        episode: Option<u64>,
        older: bool,
    ) -> Result<u64, DropError> {
        let marks = self.writable_marks()?;
        for _ in 0..ATTEMPTS {
            let Some(found) = self.inspect_lane(lane) else {
                return Err(DropError::NoSuchLane { lane, lanes: self.lanes() });
            };
            if let Some(end) = end_of(lane, &found, episode, older)? {
                let dropped = self.drop_below(&marks, lane, end);
                self.count_dropped();
                return Ok(dropped);
            }
        }
        Err(DropError::Outrun { lane, attempts: ATTEMPTS })
    }

    /// Returns the first row of a lane that was not dropped, as [`clear`](Self::clear) and
    /// [`drop_episode`](Self::drop_episode) have set it: 0 at first, at most `head`. `None` if the
    /// ring lacks the lane.
    #[must_use]
    pub fn first_kept(&self, lane: u32) -> Option<u64> {
        self.inspect_lane(lane).map(|lane| lane.mark)
    }

    fn writable_marks(&self) -> Result<Arc<LowMarks>, DropError> {
        if self.is_snapshot() {
            return Err(DropError::Snapshot);
        }
        self.store().writable_marks().map_err(|error| match error {
            SegmentError::Io { path, source, .. } if is_denied(&source) => {
                DropError::Denied { path, source }
            }
            error => error.into(),
        })
    }

    /// Raises the mark of a lane to a row of at most its head. Returns the number of transitions
    /// that could be drawn and no longer can.
    fn drop_below(&self, marks: &Arc<LowMarks>, lane: u32, row: u64) -> u64 {
        let head = || match self.inspect_lane(lane) {
            Some(found) if !found.is_relocated() => found.rows.end,
            // The head is in memory that this process cannot map, so any mark may be correct.
            _ => u64::MAX,
        };
        let before = raise_mark(&LowMark::new(marks, lane), row, head);
        // Another process may have dropped rows below `before`, and counts those.
        self.transitions_of(lane, before..row)
    }

    /// Counts what was inserted and cannot be drawn any more, in a ring with a rate limiter, and
    /// wakes both sides: writers may insert as many again, for which samplers wait.
    ///
    /// The count is the difference between what was inserted and what the ring has, since rows that
    /// were overwritten stay counted as inserted. Processes that drop rows at the same time compute
    /// the same count.
    fn count_dropped(&self) {
        if self.store().limiter().is_some() {
            limiter::count_dropped(self.store(), || self.len());
        }
    }

    /// Returns the number of transitions that start at some rows of a lane and could be drawn
    /// before they were dropped.
    fn transitions_of(&self, lane: u32, rows: Range<u64>) -> u64 {
        for _ in 0..ATTEMPTS {
            let Some(InspectedLane { memory, .. }) = self.inspect_lane(lane) else { break };
            let there = backcast_layout::protocol::readable(&*memory, memory.capacity());
            let rows = rows.start.max(there.start)..rows.end.min(there.end);
            if rows.is_empty() {
                break;
            }
            let read = |row| RowHeader::read(&*memory, row);
            let (first, last) = (read(rows.start), read(rows.end - 1));
            if !still_whole(&*memory, rows.start) {
                continue;
            }
            // Each episode that ended or was cut has one row more than transitions.
            let ends = last.episode.wrapping_sub(first.episode);
            return (rows.end - rows.start - 1).saturating_sub(ends);
        }
        0
    }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Returns one past the last row of an episode, or `None` if a writer overwrote rows meanwhile. An
/// `episode` of `None` is the oldest one.
fn end_of(
    lane: u32,
    found: &InspectedLane,
    episode: Option<u64>,
    older: bool,
) -> Result<Option<u64>, DropError> {
    let InspectedLane { memory, rows, .. } = found;
    if rows.is_empty() {
        let episode = episode.unwrap_or(0);
        return Err(DropError::NoSuchEpisode { lane, episode, kept: None });
    }
    let newest = rows.end - 1;
    let (first, last) =
        (RowHeader::read(&**memory, rows.start), RowHeader::read(&**memory, newest));
    if !still_whole(&**memory, rows.start) {
        return Ok(None);
    }
    let (oldest, episode) = (first.episode, episode.unwrap_or(first.episode));
    if !(oldest..=last.episode).contains(&episode) {
        return Err(DropError::NoSuchEpisode { lane, episode, kept: Some((oldest, last.episode)) });
    }
    if episode != oldest && !older {
        return Err(DropError::NotOldest { lane, episode, oldest });
    }
    if episode == last.episode && last.flags & FINAL == 0 {
        return Err(DropError::Unfinished { lane, episode, newest });
    }
    let end = first_after(memory, rows, episode);
    Ok(still_whole(&**memory, rows.start).then_some(end))
}

/// Returns the first row of a later episode. Episodes of a lane have growing numbers.
fn first_after(memory: &Lane, rows: &Range<u64>, episode: u64) -> u64 {
    let Range { start: mut from, end: mut to } = *rows;
    while from < to {
        let middle = from + (to - from) / 2;
        if RowHeader::read(memory, middle).episode > episode {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}
