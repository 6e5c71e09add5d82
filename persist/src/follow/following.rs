//! Follows a ring step by step.

use std::time::{Duration, Instant};

use backcast_core::{LeaseError, RetentionPin, Ring};

use super::commit::{Committed, FollowStep, commit, followed, from_oldest};
use super::mode::{FollowOptions, PersistMode};
use super::on_disk::{Done, last_snapshot};
use crate::error::SaveError;
use crate::followed::FollowedLane;
use crate::layout::BatchLayout;
use crate::left_out::LeftOutTable;
use crate::save::SaveOptions;
use crate::spec::{ROLLING, check_name};
use crate::store::Store;

/// Maximum time between two inspections. An inspection loads a few words per lane, so 20 per second
/// are cheap, and writers need not notify.
const INSPECT_EVERY: Duration = Duration::from_millis(50);
/// Minimum time between two inspections.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Minimum time between two checks that the store still has the saved rows.
const NOTICE_EVERY: Duration = Duration::from_secs(1);
/// A step is due when all lanes together have this many times `lane_limit` rows that are not on
/// disk.
const MANY_BATCHES: u64 = 4;
/// Maximum attempts to pin the oldest row of a lane that its writer keeps overwriting.
const ATTEMPTS: u32 = 16;

/// Follower of a ring that works step by step: [`inspect`](Self::inspect) tells when
/// [`step`](Self::step) is due.
///
/// In mode [`Block`](PersistMode::Block) it pins the rows that are not on disk yet; the pins end
/// with the process. The manifest has all other state, so that another follower continues after a
/// kill.
#[derive(Debug)]
pub struct Following {
    store: Store,
    name: String,
    ring: Ring,
    options: FollowOptions,
    done: Done,
    /// First row of each lane that was not dropped from the ring when its rows were last saved.
    /// `None` if no rows are on disk.
    saved_marks: Option<Vec<u64>>,
    /// Number of rows of a lane that are not on disk at which a step is due.
    lane_limit: u64,
    /// Time since which the rows on disk differ from those of the ring, as far as this process can
    /// tell.
    behind_since: Option<Instant>,
    /// Time of the last inspection, and the rows of each lane that were not on disk then.
    last: Option<(Instant, Vec<u64>)>,
    guard: Option<RetentionPin>,
    /// Time of the last check of the store.
    noticed: Instant,
    /// Whether no step was done yet.
    fresh: bool,
    bytes_written: u64,
    files_written: u64,
    /// Tables, or the rate limiter, that the last snapshot lacks.
    left_out: Vec<LeftOutTable>,
}

/// Result of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Published rows that are not on disk.
    pub rows_behind: u64,
    /// Whether rows on disk were dropped from the ring since they were saved.
    pub drops_behind: bool,
    /// Whether a step is due now.
    pub due: bool,
    /// Time until the next inspection if no step is due.
    pub wait: Duration,
}

impl Inspection {
    /// Returns whether the rows on disk are not those of the ring.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.rows_behind > 0 || self.drops_behind
    }
}

