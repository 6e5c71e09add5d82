//! Claims rows of a table, pass by pass.

use std::ops::Range;

use backcast_layout::protocol::claim::ClaimPass;
use backcast_layout::{ClaimSettings, ClaimTable, ClaimTableInfo};

use super::options::TableOptions;
use super::permutation::Permutation;
use super::row_order::{Arrangement, RowOrder};
use crate::error::TableError;
use crate::ring::Ring;
use crate::ring::claim_stats::{fresh, overwritten_after, sound, unclaimed, unclaimed_and_new};
use crate::table_lock::{LockLimits, locked};

/// A table of claims, to be inspected. Samplers with [`Selector::Table`](crate::Selector::Table)
/// draw from it.
#[derive(Debug)]
pub struct Table {
    pub(super) claims: Claims,
}

impl Table {
    /// Returns the settings and counters of the table at this moment.
    #[must_use]
    pub fn info(&self) -> ClaimTableInfo {
        self.claims.table.info()
    }

    /// Returns how many rows could be claimed now, rows at which no transition starts included. A
    /// row that later passes repeat counts once for each of them.
    #[must_use]
    pub fn claimable(&self) -> u64 {
        self.claims.claimable()
    }
}

impl Ring {
    /// Opens a table of claims, or creates it. Fails if the table has other
    /// settings.
    pub fn table(&self, options: &TableOptions) -> Result<Table, TableError> {
        Ok(Table { claims: Claims::open(self, options)? })
    }
}

/// Claims of one sampler.
#[derive(Debug)]
pub(crate) struct Claims {
    table: ClaimTable,
    ring: Ring,
    /// Number of the pass that `order` describes.
    pass: Option<u64>,
    order: RowOrder,
    shuffle: Option<Permutation>,
    /// Positions that were claimed last, without a gap, and their pass.
    last: Option<(u64, Range<u64>)>,
    limits: LockLimits,
}

/// Place of a claimed row: the number of the pass, and the position in it.
pub(crate) type ClaimPlace = (u64, u64);

impl Claims {
    pub(crate) fn open(ring: &Ring, options: &TableOptions) -> Result<Self, TableError> {
        options.check()?;
        let store = ring.store();
        let (name, limits) = (options.name(), LockLimits::new(ring.interrupt()));
        let table = locked(store, name, &limits, || {
            Ok::<_, TableError>(store.try_claims(name, options.settings())?)
        })?;
        Ok(Self {
            table,
            ring: ring.clone(),
            pass: None,
            order: RowOrder::default(),
            shuffle: None,
            last: None,
            limits,
        })
    }

    /// Sets what ends waits for the lock of the table.
    pub(crate) fn set_limits(&mut self, limits: LockLimits) {
        self.limits = limits;
    }

    /// Fails if the table was removed since it was opened. Otherwise makes at most one system call.
    pub(crate) fn check_not_removed(&self) -> Result<(), TableError> {
        Ok(self.table.check_not_removed()?)
    }

    /// Returns the number of the pass from which rows were last claimed.
    pub(crate) fn pass(&self) -> Option<u64> {
        self.pass
    }

    /// Claims up to `want` rows, and calls `claimed` with each row and its place. Begins the next
    /// pass once all rows of this one are claimed. The next pass repeats the rows of this one while
    /// the settings ask for more rounds. Otherwise `fresh` returns its rows from those of this
    /// pass, or `None` if too few are new. Returns `false` if no row can be claimed now.
    pub(crate) fn claim(
        &mut self,
        want: u64,
        mut fresh: impl FnMut(ClaimSettings, &ClaimPass) -> Option<Vec<Range<u64>>>,
        mut claimed: impl FnMut((usize, u64), ClaimPlace),
    ) -> Result<bool, TableError> {
        loop {
            let taken = self
                .pass
                .and_then(|pass| Some((pass, self.table.take(pass, self.order.total(), want)?)));
            if let Some((pass, taken)) = taken {
                match &mut self.last {
                    Some((of, last)) if *of == pass && last.end == taken.start => {
                        last.end = taken.end;
                    }
                    last => *last = Some((pass, taken.clone())),
                }
                for at in taken {
                    let n = self.shuffle.map_or(at, |shuffle| shuffle.at(at));
                    self.order.nth(n).into_iter().for_each(|row| claimed(row, (pass, at)));
                }
                return Ok(true);
            }
            if self.follow() {
                continue;
            }
            let number = self.pass.unwrap_or(0);
            let settings = self.table.settings();
            let table = &self.table;
            let begun = locked(table.store(), table.name(), &self.limits, || {
                let next = |pass, claimed| {
                    let next = self.next(settings, (&pass, claimed), &mut fresh)?;
                    let loses = !settings.renewed;
                    let lost = loses.then(|| overwritten_after(&self.ring, &pass, Some(&next)));
                    Some((next, lost.unwrap_or(0)))
                };
                Ok::<_, TableError>(table.try_begin(number, next)?)
            })?;
            if !begun {
                return Ok(false);
            }
        }
    }

