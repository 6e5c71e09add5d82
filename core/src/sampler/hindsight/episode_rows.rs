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

#[cfg(test)]
mod tests {
    use backcast_layout::DType;

    use super::*;
    use crate::sampler::eligibility::ReadableRanges;
    use crate::{AutoresetMode, Ring, RingOptions, Schema, StepColumns, WriterOptions};

    /// Returns a ring whose episodes have 1 to 40 transitions. The first one is partly overwritten,
    /// and the last one goes on.
    fn ring() -> Ring {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(300)).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        for (number, length) in (0_u64..).zip([40, 40, 40, 40, 40, 40, 1, 2, 3, 17, 40, 40, 9, 8]) {
            for step in 1..=length {
                let obs = [number];
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                let columns = columns.with_final("obs", &obs).unwrap();
                let ends = step == length && number < 13;
                writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
            }
        }
        ring
    }

    #[test]
    fn goals_are_those_of_the_rows_of_the_episode() {
        let ring = ring();
        let mut ranges = ReadableRanges::default();
        let lanes = ranges.refresh(&ring);
        let (lane, readable) = (&*lanes[0], ranges.get(0).unwrap().rows().clone());
        let rows = ring.rows(0, readable.clone()).unwrap();
        let episodes = rows.column::<u64>("episode").unwrap();
        let of_rows: Vec<(u64, u64)> = readable.clone().zip(episodes.iter().copied()).collect();
        let mut found = 0;
        for seq in readable.start - 2..readable.end + 2 {
            let own = of_rows.iter().find(|(row, _)| *row == seq).map(|(_, episode)| *episode);
            for oldest in [0, readable.start, seq - 3, seq, seq + 5] {
                // An observation follows each transition that is young enough.
                let young = of_rows
                    .iter()
                    .filter(|(row, episode)| Some(*episode) == own && *row >= oldest.min(seq));
                let young: Vec<u64> = young.map(|(row, _)| *row).collect();
                let last = young.last().copied().filter(|last| *last > seq);
                let [future, end, episode] =
                    [GoalStrategy::Future, GoalStrategy::Final, GoalStrategy::Episode]
                        .map(|by| goal_rows(lane, (&readable, oldest), seq, by));
                assert_eq!(future, last.map(|last| seq + 1..last + 1), "{seq}, {oldest}");
                assert_eq!(end, last.map(|last| last..last + 1), "{seq}, {oldest}");
                assert_eq!(episode, last.map(|last| young[0] + 1..last + 1), "{seq}, {oldest}");
                found += u32::from(last.is_some());
            }
        }
        assert!(found > 1_000, "{found}");
    }
}
