//! A ring that is followed: when something is due, and doing it.

use std::time::{Duration, Instant};

use backcast_core::{Guard, LeaseError, Ring};

use super::commit::{Committed, Step, commit, followed, from_oldest};
use super::mode::{FollowOptions, Mode};
use crate::error::SaveError;
use crate::followed::FollowedLane;
use crate::layout::BatchLayout;
use crate::save::SaveOptions;
use crate::spec::{ROLLING, check_name};
use crate::store::{Store, unix_ns};

/// Longest time between two looks. A look reads two words per lane: twenty in a second cost nothing,
/// and no writer is asked to wake anybody.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Shortest time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Time between two looks at what the store says of the ring: a snapshot that somebody removed is saved again.
const NOTICE_EVERY: Duration = Duration::from_secs(1);
/// New rows that are not waited with any more, of all lanes, in batches.
const MANY_BATCHES: u64 = 4;
/// A row that is overwritten while it is pinned is tried again with the next one, this often.
const ATTEMPTS: u32 = 16;

/// A ring that is followed, step by step: [`look`](Self::look) tells when [`step`](Self::step) is due.
///
/// It holds nothing but, in mode [`Block`](Mode::Block), the rows that are not on disk yet, and
/// that ends with its process. What it has done stands in the manifest, so that another one goes on
/// where this one was killed.
#[derive(Debug)]
pub struct Following {
    store: Store,
    name: String,
    ring: Ring,
    options: FollowOptions,
    done: Done,
    /// Rows a lane may have that are not on disk, before it is due.
    lane_limit: u64,
    /// Since when there are rows that are not on disk; as far as this process knows.
    behind_since: Option<Instant>,
    /// Rows published at the last look, and when that was.
    last: Option<(Instant, Vec<u64>)>,
    guard: Option<Guard>,
    /// When it was last time to ask the store.
    noticed: Instant,
    /// The store was not changed yet.
    fresh: bool,
    bytes_written: u64,
    files_written: u64,
}

/// What is on disk.
#[derive(Debug)]
enum Done {
    /// Of each lane that is followed.
    Lanes(Vec<FollowedLane>),
    /// Rows that were published at the last periodic snapshot, and when the next one is due.
    Snapshot { rows: u64, persisted: u64, due: Instant, number: u64 },
}

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Rows published that are not on disk.
    pub rows_behind: u64,
    /// Something is to be done now.
    pub due: bool,
    /// If not, when to look again.
    pub wait: Duration,
}

impl Following {
    /// Follows a ring from where the store's manifest says that somebody was, or from its oldest row.
    /// `name` is the one to save under.
    pub fn new(
        store: &Store,
        name: &str,
        ring: &Ring,
        options: FollowOptions,
    ) -> Result<Self, SaveError> {
        check_name("name", name)?;
        let rows_per_batch = BatchLayout::of(ring.schema()).rows_per_batch(options.batch_bytes);
        let done = match options.mode {
            Mode::Off => return Err(SaveError::NotFollowed),
            Mode::Periodic => last_snapshot(store, name, ring, options.every)?,
            Mode::Continuous | Mode::Block => {
                let known = followed(store, name, ring)?;
                Done::Lanes(known.unwrap_or_else(|| from_oldest(ring)))
            }
        };
        let mut following = Self {
            store: store.clone(),
            name: name.to_owned(),
            ring: ring.clone(),
            options,
            done,
            lane_limit: rows_per_batch.min((ring.lane_capacity() / 2).max(1)),
            behind_since: None,
            last: None,
            guard: None,
            noticed: Instant::now(),
            fresh: true,
            bytes_written: 0,
            files_written: 0,
        };
        following.guard()?;
        Ok(following)
    }

