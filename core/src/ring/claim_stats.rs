//! Statistics of tables of claims, and the arithmetic of passes that they share with claimants.

use std::ops::Range;

use backcast_layout::protocol::Words;
use backcast_layout::protocol::claim::{ClaimPass, MAX_PASS_ROWS};
use backcast_layout::{ClaimSettings, ClaimTableInfo};

use super::Ring;
use super::lane_inspection::InspectedLane;

/// Statistics of a table of claims.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimStats {
    /// Settings and counters.
    pub table: ClaimTableInfo,
    /// Rows that writers overwrote before a draw had them, since the first draw or since the table
    /// was loaded: those that draws have met, and those that no pass has had by now. Of a sequence
    /// or an episode that was claimed before, the first row counts.
    pub overwritten: u64,
    /// Rows that can be claimed now: those of the current pass, and without renewed passes the new
    /// ones too. Rows at which no transition starts are among them.
    pub left: u64,
}

impl ClaimStats {
    /// Returns the statistics of every table of a ring, by name. Tables that cannot be opened are
    /// left out.
    pub(super) fn of(ring: &Ring) -> Vec<Self> {
        let stats = |table: ClaimTableInfo| {
            let (unclaimed, new) = unclaimed_and_new(ring, &table);
            let (new, lost) = if table.settings.renewed {
                (0, 0)
            } else {
                (new, overwritten_after(ring, &table.pass, None))
            };
            let overwritten = table.overwritten.saturating_add(lost);
            Self { table, overwritten, left: unclaimed.saturating_add(new) }
        };
        ring.store().claim_tables().into_iter().map(stats).collect()
    }
}

/// Inspects every lane of a ring.
fn looks(ring: &Ring) -> impl Iterator<Item = Option<InspectedLane>> {
    (0..ring.lanes()).map(|lane| ring.inspect_lane(lane))
}

/// Returns how many rows after a pass, and before the one after it if it is known, were
/// overwritten. Rows that were dropped are not counted. A pass without rows is the one before the
/// first draw: nothing is counted after it.
pub(crate) fn overwritten_after(ring: &Ring, pass: &ClaimPass, next: Option<&ClaimPass>) -> u64 {
    if pass.total() == 0 {
        return 0;
    }
    let of_lane = |(lane, found): (usize, Option<InspectedLane>)| {
        let (Some(found), Some(last)) = (found, pass.ranges.get(lane)) else { return 0 };
        let next = next.map_or(Some(u64::MAX), |next| Some(next.ranges.get(lane)?.start));
        let end = next.unwrap_or(0).min(found.rows.start);
        end.saturating_sub(last.end.max(found.mark))
    };
    looks(ring).enumerate().map(of_lane).fold(0, u64::saturating_add)
}

/// Returns how many rows of the passes of a table that were begun can still be claimed, later
/// rounds included.
pub(crate) fn unclaimed(ring: &Ring, table: &ClaimTableInfo) -> u64 {
    let ClaimTableInfo { settings, pass, next, .. } = table;
    let total: u64 = sound(ring, pass).iter().map(|rows| rows.end - rows.start).sum();
    let rounds = match *settings {
        ClaimSettings { renewed: false, times, .. } => {
            u64::from(times).saturating_sub(pass.round.saturating_add(1))
        }
        ClaimSettings { renewed: true, .. } => 0,
    };
    total.saturating_sub(*next).saturating_add(total.saturating_mul(rounds))
}

/// Returns how many rows of the passes of a table can still be claimed, and how many the next one
/// would have now.
pub(crate) fn unclaimed_and_new(ring: &Ring, table: &ClaimTableInfo) -> (u64, u64) {
    let lanes = looks(ring).map(|found| {
        let rows = found.map_or(0..0, |of| of.rows);
        rows.start..rows.end.saturating_sub(1).max(rows.start)
    });
    let new = fresh(table.settings, &table.pass.ranges, &lanes.collect::<Vec<_>>());
    (unclaimed(ring, table), new.iter().map(|rows| rows.end - rows.start).sum())
}

/// Returns the ranges of a pass, or empty ones if no pass can have them.
pub(crate) fn sound(ring: &Ring, pass: &ClaimPass) -> Vec<Range<u64>> {
    let lanes = ring.store().lanes();
    let most = lanes.iter().map(|lane| lane.slots()).max().unwrap_or(0);
    let len = |rows: &Range<u64>| rows.end.checked_sub(rows.start);
    let total = pass.ranges.iter().try_fold(0_u64, |sum, rows| {
        let len = len(rows).filter(|len| *len <= most)?;
        sum.checked_add(len).filter(|sum| *sum <= MAX_PASS_ROWS)
    });
    if total.is_some() { pass.ranges.clone() } else { vec![0..0; pass.ranges.len()] }
}

