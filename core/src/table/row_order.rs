//! Numbers the rows of all lanes.

use std::ops::Range;

/// Way in which the rows of several lanes are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// The oldest row of every lane, then the next of every lane.
    OldestFirst,
    /// The newest row of every lane, then the one before it of every lane.
    NewestFirst,
}

/// Numbers of rows, one range of rows for each lane.
#[derive(Debug, Default)]
pub(crate) struct RowOrder {
    ranges: Vec<Range<u64>>,
    newest_first: bool,
    /// Lanes that have rows, those with most rows first.
    lanes: Vec<usize>,
    turns: Vec<Turns>,
    total: u64,
}

/// Turns in which the same lanes take part.
#[derive(Debug)]
struct Turns {
    /// Number of the first row.
    first: u64,
    /// Turns before these.
    before: u64,
    /// Lanes that take part.
    lanes: usize,
}

impl RowOrder {
    /// Numbers some ranges of rows, whose lengths add up to less than 2^64.
    pub(crate) fn new(arrangement: Arrangement, ranges: Vec<Range<u64>>) -> Self {
        let len = |lane: &usize| ranges.get(*lane).map_or(0, |r| r.end.saturating_sub(r.start));
        let mut lanes: Vec<usize> = (0..ranges.len()).filter(|lane| len(lane) > 0).collect();
        lanes.sort_by_key(|lane| std::cmp::Reverse(len(lane)));
        let (mut turns, mut total, mut before) = (Vec::new(), 0_u64, 0);
        for (last, lane) in lanes.iter().enumerate().rev() {
            let end = len(lane);
            if end > before {
                turns.push(Turns { first: total, before, lanes: last + 1 });
                total = total.saturating_add((end - before).saturating_mul(last as u64 + 1));
                before = end;
            }
        }
        let newest_first = arrangement == Arrangement::NewestFirst;
        Self { ranges, newest_first, lanes, turns, total }
    }

    /// Returns the number of rows.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns lane and sequence number of row number `n`. O(log lanes).
    pub(crate) fn nth(&self, n: u64) -> Option<(usize, u64)> {
        if n >= self.total {
            return None;
        }
        let at = self.turns.partition_point(|turns| turns.first <= n).checked_sub(1)?;
        let Turns { first, before, lanes } = self.turns.get(at)?;
        let (turn, place) = ((n - first) / *lanes as u64, (n - first) % *lanes as u64);
        let lane = *self.lanes.get(usize::try_from(place).ok()?)?;
        let rows = self.ranges.get(lane)?;
        let offset = before + turn;
        Some((lane, if self.newest_first { rows.end - 1 - offset } else { rows.start + offset }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_of_lanes_take_turns(
            ranges in prop::collection::vec((0..50_u64, 0..9_u64), 0..7),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(start, len)| *start..start + len).collect();
            for arrangement in [Arrangement::OldestFirst, Arrangement::NewestFirst] {
                let order = RowOrder::new(arrangement, ranges.clone());
                let numbered: Vec<_> = (0..order.total()).map(|n| order.nth(n).unwrap()).collect();
                prop_assert_eq!(order.nth(order.total()), None);
                let offset = |(lane, seq): &(usize, u64)| match arrangement {
                    Arrangement::OldestFirst => seq - ranges[*lane].start,
                    Arrangement::NewestFirst => ranges[*lane].end - 1 - seq,
                };
                prop_assert!(numbered.iter().map(offset).is_sorted());
                let mut all: Vec<_> = numbered.clone();
                all.sort_unstable();
                let expected: Vec<_> = (0..ranges.len())
                    .flat_map(|lane| ranges[lane].clone().map(move |seq| (lane, seq)))
                    .collect();
                prop_assert_eq!(all, expected);
            }
        }
    }
}
