//! Writes and publishes the rows of plans.

use backcast_layout::Role;

use super::episode_clock::HeaderFields;
use super::kept::{KeptKind, ObsColumn};
use super::{GivenObs, LanePlan};
use crate::index::RowIndex;
use crate::row_header::ROW_HEADERS;
use crate::schema::{Schema, USER};
use crate::writer::{OwnLane, Writer, row};

/// Sources of the bytes of planned rows.
struct RowSource<'a> {
    schema: &'a Schema,
    obs: &'a [ObsColumn],
    zeros: &'a [u8],
    columns: &'a [&'a [u8]],
    given: GivenObs<'a>,
}

impl Writer {
    /// Writes the planned rows of every lane, publishes them, and counts what the plans say. Cannot
    /// fail, since there is room for all of them. `columns` are those of the step. They are empty
    /// if there is no step, or if the row of the step lies in its slot already. The indices of the
    /// rows go to the plans.
    pub(in crate::writer) fn publish_planned(&mut self, columns: &[&[u8]], given: GivenObs<'_>) {
        let (schema, obs, zeros) = (self.ring.schema(), &*self.obs, &*self.zeros);
        let source = RowSource { schema, obs, zeros, columns, given };
        let of = self.lanes.len();
        let lanes = self.lanes.iter_mut().zip(&mut self.planned).zip(&self.numbers);
        for (i, ((lane, planned), number)) in lanes.enumerate() {
            let plan = &planned.plan;
            source.write(lane, plan, i);
            lane.clock = plan.after.clock;
            lane.update_continuation();
            let memory = lane.memory.lane();
            if given.next.is_some() && plan.row.is_some() && plan.last.is_none() {
                self.warnings.appends += 1;
            }
            if plan.cuts() {
                memory.count_cut();
                self.warnings.cut(of);
            }
            if let Some(hint) = plan.hint {
                memory.count_suspect_reset();
                self.warnings.reset(i, self.mode, hint);
            }
            if plan.dropped > 0 {
                self.counts.add_dropped(plan.dropped);
                memory.count_dropped(plan.dropped);
            }
            let rows = plan.count();
            planned.index = RowIndex::NONE;
            if rows > 0 {
                let ahead = u64::from(plan.cuts());
                planned.index = RowIndex::new(*number, lane.memory.head() + ahead);
                lane.memory.publish(rows);
                self.rows_written += rows;
            }
        }
        self.has_warnings |= self.warnings.has_warnings();
    }
}

impl RowSource<'_> {
    /// Writes the planned rows of lane `i`, which readers do not see yet, and keeps the observation
    /// that the next step is compared with.
    fn write(&self, lane: &mut OwnLane, plan: &LanePlan, i: usize) {
        let mut ahead = 0;
        if let Some(fields) = plan.kept_final {
            self.write_final(lane, ahead, fields, lane.kept.rows(self.obs));
            ahead += 1;
        }
        if let Some(fields) = plan.row {
            lane.write_header(ahead, fields);
            let columns = self.schema.columns().iter().zip(self.columns).enumerate();
            for (at, (column, bytes)) in columns {
                lane.memory.write(USER + at, ahead, row(bytes, column.width(), i));
            }
            ahead += 1;
        }
        let last = self.given.last.unwrap_or_default();
        if let Some(fields) = plan.last {
            let observation = self.obs.iter().enumerate().filter_map(|(nth, column)| {
                let bytes = match plan.row {
                    Some(_) => last.get(nth),
                    None => self.columns.get(column.at),
                };
                Some(row(bytes?, column.width, i))
            });
            self.write_final(lane, ahead, fields, observation);
        }
        let newest = match plan.after.kept {
            KeptKind::Nothing => return lane.kept.forget(),
            KeptKind::Next => self.given.next.unwrap_or_default(),
            KeptKind::Final => last,
        };
        // Without a row of the step, the kept observation stays as it is.
        if plan.row.is_some() {
            lane.kept.keep(plan.after.kept, self.obs, newest, i);
        }
    }

    /// Writes a FINAL row, whose step columns are zero. An observation that is not given lies in
    /// its slot already.
    fn write_final<'b>(
        &self,
        lane: &OwnLane,
        ahead: u64,
        fields: HeaderFields,
        mut observation: impl Iterator<Item = &'b [u8]>,
    ) {
        lane.write_header(ahead, fields);
        for (at, column) in self.schema.columns().iter().enumerate() {
            let bytes = match column.role() {
                Role::Obs => observation.next(),
                Role::Step => Some(row(self.zeros, column.width(), 0)),
            };
            if let Some(bytes) = bytes {
                lane.memory.write(USER + at, ahead, bytes);
            }
        }
    }
}

impl OwnLane {
    fn write_header(&self, ahead: u64, fields: HeaderFields) {
        let header = fields.at(self.memory.head() + ahead);
        self.memory.write(ROW_HEADERS, ahead, bytemuck::bytes_of(&header));
    }
}
