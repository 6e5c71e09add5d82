//! The passes of a table of claims, as lists.

use std::collections::VecDeque;
use std::ops::Range;

use super::list::{ListedRing, Row};
use crate::TableOptions;
use crate::table::permutation::Permutation;

/// Current pass of a table, and its rows that are still to be claimed, in order.
pub(super) struct Passes {
    options: TableOptions,
    number: u64,
    round: u64,
    ranges: Vec<Range<u64>>,
    queue: VecDeque<Row>,
}

/// Rows that one sampler claimed and did not return.
#[derive(Default)]
pub(super) struct Claimer {
    held: VecDeque<Row>,
}

impl Passes {
    pub(super) fn new(options: TableOptions, lanes: usize) -> Self {
        let (ranges, queue) = (vec![0..0; lanes], VecDeque::new());
        Self { options, number: 0, round: 0, ranges, queue }
    }

    /// Claims up to `want` rows. Returns an empty list if none can be claimed.
    pub(super) fn claim(&mut self, want: usize, candidates: &[Range<u64>]) -> Vec<Row> {
        if self.queue.is_empty() && !self.begin(want as u64, candidates) {
            return Vec::new();
        }
        let want = want.min(self.queue.len());
        self.queue.drain(..want).collect()
    }

    /// Begins the next pass: over the same rows again, over all candidates, or over at least `need`
    /// new ones. Returns `false` if there are too few.
    fn begin(&mut self, need: u64, candidates: &[Range<u64>]) -> bool {
        let settings = self.options.settings();
        let count = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        let again = !settings.renewed && self.round + 1 < u64::from(settings.times);
        if again && count(&self.ranges) > 0 {
            self.round += 1;
        } else {
            let mut fresh = candidates.to_vec();
            if !settings.renewed {
                for (rows, last) in fresh.iter_mut().zip(&self.ranges) {
                    rows.start = last.end.clamp(rows.start, rows.end);
                }
            }
            if count(&fresh) < if settings.renewed { 1 } else { need.max(1) } {
                return false;
            }
            (self.ranges, self.round) = (fresh, 0);
        }
        self.number += 1;
        self.queue = self.ordered();
        true
    }

    fn ordered(&self) -> VecDeque<Row> {
        let len = |lane: usize| self.ranges[lane].end - self.ranges[lane].start;
        let mut rows: Vec<Row> = (0..self.ranges.len())
            .flat_map(|lane| self.ranges[lane].clone().map(move |seq| (lane, seq)))
            .collect();
        // The lanes take turns, the one with most rows first.
        rows.sort_by_key(|(lane, seq)| {
            (seq - self.ranges[*lane].start, std::cmp::Reverse(len(*lane)), *lane)
        });
        let settings = self.options.settings();
        if !settings.shuffled {
            return rows.into();
        }
        let order = Permutation::new(rows.len() as u64, settings.seed, self.number);
        let at = |n: u64| rows[usize::try_from(order.at(n)).unwrap()];
        (0..rows.len() as u64).map(at).collect()
    }

    /// Returns the rows of a batch of `batch`, or `None` if there are too few.
    pub(super) fn draw(
        &mut self,
        claimer: &mut Claimer,
        batch: usize,
        list: &ListedRing,
    ) -> Option<Vec<Row>> {
        let candidates = list.candidates();
        let mut rows = Vec::new();
        while rows.len() < batch {
            let Some(row) = claimer.held.pop_front() else {
                claimer.held.extend(self.claim(batch - rows.len(), &candidates));
                if claimer.held.is_empty() {
                    claimer.held.extend(rows);
                    return None;
                }
                continue;
            };
            if list.holds(row) {
                rows.push(row);
            }
        }
        Some(rows)
    }
}
