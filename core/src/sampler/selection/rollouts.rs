//! Columns of rollouts that this sampler claimed from a table.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use backcast_layout::protocol::claim::ClaimPass;
use backcast_layout::protocol::{Words, still_whole};

use super::ledger::{ClaimLedger, ClaimedItem};
use crate::error::{ClaimUnit, ROLLOUTS, SampleError};
use crate::ring::Ring;
use crate::ring::lane_inspection::readable;
use crate::row_header::{RowHeader, starts_transition};
use crate::sampler::eligibility::{Eligibility, SkippedRows};
use crate::sampler::rollouts::{BlockSize, NewTransitions, Rollout};
use crate::sampler::selector::Selector;
use crate::table::{ClaimPlace, Claims, TableOptions};
use crate::table_lock::LockLimits;

/// Transitions of one lane, oldest first.
#[derive(Debug)]
pub(in crate::sampler) struct RolloutColumn {
    pub(in crate::sampler) lane: u32,
    /// Rows at which they start; at least one, and at most those of a rollout.
    pub(in crate::sampler) rows: Vec<u64>,
    last: ClaimPlace,
}

impl ClaimedItem for RolloutColumn {
    fn last_place(&self) -> ClaimPlace {
        self.last
    }

    fn transitions(&self) -> u64 {
        self.rows.len() as u64
    }
}

/// Claimed columns of a block, and those that are left over.
#[derive(Debug)]
pub(in crate::sampler) struct ClaimedRollouts {
    selector: Selector,
    form: Rollout,
    ledger: ClaimLedger<RolloutColumn>,
    /// New transitions of the lanes. A wait counts them while it shares the selection.
    news: Mutex<NewTransitions>,
    /// Size of the block that is awaited.
    size: BlockSize,
    /// New transitions that were skipped since they are too old, and not reported yet.
    too_old: u64,
}

impl ClaimedRollouts {
    pub(super) fn open(
        ring: &Ring,
        options: TableOptions,
        form: Rollout,
    ) -> Result<Self, SampleError> {
        let ledger = ClaimLedger::new(Claims::open(ring, &options)?);
        let (selector, news) = (Selector::Table(options), Mutex::default());
        Ok(Self { selector, form, ledger, news, size: BlockSize::New(1), too_old: 0 })
    }

    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    pub(super) fn ledger(&self) -> &ClaimLedger<RolloutColumn> {
        &self.ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut ClaimLedger<RolloutColumn> {
        &mut self.ledger
    }

    /// Sets what ends waits for the lock of the table.
    pub(super) fn set_limits(&mut self, limits: LockLimits) {
        self.ledger.claims.set_limits(limits);
    }

    /// Returns the columns, or lanes that are ready, for the block that is awaited: [`u64::MAX`] if
    /// it can be made.
    pub(super) fn claimable(&self, eligibility: &Eligibility) -> u64 {
        let claims = &self.ledger.claims;
        let (unclaimed, pass) = claims.unclaimed();
        if unclaimed > 0 {
            return u64::MAX;
        }
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.refresh(claims.ring(), (&pass.ranges, eligibility.oldest()), self.most_of_lane());
        let (needed, ready) = self.with_own(news.readiness(self.form, self.size));
        if ready >= needed { u64::MAX } else { ready as u64 }
    }

    /// Returns what the block that is awaited waits for.
    pub(super) fn claim_unit(&self) -> ClaimUnit {
        match self.size {
            BlockSize::Columns(_) => ClaimUnit::Columns,
            BlockSize::New(_) => ClaimUnit::Lanes,
        }
    }

    /// Adds the columns that are claimed to those that are ready, if the block needs a number.
    fn with_own(&self, (needed, ready): (usize, usize)) -> (usize, usize) {
        match self.size {
            BlockSize::Columns(_) => {
                (needed, ready + self.ledger.items.len() + self.ledger.held.len())
            }
            BlockSize::New(_) => (needed, ready),
        }
    }

    /// Returns the transitions that one lane can give to a block.
    fn most_of_lane(&self) -> usize {
        self.size.most().saturating_mul(self.form.length as usize)
    }

    /// Claims the columns of a block, and returns them with the rows that were overwritten before.
    pub(super) fn begin(
        &mut self,
        size: BlockSize,
        eligibility: &Eligibility,
    ) -> Result<u64, SampleError> {
        self.size = size;
        self.ledger.hold_items();
        let mut lost = 0;
        loop {
            let ClaimLedger { items, held, .. } = &mut self.ledger;
            let wanted = size.most() - items.len();
            items.extend(held.drain(..wanted.min(held.len())));
            let is_enough = match size {
                BlockSize::Columns(columns) => items.len() == columns,
                BlockSize::New(_) => !items.is_empty(),
            };
            if is_enough {
                return Ok(lost);
            }
            lost += self.claim(eligibility)?;
        }
    }

    /// Returns the transitions that were skipped since the last call.
    pub(super) fn take_too_old(&mut self) -> SkippedRows {
        let transitions = std::mem::take(&mut self.too_old);
        SkippedRows { transitions, items: transitions }
    }

    /// Returns the new rows that are too old, and that no pass has passed over yet.
    pub(super) fn passed_over(&self) -> u64 {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).too_old()
    }

