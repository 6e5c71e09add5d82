//! Threads that share the work of one call after another.
//!
//! Starting a thread takes 50 µs, and so does waking one whose processor sleeps. The threads live
//! as long as the pool, and spin for a moment before they sleep.

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

use self::handoff::{HandoffWord, WorkerState};

/// Spins of a worker before it sleeps: 30 to 100 µs, so that a caller that calls again soon finds
/// it awake.
const LOOKS: u32 = 2_000;
/// Spins of a caller that waits for a worker, before it yields the processor.
const ENDS: u32 = 1_000;

/// Pool of threads, of which the caller is one. The first call starts the others; they end with the
/// pool.
///
/// A forked child has none of the threads of its parent: its first call starts its own.
#[derive(Debug)]
pub struct ThreadPool {
    threads: usize,
    workers: Vec<Worker>,
    /// Process whose threads the workers are.
    pid: u32,
}

#[derive(Debug)]
struct Worker {
    slot: Arc<WorkerSlot>,
    thread: JoinHandle<()>,
}

/// Work and result between a caller and a worker. Both cells are the worker's while the state is
/// `Busy`, else the caller's.
struct WorkerSlot {
    state: AtomicU32,
    work: UnsafeCell<Option<Work>>,
    /// Panic of the work.
    panic: UnsafeCell<Option<Panic>>,
}

/// Work borrowed from a caller that waits until no worker has it.
type Work = *const (dyn Fn() + Sync);
type Panic = Box<dyn Any + Send>;

// SAFETY: the hand-off lets one thread at a time access the cells. Their contents may go to another
// thread: the work is `Sync`, and the panic `Send`.
unsafe impl Sync for WorkerSlot {}
// SAFETY: as above.
unsafe impl Send for WorkerSlot {}

impl fmt::Debug for WorkerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerSlot").field(&self.load(Ordering::Relaxed)).finish()
    }
}

impl Clone for ThreadPool {
    /// Returns a new pool of as many threads, which shares none with this one.
    fn clone(&self) -> Self {
        Self::new(self.threads)
    }
}

impl ThreadPool {
    /// Returns a pool of `threads` threads, at least one. They are not started yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), workers: Vec::new(), pid: 0 }
    }

    /// Returns the number of threads of the pool, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` in all threads. `work` takes parts of a task until none is left, so a thread
    /// that is late may not run it. Returns when no thread runs it. If a thread cannot be started,
    /// the others do its part.
    ///
    /// Costs about 0.1 µs per thread right after another call, otherwise the wake-up of the
    /// threads.
    ///
    /// # Panics
    /// If `work` panics in any thread.
    pub fn work(&mut self, work: impl Fn() + Sync) {
        if self.threads == 1 {
            return work();
        }
        if self.pid != process::id() {
            // The threads belong to the parent process; this one has none to stop.
            mem::forget(mem::take(&mut self.workers));
            self.pid = process::id();
        }
        while self.workers.len() + 1 < self.threads {
            let Some(worker) = Worker::start() else { break };
            self.workers.push(worker);
        }
        let shared: &(dyn Fn() + Sync) = &work;
        // SAFETY: only the lifetime changes. `RunningCall` waits until no worker has the work, also
        // on unwinding.
        let shared: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(shared) };
        let called = RunningCall(&self.workers);
        for worker in called.0 {
            worker.call(shared);
        }
        work();
        if let Some(panic) = called.wait() {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let workers = mem::take(&mut self.workers);
        if self.pid != process::id() {
            return mem::forget(workers);
        }
        for Worker { slot, thread } in &workers {
            slot.store(WorkerState::Stopping, Ordering::Relaxed);
            thread.thread().unpark();
        }
        for worker in workers {
            // A worker catches every panic.
            let _ = worker.thread.join();
        }
    }
}

/// Workers that were assigned work, until none has it.
struct RunningCall<'a>(&'a [Worker]);

