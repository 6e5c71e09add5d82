//! New transitions of every lane, and the block that they make.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use backcast_layout::protocol::{Words, has_relocated, still_whole};

use super::Rollout;
use crate::ring::Ring;
use crate::ring::lane_inspection::{InspectedLane, readable};
use crate::row_header::{RowHeader, starts_transition};

/// Headers read at a time.
const CHUNK: u64 = 256;

/// Number of columns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sampler) enum BlockSize {
    /// Exactly this number.
    Columns(usize),
    /// All that is new, up to this number, once enough lanes are ready.
    New(usize),
}

impl BlockSize {
    /// Returns the maximum number of columns.
    pub(in crate::sampler) fn most(self) -> usize {
        let (Self::Columns(most) | Self::New(most)) = self;
        most
    }
}

/// Transitions that no pass has had, in every lane. Rows are read once.
#[derive(Debug, Default)]
pub(in crate::sampler) struct NewTransitions {
    lanes: Vec<LaneNews>,
    headers: Vec<RowHeader>,
}

/// New transitions of one lane.
#[derive(Debug, Default)]
struct LaneNews {
    /// Rows at which they start, oldest first.
    rows: VecDeque<u64>,
    /// First row that was read and may be new.
    first: u64,
    /// Rows before this one have been read.
    read: u64,
    /// Rows after those of the last pass that are too old.
    too_old: u64,
    has_writer: bool,
    /// Whether a writer has ever published a row.
    is_used: bool,
}

impl LaneNews {
    /// Returns the columns that the lane can give. The rest of a lane without a writer is one too.
    fn columns(&self, length: usize) -> usize {
        let rest = self.rows.len() % length;
        self.rows.len() / length + usize::from(rest > 0 && !self.has_writer)
    }

    /// Reads the rows of a lane from row `from` on, until `most` transitions are known.
    fn read(
        &mut self,
        found: &InspectedLane,
        from: u64,
        most: usize,
        headers: &mut Vec<RowHeader>,
    ) {
        let (lane, rows) = (&*found.memory, &found.rows);
        let from = from.max(rows.start);
        if from < self.first {
            // Rows that were too old are young again: the newest version fell.
            self.rows.clear();
            self.read = from;
        }
        self.first = from;
        while self.rows.front().is_some_and(|row| *row < from) {
            self.rows.pop_front();
        }
        self.read = self.read.max(from);
        self.is_used |= rows.end > 0;
        while self.read.saturating_add(1) < rows.end && self.rows.len() < most {
            // The header of a row's successor tells whether a transition starts at the row.
            let end = rows.end.min(self.read + CHUNK);
            headers.resize(usize::try_from(end - self.read).unwrap_or(0), RowHeader::default());
            RowHeader::read_into(lane, self.read % lane.slots(), headers);
            if still_whole(lane, self.read) {
                for pair in headers.windows(2) {
                    if starts_transition(pair, self.read) {
                        self.rows.push_back(self.read);
                    }
                    self.read += 1;
                }
            } else if has_relocated(lane) {
                return;
            } else {
                // A writer overwrote the first of these rows meanwhile.
                self.read = readable(lane).start.max(self.read + 1);
            }
        }
    }
}

impl NewTransitions {
    /// Reads what is new in every lane after the rows of a pass, up to `most` transitions of each.
    /// Leaves out rows before `oldest`, which has the first row of each lane that is not too old,
    /// or nothing.
    pub(in crate::sampler) fn refresh(
        &mut self,
        ring: &Ring,
        (pass, oldest): (&[Range<u64>], &[u64]),
        most: usize,
    ) {
        let Self { lanes, headers } = self;
        lanes.resize_with(ring.lanes() as usize, LaneNews::default);
        for ((of, lane), rows) in lanes.iter_mut().zip(0..).zip(pass) {
            // Checks the writer first: all that it published is then read.
            of.has_writer = ring.store().lane_held(lane);
            match ring.inspect_lane(lane) {
                Some(found) => {
                    let oldest = oldest.get(lane as usize).copied().unwrap_or(0);
                    of.too_old = oldest.saturating_sub(rows.end.max(found.rows.start));
                    of.read(&found, rows.end.max(oldest), most, headers);
                }
                None => of.rows.clear(),
            }
        }
    }

    /// Returns the new rows that are too old.
    pub(in crate::sampler) fn too_old(&self) -> u64 {
        self.lanes.iter().fold(0, |rows, of| rows.saturating_add(of.too_old))
    }

    /// Returns how many columns, or lanes that are ready, a block of this size needs and how many
    /// there are. It can be made if these are enough.
    pub(in crate::sampler) fn readiness(&self, form: Rollout, size: BlockSize) -> (usize, usize) {
        let length = form.length.max(1) as usize;
        if let BlockSize::Columns(columns) = size {
            return (columns, self.lanes.iter().map(|of| of.columns(length)).sum());
        }
        let ready = self.lanes.iter().filter(|of| of.columns(length) > 0).count();
        let count = |some: fn(&LaneNews) -> bool| {
            self.lanes.iter().filter(|of| of.columns(length) == 0 && some(of)).count()
        };
        // A lane of which all new rows are too old would be awaited for ever.
        let to_come = count(|of| of.has_writer && (of.too_old == 0 || !of.rows.is_empty()));
        let needed = match form.lanes {
            None => ready + to_come,
            Some(lanes) => {
                let any_writer = self.lanes.iter().any(|of| of.has_writer);
                let unused = if any_writer { count(|of| !of.has_writer && !of.is_used) } else { 0 };
                (lanes as usize).min(ready + to_come + unused)
            }
        };
        (needed.max(1), ready)
    }

    /// Returns the rows of a block in each lane, after those of a pass. Lanes with the most new
    /// transitions come first; each gives a column in turn, up to `most` together.
    pub(in crate::sampler) fn block(
        &self,
        form: Rollout,
        most: usize,
        pass: &[Range<u64>],
    ) -> Vec<Range<u64>> {
        let length = form.length.max(1) as usize;
        let available: Vec<usize> = self.lanes.iter().map(|of| of.columns(length)).collect();
        let total: usize = available.iter().sum();
        let mut taken = available.clone();
        if total > most {
            let mut order: Vec<usize> = (0..self.lanes.len()).collect();
            let backlog = |of: &LaneNews| of.rows.len() as u64 + of.too_old;
            order.sort_by_key(|lane| Reverse(self.lanes.get(*lane).map(backlog)));
            taken.fill(0);
            let turns = (0..).take_while(|turn| available.iter().any(|columns| columns > turn));
            let columns = turns.flat_map(|turn| order.iter().map(move |lane| (turn, *lane)));
            let columns = columns.filter(|(turn, lane)| available[*lane] > *turn);
            columns.take(most).for_each(|(_, lane)| taken[lane] += 1);
        }
        let lanes = self.lanes.iter().zip(taken).zip(pass);
        let rows = lanes.map(|((of, columns), pass)| {
            let last = (columns * length).min(of.rows.len()).checked_sub(1);
            let (first, last) = (of.rows.front(), last.and_then(|last| of.rows.get(last)));
            // Later passes begin after the rows of a lane that gives none.
            first.zip(last).map_or(pass.end..pass.end, |(first, last)| *first..last + 1)
        });
        rows.collect()
    }
}
