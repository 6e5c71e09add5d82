//! Priorities of a ring's rows: opened, brought up to date, and set by learners.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use backcast_layout::protocol::sum_tree::LeafChange;
use backcast_layout::{
    Lane, LeafValues, PriorityTable, TableCounters, TableGuard, TableSettings, TableView,
};

use super::enter::{EnterScratch, enter, is_behind};
use super::options::PriorityOptions;
use super::q::leaf_of_q;
use crate::error::{BadRowIndex, LockError, PriorityError};
use crate::index::{AsRowIndex, RowIndex, numbers};
use crate::ring::Ring;
use crate::ring::lane_inspection::InspectedLane;
use crate::row_header::RowHeader;
use crate::table_lock::{self, LockLimits};
use crate::wait::Wait;

/// Attempts to read without the lock before one with it.
const READS: u32 = 16;
/// Looks at a change under way before the next attempt to read. A change takes a few microseconds.
const LOOKS: u32 = 64;
/// Longest wait for the lock of a read.
const LOCKED_READ: Duration = Duration::from_millis(20);

/// Priorities of the rows of a ring, in a table that learners share across processes.
///
/// A sampler has its own handle. Another thread that sets priorities meanwhile opens a handle by
/// [`Ring::priorities`].
#[derive(Debug)]
pub struct Priorities {
    pub(super) table: PriorityTable,
    ring: Ring,
    /// Steps of an episode from one transition that has a leaf to the next.
    stride: u32,
    scratch: Scratch,
    pub(super) limits: LockLimits,
}

/// Memory that updates reuse.
#[derive(Debug, Default)]
struct Scratch {
    powers: Vec<f64>,
    /// Values of the leaves of a request.
    values: Vec<u64>,
    requested: Vec<Requested>,
    changes: Vec<LeafChange>,
    entering: EnterScratch,
}

/// A leaf, and the position of its row in the request, in one number: sorted faster than a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requested(u128);

impl Requested {
    fn new(leaf: usize, position: usize) -> Self {
        Self((leaf as u128) << 64 | position as u128)
    }

    fn leaf(self) -> usize {
        usize::try_from(self.0 >> 64).unwrap_or(usize::MAX)
    }

    fn position(self) -> usize {
        usize::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(usize::MAX)
    }
}

impl Ring {
    /// Opens the table of priorities that the options name, or creates it. Fails if the
    /// table has another exponent, eps, stride or initial priority.
    pub fn priorities(&self, options: &PriorityOptions) -> Result<Priorities, PriorityError> {
        options.check()?;
        let table = open(self, &options.table, options.settings())?;
        let (ring, stride, scratch) = (self.clone(), options.stride, Scratch::default());
        let limits = LockLimits::new(self.interrupt());
        Ok(Priorities { table, ring, stride, scratch, limits })
    }
}

impl Priorities {
    /// Fails if the table was removed since it was opened. Otherwise makes at most one system call.
    pub(crate) fn check_not_removed(&self) -> Result<(), PriorityError> {
        Ok(self.table.check_not_removed()?)
    }

    /// Sets the priorities of rows, and returns how many were dropped because their row is gone, is
    /// no transition, or has no priority under the [stride](PriorityOptions::stride). Of two
    /// priorities for a row the later one counts. Fails for a row in the middle of an episode if
    /// only [starts](PriorityOptions::EPISODE_STARTS) have priorities.
    ///
    /// Waits for other processes that set priorities, which takes microseconds. If one of them is
    /// stopped, waits at most a minute, or as long as the timeout of the sampler whose handle this
    /// is.
    pub fn update(
        &mut self,
        index: &[impl AsRowIndex],
        priorities: &[f64],
    ) -> Result<u64, PriorityError> {
        let limits = self.limits.clone();
        self.update_by(numbers(index), priorities, &limits)
    }

    /// Sets priorities like [`update`](Self::update), and waits at most `limit` for another process
    /// that has the table locked.
    pub fn update_within(
        &mut self,
        index: &[impl AsRowIndex],
        priorities: &[f64],
        limit: Duration,
    ) -> Result<u64, PriorityError> {
        self.update_by(numbers(index), priorities, &self.limits.at_most(limit))
    }

