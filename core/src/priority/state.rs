//! States of tables, to save them and to restore them with their ring.

use std::ops::Range;

use backcast_layout::protocol::sum_tree::LeafChange;
use backcast_layout::{TableGuard, TableSettings, TableView};

use super::enter::limits;
use super::updates::locked_table;
use crate::error::{PriorityError, RestoreError};
use crate::ring::Ring;
use crate::ring::restore::Filling;
use crate::wait::Wait;

/// Maximum changes of one commit.
const CHANGES: usize = 1 << 15;

/// Name of a table, and its state, or the error of reading it.
type Named<T> = (String, Result<T, PriorityError>);

/// Priorities of a table at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TableState {
    /// Name of the table.
    pub name: String,
    /// Exponent, eps and stride of its priorities, and what new rows get.
    pub settings: TableSettings,
    /// Largest leaf so far, or largest priority if they are kept.
    pub largest: u64,
    /// Leaves of each lane.
    pub lanes: Vec<LaneLeaves>,
}

/// Leaves of consecutive rows of a lane. A leaf is `(priority + eps) ^ exponent` as a multiple of
/// 2^-24, or 0 if no transition that has a priority starts at its row. A table that keeps
/// priorities has the bits of `priority + eps`, an f64, instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneLeaves {
    /// First row.
    pub first: u64,
    /// Leaves of the first row and the next ones.
    pub leaves: Vec<u64>,
}

impl LaneLeaves {
    /// Returns the rows that have the leaves.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.leaves.len() as u64)
    }

    /// Drops the leaves of rows outside of `rows`.
    pub fn keep(&mut self, rows: &Range<u64>) {
        let kept = self.rows().start.max(rows.start)..self.rows().end.min(rows.end);
        let at = |row: u64| usize::try_from(row - self.first).unwrap_or(usize::MAX);
        if kept.is_empty() {
            *self = Self { first: rows.start, leaves: Vec::new() };
            return;
        }
        self.leaves.truncate(at(kept.end));
        self.leaves.drain(..at(kept.start));
        self.first = kept.start;
    }
}

impl Ring {
    /// Returns the states of the tables of priorities, by name. Each is read while no process
    /// changes it, when the iterator comes to it. If a process is stopped in the middle of a
    /// change, the iterator waits as long as `wait` allows for all tables together. Then the state
    /// of the table is an error, and the next ones are read. Needs memory for 8 bytes a row.
    /// O(rows) a table.
    ///
    /// A table that cannot be opened is listed with its error, and so is one whose kind cannot be
    /// read. Fails if the ring cannot be listed.
    pub fn table_states<'a>(
        &'a self,
        wait: &'a mut Wait<'_>,
    ) -> Result<impl Iterator<Item = Named<TableState>> + 'a, PriorityError> {
        let tables = self.store().table_settings()?.into_iter();
        Ok(tables.map(move |(name, settings)| {
            let state = settings.map_err(PriorityError::from).and_then(|mut settings| {
                let (exponent, largest, lanes) =
                    locked_table(self, (&name, settings), wait, |guard| {
                        let lanes = (0..guard.lanes()).map(|lane| leaves_of(guard, lane)).collect();
                        (guard.exponent(), guard.largest(), lanes)
                    })?;
                settings.exponent = exponent.unwrap_or(settings.exponent);
                Ok(TableState { name: name.clone(), settings, largest, lanes })
            });
            (name, state)
        }))
    }
}

fn leaves_of(view: &TableView, lane: u32) -> LaneLeaves {
    let (entered, expired) = view.lane(lane);
    // A hostile process may have set any range.
    let first = expired.max(entered.saturating_sub(view.lane_leaves())).min(entered);
    let leaves = (first..entered).map(|seq| view.given(view.leaf_of(lane, seq))).collect();
    LaneLeaves { first, leaves }
}

