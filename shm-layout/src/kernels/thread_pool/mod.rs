//! Threads that share the work of one call after the other: a team, as OpenMP calls it.
//!
//! Starting a thread takes 50 µs, and so does waking one whose processor sleeps. A team's threads live as long as
//! the team, and look for the next call for a moment before they sleep.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::hint::spin_loop;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

pub mod handoff;

use self::handoff::{Post, State};

/// Looks for a call before a helper sleeps: 30 to 100 µs, so that who calls again at once finds it awake.
const LOOKS: u32 = 2_000;
/// Looks for the end of a helper's work before its caller lets others run.
const ENDS: u32 = 1_000;

/// So many threads, the caller's own among them. The first call starts the others; they end with the team.
///
/// A forked child has none of its parent's threads: its first call starts its own.
#[derive(Debug)]
pub struct ThreadTeam {
    threads: usize,
    helpers: Vec<Helper>,
    /// The process whose threads the helpers are.
    pid: u32,
}

#[derive(Debug)]
struct Helper {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
}

/// What stands between a caller and a helper. Both cells are the helper's while it is `Busy`, else the caller's.
struct Desk {
    state: AtomicU32,
    work: UnsafeCell<Option<Work>>,
    /// What the work panicked with.
    panic: UnsafeCell<Option<Panic>>,
}

/// Of a caller who waits until nobody has it any more.
type Work = *const (dyn Fn() + Sync);
type Panic = Box<dyn Any + Send>;

// SAFETY: one thread at a time has what is in the cells, as the hand-off says. What they hold may go to another one:
// the work is `Sync`, and what it panicked with `Send`.
unsafe impl Sync for Desk {}
// SAFETY: as above.
unsafe impl Send for Desk {}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Desk").field(&self.load(Ordering::Relaxed)).finish()
    }
}

impl ThreadTeam {
    /// A team of so many threads, which are not started yet; of one, if there are to be none.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), helpers: Vec::new(), pid: 0 }
    }

    /// How many threads it is to have.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Does the work in all threads at once. Each calls `work` once, but for those that are late: it takes parts of what is
    /// to be done until none is left. Returns when nobody has it any more. Where a thread cannot be had, the others do
    /// it.
    ///
    /// Costs about 0.1 µs per thread right after another call, and the wake-up of a thread otherwise.
    ///
    /// # Panics
    /// If `work` does, in any thread.
    pub fn work(&mut self, work: impl Fn() + Sync) {
        if self.threads == 1 {
            return work();
        }
        if self.pid != process::id() {
            // A parent's threads: there is nobody to dismiss.
            mem::forget(mem::take(&mut self.helpers));
            self.pid = process::id();
        }
        while self.helpers.len() + 1 < self.threads {
            let Some(helper) = Helper::start() else { break };
            self.helpers.push(helper);
        }
        let shared: &(dyn Fn() + Sync) = &work;
        // SAFETY: nothing but the lifetime changes. `Called` waits until no helper has the work, also where this unwinds.
        let shared: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(shared) };
        let called = Called(&self.helpers);
        for helper in called.0 {
            helper.call(shared);
        }
        work();
        if let Some(panic) = called.wait() {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadTeam {
    fn drop(&mut self) {
        let helpers = mem::take(&mut self.helpers);
        if self.pid != process::id() {
            return mem::forget(helpers);
        }
        for Helper { desk, thread } in &helpers {
            desk.store(State::Dismissed, Ordering::Relaxed);
            thread.thread().unpark();
        }
        for helper in helpers {
            // It panics nowhere.
            let _ = helper.thread.join();
        }
    }
}

/// Helpers that were called, until none of them has the work any more.
struct Called<'a>(&'a [Helper]);

impl Called<'_> {
    /// Waits for all; what the work of one panicked with, if it did.
    fn wait(&self) -> Option<Panic> {
        let mut panic = None;
        for helper in self.0 {
            panic = panic.or(helper.desk.wait());
        }
        panic
    }
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Helper {
    fn start() -> Option<Self> {
        let desk = Arc::new(Desk {
            state: AtomicU32::new(State::Idle as u32),
            work: UnsafeCell::new(None),
            panic: UnsafeCell::new(None),
        });
        let its = Arc::clone(&desk);
        let thread = thread::Builder::new().name("backcast-helper".into());
        let thread = thread.spawn(move || its.serve()).ok()?;
        Some(Self { desk, thread })
    }

    fn call(&self, work: Work) {
        // SAFETY: it is idle, as every call waits for that, and the team is its caller's alone.
        unsafe { *self.desk.work.get() = Some(work) };
        handoff::call(&*self.desk);
        self.thread.thread().unpark();
    }
}

