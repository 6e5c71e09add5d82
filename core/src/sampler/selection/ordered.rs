//! The oldest or the newest transitions, in order.

use super::too_few;
use crate::error::SampleError;
use crate::sampler::eligibility::Eligibility;
use crate::sampler::selector::Selector;
use crate::table::row_order::{Arrangement, RowOrder};

/// Rows of a batch in the order of their age.
#[derive(Debug)]
pub(in crate::sampler) struct OrderedRows {
    selector: Selector,
    windows: bool,
    order: RowOrder,
    /// Number of the next row in the order.
    next: u64,
    /// Rows of the items.
    rows: Vec<(usize, u64)>,
}

impl OrderedRows {
    pub(super) fn new(selector: Selector, windows: bool) -> Self {
        let (order, rows) = (RowOrder::default(), Vec::new());
        Self { selector, windows, order, next: 0, rows }
    }

    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    pub(super) fn begin(
        &mut self,
        items: usize,
        eligibility: &mut Eligibility,
    ) -> Result<bool, SampleError> {
        if self.windows {
            // If a relocation leaves the index stale, the inspection rejects the rows in it.
            eligibility.build_index();
        }
        let arrangement = match self.selector {
            Selector::Lifo => Arrangement::NewestFirst,
            _ => Arrangement::OldestFirst,
        };
        let ranges = eligibility.ranges().candidates().collect();
        (self.order, self.next) = (RowOrder::new(arrangement, ranges), 0);
        self.rows.clear();
        while self.rows.len() < items {
            match self.find(eligibility) {
                Some(row) => self.rows.push(row),
                None if self.rows.is_empty() => return Ok(false),
                None => return Err(too_few(&self.selector, items, self.rows.len())),
            }
        }
        Ok(true)
    }

    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        self.rows.get(item).copied()
    }

    /// Replaces the row of an item by the next one in the order.
    pub(super) fn next(
        &mut self,
        item: usize,
        eligibility: &Eligibility,
    ) -> Result<(usize, u64), SampleError> {
        let items = self.rows.len();
        let row = self.find(eligibility);
        let row = row.ok_or_else(|| too_few(&self.selector, items, items - 1))?;
        if let Some(place) = self.rows.get_mut(item) {
            *place = row;
        }
        Ok(row)
    }

    /// Returns the next row in the order that is eligible.
    fn find(&mut self, eligibility: &Eligibility) -> Option<(usize, u64)> {
        loop {
            let (lane, seq) = self.order.nth(self.next)?;
            self.next += 1;
            if eligibility.accepts(lane, seq, self.windows) {
                return Some((lane, seq));
            }
        }
    }
}
