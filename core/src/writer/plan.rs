//! Plans the rows of an append for each lane before anything is written, and then writes them.

use backcast_layout::protocol::MAX_SEQ;

use super::kept::KeptKind;
use super::warnings::{ResetHint, is_nonzero};
use super::{OwnLane, Writer, row};
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::writer::episode_clock::{AppendedRows, EpisodeClock, HeaderFields};
use crate::writer::step::Step;

/// Plan of an append for one lane.
#[derive(Debug)]
pub(super) struct Planned {
    /// FINAL row that cuts an episode before `rows`; it holds the kept observation.
    pub(super) cut: Option<HeaderFields>,
    pub(super) rows: AppendedRows,
    pub(super) clock: EpisodeClock,
    /// Further rows that may be needed.
    pub(super) spare: u64,
    /// Hint at a wrong mode.
    pub(super) hint: Option<ResetHint>,
    /// Whether the rows were announced just now, or are still frozen.
    pub(super) unsettled: bool,
    /// Rows of the step that are not appended. A lease leaves no room for them, or the step is the
    /// final row of an episode whose end was dropped.
    pub(super) dropped: u64,
}

impl Planned {
    pub(super) fn new(rows: AppendedRows, clock: EpisodeClock) -> Self {
        let dropped = u64::from(rows == AppendedRows::Nothing);
        Self { cut: None, rows, clock, spare: 0, hint: None, unsettled: false, dropped }
    }

    /// Returns the plan of a lane that does not change.
    pub(super) fn nothing(clock: EpisodeClock) -> Self {
        Self { dropped: 0, ..Self::new(AppendedRows::Nothing, clock) }
    }

    /// Returns the maximum number of rows needed.
    pub(super) fn room(&self) -> u64 {
        u64::from(self.cut.is_some()) + self.rows.count() + self.spare
    }

    /// Drops the rows, for which a lease leaves no room, of a lane whose clock is `before`.
    pub(super) fn drop_rows(&mut self, before: EpisodeClock) {
        self.dropped = self.room() - self.spare;
        self.clock = before.without(self.clock);
        (self.cut, self.rows, self.spare, self.hint) = (None, AppendedRows::Nothing, 0, None);
        self.unsettled = false;
    }
}

impl Writer {
    /// Plans the step for each lane, without changing any.
    pub(super) fn plan(&mut self, step: &Step<'_>) -> Result<(), AppendError> {
        self.planned.clear();
        for (i, lane) in self.lanes.iter().enumerate() {
            let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
            let ends = (flag(step.terminated), flag(step.truncated));
            let same = lane.kept.kind() != KeptKind::Nothing
                && lane.kept.is_row(&self.obs, step.columns, i);
            let rewarded = || self.reward.is_some_and(|reward| is_rewarded(reward, step, i));
            let planned = lane.planned(self.mode, ends, same, rewarded);
            // A schema without observations has nothing to store when a lane ends.
            if matches!(planned.rows, AppendedRows::StepAndFinal(..)) && !self.obs.is_empty() {
                finals(step, self.mode)
                    .ok_or(AppendError::MissingFinalObs { lane: i, mode: self.mode })?;
            }
            let head = lane.memory.head();
            if head + planned.room() >= MAX_SEQ {
                return Err(AppendError::LaneWornOut { lane: i, rows: head });
            }
            self.planned.push(planned);
        }
        Ok(())
    }

