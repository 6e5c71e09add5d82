//! Gives leaves of a table to new rows when a learner draws or sets priorities. Clears the leaves
//! of rows that the ring no longer keeps.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::Words;
use backcast_layout::protocol::sum_tree::LeafChange;
use backcast_layout::{KEPT_MOST, KEPT_ONE, LEAF_ONE, Lane, TableCounters, TableGuard, TableView};

use crate::ring::lane_inspection::is_relocated;
use crate::row_header::{RowHeader, starts_transition};

/// Maximum rows whose headers are read at a time.
const HEADERS: usize = 1024;
/// Number of pending changes at which they are committed before more rows are read.
const CHANGES: usize = 1 << 15;

/// Scratch memory of [`enter`], kept from one draw to the next.
#[derive(Debug, Default)]
pub(super) struct EnterScratch {
    changes: Vec<LeafChange>,
    headers: Vec<RowHeader>,
    /// Lanes with pending changes, and their rows after the changes.
    lanes: Vec<(u32, Range<u64>)>,
}

/// Returns the rows of a lane that should have leaves: those that the table covers, without the
/// newest, which has no successor yet.
fn covered(view: &TableView, readable: &Range<u64>) -> Range<u64> {
    let end = readable.end.saturating_sub(1).max(readable.start);
    readable.start.max(end.saturating_sub(view.lane_leaves()))..end
}

/// Returns whether new rows lack leaves, or leaves belong to rows that the ring no longer keeps.
pub(super) fn is_behind<'a>(
    view: &TableView,
    lanes: &[Arc<Lane>],
    readable: impl Iterator<Item = &'a Range<u64>>,
) -> bool {
    (0..).zip(lanes).zip(readable).any(|((number, lane), readable)| {
        let (entered, expired) = view.lane(number);
        let rows = covered(view, readable);
        (entered < rows.end || expired < rows.start) && !is_relocated(lane, readable)
    })
}

/// Returns the value of the leaf of a row for which no priority was set.
pub(crate) fn initial_leaf(view: &TableView) -> u64 {
    view.value_of(initial(view))
}

/// Returns the value that the rows of this ring alone give to one for which no priority was set.
pub(crate) fn own_initial_leaf(view: &TableView) -> u64 {
    view.value_of(initial_of(view, 0))
}

/// Returns what a row for which no priority was set is given in a change.
fn initial(view: &TableView) -> u64 {
    initial_of(view, view.largest_of_others())
}

/// Returns what such a row is given if the largest leaf of other rings is `others`, or 0.
fn initial_of(view: &TableView, others: u64) -> u64 {
    let (one, most) = limits(view);
    match view.largest_held().map(|held| held.max(others)) {
        None => view.largest(),
        Some(0) => one.min(most),
        // Tables are not trusted.
        Some(largest) => largest.min(most),
    }
}

/// Returns what a row of priority 1 is given in a change, and the most that one can be given.
pub(super) fn limits(view: &TableView) -> (u64, u64) {
    if view.keeps_priorities() { (KEPT_ONE, KEPT_MOST) } else { (LEAF_ONE, view.most()) }
}

/// Gives leaves to the new rows whose step is a multiple of `stride`, with the
/// [initial] value, and clears those of rows that the ring no longer keeps.
pub(super) fn enter<'a>(
    guard: &mut TableGuard<'_>,
    lanes: &[Arc<Lane>],
    readable: impl Iterator<Item = &'a Range<u64>> + Clone,
    stride: u32,
    scratch: &mut EnterScratch,
) {
    scratch.changes.clear();
    scratch.lanes.clear();
    if guard.largest_held().is_some() {
        // New rows get no value of a row that the ring no longer keeps. The ranges of the lanes are
        // updated later, with the new rows. If this process is killed before, the next one finds
        // the leaves cleared.
        for ((lane, number), readable) in lanes.iter().zip(0..).zip(readable.clone()) {
            if !is_relocated(lane, readable) {
                clear_expired(guard, number, &covered(guard, readable), scratch);
            }
        }
        flush(guard, scratch);
    }
    let initial = initial(guard);
    let mut count = 0;
    // Spares the division in tables with a leaf for every transition. No step but 0 is a multiple
    // of 0.
    let has_leaf = |t: u32| stride == 1 || t.is_multiple_of(stride);
    for ((lane, number), readable) in lanes.iter().zip(0..).zip(readable) {
        let (entered, expired) = guard.lane(number);
        let rows = covered(guard, readable);
        // A lane of which every row was dropped has leaves to be cleared.
        if (entered >= rows.end && expired >= rows.start) || is_relocated(lane, readable) {
            continue;
        }
        clear_expired(guard, number, &rows, scratch);
        let mut from = entered.max(rows.start);
        while from < rows.end {
            let to = rows.end.min(from + HEADERS as u64);
            read_headers(lane, from..to + 1, &mut scratch.headers);
            for (pair, seq) in scratch.headers.windows(2).zip(from..to) {
                let starts =
                    starts_transition(pair, seq) && pair.first().is_some_and(|row| has_leaf(row.t));
                let value = if starts { initial } else { 0 };
                scratch.changes.push(LeafChange { leaf: guard.leaf_of(number, seq), value });
            }
            count += to - from;
            from = to;
            if scratch.changes.len() >= CHANGES {
                // Put the rows so far into the table before reading the rest.
                scratch.lanes.push((number, expired.max(rows.start)..to));
                flush(guard, scratch);
            }
        }
        scratch.lanes.push((number, expired.max(rows.start)..entered.max(rows.end)));
    }
    flush(guard, scratch);
    guard.count(TableCounters { entered: count, ..TableCounters::default() });
}

