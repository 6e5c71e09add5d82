//! The transitions that a lane holds, and their slots.
//!
//! A transition's position counts from 0 since its lane began or was cleared. Its slot is
//! `position mod quota`, as in a circular buffer of `quota` slots.

use backcast_core::{GatherTarget, Ring};

use super::{
    columns::{CLEARED, POSITION},
    error::TransitionError,
};

/// Maximum attempts to read one row. An attempt fails if a writer overwrites the row meanwhile.
const ATTEMPTS: u32 = 64;

/// The state of a lane at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneView {
    pub(crate) lane: u32,
    /// Sequence number minus position of every transition. It may be negative after a load, since a
    /// loaded lane need not begin at position 0.
    base: i64,
    /// Sequence number of the next row.
    head: u64,
    /// Transitions held.
    pub(crate) count: u64,
    quota: u64,
}

impl LaneView {
    /// Inspects a lane that keeps `quota` transitions.
    pub(crate) fn of(ring: &Ring, lane: u32, quota: u64) -> Result<Self, TransitionError> {
        for _ in 0..ATTEMPTS {
            let span = ring.lane_span(lane).unwrap_or(0..0);
            let head = span.end;
            let empty = Self { lane, base: signed(head), head, count: 0, quota };
            let Some(newest) = head.checked_sub(1) else { return Ok(empty) };
            let Some(position) = position_of(ring, lane, newest)? else { continue };
            if position == CLEARED {
                return Ok(empty);
            }
            let base = i64::try_from(position)
                .ok()
                .and_then(|position| signed(newest).checked_sub(position))
                .ok_or(damaged(lane, newest, "its position cannot be"))?;
            let first = u64::try_from(base).unwrap_or(0).max(span.start);
            let oldest = first.max(head.saturating_sub(quota));
            return Ok(Self { lane, base, head, count: head - oldest, quota });
        }
        Err(TransitionError::Lapped { attempts: ATTEMPTS })
    }

    /// Returns the position of the next transition.
    pub(crate) fn next_position(&self) -> u64 {
        u64::try_from(signed(self.head) - self.base).unwrap_or(0)
    }

    /// Returns the sequence number of the row in slot `i`, for `i < count`.
    pub(crate) fn row(&self, i: u64) -> u64 {
        let next = self.next_position();
        // Until the lane is full its oldest transition is in slot 0.
        let position = if self.count < self.quota {
            next - self.count + i
        } else {
            let laps = (next - 1 - i) / self.quota;
            i + laps * self.quota
        };
        (signed(position) + self.base).cast_unsigned()
    }

    /// Returns the rows that the lane holds, oldest first.
    pub(crate) fn rows(&self) -> std::ops::Range<u64> {
        self.head - self.count..self.head
    }

    /// Returns the position of a row.
    pub(crate) fn position(&self, seq: u64) -> u64 {
        (signed(seq) - self.base).cast_unsigned()
    }
}

/// Returns the position of one row, or `None` if it was overwritten meanwhile.
fn position_of(ring: &Ring, lane: u32, seq: u64) -> Result<Option<u64>, TransitionError> {
    let mut bytes = [0; 8];
    let targets = &mut [GatherTarget { column: POSITION, out: &mut bytes }];
    let whole = ring.gather_rows(lane, &[(0, seq)], targets)?;
    Ok((seq >= whole).then(|| u64::from_ne_bytes(bytes)))
}

pub(crate) fn damaged(lane: u32, seq: u64, what: &'static str) -> TransitionError {
    TransitionError::Damaged { lane, seq, what }
}

/// Returns a lane's share of the capacity. Shares differ by at most one and sum to the capacity.
pub(crate) fn quota(capacity: u64, lanes: u32, lane: u32) -> u64 {
    let lanes = u64::from(lanes);
    capacity / lanes + u64::from(u64::from(lane) < capacity % lanes)
}

/// Converts a sequence number, which has 48 bits.
fn signed(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_buffer_that_is_overwritten_from_the_front() {
        for quota in [1, 2, 3, 7] {
            let mut model = Vec::new();
            for added in 0_u64..40 {
                let count = added.min(quota);
                let view = LaneView { lane: 0, base: 5, head: added + 5, count, quota };
                let held: Vec<u64> = (0..count).map(|i| view.position(view.row(i))).collect();
                assert_eq!(held, model);
                assert!(view.rows().map(|row| view.position(row)).eq(added - count..added));
                if added < quota {
                    model.push(added);
                } else {
                    model[usize::try_from(added % quota).unwrap()] = added;
                }
            }
        }
    }

    #[test]
    fn quotas_add_up_to_the_capacity() {
        for capacity in 4..40 {
            for lanes in 1..=4 {
                let all = (0..lanes).map(|lane| quota(capacity, lanes, lane));
                assert_eq!(all.clone().sum::<u64>(), capacity);
                assert!(all.clone().max().unwrap() - all.min().unwrap() <= 1);
            }
        }
    }
}