    /// Appends the planned rows. Cannot fail.
    pub(super) fn append_planned(&mut self, step: &Step<'_>) {
        let (schema, obs) = (self.ring.schema(), &*self.obs);
        let given = finals(step, self.mode).unwrap_or_default();
        let of = self.lanes.len();
        let lanes = self.lanes.iter_mut().zip(&self.planned).zip(&self.numbers);
        for (i, ((lane, planned), number)) in lanes.enumerate() {
            let mut ahead = 0;
            if let Some(marks) = planned.cut {
                lane.write_final(schema, 0, marks, &self.zeros, lane.kept.rows(obs));
                ahead = 1;
            }
            match planned.rows {
                AppendedRows::Step(marks) => {
                    lane.write_step(ahead, marks, step, i);
                    match step.next_obs {
                        Some(next) => lane.kept.keep(KeptKind::Next, obs, next, i),
                        None => lane.kept.forget(),
                    }
                }
                AppendedRows::StepAndFinal(marks, last) => {
                    lane.write_step(ahead, marks, step, i);
                    let rows = given.iter().zip(obs).map(|(bytes, c)| row(bytes, c.width, i));
                    lane.write_final(schema, ahead + 1, last, &self.zeros, rows);
                    lane.kept.keep(KeptKind::Final, obs, given, i);
                }
                AppendedRows::Final(marks) => {
                    if lane.kept.kind() == KeptKind::Next {
                        lane.write_final(schema, ahead, marks, &self.zeros, lane.kept.rows(obs));
                    } else {
                        let rows = obs.iter().filter_map(|column| {
                            Some(row(step.columns.get(column.at)?, column.width, i))
                        });
                        lane.write_final(schema, ahead, marks, &self.zeros, rows);
                    }
                    lane.kept.forget();
                }
                AppendedRows::Nothing => lane.kept.forget(),
            }
            lane.clock = planned.clock;
            lane.settle();
            let (rows, own) = (planned.room(), lane.memory.lane());
            self.warnings.appends +=
                u64::from(step.next_obs.is_some() && matches!(planned.rows, AppendedRows::Step(_)));
            if planned.cut.is_some() {
                own.count_cut();
                self.warnings.cut(of);
            }
            if let Some(hint) = planned.hint {
                own.count_suspect_reset();
                self.warnings.reset(i, self.mode, hint);
            }
            self.has_warnings |= self.warnings.has_warnings();
            if planned.rows == AppendedRows::Nothing {
                self.counts.add_dropped(planned.dropped);
                own.count_dropped(planned.dropped);
                self.indices.push(RowIndex::NONE);
                continue;
            }
            self.indices.push(RowIndex::new(*number, lane.memory.head() + ahead));
            lane.memory.publish(rows);
            self.rows_written += rows;
        }
    }
}

impl OwnLane {
    /// Plans a step for the lane. `same` tells whether its observation equals the kept one.
    fn planned(
        &self,
        mode: AutoresetMode,
        (terminated, truncated): (bool, bool),
        same: bool,
        rewarded: impl FnOnce() -> bool,
    ) -> Planned {
        let kept = self.kept.kind();
        let mut clock = self.clock;
        let mut cut = None;
        let mut hint = None;
        if clock.is_ended() {
            // In next-step mode: this append brings the FINAL row.
            if kept == KeptKind::Next && !same {
                hint = Some(ResetHint::Differs);
            } else if terminated || truncated || rewarded() {
                hint = Some(ResetHint::Acted);
            }
        } else if kept == KeptKind::Next && !same {
            let (last, after) = clock.cut();
            (cut, clock) = (Some(last), after);
        } else if kept == KeptKind::Final && same {
            hint = Some(ResetHint::Repeated);
        }
        let (rows, clock) = clock.advance(mode, terminated, truncated);
        Planned { cut, hint, ..Planned::new(rows, clock) }
    }
}

/// Returns the observations that end episodes: `final_obs`, or `next_obs` in disabled mode.
pub(super) fn finals<'a>(step: &Step<'a>, mode: AutoresetMode) -> Option<&'a [&'a [u8]]> {
    step.final_obs.or(step.next_obs.filter(|_| mode == AutoresetMode::Disabled))
}

/// Returns whether row `i` of a step has a reward other than zero.
fn is_rewarded((at, dtype): (usize, backcast_layout::DType), step: &Step<'_>, i: usize) -> bool {
    let lanes = step.terminated.len().max(1);
    step.columns.get(at).is_some_and(|bytes| is_nonzero(dtype, row(bytes, bytes.len() / lanes, i)))
}
