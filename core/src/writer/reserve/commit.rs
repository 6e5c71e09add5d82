//! Publishes a reserved row, with the FINAL rows that belong before and after it.

use backcast_layout::protocol::{Words, notify};
use backcast_layout::{Column, Role};

use super::Reserved;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::schema::USER;
use crate::writer::room::Planned;
use crate::writer::rows::kept::KeptKind;
use crate::writer::rows::{GivenObs, LanePlan, LaneStep, end_flags};
use crate::writer::step::ObsBytes;
use crate::writer::{OwnLane, Writer};

/// End flags and observations of a reserved row; the fields of [`Step`](crate::Step) for one lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends<'a> {
    /// Whether the action ended the episode.
    pub terminated: bool,
    /// Whether something outside the episode ended it.
    pub truncated: bool,
    /// Observation that the action led to.
    pub next_obs: Option<ObsBytes<'a>>,
    /// Final observation.
    pub final_obs: Option<ObsBytes<'a>>,
}

impl Reserved<'_> {
    /// Publishes the row. Fails and leaves no row if a column was neither lent nor written. A FINAL
    /// row needs only its observations.
    ///
    /// The flags say whether the episode ended with this row. Those of a FINAL row are not stored,
    /// and only hint at a wrong autoreset mode. Returns the index of the row, or [`RowIndex::NONE`]
    /// if it was dropped.
    pub fn commit(self, terminated: bool, truncated: bool) -> Result<RowIndex, AppendError> {
        self.commit_with(&Ends { terminated, truncated, ..Ends::default() })
    }

    /// Publishes the row like [`commit`](Self::commit), and uses the observations of `ends` like
    /// [`Writer::append`].
    pub fn commit_with(self, ends: &Ends<'_>) -> Result<RowIndex, AppendError> {
        let is_final = self.is_final();
        let Self { writer, nowhere } = self;
        let mut columns = writer.ring.schema().columns().iter().zip(&writer.asked);
        let is_needed = |column: &Column| !is_final || column.role() == Role::Obs;
        if let Some((column, _)) = columns.find(|(column, asked)| !**asked && is_needed(column)) {
            return Err(AppendError::NotWritten { name: column.name().to_owned() });
        }
        let [next, last] = [ends.next_obs, ends.final_obs];
        next.iter().chain(&last).try_for_each(|obs| writer.check_schema(obs.schema))?;
        let [next, last] = [next, last].map(|obs| Some(obs?.columns));
        writer.check_obs(next, last, 1)?;
        let given = GivenObs::of(writer.mode, next, last);
        let shows_kept = !nowhere && writer.shows_kept();
        let lanes = writer.lanes.len();
        let [lane] = &*writer.lanes else { return Err(AppendError::NotReservable { lanes }) };
        let state = lane.state();
        let step = LaneStep {
            ends: end_flags(ends.terminated, ends.truncated),
            shows_kept,
            // Step columns of a FINAL row are discarded, so rewards are not checked.
            is_rewarded: false,
            has_next: next.is_some(),
        };
        let mut plan = state.plan(writer.mode, step);
        if nowhere {
            // Counts as one dropped row, whatever FINAL rows it would have brought.
            plan = LanePlan { dropped: 1, ..plan.without_rows(state) };
        }
        writer.check_plan(0, &plan, given)?;
        // The reserved row lies in the slot that the FINAL row of the cut episode needs, so copy
        // it.
        let moved = if plan.cuts() { writer.written_row() } else { Vec::new() };
        let moved: Vec<&[u8]> = moved.iter().map(Vec::as_slice).collect();
        writer.planned.clear();
        writer.planned.push(Planned::of(plan));
        let before = writer.transitions();
        writer.publish_planned(&moved, given);
        if !nowhere {
            writer.count_inserts(before);
            notify(&writer.ring.store().published());
        }
        Ok(writer.planned.first().map_or(RowIndex::NONE, |planned| planned.index))
    }
}

impl Writer {
    /// Returns whether the reserved row holds the observation that the lane keeps.
    fn shows_kept(&mut self) -> bool {
        let Some(lane) = self.lanes.first() else { return false };
        let mut kept = lane.kept.rows(&self.obs).zip(&self.obs);
        lane.kept.kind() != KeptKind::Nothing
            && kept.all(|(kept, column)| {
                let Some(written) = self.scratch.get_mut(..column.width) else { return false };
                lane.copy_written(column.at, written);
                written == kept
            })
    }

    /// Copies the reserved row, column by column.
    fn written_row(&self) -> Vec<Vec<u8>> {
        let columns = self.schema().columns().iter().enumerate();
        let copy = |(at, column): (usize, &Column)| {
            let mut bytes = vec![0; column.width()];
            self.lanes.iter().for_each(|lane| lane.copy_written(at, &mut bytes));
            bytes
        };
        columns.map(copy).collect()
    }
}

impl OwnLane {
    /// Copies what was written into a column of the next row. Needs no validation: no other process
    /// may write the slot.
    fn copy_written(&self, at: usize, out: &mut [u8]) {
        self.memory.lane().copy_out(USER + at, self.memory.slot(), 1, out);
    }
}
