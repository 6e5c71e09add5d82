//! Finds the rows of an episode around one of its rows.

use std::ops::Range;

use backcast_layout::protocol::{Words, still_whole};

use super::GoalStrategy;
use crate::row_header::RowHeader;

/// Returns the rows whose observations a strategy may choose as the goal of the transition at row
/// `seq`, or `None` if the ring no longer holds that transition. Transitions before row `oldest`
/// are too old to give a goal. O(log rows).
///
/// Episodes of a lane have growing numbers, so that the last row of one is found by bisection.
pub(super) fn goal_rows(
    lane: &impl Words,
    (readable, oldest): (&Range<u64>, u64),
    seq: u64,
    strategy: GoalStrategy,
) -> Option<Range<u64>> {
    if !readable.contains(&seq) {
        return None;
    }
    let header = RowHeader::read(lane, seq);
    let inside = |row: u64| {
        let at = RowHeader::read(lane, row);
        at.seq == row && at.episode == header.episode
    };
    let (mut last, mut beyond, mut step) = (seq, readable.end, 1);
    while last + step < beyond {
        if inside(last + step) {
            last += step;
            step *= 2;
        } else {
            beyond = last + step;
        }
    }
    while beyond - last > 1 {
        let middle = last + (beyond - last) / 2;
        if inside(middle) { last = middle } else { beyond = middle }
    }
    // The header of the drawn row is the first to be overwritten.
    if header.seq != seq || last == seq || !still_whole(lane, seq) {
        return None;
    }
    let first = seq.saturating_sub(header.t.into()).max(readable.start).max(oldest.min(seq));
    Some(match strategy {
        GoalStrategy::Future => seq + 1..last + 1,
        GoalStrategy::Final => last..last + 1,
        GoalStrategy::Episode => first + 1..last + 1,
    })
}