impl Filling<'_> {
    /// Restores a table of priorities. Fails if it has leaves beyond the rows that were begun, or
    /// numbers out of range. O(rows).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backcast_core::{DType, Interrupt, PriorityOptions, Ring, RingOptions, Schema};
    /// use backcast_core::{StepColumns, Wait};
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..10 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// let options = PriorityOptions::alpha(0.6);
    /// ring.priorities(&options)?.update(&[3], &[5.0])?;
    /// let states = |ring: &Ring| {
    ///     let never = Interrupt::never();
    ///     let mut wait = Wait::new(Some(Duration::from_secs(1)), &never);
    ///     let states = ring.table_states(&mut wait)?.map(|(_, state)| state);
    ///     states.collect::<Result<Vec<_>, _>>()
    /// };
    /// let saved = states(&ring)?;
    /// let restored = Ring::restore_heap(&schema, ring.options(), |filling| {
    ///     filling.begin(0, 0..10)?;
    /// #   let rows = ring.rows(0, 0..10).unwrap();
    /// #   let columns: Vec<&[u8]> =
    /// #       rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap()).collect();
    ///     filling.rows(0, 10, &columns)?;
    ///     saved.iter().try_for_each(|state| filling.table(state))
    /// })?;
    /// assert_eq!(states(&restored)?, saved);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table(&mut self, state: &TableState) -> Result<(), RestoreError> {
        let (rows, covered) = (self.begun(), self.lane_capacity());
        let mut table = self.unnamed().table(&state.name, state.settings, covered)?;
        store(&mut table.guard(), state, &rows)
    }
}

/// Stores the state in a new table. `rows` are those of each lane of the ring.
fn store(
    guard: &mut TableGuard<'_>,
    state: &TableState,
    rows: &[Range<u64>],
) -> Result<(), RestoreError> {
    let bad = |problem: String| RestoreError::BadTable { table: state.name.clone(), problem };
    let ((_, most), lanes) = (limits(guard), rows.len());
    if state.lanes.len() != lanes {
        return Err(bad(format!("it has {} lanes, the ring {lanes}", state.lanes.len())));
    }
    let too_large = |leaf: u64| bad(format!("a leaf is {leaf}, the limit {most}"));
    let TableSettings { exponent, eps, stride, .. } = state.settings;
    if [exponent, eps].iter().any(|number| !(number.is_finite() && *number >= 0.0)) {
        return Err(bad(format!("its alpha is {exponent}, its eps {eps}")));
    }
    if stride == 0 {
        return Err(bad("its stride is 0".to_owned()));
    }
    if state.largest > most {
        return Err(too_large(state.largest));
    }
    for ((lane, given), rows) in (0..).zip(&state.lanes).zip(rows) {
        let (first, end) = (given.first, given.rows().end);
        // The newest row has no successor yet, so no transition starts at it.
        if end > first && (first < rows.start || end >= rows.end) {
            let (from, to) = (rows.start, rows.end.saturating_sub(1));
            let problem = format!("lane {lane} has leaves of rows {first}..{end}");
            return Err(bad(format!("{problem}, transitions in {from}..{to}")));
        }
        if given.leaves.len() as u64 > guard.lane_leaves() {
            return Err(bad(format!("lane {lane} has {} leaves", given.leaves.len())));
        }
        if let Some(leaf) = given.leaves.iter().find(|leaf| **leaf > most) {
            return Err(too_large(*leaf));
        }
    }
    let mut changes = Vec::new();
    for (lane, given) in (0..).zip(&state.lanes) {
        for (part, leaves) in (0_u64..).zip(given.leaves.chunks(CHANGES)) {
            let from = given.first + part * CHANGES as u64;
            changes.clear();
            changes.extend(
                (from..).zip(leaves).map(|(seq, value)| LeafChange {
                    leaf: guard.leaf_of(lane, seq),
                    value: *value,
                }),
            );
            guard.commit(&changes);
        }
        if !given.leaves.is_empty() {
            guard.set_lane(lane, given.rows().end, given.first);
        }
    }
    guard.raise_largest(state.largest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_that_are_kept_are_those_of_the_rows_that_are_asked_for() {
        let ranges = (0..12_u64).flat_map(|start| (start..13).map(move |end| start..end));
        for (range, first) in ranges.flat_map(|range| [0, 5].map(|first| (range.clone(), first))) {
            for all in (0..5).map(|len| first..first + len) {
                let leaf = |row: u64| 100 + row;
                let mut kept = LaneLeaves { first, leaves: all.clone().map(leaf).collect() };
                assert_eq!(kept.rows(), all);
                kept.keep(&range);
                let rows: Vec<u64> = all.clone().filter(|row| range.contains(row)).collect();
                let first = rows.first().copied().unwrap_or(range.start);
                let leaves = rows.into_iter().map(leaf).collect();
                assert_eq!(kept, LaneLeaves { first, leaves }, "{range:?} of {all:?}");
            }
        }
    }
}