impl RunningCall<'_> {
    /// Waits for all workers. Returns the panic of one, if there was any.
    fn wait(&self) -> Option<Panic> {
        let mut panic = None;
        for worker in self.0 {
            panic = panic.or(worker.slot.wait());
        }
        panic
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Worker {
    fn start() -> Option<Self> {
        let slot = Arc::new(WorkerSlot {
            state: AtomicU32::new(WorkerState::Idle as u32),
            work: UnsafeCell::new(None),
            panic: UnsafeCell::new(None),
        });
        let its = Arc::clone(&slot);
        let thread = thread::Builder::new().name("backcast-worker".into());
        let thread = thread.spawn(move || its.serve()).ok()?;
        Some(Self { slot, thread })
    }

    fn call(&self, work: Work) {
        // SAFETY: the worker is idle, since every call of the pool waits for that, and `work`
        // borrows the pool mutably.
        unsafe { *self.slot.work.get() = Some(work) };
        handoff::assign(&*self.slot);
        self.thread.thread().unpark();
    }
}

impl WorkerSlot {
    /// Runs a worker thread.
    fn serve(&self) {
        let mut looks = 0;
        loop {
            match self.load(Ordering::Relaxed) {
                WorkerState::Stopping => return,
                WorkerState::Assigned => {
                    looks = 0;
                    if handoff::accept(self) {
                        // SAFETY: accepted work belongs to this worker until it is complete, and
                        // the caller waits for that.
                        unsafe {
                            if let Some(work) = *self.work.get() {
                                *self.panic.get() =
                                    catch_unwind(AssertUnwindSafe(|| (*work)())).err();
                            }
                        }
                        handoff::complete(self);
                    }
                }
                _ if looks < LOOKS => {
                    looks += 1;
                    spin_loop();
                }
                // An assignment after the load above ends the sleep.
                _ => thread::park(),
            }
        }
    }

    /// Waits until the worker does not have the work. Returns its panic, if there was one.
    fn wait(&self) -> Option<Panic> {
        if handoff::revoke(self) {
            return None;
        }
        let mut looks = 0;
        while !handoff::is_complete(self) {
            looks += 1;
            if looks < ENDS { spin_loop() } else { thread::yield_now() }
        }
        // SAFETY: the work is complete, so the cell is the caller's.
        unsafe { (*self.panic.get()).take() }
    }
}

impl HandoffWord for WorkerSlot {
    fn load(&self, order: Ordering) -> WorkerState {
        let state = self.state.load(order);
        let all = [WorkerState::Assigned, WorkerState::Busy, WorkerState::Stopping];
        all.into_iter().find(|one| *one as u32 == state).unwrap_or(WorkerState::Idle)
    }

    fn store(&self, state: WorkerState, order: Ordering) {
        self.state.store(state as u32, order);
    }

    fn change(&self, from: WorkerState, to: WorkerState, order: Ordering) -> bool {
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

    /// Sums numbers that threads take one by one.
    fn sum(pool: &mut ThreadPool, below: usize) -> usize {
        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool.work(|| {
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

    /// Returns the threads of a pool, which meet in a call. The caller comes first.
    fn who(pool: &mut ThreadPool) -> Vec<ThreadId> {
        let (ids, all) = (Mutex::new(vec![thread::current().id()]), Barrier::new(pool.threads()));
        pool.work(|| {
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
            let mut pool = ThreadPool::new(threads);
            for call in 0..5_000 {
                assert_eq!(sum(&mut pool, 10), 45, "call {call}");
            }
            assert_eq!(pool.workers.len(), threads.saturating_sub(1));
        }
    }

    #[test]
    fn the_same_threads_help_again() {
        let mut pool = ThreadPool::new(3);
        let [first, again] = [(); 2].map(|()| who(&mut pool).into_iter().collect::<HashSet<_>>());
        assert_eq!((first.len(), first), (3, again));
    }

    #[test]
    fn a_helper_that_sleeps_is_woken() {
        let mut pool = ThreadPool::new(2);
        for _ in 0..20 {
            assert_eq!(who(&mut pool).len(), 2);
            // More yields than a worker spins, and each takes longer.
            for _ in 0..2 * LOOKS {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_panic_in_any_thread_comes_to_the_caller_when_all_have_ended() {
        let mut pool = ThreadPool::new(2);
        let caller = thread::current().id();
        for of_caller in [true, false] {
            let both = Barrier::new(2);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                pool.work(|| {
                    both.wait();
                    assert!((thread::current().id() == caller) != of_caller, "it went wrong");
                });
            }));
            let panic = panicked.expect_err("one of them panicked");
            assert_eq!(panic.downcast_ref(), Some(&"it went wrong"));
            assert_eq!(sum(&mut pool, 10), 45, "the pool goes on");
        }
    }

    #[test]
    fn the_threads_of_another_process_are_left_alone() {
        let mut pool = ThreadPool::new(2);
        let parent = who(&mut pool);
        // A forked child has the list of its parent and another process id.
        pool.pid = 0;
        let child = who(&mut pool);
        assert_ne!(parent[1], child[1], "a thread of its own");
        pool.pid = 0;
        drop(pool);
    }
}