    /// Copies the current pass, unless it was copied before. Returns whether it copied one.
    fn follow(&mut self) -> bool {
        if self.pass == Some(self.table.position().0) {
            return false;
        }
        let pass = self.current_pass();
        (self.order, self.shuffle) = order_of(&self.ring, self.table.settings(), &pass);
        self.pass = Some(pass.number);
        true
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(super) fn settings(&self) -> ClaimSettings {
        self.table.settings()
    }

    /// Copies the current pass.
    pub(super) fn current_pass(&self) -> ClaimPass {
        self.table.read()
    }

    /// Returns the number of rows of a pass that are claimed, or [`u64::MAX`] for all of them once
    /// another pass was begun.
    pub(super) fn claimed_of(&self, pass: &ClaimPass) -> u64 {
        let (number, next) = self.table.position();
        if number == pass.number { next } else { u64::MAX }
    }

    /// Returns the pass after one whose rows are all claimed. Returns `None` if some are not
    /// claimed, or too few new rows exist.
    fn next(
        &self,
        settings: ClaimSettings,
        (last, claimed): (&ClaimPass, u64),
        fresh: &mut impl FnMut(ClaimSettings, &ClaimPass) -> Option<Vec<Range<u64>>>,
    ) -> Option<ClaimPass> {
        let ranges = sound(&self.ring, last);
        let total: u64 = ranges.iter().map(|rows| rows.end - rows.start).sum();
        if claimed < total {
            // Not all are claimed: this process had an older copy.
            return None;
        }
        if total > 0 && !settings.renewed && last.round + 1 < settings.times.into() {
            return Some(ClaimPass { number: last.number, round: last.round + 1, ranges });
        }
        let ranges = fresh(settings, last)?;
        Some(ClaimPass { number: last.number, round: 0, ranges })
    }

    /// Returns how many rows of the passes that were begun can still be claimed, later rounds
    /// included, and the rows of the last of these passes.
    pub(crate) fn unclaimed(&self) -> (u64, ClaimPass) {
        let table = self.table.info();
        (unclaimed(&self.ring, &table), table.pass)
    }

    /// Returns how many rows could be claimed now, in this pass and later ones.
    pub(crate) fn claimable(&self) -> u64 {
        let (unclaimed, new) = unclaimed_and_new(&self.ring, &self.table.info());
        unclaimed.saturating_add(new)
    }

    /// Counts a claimed row that no draw had, if a writer overwrote it. Passes that are renewed
    /// lose none.
    pub(crate) fn count_if_overwritten(&self, (lane, row): (usize, u64)) {
        let found = u32::try_from(lane).ok().and_then(|lane| self.ring.inspect_lane(lane));
        let is_overwritten = found.is_some_and(|of| (of.mark..of.rows.start).contains(&row));
        self.count_overwritten(u64::from(is_overwritten));
    }

    /// Counts rows that writers overwrote before a draw had them. Passes that are renewed lose
    /// none.
    pub(crate) fn count_overwritten(&self, rows: u64) {
        if rows > 0 && !self.table.settings().renewed {
            self.table.count_overwritten(rows);
        }
    }

    /// Gives back the claimed positions after `handed_out`, which is the last position whose row a
    /// caller has. They stay claimed if another sampler has claimed rows after them, or has begun a
    /// pass.
    pub(crate) fn give_back_after(&mut self, handed_out: Option<ClaimPlace>) {
        let Some((pass, mut last)) = self.last.take() else { return };
        match handed_out {
            Some((of, _)) if of > pass => return,
            Some((of, at)) if of == pass => last.start = last.start.max(at + 1),
            _ => {}
        }
        let _ = self.table.give_back(pass, &last);
    }

    /// Counts transitions of a batch.
    pub(crate) fn count_drawn(&self, rows: u64) {
        self.table.count_drawn(rows);
    }

    /// Subtracts transitions of a batch that is taken back.
    pub(crate) fn uncount_drawn(&self, rows: u64) {
        self.table.uncount_drawn(rows);
    }
}

/// Returns the order in which the rows of a pass are claimed.
pub(super) fn order_of(
    ring: &Ring,
    settings: ClaimSettings,
    pass: &ClaimPass,
) -> (RowOrder, Option<Permutation>) {
    let order = RowOrder::new(Arrangement::OldestFirst, sound(ring, pass));
    let permutation = || Permutation::new(order.total(), settings.seed, pass.number);
    let shuffle = settings.shuffled.then(permutation);
    (order, shuffle)
}

/// Returns the rows of a new pass after one over `last`: all candidates if passes are renewed, or
/// else the new ones, of which there must be `need`.
pub(crate) fn new_rows(
    settings: ClaimSettings,
    last: &[Range<u64>],
    candidates: &[Range<u64>],
    need: u64,
) -> Option<Vec<Range<u64>>> {
    let ranges = fresh(settings, last, candidates);
    let count: u64 = ranges.iter().map(|rows| rows.end - rows.start).sum();
    (count > 0 && (settings.renewed || count >= need)).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUEUE: ClaimSettings =
        ClaimSettings { renewed: false, shuffled: false, times: 1, seed: 0 };

    proptest! {
        /// Passes of processes that see different moments of the lanes have each row at most once,
        /// and newer rows follow the last of them.
        #[test]
        fn passes_that_are_begun_with_older_rows_hand_nothing_out_twice(
            seen in prop::collection::vec(prop::collection::vec((0..20_u64, 0..9_u64), 3), 1..12),
        ) {
            let mut last = vec![0..0; 3];
            let mut given = std::collections::BTreeSet::new();
            for candidates in seen {
                let candidates: Vec<_> =
                    candidates.iter().map(|(start, rows)| *start..start + rows).collect();
                let Some(ranges) = new_rows(QUEUE, &last, &candidates, 1) else { continue };
                for (lane, rows) in ranges.iter().enumerate() {
                    for row in rows.clone() {
                        prop_assert!(given.insert((lane, row)), "lane {lane}, row {row}");
                    }
                }
                last = ranges;
            }
            let now: Vec<_> = last.iter().map(|last| last.end..last.end + 2).collect();
            let rest = new_rows(QUEUE, &last, &now, 1).unwrap();
            prop_assert!(rest.iter().all(|rows| rows.end - rows.start == 2));
        }
    }

    #[test]
    fn a_pass_begins_with_as_many_new_rows_as_are_needed_and_a_renewed_one_with_any_row() {
        let epoch = ClaimSettings { renewed: true, ..QUEUE };
        let (last, now) = ([0..4, 0..2], [1..7, 0..2]);
        let new = Some(vec![4..7, 2..2]);
        for (need, found) in [(0, new.clone()), (3, new), (4, None)] {
            assert_eq!(new_rows(QUEUE, &last, &now, need), found, "{need}");
        }
        for need in [0, 8, 9, 100] {
            assert_eq!(new_rows(epoch, &last, &now, need), Some(now.to_vec()), "{need}");
        }
        let gone = [3..3, 2..2];
        for settings in [QUEUE, epoch] {
            assert_eq!(new_rows(settings, &last, &gone, 0), None);
        }
    }
}
