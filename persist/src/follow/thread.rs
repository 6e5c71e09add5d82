//! A thread that follows a ring.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use backcast_core::Ring;

use super::following::Following;
use super::mode::{FollowOptions, Mode};
use crate::error::SaveError;
use crate::store::Store;

/// After an error it is tried again so soon, then after twice that, and so on.
const RETRY: Duration = Duration::from_millis(100);
/// Whether the one before has ended is looked at so often.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// At the latest after so long.
const RETRY_AT_LAST: Duration = Duration::from_secs(5);

/// How a ring that is followed stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowState {
    /// What is done.
    pub mode: Mode,
    /// Rows published that are not on disk.
    pub rows_behind: u64,
    /// How old the oldest of them may be.
    pub behind_for: Duration,
    /// Rows on disk, those included that were removed there since; of a ring that is saved every so
    /// often, those of the last snapshot.
    pub rows_persisted: u64,
    /// Rows that writers overwrote before they could be copied.
    pub rows_lapped: u64,
    /// Rows published before the ring was followed.
    pub rows_before: u64,
    /// Rows published that were dealt with: all but those behind.
    pub rows_done: u64,
    /// Bytes written by this thread.
    pub bytes_written: u64,
    /// Files written by this thread.
    pub files_written: u64,
    /// Steps that succeeded.
    pub steps: u64,
    /// Steps that did not.
    pub errors: u64,
    /// Why the last one did not; gone with the next that does.
    pub error: Option<String>,
}

/// A thread that follows a ring until it is stopped or dropped, whatever goes wrong meanwhile.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    // Dropped to end the thread.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<FollowState>,
    /// The thread is to end after one more step.
    ending: AtomicBool,
    /// Another process that changes the directory is not waited for any more.
    hurry: AtomicBool,
    /// The thread has done its last step.
    ended: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the thread has ended, however it does.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.store(true, Relaxed);
    }
}

impl Follower {
    /// Follows `ring` under `name`. What the store says of that name is read by the thread, and so
    /// is everything that goes wrong: see [`state`](Self::state).
    pub fn start(
        store: &Store,
        name: &str,
        ring: &Ring,
        options: FollowOptions,
    ) -> io::Result<Self> {
        Self::start_after(None, store, name, ring, options)
    }

    /// The same, once another one has ended that was told to [`finish`](Self::finish): a ring that is
    /// made anew is saved after what the one before it had.
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
                // `true`: it is time to end.
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

    /// How things stand.
    #[must_use]
    pub fn state(&self) -> FollowState {
        self.shared.state().clone()
    }

    /// Tells the thread to end once everything that is published is on disk, and does not wait for it.
    pub fn finish(&mut self) {
        self.shared.ending.store(true, Relaxed);
        self.wake = None;
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it once everything that is published is on disk, or could not be brought there. Another
    /// process that has the store is not waited for. Dropping it does the same.
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
        // Ends the wait at once, and there is one more step.
        if wait(time) {
            shared.ending.store(true, Relaxed);
        }
    }
}

/// Looks, and does what is due; everything, if it is the last time. Returns when to look again.
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
    let look = following.look();
    if look.due || (last && look.rows_behind > 0) {
        note(following, &mut shared.state());
        following.step(&|| shared.hurry.load(Relaxed))?;
        let mut state = shared.state();
        state.steps += 1;
        state.error = None;
        return Ok(Duration::from_millis(1));
    }
    Ok(look.wait)
}

fn note(following: &Following, state: &mut FollowState) {
    state.rows_persisted = following.rows_persisted();
    state.rows_lapped = following.rows_lapped();
    state.rows_before = following.rows_before();
    state.rows_done = following.rows_done();
    (state.bytes_written, state.files_written) = following.written();
    state.behind_for = following.behind_for();
    state.rows_behind = following.rows_behind();
}
