//! Publishes a reserved row, with the FINAL rows that belong before and after it.

use backcast_layout::Role;
use backcast_layout::protocol::{Words, notify};

use super::super::kept::KeptKind;
use super::super::warnings::ResetHint;
use super::super::{OwnLane, Writer, row};
use super::Reserved;
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::schema::USER;
use crate::writer::episode_clock::{AppendedRows, HeaderFields};
use crate::writer::step::ObsBytes;

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
    /// Publishes the row. Fails and leaves no row if a column was not written.
    ///
    /// The flags say whether the action of this row ended the episode; they are ignored for a FINAL
    /// row. Returns the index of the row, or [`RowIndex::NONE`] if a lease left no room.
    pub fn commit(self, terminated: bool, truncated: bool) -> Result<RowIndex, AppendError> {
        self.commit_with(&Ends { terminated, truncated, ..Ends::default() })
    }

    /// Publishes the row, with the observation that it led to, like [`Writer::append`].
    pub fn commit_with(self, ends: &Ends<'_>) -> Result<RowIndex, AppendError> {
        let Self { writer, nowhere } = self;
        let is_final = writer.awaits_final().any(|awaits| awaits);
        let schema = writer.ring.schema();
        let missing = schema
            .columns()
            .iter()
            .zip(&writer.asked)
            .find(|(column, asked)| !**asked && (!is_final || column.role() == Role::Obs));
        if let Some((column, _)) = missing {
            return Err(AppendError::NotWritten { name: column.name().to_owned() });
        }
        let next = checked(writer, "next_obs", ends.next_obs)?;
        let mut last = checked(writer, "final_obs", ends.final_obs)?;
        if last.is_some() && writer.mode == AutoresetMode::NextStep {
            return Err(AppendError::UnexpectedFinalObs);
        }
        if writer.mode == AutoresetMode::Disabled {
            last = last.or(next);
        }
        if nowhere {
            return writer.commit_nowhere(ends);
        }
        let lanes = writer.lanes.len();
        let [lane] = &*writer.lanes else { return Err(AppendError::NotReservable { lanes }) };
        let kept = lane.kept.kind();
        let same = kept != KeptKind::Nothing
            && lane
                .kept
                .rows(&writer.obs)
                .zip(&writer.obs)
                .all(|(kept, column)| written(lane, column.at, column.width) == kept);
        let mut clock = lane.clock;
        let cut = (kept == KeptKind::Next && !clock.is_ended() && !same).then(|| {
            let (marks, after) = clock.cut();
            clock = after;
            marks
        });
        let (rows, after) = clock.advance(writer.mode, ends.terminated, ends.truncated);
        if matches!(rows, AppendedRows::StepAndFinal(..))
            && last.is_none()
            && !writer.obs.is_empty()
        {
            return Err(AppendError::MissingFinalObs { lane: 0, mode: writer.mode });
        }
        let hint = match kept {
            KeptKind::Next if is_final && !same => Some(ResetHint::Differs),
            KeptKind::Final if same => Some(ResetHint::Repeated),
            // Step columns of a FINAL row are discarded, so rewards are not checked.
            _ if is_final && (ends.terminated || ends.truncated) => Some(ResetHint::Acted),
            _ => None,
        };
        let before = writer.transitions_if_limited();
        writer.write_reserved(cut, rows, next, last.unwrap_or_default());
        let (Some(lane), [number]) = (writer.lanes.first_mut(), &*writer.numbers) else {
            return Err(AppendError::NotReservable { lanes });
        };
        lane.clock = after;
        lane.settle();
        writer.warnings.appends +=
            u64::from(next.is_some() && matches!(rows, AppendedRows::Step(_)));
        if cut.is_some() {
            lane.memory.lane().count_cut();
            writer.warnings.cut(lanes);
        }
        if let Some(hint) = hint {
            lane.memory.lane().count_suspect_reset();
            writer.warnings.reset(0, writer.mode, hint);
        }
        writer.has_warnings |= writer.warnings.has_warnings();
        let ahead = u64::from(cut.is_some());
        let index = RowIndex::new(*number, lane.memory.head() + ahead);
        lane.memory.publish(ahead + rows.count());
        writer.rows_written += ahead + rows.count();
        writer.count_inserts(before);
        notify(&writer.ring.store().published());
        Ok(index)
    }
}