    fn update_by(
        &mut self,
        index: &[i64],
        priorities: &[f64],
        limits: &LockLimits,
    ) -> Result<u64, PriorityError> {
        if index.len() != priorities.len() {
            let (indices, priorities) = (index.len(), priorities.len());
            return Err(PriorityError::WrongCount { indices, priorities });
        }
        let (lanes, rows) = self.rows();
        let leaf_values = self.leaf_values();
        let Self { table, scratch, stride, .. } = self;
        let Scratch { powers, values, requested, changes, entering } = scratch;
        requested.clear();
        values.clear();
        let keeps = table.keeps_priorities();
        let found = leaf_values.of(priorities, powers);
        for (position, ((index, priority), value)) in
            index.iter().zip(priorities).zip(found).enumerate()
        {
            let value = checked(position, *priority, value, leaf_values)?;
            let value = if keeps { leaf_values.kept(*priority) } else { value };
            BadRowIndex::check(position, *index, &rows)?;
            let (lane, seq) = (RowIndex(*index).lane(), RowIndex(*index).seq());
            let leaf = table.leaf_of(lane, seq);
            if *stride == PriorityOptions::EPISODE_STARTS {
                check_start(position, (lane, seq), (&lanes, &rows))?;
            }
            table.prefetch_leaf(leaf);
            requested.push(Requested::new(leaf, position));
            values.push(value);
        }
        // Sort before taking the lock, since other processes wait for it.
        requested.sort_unstable();
        locked(table, limits, |guard| {
            // Another process may have changed the exponent, and with it the limit, meanwhile.
            let now = of_exponent(guard, leaf_values);
            if now != leaf_values {
                let mut pairs = priorities.iter().zip(&*values).enumerate();
                let too_large = pairs.find(|(_, (_, kept))| !now.has_value(**kept));
                if let Some((position, (value, _))) = too_large {
                    let (value, limit) = (*value, now.limit());
                    return Err(PriorityError::TooLarge { position, value, limit });
                }
            }
            enter(guard, &lanes, rows.iter(), *stride, entering);
            Ok(set(guard, (index, values), requested, changes))
        })?
    }

    /// Returns the conversion of priorities to leaves, by the present exponent.
    fn leaf_values(&self) -> LeafValues {
        let TableSettings { exponent, eps, .. } = self.table.settings();
        // Ranks have the exponent, and not the priorities.
        let exponent = if self.table.counts_ranks() { 1.0 } else { exponent };
        let most = self.table.most();
        of_exponent(&self.table, LeafValues { exponent, eps, most })
    }

    /// Returns the memory and the readable rows of every lane.
    fn rows(&self) -> (Vec<Arc<Lane>>, Vec<Range<u64>>) {
        let looks = (0..self.ring.lanes()).filter_map(|lane| self.ring.inspect_lane(lane));
        looks.map(|InspectedLane { memory, rows, .. }| (memory, rows)).unzip()
    }

