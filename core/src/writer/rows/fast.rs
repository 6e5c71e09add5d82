//! Writes steps that continue every lane: one row on each, without a plan.
//!
//! [`LaneState::continuation`] decides which steps these are. All others are left to the planner,
//! and nothing is appended.

use super::kept::{KeptKind, ObsColumn};
use super::{Continuation, LaneState};
use crate::index::RowIndex;
use crate::row_header::{ROW_HEADERS, RowHeader};
use crate::schema::USER;
use crate::writer::lease_backoff::fence_announced;
use crate::writer::step::Step;
use crate::writer::{OwnLane, Writer, row};

/// Maximum rows of one publish. A publish has at most a reserve chunk of rows too, so that readers
/// keep the capacity of the lane.
const BLOCK: usize = 64;

impl Writer {
    /// Appends a step that ends no episode and continues every lane, if all lanes have room. Sets
    /// the indices to those of its rows. Otherwise returns `false` and appends nothing.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    pub(in crate::writer) fn append_fast(&mut self, step: &Step<'_>) -> bool {
        let has_followed = self.has_followed();
        // One lane is a case of its own, since a loop over it costs a tenth of a small row. The
        // length of the indices is not stored again: a later load of it would wait for that store.
        let (
            Step {
                next_obs: None, final_obs: None, terminated: [false], truncated: [false], ..
            },
            ([lane], [number], [index]),
        ) = (step, (&mut *self.lanes, &*self.numbers, &mut *self.indices))
        else {
            self.indices.clear();
            return self.append_continuing(step);
        };
        // Sizes are checked while a slot is written that no reader sees yet.
        if !has_followed
            || lane.continuation != Continuation::Plain
            || !lane.write_row(step, (0, 1))
        {
            return false;
        }
        *index = RowIndex::new(*number, lane.memory.head());
        lane.clock.step();
        lane.memory.publish(1);
        self.rows_written += 1;
        true
    }

    /// Appends a step like [`append_fast`](Self::append_fast), but adds to the indices.
    #[inline(never)]
    pub(in crate::writer) fn append_continuing(&mut self, step: &Step<'_>) -> bool {
        let of = self.lanes.len();
        let go_on = |flags: &[bool]| {
            flags.len() == of && !flags.iter().fold(false, |any, ended| any | ended)
        };
        let fits = |given: &[&[u8]]| {
            let mut columns = self.obs.iter().zip(given);
            given.len() == self.obs.len() && columns.all(|(c, bytes)| bytes.len() == of * c.width)
        };
        if !go_on(step.terminated)
            || !go_on(step.truncated)
            || !self.has_followed()
            || !step.next_obs.is_none_or(fits)
            || !step.final_obs.is_none_or(|last| self.mode.ends_with_final() && fits(last))
        {
            return false;
        }
        let is_plain = |lane: &OwnLane| lane.continuation == Continuation::Plain;
        let appends = if step.next_obs.is_none() && self.lanes.iter().all(is_plain) {
            self.append_to_lanes::<false>(step)
        } else {
            self.append_to_lanes::<true>(step)
        };
        if !appends {
            return false;
        }
        self.rows_written += of as u64;
        self.warnings.appends += if step.next_obs.is_some() { of as u64 } else { 0 };
        true
    }

    /// Appends row `i` of a step to lane `i`, for all lanes. Returns `false` and appends nothing if
    /// the slow path is needed. `KEEPS` says whether a lane may keep an observation before or after
    /// the step: to test that at run time costs a tenth of a small row.
    #[inline]
    fn append_to_lanes<const KEEPS: bool>(&mut self, step: &Step<'_>) -> bool {
        let of = self.lanes.len();
        // Slots are written before all lanes are known to have room. `write_row` checks the sizes
        // before the observations are compared.
        let written = self.lanes.iter().enumerate().all(|(i, lane)| {
            (!KEEPS || lane.continuation != Continuation::Planned)
                && lane.write_row(step, (i, of))
                && (!KEEPS || lane.continues(&self.obs, step.columns, i))
        });
        if !written {
            return false;
        }
        let lanes = self.lanes.iter_mut().zip(&self.numbers).enumerate();
        self.indices.extend(lanes.map(|(i, (lane, number))| {
            let index = RowIndex::new(*number, lane.memory.head());
            lane.clock.step();
            if KEEPS {
                lane.publish_continuing(1, &self.obs, step.next_obs, i);
            } else {
                lane.memory.publish(1);
            }
            index
        }));
        true
    }

    /// Returns how many rows of the only lane from step `from` on may be written together. They end
    /// no episode, each shows the `next_obs` of the one before, and the writer is not waiting for a
    /// final observation.
    pub(in crate::writer) fn block(&self, steps: &Step<'_>, from: usize, count: usize) -> usize {
        let [lane] = &*self.lanes else { return 0 };
        if !lane.continues(&self.obs, steps.columns, from) {
            return 0;
        }
        let chunk = self.ring.store().spec().reserve_chunk as usize;
        let most = (count - from).min(BLOCK).min(chunk);
        let ends = steps.terminated.iter().zip(steps.truncated).skip(from).take(most);
        let rows = ends.take_while(|(ended, cut)| !(**ended || **cut)).count();
        let Some(next) = steps.next_obs else { return rows };
        let follows = |at: &usize| {
            self.obs.iter().zip(next).all(|(column, next)| {
                steps.columns.get(column.at).is_some_and(|obs| {
                    row(next, column.width, *at) == row(obs, column.width, *at + 1)
                })
            })
        };
        let followed = (from..from + rows.saturating_sub(1)).take_while(follows).count();
        rows.min(followed + 1)
    }

    /// Writes and publishes rows of the only lane. Returns `false` and writes nothing if a lease
    /// stops it.
    pub(in crate::writer) fn append_block(
        &mut self,
        steps: &Step<'_>,
        from: usize,
        rows: usize,
    ) -> bool {
        let store = self.ring.store();
        let ([lane], [number]) = (&mut *self.lanes, &*self.numbers) else { return false };
        let count = rows as u64;
        if lane.memory.reserve(count) {
            fence_announced(store, &lane.memory);
            if !lane.backoff.settle(store, *number, &mut lane.memory, count) {
                return false;
            }
        }
        let first = lane.memory.head();
        let mut headers = [RowHeader::default(); BLOCK];
        for (header, seq) in headers.iter_mut().zip(first..first + count) {
            *header = lane.clock.step().at(seq);
            self.indices.push(RowIndex::new(*number, seq));
        }
        lane.memory.write_rows(ROW_HEADERS, count, bytemuck::cast_slice(&headers[..rows]));
        let columns = self.ring.schema().columns().iter().zip(steps.columns).enumerate();
        for (at, (column, bytes)) in columns {
            let width = column.width();
            lane.memory.write_rows(USER + at, count, &bytes[from * width..(from + rows) * width]);
        }
        lane.publish_continuing(count, &self.obs, steps.next_obs, from + rows - 1);
        self.rows_written += count;
        self.warnings.appends += if steps.next_obs.is_some() { count } else { 0 };
        true
    }
}