impl Writer {
    /// Drops a reserved row that a lease leaves no room for. The next row does not continue the
    /// rows before.
    fn commit_nowhere(&mut self, ends: &Ends<'_>) -> Result<RowIndex, AppendError> {
        let lanes = self.lanes.len();
        let [lane] = &mut *self.lanes else { return Err(AppendError::NotReservable { lanes }) };
        let (rows, after) = lane.clock.advance(self.mode, ends.terminated, ends.truncated);
        let orphan = rows == AppendedRows::Nothing;
        lane.clock = if orphan { after } else { lane.clock.without(after) };
        lane.kept.forget();
        lane.settle();
        self.counts.add_dropped(1);
        lane.memory.lane().count_dropped(1);
        Ok(RowIndex::NONE)
    }

    /// Writes the rows and columns that the caller has not written. Readers see none of them yet.
    fn write_reserved(
        &mut self,
        cut: Option<HeaderFields>,
        rows: AppendedRows,
        next: Option<&[&[u8]]>,
        last: &[&[u8]],
    ) {
        let (schema, obs, zeros) = (self.ring.schema(), &*self.obs, &*self.zeros);
        let Some(lane) = self.lanes.first_mut() else { return };
        if let Some(marks) = cut {
            // Copy the row to the next slot, to make room for the FINAL row before it.
            for (at, column) in schema.columns().iter().enumerate() {
                lane.memory.write(USER + at, 1, &written(lane, at, column.width()));
            }
            lane.write_final(schema, 0, marks, zeros, lane.kept.rows(obs));
        }
        let ahead = u64::from(cut.is_some());
        match rows {
            AppendedRows::Step(marks) => {
                lane.write_marks(ahead, marks);
                match next {
                    Some(next) => lane.kept.keep(KeptKind::Next, obs, next, 0),
                    None => lane.kept.forget(),
                }
            }
            AppendedRows::StepAndFinal(marks, end) => {
                lane.write_marks(ahead, marks);
                lane.write_final(schema, ahead + 1, end, zeros, last.iter().copied());
                lane.kept.keep(KeptKind::Final, obs, last, 0);
            }
            AppendedRows::Final(marks) if lane.kept.kind() == KeptKind::Next => {
                lane.write_final(schema, 0, marks, zeros, lane.kept.rows(obs));
                lane.kept.forget();
            }
            AppendedRows::Final(marks) => {
                lane.write_marks(0, marks);
                let columns = schema.columns().iter().enumerate();
                for (at, column) in columns.filter(|(_, column)| column.role() == Role::Step) {
                    lane.memory.write(USER + at, 0, row(zeros, column.width(), 0));
                }
            }
            AppendedRows::Nothing => {}
        }
    }
}

/// Copies what was written into a column of the reserved row. It is only compared or stored again:
/// no other process may write the slot.
fn written(lane: &OwnLane, at: usize, width: usize) -> Vec<u8> {
    let mut bytes = vec![0; width];
    lane.memory.lane().copy_out(USER + at, lane.memory.slot(), 1, &mut bytes);
    bytes
}

/// Checks that an observation is one of the ring's schema, and has the sizes of one row.
fn checked<'a>(
    writer: &Writer,
    name: &'static str,
    given: Option<ObsBytes<'a>>,
) -> Result<Option<&'a [&'a [u8]]>, AppendError> {
    let Some(ObsBytes { schema, columns }) = given else { return Ok(None) };
    writer.check_schema(schema)?;
    if columns.len() != writer.obs.len() {
        let (got, expected) = (columns.len(), writer.obs.len());
        return Err(AppendError::WrongObsCount { name, got, expected });
    }
    for (bytes, column) in columns.iter().zip(&writer.obs) {
        if bytes.len() != column.width {
            let known = writer.schema().columns().get(column.at);
            return Err(AppendError::WrongSize {
                name: known.map_or_else(String::new, |known| known.name().to_owned()),
                expected: column.width,
                got: bytes.len(),
                steps: 1,
                lanes: 1,
                width: column.width,
            });
        }
    }
    Ok(Some(columns))
}