    /// Gives leaves to new rows, unless another process holds the lock: the next draw does it then.
    /// Waits only if all leaves are 0.
    pub(crate) fn refresh<'a>(
        &mut self,
        lanes: &[Arc<Lane>],
        readable: impl Iterator<Item = &'a Range<u64>> + Clone,
    ) -> Result<(), PriorityError> {
        if !self.is_behind(lanes, readable.clone()) {
            return Ok(());
        }
        let empty = self.table.total() == 0;
        let limits = if empty { self.limits.clone() } else { LockLimits::now() };
        match self.enter(lanes, readable, &limits) {
            Err(PriorityError::Lock(LockError::Busy { .. })) if !empty => Ok(()),
            entered => entered,
        }
    }

    /// Gives leaves to new rows like [`refresh`](Self::refresh), and waits for the lock if another
    /// process holds it.
    pub(crate) fn refresh_whole<'a>(
        &mut self,
        lanes: &[Arc<Lane>],
        readable: impl Iterator<Item = &'a Range<u64>> + Clone,
    ) -> Result<(), PriorityError> {
        if !self.is_behind(lanes, readable.clone()) {
            return Ok(());
        }
        let limits = self.limits.clone();
        self.enter(lanes, readable, &limits)
    }

    /// Returns whether the table may lack a leaf of a new row, or have one of a row that is gone.
    #[inline]
    fn is_behind<'a>(
        &self,
        lanes: &[Arc<Lane>],
        readable: impl Iterator<Item = &'a Range<u64>>,
    ) -> bool {
        self.table.is_changing() || is_behind(&self.table, lanes, readable)
    }

    /// Gives leaves to new rows with the lock of the table.
    fn enter<'a>(
        &mut self,
        lanes: &[Arc<Lane>],
        readable: impl Iterator<Item = &'a Range<u64>> + Clone,
        limits: &LockLimits,
    ) -> Result<(), PriorityError> {
        let Self { table, scratch: Scratch { entering, .. }, stride, .. } = self;
        locked(table, limits, |guard| enter(guard, lanes, readable, *stride, entering))
    }

    /// Sets what ends waits for the lock of the table.
    pub(crate) fn set_limits(&mut self, limits: LockLimits) {
        self.limits = limits;
    }

    /// Returns the words of the table.
    pub(super) fn view(&self) -> &TableView {
        &self.table
    }

    /// Reads one state of the table. If a change is made meanwhile, the read is repeated, a few
    /// times without the lock, then with it. If another process keeps the lock for too long, the
    /// last read may mix several states, but never leaves of two exponents: it fails instead.
    pub(crate) fn consistent<R>(
        &mut self,
        mut read: impl FnMut(&TableView) -> R,
    ) -> Result<R, PriorityError> {
        if let Some(found) = self.unlocked(&mut read) {
            return Ok(found);
        }
        match locked(&mut self.table, &LockLimits::now().at_most(LOCKED_READ), |guard| read(guard))
        {
            // Leaves of two exponents are of no use together, so the read waits for the change.
            Err(PriorityError::Lock(_)) if self.table.keeps_priorities() => {
                locked(&mut self.table, &self.limits, |guard| read(guard))
            }
            Err(PriorityError::Lock(_)) => Ok(read(&self.table)),
            found => found,
        }
    }

    /// Reads one state of the table like [`consistent`](Self::consistent), and waits for the lock
    /// rather than mix several states. Fails if another process keeps it.
    pub(crate) fn consistent_whole<R>(
        &mut self,
        mut read: impl FnMut(&TableView) -> R,
    ) -> Result<R, PriorityError> {
        match self.unlocked(&mut read) {
            Some(found) => Ok(found),
            None => locked(&mut self.table, &self.limits, |guard| read(guard)),
        }
    }

    /// Reads one state of the table without the lock, or returns `None` if it was changed during
    /// every attempt.
    #[inline]
    fn unlocked<R>(&self, read: &mut impl FnMut(&TableView) -> R) -> Option<R> {
        for _ in 0..READS {
            let mut looks = (0..LOOKS).map(|_| {
                std::hint::spin_loop();
                self.table.observe()
            });
            let Some(changes) = self.table.observe().or_else(|| looks.find_map(|seen| seen)) else {
                continue;
            };
            let found = read(&self.table);
            if self.table.is_unchanged(changes) {
                return Some(found);
            }
        }
        None
    }

    /// Raises the largest value so far to `q`, in the unit of [`Block::q`](crate::Block::q). New
    /// rows enter with it, until a larger priority is set. Rows that have entered keep their
    /// priorities. A smaller value changes nothing, and one above the limit of the table counts as
    /// the limit.
    ///
    /// In a table with [`InitialPriority::Held`](crate::InitialPriority::Held) `q` replaces that of
    /// the call before. New rows enter with it, or with the largest value that a row of this ring
    /// has if that is larger. So they follow the rows of all rings as these fall.
    ///
    /// Learners that draw from several rings call it with the largest
    /// [`q_new`](crate::Block::q_new) of all, so that new rows of each enter alike. Fails in a table
    /// whose exponent can change, by which values would differ, and in one by rank.
    pub fn raise_largest(&mut self, q: f64) -> Result<(), PriorityError> {
        if self.table.counts_ranks() {
            return Err(PriorityError::RankedLargest { table: self.table().to_owned() });
        }
        if self.table.keeps_priorities() {
            return Err(PriorityError::ChangingAlpha { table: self.table().to_owned() });
        }
        let value = leaf_of_q(q, self.table.most()).ok_or(PriorityError::BadOption {
            what: "the largest value",
            value: q,
            wanted: "a finite number above 0, such as the `q_new` of a block",
        })?;
        if self.table.settings().tracks_largest {
            if value == self.table.largest_of_others() {
                return Ok(());
            }
            return locked(&mut self.table, &self.limits, |guard| {
                guard.set_largest_of_others(value);
            });
        }
        if value <= self.table.largest() {
            return Ok(());
        }
        locked(&mut self.table, &self.limits, |guard| guard.raise_largest(value))
    }

    /// Returns the total of the tree, the sum of its leaves, and the number of leaves that are not
    /// 0, while no other process changes the table. The leaves are computed again if the table
    /// keeps priorities. O(rows).
    pub fn audit_locked(&mut self) -> Result<(u128, u128, u64), PriorityError> {
        locked(&mut self.table, &self.limits, |guard| {
            let leaves = u64::from(guard.lanes()).saturating_mul(guard.lane_leaves());
            let value = |leaf| guard.value_of(guard.given(leaf));
            let values = (0..usize::try_from(leaves).unwrap_or(0)).map(value);
            let (sum, count) = values.fold((0, 0), |(sum, count), value| {
                (sum + u128::from(value), count + u64::from(value > 0))
            });
            (guard.total().into(), sum, count)
        })
    }

    /// Returns the counters of the table, of all processes together.
    #[must_use]
    pub fn counters(&self) -> TableCounters {
        self.table.counters()
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        self.table.name()
    }
}