    /// The ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// How many rows are not on disk, and whether that is to change now. Two loads per lane; no system
    /// call, but that the manifest is read once a second while there are none.
    pub fn look(&mut self) -> Look {
        let now = Instant::now();
        if now.saturating_duration_since(self.noticed) >= NOTICE_EVERY {
            self.noticed = now;
            // A step reads the manifest itself.
            if self.rows_behind() == 0 {
                self.notice();
            }
        }
        match &self.done {
            Done::Snapshot { due, .. } => {
                let (due, rows_behind) = (*due, self.rows_behind());
                self.behind(rows_behind, now);
                Look { rows_behind, due: rows_behind > 0 && due <= now, wait: LOOK_EVERY }
            }
            Done::Lanes(lanes) => {
                let new: Vec<u64> = self.new_rows(lanes).collect();
                let rows_behind: u64 = new.iter().sum();
                self.behind(rows_behind, now);
                let most = new.iter().copied().max().unwrap_or_default();
                let many = self.lane_limit.saturating_mul(MANY_BATCHES);
                let old = self.behind_since.is_some_and(|since| {
                    now.saturating_duration_since(since) >= self.options.flush
                });
                let due =
                    rows_behind > 0 && (old || most >= self.lane_limit || rows_behind >= many);
                let wait = self.wait(&new, now);
                self.last = Some((now, new));
                Look { rows_behind, due, wait }
            }
        }
    }

    /// Asks the store whether what this one saved is still there; if somebody removed it, nothing is on disk.
    pub(super) fn notice(&mut self) {
        if self.fresh || !matches!(self.done, Done::Lanes(_)) {
            return;
        }
        // A manifest that cannot be read is the next step's error.
        if let Ok(None) = followed(&self.store, &self.name, &self.ring) {
            self.done = Done::Lanes(from_oldest(&self.ring));
            self.last = None;
        }
    }

    /// Has everything on disk that is published now, whether or not it is due. After an error the
    /// store is as it was, and the next step does what this one did not. `stopped` is asked while
    /// another process changes the same directory; it ends the wait, with an error.
    pub fn step(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), SaveError> {
        let behind_since = Instant::now();
        match self.done {
            Done::Snapshot { number, .. } => {
                let published = self.ring.rows_published();
                let FollowOptions { newest, batch_bytes, file_bytes, .. } = self.options;
                let mut options =
                    SaveOptions::default().name(&self.name).sizes(batch_bytes, file_bytes);
                options.keep_newest = Some(newest);
                let label = format!("{ROLLING}{:06}", number + 1);
                let report = self.store.save_as(&self.ring, &label, options)?;
                self.bytes_written += report.bytes_written;
                self.files_written += report.files_written;
                let due = behind_since + self.options.every;
                let persisted = report.rows;
                self.done = Done::Snapshot { rows: published, persisted, due, number: number + 1 };
            }
            Done::Lanes(_) => {
                // A row that could not be pinned then may be by now.
                self.guard()?;
                let done = self.commit(stopped)?;
                self.bytes_written += done.bytes_written;
                self.files_written += done.files_written;
                self.done = Done::Lanes(done.lanes);
                self.guard()?;
            }
        }
        self.fresh = false;
        self.last = None;
        self.behind_since = None;
        if self.look().rows_behind > 0 {
            // What was published since the step began is as old as that, at most.
            self.behind_since = Some(behind_since);
        }
        Ok(())
    }