/// Returns the rows of a new pass after one over `last`.
pub(crate) fn fresh(
    settings: ClaimSettings,
    last: &[Range<u64>],
    candidates: &[Range<u64>],
) -> Vec<Range<u64>> {
    if settings.renewed {
        return candidates.to_vec();
    }
    // Another process may have begun the last pass with newer rows than these candidates: its end
    // stays, or the pass after this one would hand rows out again.
    let rows = |(last, now): (&Range<u64>, &Range<u64>)| {
        let start = last.end.max(now.start);
        start..now.end.max(start)
    };
    last.iter().zip(candidates).map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AutoresetMode, DType, RingOptions, Schema, StepColumns, WriterOptions};

    /// Makes a ring of two lanes of 16 rows. Only the first one is written.
    fn ring(rows: u32) -> Ring {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(32).lanes(2)).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options).unwrap();
        for _ in 0..rows {
            let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        ring
    }

    fn settings(renewed: bool, times: u32) -> ClaimSettings {
        ClaimSettings { renewed, shuffled: false, times, seed: 0 }
    }

    fn pass(round: u64, ranges: impl Into<Vec<Range<u64>>>) -> ClaimPass {
        ClaimPass { number: 3, round, ranges: ranges.into() }
    }

    fn table(settings: ClaimSettings, pass: ClaimPass, next: u64) -> ClaimTableInfo {
        let (name, bytes, passes) = ("queue".to_owned(), 0, 4);
        ClaimTableInfo { name, settings, bytes, passes, drawn: 0, overwritten: 0, pass, next }
    }

    #[test]
    fn rows_of_a_pass_can_be_claimed_once_in_each_round_that_is_left() {
        let ring = ring(0);
        for (renewed, times, round, next, left) in [
            (false, 1, 0, 0, 10),
            (false, 1, 0, 4, 6),
            (false, 1, 0, 10, 0),
            (false, 3, 0, 4, 26),
            (false, 3, 1, 4, 16),
            (false, 3, 2, 4, 6),
            (false, 3, 9, 4, 6),
            (false, 3, 0, 10, 20),
            (false, 3, 0, 99, 20),
            (true, 1, 0, 4, 6),
        ] {
            let table = table(settings(renewed, times), pass(round, [2..9, 0..3]), next);
            assert_eq!(unclaimed(&ring, &table), left, "{table:?}");
        }
    }

    #[test]
    fn the_next_pass_has_the_transitions_after_the_last_one() {
        let ring = ring(10);
        for (renewed, last, new) in
            [(false, 0..4, 5), (false, 0..9, 0), (false, 3..3, 6), (true, 0..4, 9)]
        {
            let left = last.end - last.start;
            let table = table(settings(renewed, 1), pass(0, [last, 0..0]), 0);
            assert_eq!(unclaimed_and_new(&ring, &table), (left, new), "{table:?}");
        }
    }

    #[test]
    fn a_pass_of_rows_that_no_lane_has_counts_as_empty() {
        let ring = ring(0);
        let slots = ring.slots();
        for (ranges, is_sound) in [
            ([0..slots, 7..7 + slots], true),
            ([0..0, 5..5], true),
            ([0..4, 7..8 + slots], false),
            ([Range { start: 5, end: 4 }, 0..2], false),
        ] {
            let pass = pass(0, ranges);
            let expected = if is_sound { pass.ranges.clone() } else { vec![0..0; 2] };
            assert_eq!(sound(&ring, &pass), expected, "{pass:?}");
        }
    }

    #[test]
    fn rows_between_two_passes_that_are_gone_were_overwritten_unless_they_were_dropped() {
        let ring = ring(30);
        let oldest = ring.lane_span(0).unwrap().start;
        assert!((10..20).contains(&oldest), "{oldest}");
        let lost = |last: Range<u64>, next: Option<Range<u64>>| {
            let next = next.map(|next| pass(0, [next, 0..0]));
            overwritten_after(&ring, &pass(0, [last, 0..0]), next.as_ref())
        };
        assert_eq!(lost(0..4, None), oldest - 4);
        assert_eq!(lost(0..4, Some(9..20)), 5, "the next pass had the others");
        assert_eq!(lost(0..4, Some(oldest + 5..oldest + 9)), oldest - 4);
        assert_eq!(lost(0..oldest, None), 0);
        assert_eq!(lost(4..oldest + 2, None), 0);
        assert_eq!(lost(4..4, None), 0, "nothing was drawn yet");
        ring.clear().unwrap();
        assert_eq!(lost(0..4, None), 0, "they were dropped");
    }

    #[test]
    fn new_rows_begin_where_the_last_pass_ended_unless_passes_are_renewed() {
        for (last, now, new) in
            [(0..5, 3..9, 5..9), (0..5, 7..9, 7..9), (0..5, 2..4, 5..5), (0..5, 0..5, 5..5)]
        {
            let (last, now) = ([0..0, last], [0..0, now]);
            assert_eq!(fresh(settings(false, 2), &last, &now), [0..0, new]);
            assert_eq!(fresh(settings(true, 1), &last, &now), now);
        }
    }
}
