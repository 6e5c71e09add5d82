//! Checks the arguments of a writer before anything is planned or written.

use backcast_layout::protocol::MAX_SEQ;
use backcast_layout::{Column, Role};

use super::Writer;
use super::rows::{GivenObs, LanePlan, MAX_ROWS};
use crate::error::AppendError;
use crate::schema::Schema;
use crate::writer::step::Step;

impl Writer {
    /// Checks that the step is made for the ring's schema, that every array has the right length,
    /// and that the mode takes the final observations.
    pub(super) fn check_sizes(&self, step: &Step<'_>, steps: usize) -> Result<(), AppendError> {
        self.check_schema(step.schema)?;
        let columns = self.schema().columns();
        if step.columns.len() != columns.len() {
            let (got, expected) = (step.columns.len(), columns.len());
            return Err(AppendError::WrongColumnCount { got, expected });
        }
        let mut sizes = columns.iter().zip(step.columns);
        sizes.try_for_each(|(column, bytes)| self.check_size(column, bytes, steps))?;
        check_flags("terminated", step.terminated, steps, self.lanes.len())?;
        check_flags("truncated", step.truncated, steps, self.lanes.len())?;
        self.check_obs(step.next_obs, step.final_obs, steps)
    }

    /// Checks the numbers and sizes of the given observations, and that the mode takes final ones
    /// if there are some.
    pub(super) fn check_obs(
        &self,
        next: Option<&[&[u8]]>,
        last: Option<&[&[u8]]>,
        steps: usize,
    ) -> Result<(), AppendError> {
        if last.is_some() && !self.mode.ends_with_final() {
            return Err(AppendError::UnexpectedFinalObs);
        }
        for (name, given) in [("next_obs", next), ("final_obs", last)] {
            let Some(given) = given else { continue };
            let (got, expected) = (given.len(), self.obs.len());
            if got != expected {
                return Err(AppendError::WrongObsCount { name, got, expected });
            }
            let mut sizes =
                self.schema().columns().iter().filter(|c| c.role() == Role::Obs).zip(given);
            sizes.try_for_each(|(column, bytes)| self.check_size(column, bytes, steps))?;
        }
        Ok(())
    }

    fn check_size(&self, column: &Column, bytes: &[u8], steps: usize) -> Result<(), AppendError> {
        let (lanes, width, got) = (self.lanes.len(), column.width(), bytes.len());
        let expected = width * lanes * steps;
        if got == expected {
            return Ok(());
        }
        let name = column.name().to_owned();
        Err(AppendError::WrongSize { name, expected, got, steps, lanes, width })
    }

    /// Checks the sizes of several steps, that they have final observations if the mode needs them
    /// at an end, and that every lane has sequence numbers left.
    pub(super) fn check_steps(&self, steps: &Step<'_>, count: usize) -> Result<(), AppendError> {
        self.check_sizes(steps, count)?;
        let lanes = self.lanes.len();
        let ended = steps.terminated.iter().zip(steps.truncated).position(|(a, b)| *a || *b);
        if let Some(at) = ended.filter(|_| self.mode.ends_with_final()) {
            let given = GivenObs::of(self.mode, steps.next_obs, steps.final_obs);
            self.check_final(at % lanes, given)?;
        }
        let most = MAX_ROWS * count as u64;
        (0..lanes).try_for_each(|lane| self.check_room(lane, most))
    }

    /// Checks that lane `lane` has sequence numbers for the rows of a plan, and that a step that
    /// ends an episode has a final observation.
    pub(super) fn check_plan(
        &self,
        lane: usize,
        plan: &LanePlan,
        given: GivenObs<'_>,
    ) -> Result<(), AppendError> {
        if plan.row.is_some() && plan.last.is_some() {
            self.check_final(lane, given)?;
        }
        self.check_room(lane, plan.count())
    }

    /// Checks that there is an observation for the FINAL row of an episode that a step ends.
    fn check_final(&self, lane: usize, given: GivenObs<'_>) -> Result<(), AppendError> {
        // A schema without observations has nothing to store when a lane ends.
        if given.last.is_some() || self.obs.is_empty() {
            return Ok(());
        }
        Err(AppendError::MissingFinalObs { lane, mode: self.mode })
    }

    /// Checks that there are sequence numbers for `more` rows of a lane.
    pub(super) fn check_room(&self, lane: usize, more: u64) -> Result<(), AppendError> {
        match self.lanes.get(lane).map_or(0, |own| own.memory.head()) {
            rows if rows + more >= MAX_SEQ => Err(AppendError::LaneWornOut { lane, rows }),
            _ => Ok(()),
        }
    }

    /// Refuses bytes in the order of another schema than the ring's.
    pub(super) fn check_schema(&self, given: &Schema) -> Result<(), AppendError> {
        if given.fingerprint() == self.fingerprint {
            return Ok(());
        }
        let (at, step, ring) = self.schema().difference(given).unwrap_or_default();
        Err(AppendError::OtherSchema { at, step, ring })
    }
}

/// Checks the length of an array of flags.
pub(super) fn check_flags(
    name: &'static str,
    flags: &[bool],
    steps: usize,
    lanes: usize,
) -> Result<(), AppendError> {
    let got = flags.len();
    if got == steps * lanes {
        return Ok(());
    }
    Err(AppendError::WrongFlags { name, got, steps, lanes })
}