    /// Rows that went to disk since the ring is followed, those included that were removed there since.
    /// Of a ring that is saved every so often, the rows of the last snapshot.
    #[must_use]
    pub fn rows_persisted(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(FollowedLane::persisted).sum(),
            Done::Snapshot { persisted, .. } => *persisted,
        }
    }

    /// Rows that writers overwrote before they could be copied. With those on disk, those not on disk
    /// yet, and those published before the ring was followed, they are all that were ever published.
    #[must_use]
    pub fn rows_lapped(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.lapped).sum(),
            Done::Snapshot { .. } => 0,
        }
    }

    /// Rows published before the ring was followed; none of one that was followed from its beginning.
    #[must_use]
    pub fn rows_before(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.begin).sum(),
            Done::Snapshot { .. } => 0,
        }
    }

    /// Rows published that were dealt with.
    #[must_use]
    pub fn rows_done(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.next).sum(),
            Done::Snapshot { rows, .. } => *rows,
        }
    }

    /// Bytes and files that this process wrote.
    #[must_use]
    pub fn written(&self) -> (u64, u64) {
        (self.bytes_written, self.files_written)
    }

    /// How old the oldest row may be that is not on disk.
    #[must_use]
    pub fn behind_for(&self) -> Duration {
        self.behind_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Rows published that are not on disk.
    #[must_use]
    pub fn rows_behind(&self) -> u64 {
        match &self.done {
            Done::Snapshot { rows, .. } => self.ring.rows_published().saturating_sub(*rows),
            Done::Lanes(lanes) => self.new_rows(lanes).sum(),
        }
    }

    fn commit(&self, stopped: &dyn Fn() -> bool) -> Result<Committed, SaveError> {
        let Self { store, name, ring, options, .. } = self;
        let lanes = match &self.done {
            Done::Lanes(lanes) => lanes.as_slice(),
            Done::Snapshot { .. } => &[],
        };
        let (guard, first) = (self.guard.as_ref(), self.fresh.then_some(lanes));
        commit(&Step { store, name, ring, guard, options, first, stopped })
    }

    fn new_rows<'a>(&'a self, lanes: &'a [FollowedLane]) -> impl Iterator<Item = u64> + 'a {
        (0..).zip(lanes).map(|(number, lane)| {
            let head = self.ring.lane_span(number).unwrap_or_default().end;
            head.saturating_sub(lane.next)
        })
    }

    fn behind(&mut self, rows: u64, now: Instant) {
        self.behind_since = match rows {
            0 => None,
            _ => self.behind_since.or(Some(now)),
        };
    }

    /// When the fullest lane is due, if it goes on filling as it did.
    fn wait(&self, new: &[u64], now: Instant) -> Duration {
        let Some((before, last)) = &self.last else { return LOOK_AGAIN };
        let passed = now.saturating_duration_since(*before).as_secs_f64();
        let of_lane = |(now, before): (&u64, &u64)| {
            let (more, left) = (now.checked_sub(*before)?, self.lane_limit.saturating_sub(*now));
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            (more > 0).then(|| passed * left as f64 / more as f64)
        };
        let soonest = new.iter().zip(last).filter_map(of_lane).fold(f64::MAX, f64::min);
        Duration::try_from_secs_f64(soonest).unwrap_or(LOOK_EVERY).clamp(LOOK_AGAIN, LOOK_EVERY)
    }

    /// In mode [`Block`](Mode::Block), keeps the rows that are not on disk yet, and no others.
    fn guard(&mut self) -> Result<(), SaveError> {
        let Done::Lanes(lanes) = &self.done else { return Ok(()) };
        if self.options.mode != Mode::Block {
            return Ok(());
        }
        if self.guard.is_none() {
            self.guard = Some(Guard::new(&self.ring)?);
        }
        let Some(guard) = &mut self.guard else { return Ok(()) };
        for (number, lane) in (0..).zip(lanes) {
            let mut from = lane.next;
            for _ in 0..ATTEMPTS {
                match guard.keep(number, from) {
                    // The writer was faster; the next step counts what it lapped.
                    Err(LeaseError::Hold(_)) => {
                        let oldest = self.ring.lane_span(number).unwrap_or_default().start;
                        from = lane.next.max(oldest);
                    }
                    kept => {
                        kept?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where whoever saved the ring last left off.
fn last_snapshot(
    store: &Store,
    name: &str,
    ring: &Ring,
    every: Duration,
) -> Result<Done, SaveError> {
    let uuid = crate::copy::hex(ring.uuid());
    let listing = store.snapshots(name)?;
    let rolling = || listing.snapshots.iter().filter(|s| s.label.starts_with(ROLLING));
    let number =
        rolling().filter_map(|s| s.label.strip_prefix(ROLLING)?.parse().ok()).max().unwrap_or(0);
    let now = Instant::now();
    let last = rolling().filter(|s| s.ring_uuid == uuid).max_by_key(|s| s.saved_unix_ns);
    let Some(last) = last else {
        return Ok(Done::Snapshot { rows: 0, persisted: 0, due: now + every, number });
    };
    let age = Duration::from_nanos(unix_ns().saturating_sub(last.saved_unix_ns));
    let rows = last.lanes.iter().map(|lane| lane.end).sum();
    let due = now + every.saturating_sub(age);
    Ok(Done::Snapshot { rows, persisted: last.rows, due, number })
}