    /// Removes transitions that are too old by now from the block. Returns whether there were some.
    pub(super) fn trim(&mut self, eligibility: &Eligibility) -> bool {
        let before = self.too_old;
        for column in &mut self.ledger.items {
            let is_too_old = |row: &u64| eligibility.is_too_old(column.lane as usize, *row);
            let gone = column.rows.partition_point(is_too_old);
            column.rows.drain(..gone);
            self.too_old += gone as u64;
        }
        self.ledger.items.retain(|column| !column.rows.is_empty());
        self.too_old > before
    }

    /// Claims the columns of a pass, which are held then. Returns the number of its rows that were
    /// overwritten. Fails if the lanes have too few new transitions.
    fn claim(&mut self, eligibility: &Eligibility) -> Result<u64, SampleError> {
        let (form, size, most) = (self.form, self.size, self.most_of_lane());
        let missing = size.most() - self.ledger.items.len();
        let (_, own) = self.with_own((0, 0));
        let ring = self.ledger.claims.ring().clone();
        let news = self.news.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (mut needed, mut ready) = (1, 0);
        let mut too_old = 0;
        let block = |_, pass: &ClaimPass| {
            news.refresh(&ring, (&pass.ranges, eligibility.oldest()), most);
            (needed, ready) = news.readiness(form, size);
            ready += own;
            let rows = (ready >= needed).then(|| news.block(form, missing, &pass.ranges));
            if let Some(rows) = rows.as_ref().filter(|_| eligibility.is_limited()) {
                too_old = skipped(&ring, &pass.ranges, rows);
            }
            rows
        };
        let mut rows = BTreeMap::<usize, Vec<(u64, ClaimPlace)>>::new();
        let claimed = self.ledger.claims.claim(u64::MAX, block, |(lane, row), place| {
            rows.entry(lane).or_default().push((row, place));
        })?;
        // Without a claim the pass was not begun, and the next one skips these rows.
        self.too_old += if claimed { too_old } else { 0 };
        if !claimed {
            let (wanted, available) = (needed as u64, ready as u64);
            return Err(SampleError::TooFew { selector: ROLLOUTS, wanted, available });
        }
        let mut columns = Vec::new();
        let mut lost = 0;
        for (lane, rows) in rows {
            lost += columns_of(&ring, form, (lane, rows), &mut columns);
        }
        // The first column of every lane, then the second of each.
        columns.sort_by_key(|(turn, column)| (*turn, column.lane));
        self.ledger.claims.count_overwritten(lost);
        self.ledger.held.extend(columns.into_iter().map(|(_, column)| column));
        Ok(lost)
    }

    /// Removes transitions that were overwritten from the block. `lost` has the number of the
    /// column of each, and its place in the column.
    pub(super) fn remove(&mut self, lost: &[(usize, usize)]) {
        self.ledger.claims.count_overwritten(lost.len() as u64);
        let mut gone = BTreeMap::<usize, Vec<usize>>::new();
        for (column, place) in lost {
            gone.entry(*column).or_default().push(*place);
        }
        let items = self.ledger.items.iter_mut().enumerate();
        for (column, of) in items {
            let Some(gone) = gone.get(&column) else { continue };
            let mut place = 0;
            of.rows.retain(|_| {
                place += 1;
                !gone.contains(&(place - 1))
            });
        }
        self.ledger.items.retain(|column| !column.rows.is_empty());
    }
}

/// Counts the transitions between the rows of a pass and those of the next one that the ring still
/// has: they are too old.
fn skipped(ring: &Ring, last: &[Range<u64>], next: &[Range<u64>]) -> u64 {
    let mut count = 0;
    for ((lane, last), next) in (0..).zip(last).zip(next).filter(|(_, next)| !next.is_empty()) {
        let Some(found) = ring.inspect_lane(lane) else { continue };
        let (memory, mut headers) = (&*found.memory, [RowHeader::default(); 2]);
        for row in last.end.max(readable(memory).start)..next.start {
            RowHeader::read_into(memory, row % memory.slots(), &mut headers);
            count += u64::from(starts_transition(&headers, row));
        }
    }
    count
}

/// Adds the columns of one lane's claimed rows, each with its number in the lane. Returns how many
/// of the rows were overwritten.
fn columns_of(
    ring: &Ring,
    form: Rollout,
    (number, mut rows): (usize, Vec<(u64, ClaimPlace)>),
    columns: &mut Vec<(usize, RolloutColumn)>,
) -> u64 {
    let found = u32::try_from(number).ok().and_then(|lane| Some((lane, ring.inspect_lane(lane)?)));
    let Some((lane, found)) = found else { return rows.len() as u64 };
    rows.sort_unstable();
    let (memory, readable) = (&*found.memory, found.rows);
    let mut overwritten = 0;
    let mut headers = [RowHeader::default(); 2];
    rows.retain(|(row, _)| {
        RowHeader::read_into(memory, row % memory.slots(), &mut headers);
        let is_kept = readable.contains(row) && still_whole(memory, *row);
        overwritten += u64::from(!is_kept && *row >= found.mark);
        is_kept && starts_transition(&headers, *row)
    });
    let length = form.length.max(1) as usize;
    for (turn, part) in rows.chunks(length).enumerate() {
        let Some(last) = part.iter().map(|(_, place)| *place).max() else { continue };
        let rows = part.iter().map(|(row, _)| *row).collect();
        columns.push((turn, RolloutColumn { lane, rows, last }));
    }
    overwritten
}