impl OwnLane {
    /// Returns what decides about the next step.
    #[inline]
    pub(in crate::writer) fn state(&self) -> LaneState {
        LaneState { clock: self.clock, kept: self.kept.kind() }
    }

    /// Decides again after the clock or the kept observation changed.
    #[inline]
    pub(in crate::writer) fn update_continuation(&mut self) {
        self.continuation = self.state().continuation();
    }

    /// Returns whether row `i` of a step that ends no episode needs no plan.
    #[inline]
    fn continues(&self, obs: &[ObsColumn], columns: &[&[u8]], i: usize) -> bool {
        match self.continuation {
            Continuation::Plain => true,
            Continuation::IfShown => self.kept.is_row(obs, columns, i),
            Continuation::Planned => false,
        }
    }

    /// Writes row `row.0` of the `row.1` rows of a step that ends no episode. Returns `false` if
    /// there is no room, or if a column has another size.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn write_row(&self, step: &Step<'_>, row: (usize, usize)) -> bool {
        let mut clock = self.clock;
        let Some(slot) = self.memory.free_slot() else { return false };
        let header = clock.step().at(self.memory.head());
        self.memory.lane().store_row(slot, header.words(), step.columns, row)
    }

    /// Publishes rows that were written, and keeps row `i` of the `next_obs` of their steps.
    #[inline]
    fn publish_continuing(
        &mut self,
        rows: u64,
        obs: &[ObsColumn],
        next: Option<&[&[u8]]>,
        i: usize,
    ) {
        match next {
            Some(next) => {
                self.kept.keep(KeptKind::Next, obs, next, i);
                self.update_continuation();
            }
            // The lane keeps nothing, and any step continues it.
            None if self.continuation == Continuation::Plain => {}
            None => {
                self.kept.forget();
                self.update_continuation();
            }
        }
        self.memory.publish(rows);
    }
}