impl Following {
    /// Returns a follower that saves the ring as `name`. It continues at the position in the
    /// store's manifest, or begins at the oldest row. In periodic mode it continues the schedule of
    /// the last snapshot.
    ///
    /// Saves nothing itself; pins rows in mode [`Block`](PersistMode::Block). Fails in mode
    /// [`Off`](PersistMode::Off).
    pub fn new(
        store: &Store,
        name: &str,
        ring: &Ring,
        options: FollowOptions,
    ) -> Result<Self, SaveError> {
        check_name("name", name)?;
        let rows_per_batch = BatchLayout::of(ring.schema()).rows_per_batch(options.batch_bytes);
        let (done, saved_marks) = match options.mode {
            PersistMode::Off => return Err(SaveError::NotFollowed),
            PersistMode::Periodic => last_snapshot(store, name, ring, options.every)?,
            PersistMode::Continuous | PersistMode::Block => match followed(store, name, ring)? {
                Some(known) => (Done::Lanes(known.lanes), known.saved_marks),
                None => (Done::Lanes(from_oldest(ring)), None),
            },
        };
        let mut following = Self {
            store: store.clone(),
            name: name.to_owned(),
            ring: ring.clone(),
            options,
            done,
            saved_marks,
            lane_limit: rows_per_batch.min((ring.lane_capacity() / 2).max(1)),
            behind_since: None,
            last: None,
            guard: None,
            noticed: Instant::now(),
            fresh: true,
            bytes_written: 0,
            files_written: 0,
            left_out: Vec::new(),
        };
        following.guard()?;
        Ok(following)
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Counts the rows that are not on disk, and tells whether a step is due. Rows on disk that
    /// were dropped from the ring make a step due as well. Makes a few loads per lane and no system
    /// call, except reading the manifest once a second while all rows are on disk.
    pub fn inspect(&mut self) -> Inspection {
        let now = Instant::now();
        if now.saturating_duration_since(self.noticed) >= NOTICE_EVERY {
            self.noticed = now;
            // A step reads the manifest anyway.
            if self.rows_behind() == 0 {
                self.notice();
            }
        }
        let drops_behind = self.drops_behind();
        match &self.done {
            Done::Snapshot { due, .. } => {
                let (due, rows_behind) = (*due <= now, self.rows_behind());
                let found = Inspection { rows_behind, drops_behind, due, wait: INSPECT_EVERY };
                self.behind(found.is_behind(), now);
                Inspection { due: due && found.is_behind(), ..found }
            }
            Done::Lanes(lanes) => {
                let new: Vec<u64> = self.new_rows(lanes).collect();
                let rows_behind: u64 = new.iter().sum();
                self.behind(rows_behind > 0 || drops_behind, now);
                let most = new.iter().copied().max().unwrap_or_default();
                let many = self.lane_limit.saturating_mul(MANY_BATCHES);
                let old = self.behind_since.is_some_and(|since| {
                    now.saturating_duration_since(since) >= self.options.flush
                });
                let due = old || most >= self.lane_limit || rows_behind >= many;
                let wait = self.wait(&new, now);
                self.last = Some((now, new));
                Inspection { rows_behind, drops_behind, due, wait }
            }
        }
    }

    /// Checks that the store still has the saved rows. If they were removed, all rows of the ring
    /// count as not on disk.
    pub(super) fn notice(&mut self) {
        if self.fresh || !matches!(self.done, Done::Lanes(_)) {
            return;
        }
        // The next step reports an unreadable manifest.
        if let Ok(None) = followed(&self.store, &self.name, &self.ring) {
            self.done = Done::Lanes(from_oldest(&self.ring));
            (self.saved_marks, self.last) = (None, None);
        }
    }

    /// Writes all published rows to disk, whether or not a step is due. After an error the rows
    /// saved before are unchanged, and the next step retries.
    ///
    /// `stopped` is called while another process changes the directory or has a table locked. If it
    /// returns true, the wait for the directory ends with an error, and the wait for a table with a
    /// snapshot that lacks the table.
    pub fn step(&mut self, stopped: &(dyn Fn() -> bool + Sync)) -> Result<(), SaveError> {
        let behind_since = Instant::now();
        // The marks are read before the rows are saved. A mark that rises meanwhile makes another
        // step due.
        let marks = marks(&self.ring).collect();
        match self.done {
            Done::Snapshot { number, .. } => {
                let published = self.ring.rows_published();
                let FollowOptions { newest, batch_bytes, file_bytes, .. } = self.options;
                let mut options =
                    SaveOptions::default().name(&self.name).sizes(batch_bytes, file_bytes);
                options.keep_newest = Some(newest);
                options.hurry = Some(stopped);
                let label = format!("{ROLLING}{:06}", number + 1);
                let report = self.store.save_as(&self.ring, &label, options)?;
                self.bytes_written += report.bytes_written;
                self.files_written += report.files_written;
                self.left_out = report.left_out;
                let due = behind_since + self.options.every;
                let persisted = report.rows;
                self.done = Done::Snapshot { rows: published, persisted, due, number: number + 1 };
            }
            Done::Lanes(_) => {
                // A row that could not be pinned before may be pinned now.
                self.guard()?;
                let done = self.commit(stopped)?;
                self.bytes_written += done.bytes_written;
                self.files_written += done.files_written;
                self.left_out = done.left_out;
                self.done = Done::Lanes(done.lanes);
                self.guard()?;
            }
        }
        self.saved_marks = Some(marks);
        self.fresh = false;
        self.last = None;
        self.behind_since = None;
        if self.inspect().is_behind() {
            // Rows published since the step began are younger.
            self.behind_since = Some(behind_since);
        }
        Ok(())
    }

    /// Returns the rows saved since the first follower began, including those removed since. In
    /// periodic mode, the rows of the last snapshot.
    #[must_use]
    pub fn rows_persisted(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(FollowedLane::persisted).sum(),
            Done::Snapshot { persisted, .. } => *persisted,
        }
    }

