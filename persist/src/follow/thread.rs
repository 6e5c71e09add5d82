//! A thread that follows a ring.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use backcast_core::Ring;

use super::following::Following;
use super::mode::{FollowOptions, PersistMode};
use crate::error::SaveError;
use crate::store::Store;

/// Half of the first delay after an error. The delay doubles with every further error.
const RETRY: Duration = Duration::from_millis(100);
/// Interval at which the end of the previous follower is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Maximum delay after an error.
const RETRY_AT_LAST: Duration = Duration::from_secs(5);

/// State of a follower.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowState {
    /// Mode of the persistence.
    pub mode: PersistMode,
    /// Published rows that are not on disk.
    pub rows_behind: u64,
    /// Time for which the rows on disk have differed from those of the ring, as far as known.
    pub behind_for: Duration,
    /// Rows saved, including those removed since. In periodic mode, rows of the last snapshot.
    pub rows_persisted: u64,
    /// Rows that were overwritten or dropped before they were copied.
    pub rows_lapped: u64,
    /// Rows that were overwritten or dropped before the ring was followed.
    pub rows_before: u64,
    /// Published rows that are not behind.
    pub rows_done: u64,
    /// Bytes written by this thread.
    pub bytes_written: u64,
    /// Files written by this thread.
    pub files_written: u64,
    /// Steps that succeeded.
    pub steps: u64,
    /// Attempts to start or to do a step that failed.
    pub errors: u64,
    /// Error of the last step; `None` after one that succeeded.
    pub error: Option<String>,
    /// Tables, or the rate limiter, that the last snapshot lacks, and why.
    pub left_out: Vec<String>,
}

/// A thread that follows a ring until it is stopped or dropped. It retries after errors.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    // Dropping the sender stops the thread.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<FollowState>,
    /// Whether the thread ends after one more step.
    ending: AtomicBool,
    /// Whether to stop waiting for another process that changes the directory or has a table
    /// locked.
    hurry: AtomicBool,
    /// Whether the thread has done its last step.
    ended: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that marks the thread as ended on every exit.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.store(true, Relaxed);
    }
}

impl Follower {
    /// Follows `ring` and saves it as `name`. The thread reads the store; [`state`](Self::state)
    /// reports its errors. Fails if no thread can be started.
    pub fn start(
        store: &Store,
        name: &str,
        ring: &Ring,
        options: FollowOptions,
    ) -> io::Result<Self> {
        Self::start_after(None, store, name, ring, options)
    }

    /// Starts like [`start`](Self::start), but the thread first waits for the end of `before`. Call
    /// [`finish`](Self::finish) on `before` first. So a recreated ring is saved after the previous
    /// one.
    pub fn start_after(
        before: Option<&Self>,
        store: &Store,
        name: &str,
        ring: &Ring,
        options: FollowOptions,
    ) -> io::Result<Self> {
        let before = before.map(|before| Arc::clone(&before.shared));
        let state = FollowState { mode: options.mode, ..FollowState::default() };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            ending: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let (wake, woken) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("backcast-persist".to_owned()).spawn({
            let (store, name, ring) = (store.clone(), name.to_owned(), ring.clone());
            let shared = Arc::clone(&shared);
            move || {
                // Returns `true` when the follower is to end.
                let wait =
                    |time| !matches!(woken.recv_timeout(time), Err(RecvTimeoutError::Timeout));
                let _ends = Ends(Arc::clone(&shared));
                let ended = || before.as_ref().is_none_or(|before| before.ended.load(Relaxed));
                while !ended() && !wait(LOOK_AGAIN) {}
                follow(&store, &name, &ring, options, &shared, &wait);
            }
        })?;
        Ok(Self { shared, wake: Some(wake), thread: Some(thread) })
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> FollowState {
        self.shared.state().clone()
    }

    /// Tells the thread to end after one more step for all published rows. Does not wait for it.
    pub fn finish(&mut self) {
        self.shared.ending.store(true, Relaxed);
        self.wake = None;
    }

    /// Returns whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread after one more step for all published rows, and returns the final state.
    /// Does not wait for another process that has locked the store or a table. Dropping does the
    /// same.
    #[must_use]
    pub fn stop(mut self) -> FollowState {
        self.end();
        self.state()
    }

    fn end(&mut self) {
        self.finish();
        self.shared.hurry.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end();
    }
}

fn follow(
    store: &Store,
    name: &str,
    ring: &Ring,
    options: FollowOptions,
    shared: &Shared,
    wait: &dyn Fn(Duration) -> bool,
) {
    let mut following = None;
    let mut retry = RETRY;
    loop {
        let ending = shared.ending.load(Relaxed);
        let done =
            attempt(&mut following, ending, shared, || Following::new(store, name, ring, options));
        let time = match done {
            Ok(time) => {
                retry = RETRY;
                time
            }
            Err(error) => {
                let mut state = shared.state();
                state.errors += 1;
                state.error = Some(error.to_string());
                retry = (retry * 2).min(RETRY_AT_LAST);
                retry
            }
        };
        if let Some(following) = &following {
            note(following, &mut shared.state());
        }
        if ending {
            return;
        }
        // If the follower is told to end during the wait, one more step follows.
        if wait(time) {
            shared.ending.store(true, Relaxed);
        }
    }
}

/// Inspects the ring. Does a step if one is due, or if this is the `last` attempt and the rows on
/// disk differ from the ring. Returns the time until the next inspection.
fn attempt(
    following: &mut Option<Following>,
    last: bool,
    shared: &Shared,
    begin: impl FnOnce() -> Result<Following, SaveError>,
) -> Result<Duration, SaveError> {
    let following = match following {
        Some(following) => following,
        none => none.insert(begin()?),
    };
    if last {
        following.notice();
    }
    let inspection = following.inspect();
    if inspection.due || (last && inspection.is_behind()) {
        note(following, &mut shared.state());
        following.step(&|| shared.hurry.load(Relaxed))?;
        let mut state = shared.state();
        state.steps += 1;
        state.error = None;
        return Ok(Duration::from_millis(1));
    }
    Ok(inspection.wait)
}

fn note(following: &Following, state: &mut FollowState) {
    state.rows_persisted = following.rows_persisted();
    state.rows_lapped = following.rows_lapped();
    state.rows_before = following.rows_before();
    state.rows_done = following.rows_done();
    (state.bytes_written, state.files_written) = following.written();
    state.behind_for = following.behind_for();
    state.left_out = following.left_out().iter().map(ToString::to_string).collect();
    state.rows_behind = following.rows_behind();
}