/// Opens a table, or creates it for as many rows as the largest lane keeps.
fn open(ring: &Ring, name: &str, settings: TableSettings) -> Result<PriorityTable, PriorityError> {
    let rows = (0..ring.lanes()).filter_map(|lane| ring.lane_capacity_of(lane)).max();
    let (store, rows) = (ring.store(), rows.unwrap_or(0));
    let limits = LockLimits::new(ring.interrupt());
    table_lock::locked(store, name, &limits, || Ok(store.try_table(name, settings, rows)?))
}

/// Runs `work` with the lock of an existing table.
pub(super) fn locked_table<R>(
    ring: &Ring,
    (name, settings): (&str, TableSettings),
    wait: &mut Wait<'_>,
    work: impl FnOnce(&mut TableGuard<'_>) -> R,
) -> Result<R, PriorityError> {
    let mut table = open(ring, name, settings)?;
    locked_within(&mut table, wait, work)
}

/// Returns the conversion of priorities by the present exponent, if the table's can change.
fn of_exponent(view: &TableView, values: LeafValues) -> LeafValues {
    LeafValues { exponent: view.exponent().unwrap_or(values.exponent), ..values }
}

/// Sets the leaves of rows that have one. Returns how many have none.
fn set(
    guard: &mut TableGuard<'_>,
    (index, values): (&[i64], &[u64]),
    requested: &[Requested],
    changes: &mut Vec<LeafChange>,
) -> u64 {
    changes.clear();
    for request in requested {
        let (leaf, position) = (request.leaf(), request.position());
        let (Some(index), Some(value)) = (index.get(position), values.get(position)) else {
            continue;
        };
        let (index, value) = (RowIndex(*index), *value);
        let (entered, expired) = guard.lane(index.lane());
        // Every transition with a priority has a leaf that is not 0.
        if index.0 >= 0 && (expired..entered).contains(&index.seq()) && guard.leaf(leaf) > 0 {
            changes.push(LeafChange { leaf, value });
        }
    }
    let stale = (requested.len() - changes.len()) as u64;
    if let Some(most) = changes.iter().map(|change| change.value).max() {
        guard.raise_largest(most);
    }
    guard.commit(changes);
    let updated = changes.len() as u64;
    guard.count(TableCounters { updated, stale, ..TableCounters::default() });
    stale
}

/// Fails if a row is in the middle of an episode. Passes one that is gone.
fn check_start(
    position: usize,
    (lane, row): (u32, u64),
    (lanes, rows): (&[Arc<Lane>], &[Range<u64>]),
) -> Result<(), PriorityError> {
    let there = rows.get(lane as usize).is_some_and(|rows| rows.contains(&row));
    let Some(lane) = lanes.get(lane as usize).filter(|_| there) else { return Ok(()) };
    let RowHeader { seq, t, .. } = RowHeader::read(&**lane, row);
    // Another row took the place meanwhile.
    if seq != row || t == 0 {
        return Ok(());
    }
    Err(PriorityError::InsideEpisode { position, step: t })
}

/// Returns the value of a priority's leaf, or the error of a priority that has none.
fn checked(
    position: usize,
    priority: f64,
    value: Option<u64>,
    values: LeafValues,
) -> Result<u64, PriorityError> {
    if !(priority.is_finite() && priority >= 0.0) {
        return Err(PriorityError::BadPriority { position, value: priority });
    }
    let limit = || values.limit();
    value.ok_or_else(|| PriorityError::TooLarge { position, value: priority, limit: limit() })
}

/// Runs `work` with the table's lock.
pub(super) fn locked<R>(
    table: &mut PriorityTable,
    limits: &LockLimits,
    work: impl FnOnce(&mut TableGuard<'_>) -> R,
) -> Result<R, PriorityError> {
    locked_within(table, &mut limits.wait(), work)
}

fn locked_within<R>(
    table: &mut PriorityTable,
    wait: &mut Wait<'_>,
    work: impl FnOnce(&mut TableGuard<'_>) -> R,
) -> Result<R, PriorityError> {
    // The names are copied only if a wait is needed.
    if let Some(mut guard) = table.try_lock()? {
        return Ok(work(&mut guard));
    }
    let (store, name) = (Arc::clone(table.store()), table.name().to_owned());
    let mut work = Some(work);
    table_lock::locked_within(&store, &name, wait, || {
        // Most holders are in the middle of a change. Checking for one costs less than an attempt
        // to lock.
        let _ = (0..LOOKS).find(|_| {
            std::hint::spin_loop();
            !table.is_changing()
        });
        let Some(mut guard) = table.try_lock()? else { return Ok(None) };
        Ok(work.take().map(|work| work(&mut guard)))
    })
}