/// Adds the changes that clear the leaves of rows before `rows`. Rows whose leaves newer rows have
/// taken over are left out. Rows that have not entered are cleared too: a process that was killed
/// before it moved the range of the lane may have stored their leaves.
fn clear_expired(view: &TableView, lane: u32, rows: &Range<u64>, scratch: &mut EnterScratch) {
    let (entered, expired) = view.lane(lane);
    let kept = entered.max(rows.start).saturating_sub(view.lane_leaves());
    for seq in expired.max(kept)..rows.start {
        let leaf = view.leaf_of(lane, seq);
        if view.leaf(leaf) > 0 {
            scratch.changes.push(LeafChange { leaf, value: 0 });
        }
    }
}

/// Makes the pending changes, then updates the range of rows of their lanes, in one change for all
/// readers. A process that is killed in between has not updated a range, so the rows enter again.
fn flush(guard: &mut TableGuard<'_>, scratch: &mut EnterScratch) {
    guard.commit_rows(&scratch.changes, scratch.lanes.drain(..));
    scratch.changes.clear();
}

fn read_headers(lane: &Lane, rows: Range<u64>, headers: &mut Vec<RowHeader>) {
    headers.clear();
    headers.resize(usize::try_from(rows.end - rows.start).unwrap_or(0), RowHeader::default());
    RowHeader::read_into(lane, rows.start % lane.slots(), headers);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::priority::updates::locked_table;
    use crate::{
        DType, InitialPriority, Interrupt, PriorityOptions, Ring, RingOptions, Schema, StepColumns,
        Wait, WriterOptions,
    };

    #[test]
    fn leaves_of_rows_that_are_dropped_before_they_enter_are_cleared() {
        for initial in [InitialPriority::Ever, InitialPriority::Held] {
            let schema = Schema::builder().column("x", DType::U8, &[]).build().unwrap();
            let ring = Ring::heap(&schema, RingOptions::with_capacity(64)).unwrap();
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            let mut append = |rows: u32| {
                for _ in 0..rows {
                    let columns = StepColumns::of(&schema).with("x", &[0_u8]).unwrap();
                    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
                }
            };
            append(20);
            let options = PriorityOptions::alpha(1.0).eps(0.0).initial(initial);
            let mut priorities = ring.priorities(&options).unwrap();
            let none: &[i64] = &[];
            priorities.update(none, &[]).unwrap();
            append(10);
            // Does as a process that is killed while row 25 enters.
            let never = Interrupt::never();
            let mut wait = Wait::new(Some(Duration::from_secs(60)), &never);
            let table = (options.table.as_str(), options.settings());
            locked_table(&ring, table, &mut wait, |guard| {
                let leaf = guard.leaf_of(0, 25);
                guard.commit(&[LeafChange { leaf, value: 8 * LEAF_ONE }]);
            })
            .unwrap();
            ring.clear().unwrap();
            append(5);
            priorities.update(none, &[]).unwrap();
            let sum = 4 * u128::from(LEAF_ONE);
            assert_eq!(priorities.audit_locked().unwrap(), (sum, sum, 4), "{initial:?}");
        }
    }

    #[test]
    fn new_rows_get_no_value_of_a_row_that_was_overwritten_unless_the_largest_ever_counts() {
        for (initial, new) in [(InitialPriority::Held, 1), (InitialPriority::Ever, 8)] {
            let schema = Schema::builder().column("x", DType::U8, &[]).build().unwrap();
            let ring = Ring::heap(&schema, RingOptions::with_capacity(64)).unwrap();
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            let mut append = |rows: u32| {
                for _ in 0..rows {
                    let columns = StepColumns::of(&schema).with("x", &[0_u8]).unwrap();
                    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
                }
            };
            append(10);
            let options = PriorityOptions::alpha(1.0).eps(0.0).initial(initial);
            let mut priorities = ring.priorities(&options).unwrap();
            assert_eq!(priorities.update(&[0_i64], &[8.0]).unwrap(), 0);
            // Row 0 goes, and some of the rows that have leaves stay.
            append(57);
            let none: &[i64] = &[];
            priorities.update(none, &[]).unwrap();
            let span = ring.lane_span(0).unwrap();
            assert!((1..9).contains(&span.start), "{span:?}");
            let (old, rows) = (9 - span.start, span.end - 1 - span.start);
            let sum = u128::from(LEAF_ONE) * u128::from(old + new * (rows - old));
            assert_eq!(priorities.audit_locked().unwrap(), (sum, sum, rows), "{initial:?}");
            assert_eq!(priorities.counters().entered, span.end - 1);
        }
    }

    #[test]
    fn more_rows_than_one_commit_takes_get_their_leaves_and_lose_them() {
        let rows = 2 * CHANGES + HEADERS + 6;
        let schema = Schema::builder().column("x", DType::U8, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(80_000)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for _ in 0..=rows {
            let columns = StepColumns::of(&schema).with("x", &[0_u8]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let rows = u64::try_from(rows).unwrap();
        let none: &[i64] = &[];
        let mut tables = [1, 3].map(|stride| {
            let options = PriorityOptions::alpha(1.0).eps(0.0).stride(stride);
            let mut table = ring.priorities(&options.table(&format!("every{stride}"))).unwrap();
            table.update(none, &[]).unwrap();
            // The step in the only episode is the number of the row.
            let leaves = rows.div_ceil(stride.into());
            let sum = u128::from(LEAF_ONE) * u128::from(leaves);
            assert_eq!(table.audit_locked().unwrap(), (sum, sum, leaves), "stride {stride}");
            assert_eq!(table.counters().entered, rows);
            table
        });
        ring.clear().unwrap();
        for table in &mut tables {
            table.update(none, &[]).unwrap();
            assert_eq!(table.audit_locked().unwrap(), (0, 0, 0));
            assert_eq!(table.counters().entered, rows);
        }
    }
}
