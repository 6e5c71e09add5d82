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