impl Desk {
    /// A helper's life.
    fn serve(&self) {
        let mut looks = 0;
        loop {
            match self.load(Ordering::Relaxed) {
                State::Dismissed => return,
                State::Called => {
                    looks = 0;
                    if handoff::take(self) {
                        // SAFETY: what was taken up is ours until it is done, for which the caller waits.
                        unsafe {
                            if let Some(work) = *self.work.get() {
                                *self.panic.get() =
                                    catch_unwind(AssertUnwindSafe(|| (*work)())).err();
                            }
                        }
                        handoff::done(self);
                    }
                }
                _ if looks < LOOKS => {
                    looks += 1;
                    spin_loop();
                }
                // Woken by every call since the last look.
                _ => thread::park(),
            }
        }
    }

    /// Waits until the helper does not have the work; what it panicked with, if it did.
    fn wait(&self) -> Option<Panic> {
        if handoff::back(self) {
            return None;
        }
        let mut looks = 0;
        while !handoff::is_over(self) {
            looks += 1;
            if looks < ENDS { spin_loop() } else { thread::yield_now() }
        }
        // SAFETY: it is over.
        unsafe { (*self.panic.get()).take() }
    }
}

impl Post for Desk {
    fn load(&self, order: Ordering) -> State {
        let state = self.state.load(order);
        let all = [State::Called, State::Busy, State::Dismissed];
        all.into_iter().find(|one| *one as u32 == state).unwrap_or(State::Idle)
    }

    fn store(&self, state: State, order: Ordering) {
        self.state.store(state as u32, order);
    }

    fn change(&self, from: State, to: State, order: Ordering) -> bool {
        let (from, to) = (from as u32, to as u32);
        self.state.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Barrier, Mutex};
    use std::thread::ThreadId;

    use Ordering::SeqCst;

    /// Adds up numbers that threads take one by one.
    fn sum(team: &mut ThreadTeam, below: usize) -> usize {
        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        team.work(|| {
            loop {
                let number = next.fetch_add(1, SeqCst);
                if number >= below {
                    break;
                }
                sum.fetch_add(number, SeqCst);
            }
        });
        sum.into_inner()
    }

    /// All threads of a team, which meet each other in a call; the caller's is the first.
    fn who(team: &mut ThreadTeam) -> Vec<ThreadId> {
        let (ids, all) = (Mutex::new(vec![thread::current().id()]), Barrier::new(team.threads()));
        team.work(|| {
            let id = thread::current().id();
            let mut ids = ids.lock().unwrap();
            if !ids.contains(&id) {
                ids.push(id);
            }
            drop(ids);
            all.wait();
        });
        ids.into_inner().unwrap()
    }

    #[test]
    fn call_after_call_all_of_the_work_is_done() {
        for threads in 0..5 {
            let mut team = ThreadTeam::new(threads);
            for call in 0..5_000 {
                assert_eq!(sum(&mut team, 10), 45, "call {call}");
            }
            assert_eq!(team.helpers.len(), threads.saturating_sub(1));
        }
    }

    #[test]
    fn the_same_threads_help_again() {
        let mut team = ThreadTeam::new(3);
        let [first, again] = [(); 2].map(|()| who(&mut team).into_iter().collect::<HashSet<_>>());
        assert_eq!((first.len(), first), (3, again));
    }

    #[test]
    fn a_helper_that_sleeps_is_woken() {
        let mut team = ThreadTeam::new(2);
        for _ in 0..20 {
            assert_eq!(who(&mut team).len(), 2);
            // More than it looks, and each takes longer.
            for _ in 0..2 * LOOKS {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_panic_in_any_thread_comes_to_the_caller_when_all_have_ended() {
        let mut team = ThreadTeam::new(2);
        let caller = thread::current().id();
        for of_caller in [true, false] {
            let both = Barrier::new(2);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                team.work(|| {
                    both.wait();
                    assert!((thread::current().id() == caller) != of_caller, "it went wrong");
                });
            }));
            let panic = panicked.expect_err("one of them panicked");
            assert_eq!(panic.downcast_ref(), Some(&"it went wrong"));
            assert_eq!(sum(&mut team, 10), 45, "the team goes on");
        }
    }

    #[test]
    fn the_threads_of_another_process_are_left_alone() {
        let mut team = ThreadTeam::new(2);
        let parent = who(&mut team);
        // What a forked child has: its parent's list and another number.
        team.pid = 0;
        let child = who(&mut team);
        assert_ne!(parent[1], child[1], "a thread of its own");
        team.pid = 0;
        drop(team);
    }
}
