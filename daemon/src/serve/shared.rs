//! State that the daemon's threads share: current settings, counters, and the lock of allocation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use backcast_core::plumbing::MemfdKeeper;
use backcast_core::{Base, ObjectInfo, SegmentError, collect_garbage};

use super::budget::WhenFull;
use super::error::ServeError;
use super::options::ServeOptions;
use super::persist::{Keeper, PersistOptions};
use super::reader_totals::TotalsByRing;
use crate::objects::catalogue::shown_name;
use crate::protocol::Code;

/// Current settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentSettings {
    pub(crate) budget_bytes: u64,
    pub(crate) when_full: WhenFull,
    /// Whether rings are created in memfds.
    pub(crate) memfd: bool,
    pub(crate) interval: Duration,
}

/// State that the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) base: Base,
    pub(crate) began: Instant,
    pub(crate) tally: EventCounters,
    live: RwLock<CurrentSettings>,
    persist: RwLock<PersistOptions>,
    keeper: Mutex<Keeper>,
    reader_totals: Mutex<TotalsByRing>,
    memory: Mutex<MemfdKeeper>,
    turn: Mutex<()>,
    // When the running sweep began.
    sweep_began: Mutex<Option<Instant>>,
    stopping: AtomicBool,
}

/// Counters since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct EventCounters {
    pub(crate) orphans_removed: AtomicU64,
    pub(crate) pins_cleared: AtomicU64,
    pub(crate) sweeps: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) strangers_refused: AtomicU64,
    requests: Mutex<BTreeMap<&'static str, u64>>,
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

impl Shared {
    pub(crate) fn new(base: &Base, options: &ServeOptions) -> Result<Self, ServeError> {
        Ok(Self {
            base: base.clone(),
            began: Instant::now(),
            tally: EventCounters::default(),
            live: RwLock::new(resolve(base, options)?),
            persist: RwLock::new(options.persist.clone()),
            keeper: Mutex::default(),
            reader_totals: Mutex::default(),
            memory: Mutex::default(),
            turn: Mutex::default(),
            sweep_began: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    pub(crate) fn live(&self) -> CurrentSettings {
        *self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_over(&self, options: &ServeOptions) -> Result<(), ServeError> {
        let live = resolve(&self.base, options)?;
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live;
        let persist = options.persist.clone();
        *self.persist.write().unwrap_or_else(PoisonError::into_inner) = persist;
        Ok(())
    }

    /// Returns the current settings of persistence.
    pub(crate) fn persist(&self) -> PersistOptions {
        self.persist.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Locks and returns the followers of rings.
    pub(crate) fn keeper(&self) -> MutexGuard<'_, Keeper> {
        locked(&self.keeper)
    }

    /// Locks allocation, so that no other request takes the space that was found free.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reader_totals(&self) -> MutexGuard<'_, TotalsByRing> {
        self.reader_totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keeper of rings in memfds.
    pub(crate) fn memory(&self) -> &Mutex<MemfdKeeper> {
        &self.memory
    }

    /// Keeps the memory of every ring that is in memfds, and frees the memory of removed rings.
    /// Returns the errors of rings that could not be kept.
    pub(crate) fn keep_memory(&self) -> Result<Vec<SegmentError>, SegmentError> {
        locked(&self.memory).look(&self.base)
    }

    /// Frees all kept memory. Rings that no other process holds are lost, and their names are
    /// removed.
    pub(crate) fn release_memory(&self) {
        let kept = std::mem::take(&mut *locked(&self.memory));
        let rings = kept.rings();
        drop(kept);
        if rings > 0 {
            match collect_garbage(&self.base) {
                Ok(removed) => log_removed(&removed),
                Err(error) => tracing::warn!(%error, "cannot remove rings whose memory is gone"),
            }
        }
    }

    /// Says that a sweep begins, or that it ended. One that panics has not ended.
    pub(crate) fn set_sweeping(&self, sweeping: bool) {
        *locked(&self.sweep_began) = sweeping.then(Instant::now);
    }

    /// Returns how long the running sweep has taken. `None` between sweeps.
    pub(crate) fn sweeping_for(&self) -> Option<Duration> {
        locked(&self.sweep_began).map(|began| began.elapsed())
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}

fn resolve(base: &Base, options: &ServeOptions) -> Result<CurrentSettings, ServeError> {
    let budget_bytes = options.budget.resolve(base)?;
    let ServeOptions { when_full, memfd, interval, .. } = *options;
    Ok(CurrentSettings { budget_bytes, when_full, memfd, interval })
}

impl EventCounters {
    pub(crate) fn count_request(&self, word: &'static str) {
        *locked(&self.requests).entry(word).or_default() += 1;
    }

    pub(crate) fn count_error(&self, code: Code) {
        *locked(&self.errors).entry(code.word()).or_default() += 1;
    }

    pub(crate) fn requests(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.requests).clone()
    }

    pub(crate) fn errors(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.errors).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// Logs removed objects.
pub(crate) fn log_removed(removed: &[ObjectInfo]) {
    for info in removed {
        let (kind, name, bytes) = (info.kind, shown_name(info), info.bytes);
        tracing::info!(%kind, name, bytes, "removed an object that no process held");
    }
}