    /// Returns the rows that were overwritten or dropped before they were copied; 0 in periodic
    /// mode. In the other modes every published row is lapped, persisted, behind, or one of
    /// [`rows_before`](Self::rows_before).
    #[must_use]
    pub fn rows_lapped(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.lapped).sum(),
            Done::Snapshot { .. } => 0,
        }
    }

    /// Returns the rows that were overwritten or dropped before the ring was followed; 0 in
    /// periodic mode.
    #[must_use]
    pub fn rows_before(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.begin).sum(),
            Done::Snapshot { .. } => 0,
        }
    }

    /// Returns the published rows that are persisted, lapped, or were gone before the ring was
    /// followed. In periodic mode, the rows published at the last snapshot.
    #[must_use]
    pub fn rows_done(&self) -> u64 {
        match &self.done {
            Done::Lanes(lanes) => lanes.iter().map(|lane| lane.next).sum(),
            Done::Snapshot { rows, .. } => *rows,
        }
    }

    /// Returns the bytes and the number of files that this follower wrote. Merged files count for
    /// the bytes only.
    #[must_use]
    pub fn written(&self) -> (u64, u64) {
        (self.bytes_written, self.files_written)
    }

    /// Returns the tables, and the rate limiter, that the last snapshot lacks.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOutTable] {
        &self.left_out
    }

    /// Returns for how long the rows on disk have differed from those of the ring, as far as this
    /// process can tell.
    #[must_use]
    pub fn behind_for(&self) -> Duration {
        self.behind_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the published rows that are not on disk.
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
        commit(&FollowStep { store, name, ring, guard, options, first, stopped })
    }

    fn new_rows<'a>(&'a self, lanes: &'a [FollowedLane]) -> impl Iterator<Item = u64> + 'a {
        (0..).zip(lanes).map(|(number, lane)| {
            let head = self.ring.lane_span(number).unwrap_or_default().end;
            head.saturating_sub(lane.next)
        })
    }

    fn drops_behind(&self) -> bool {
        let saved = self.saved_marks.iter().flatten();
        marks(&self.ring).zip(saved).any(|(mark, saved)| mark > *saved)
    }

    fn behind(&mut self, is_behind: bool, now: Instant) {
        self.behind_since = is_behind.then(|| self.behind_since.unwrap_or(now));
    }

    /// Predicts the time until the first lane reaches its limit at its present rate, clamped to 1
    /// to 50 ms.
    fn wait(&self, new: &[u64], now: Instant) -> Duration {
        let Some((before, last)) = &self.last else { return LOOK_AGAIN };
        let passed = now.saturating_duration_since(*before).as_secs_f64();
        let of_lane = |(now, before): (&u64, &u64)| {
            let (more, left) = (now.checked_sub(*before)?, self.lane_limit.saturating_sub(*now));
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            (more > 0).then(|| passed * left as f64 / more as f64)
        };
        let soonest = new.iter().zip(last).filter_map(of_lane).fold(f64::MAX, f64::min);
        Duration::try_from_secs_f64(soonest)
            .unwrap_or(INSPECT_EVERY)
            .clamp(LOOK_AGAIN, INSPECT_EVERY)
    }

    /// In mode [`Block`](PersistMode::Block), pins exactly the rows that are not on disk yet.
    fn guard(&mut self) -> Result<(), SaveError> {
        let Done::Lanes(lanes) = &self.done else { return Ok(()) };
        if self.options.mode != PersistMode::Block {
            return Ok(());
        }
        if self.guard.is_none() {
            self.guard = Some(RetentionPin::new(&self.ring)?);
        }
        let Some(guard) = &mut self.guard else { return Ok(()) };
        for (number, lane) in (0..).zip(lanes) {
            let mut from = lane.next;
            for _ in 0..ATTEMPTS {
                match guard.keep(number, from) {
                    // The writer overwrote the row first; the next step counts it as lapped.
                    Err(LeaseError::Pins(_)) => {
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

/// Returns the first row of each lane that was not dropped.
fn marks(ring: &Ring) -> impl Iterator<Item = u64> + '_ {
    (0..ring.lanes()).map(|lane| ring.first_kept(lane).unwrap_or_default())
}
