//! The transitions of largest or smallest priority.

use std::collections::HashSet;

use backcast_layout::protocol::extremes::Extreme;

use super::too_few;
use crate::error::{PriorityError, SampleError};
use crate::priority::Priorities;
use crate::ring::Ring;
use crate::sampler::eligibility::Eligibility;
use crate::sampler::selector::Selector;

/// Rows of a batch in the order of their priorities.
#[derive(Debug)]
pub(in crate::sampler) struct ExtremeRows {
    selector: Selector,
    extreme: Extreme,
    windows: bool,
    priorities: Priorities,
    rows: Vec<(usize, u64)>,
    /// All rows that were offered for this batch.
    offered: HashSet<(usize, u64)>,
}

impl ExtremeRows {
    /// Opens the table of priorities.
    pub(super) fn open(
        ring: &Ring,
        selector: Selector,
        windows: bool,
    ) -> Result<Self, SampleError> {
        let extreme = match selector {
            Selector::MinPriority(_) => Extreme::Smallest,
            _ => Extreme::Largest,
        };
        let options = selector.priorities().ok_or(PriorityError::NotPrioritised)?;
        if options.alpha.can_change() {
            return Err(SampleError::OrderedByAlpha { selector: selector.to_string() });
        }
        let priorities = ring.priorities(options)?;
        let (rows, offered) = (Vec::new(), HashSet::new());
        Ok(Self { selector, extreme, windows, priorities, rows, offered })
    }

    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    pub(super) fn priorities_mut(&mut self) -> &mut Priorities {
        &mut self.priorities
    }

    /// Finds the rows of a batch. Returns `false` if there is none. O(rows of the ring) where
    /// priorities are alike.
    pub(super) fn begin(
        &mut self,
        items: usize,
        eligibility: &mut Eligibility,
    ) -> Result<bool, SampleError> {
        eligibility.enter_rows(&mut self.priorities)?;
        if self.windows {
            eligibility.build_index();
        }
        self.offered.clear();
        self.rows = self.find(items, eligibility)?;
        self.offered.extend(&self.rows);
        match self.rows.len() {
            0 => Ok(false),
            found if found < items => Err(too_few(&self.selector, items, found)),
            _ => Ok(true),
        }
    }

    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        self.rows.get(item).copied()
    }

    /// Replaces the row of an item by the next one in the order. O(rows of the ring).
    pub(super) fn next(
        &mut self,
        item: usize,
        eligibility: &Eligibility,
    ) -> Result<(usize, u64), SampleError> {
        let (found, items) = (self.find(1, eligibility)?, self.rows.len());
        let row = found.first().copied();
        let row = row.ok_or_else(|| too_few(&self.selector, items, items - 1))?;
        self.offered.insert(row);
        if let Some(place) = self.rows.get_mut(item) {
            *place = row;
        }
        Ok(row)
    }

    /// Returns up to `want` rows that were not offered yet, in order.
    fn find(
        &mut self,
        want: usize,
        eligibility: &Eligibility,
    ) -> Result<Vec<(usize, u64)>, SampleError> {
        let Self { priorities, offered, extreme, windows, .. } = self;
        let found = priorities.consistent(|view| {
            let row_of = |leaf| {
                let (lane, seq) = view.row_of(leaf);
                (lane as usize, seq)
            };
            // A nonzero leaf belongs to a row at which a transition starts. The row must still be
            // readable, and its window eligible.
            let leaves = view.extremes(*extreme, want, |leaf| {
                let row @ (lane, seq) = row_of(leaf);
                let readable = eligibility.ranges().get(lane).is_some_and(|range| {
                    range.rows().contains(&seq)
                        && (!*windows || eligibility.accepts(lane, seq, true))
                });
                readable && !offered.contains(&row)
            });
            leaves.into_iter().map(row_of).collect()
        });
        Ok(found?)
    }
}
