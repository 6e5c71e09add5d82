//! The thread that draws batches ahead, and its channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle, Result as Joined};
use std::time::Duration;

use crate::error::SampleError;
use crate::sampler::Sampler;
use crate::sampler::batch::BatchBuffers;
use crate::sampler::plan::BatchPlan;
use crate::sampler::prefetcher::waits::PendingReport;
use crate::wait::{Interrupt, WaitStart};

/// Function that allocates memory to fill.
pub(super) type Make<M> = fn(&mut Sampler, usize) -> Result<M, SampleError>;

/// Message of the thread: a filled batch, or its memory and why it could not be filled.
pub(super) type Drawn<M> = Result<M, (Option<M>, SampleError)>;

/// Return value of the thread: the sampler, and the memory that it did not fill.
type Left<M> = (Box<Sampler>, Receiver<M>);

/// A running thread, and its channels.
pub(super) struct Running<M> {
    drawn: Receiver<Drawn<M>>,
    empty: Sender<M>,
    /// Set to end the thread.
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Left<M>>,
}

impl<M: BatchBuffers> Running<M> {
    /// Starts the thread, which draws at most `left` batches. Returns the sampler if it does not
    /// start.
    pub(super) fn start(
        sampler: Box<Sampler>,
        plan: Arc<BatchPlan>,
        make: Option<Make<M>>,
        left: Option<u64>,
        prefetch: usize,
        report: &Arc<PendingReport>,
    ) -> Result<Self, (Box<Sampler>, SampleError)> {
        let (filled, drawn) = sync_channel(prefetch.saturating_sub(1));
        let (empty, empties) = channel();
        let (hand_over, receive) = sync_channel::<Box<Sampler>>(1);
        let stop = Arc::<AtomicBool>::default();
        let (stopped, pending) = (Arc::clone(&stop), Arc::clone(report));
        let work = move || {
            let mut sampler = receive.recv().expect("handed over below");
            let memory = Supply { make, empties };
            let stops = Arc::clone(&stopped);
            // The ring's interrupt may run only in the threads of its user, so replace it here.
            let of_ring = sampler.ring().interrupt().clone();
            sampler.set_interrupt(Interrupt::told(move |report| {
                pending.put(report);
                stops.load(Relaxed)
            }));
            run(&mut sampler, &plan, &memory, left, &stopped, &filled);
            sampler.set_interrupt(of_ring);
            (sampler, memory.empties)
        };
        match Builder::new().name("backcast-batches".to_owned()).spawn(work) {
            Ok(thread) => {
                let _ = hand_over.send(sampler);
                Ok(Self { drawn, empty, stop, thread })
            }
            Err(error) => Err((sampler, SampleError::Thread(error))),
        }
    }

    /// Waits at most `wait` for the next batch.
    pub(super) fn next_within(&self, wait: Duration) -> Result<Drawn<M>, RecvTimeoutError> {
        self.drawn.recv_timeout(wait)
    }

    /// Gives the thread memory to fill. Returns the memory if the thread has ended.
    pub(super) fn give(&self, memory: M) -> Result<(), M> {
        self.empty.send(memory).map_err(|unsent| unsent.0)
    }

    /// Stops the thread after its current batch and waits for it; a wait of the thread ends within
    /// 50 ms. Passes all memory that it has to `keep`.
    pub(super) fn stop(self, mut keep: impl FnMut(M)) -> Joined<Box<Sampler>> {
        let Self { drawn, empty, stop, thread } = self;
        // ORDERING: relaxed; a batch more or less is drawn, and joining orders the rest.
        stop.store(true, Relaxed);
        drop(empty);
        drawn
            .into_iter()
            .filter_map(|drawn| drawn.map_or_else(|(memory, _)| memory, Some))
            .for_each(&mut keep);
        let (sampler, empties) = thread.join()?;
        empties.into_iter().for_each(keep);
        Ok(sampler)
    }
}

/// Source of memory to fill.
struct Supply<M> {
    make: Option<Make<M>>,
    empties: Receiver<M>,
}

/// Draws until it is stopped, or a draw fails.
fn run<M: BatchBuffers>(
    sampler: &mut Sampler,
    plan: &BatchPlan,
    supply: &Supply<M>,
    left: Option<u64>,
    stop: &AtomicBool,
    filled: &SyncSender<Drawn<M>>,
) {
    for _ in 0..left.unwrap_or(u64::MAX) {
        let memory = match supply.make {
            Some(make) => make(sampler, plan.batch()).map_err(|error| (None, error)),
            None => match supply.empties.recv() {
                Ok(memory) => Ok(memory),
                Err(_) => return,
            },
        };
        if stop.load(Relaxed) {
            // The memory is sent back unfilled.
            let _ = filled.send(memory);
            return;
        }
        let drawn = memory.and_then(|memory| draw(sampler, plan, memory, None));
        let failed = drawn.is_err();
        if filled.send(drawn).is_err() || failed {
            return;
        }
    }
}

/// Fills memory with the next batch. A wait that continues an earlier one began at `since`.
pub(super) fn draw<M: BatchBuffers>(
    sampler: &mut Sampler,
    plan: &BatchPlan,
    mut memory: M,
    since: Option<WaitStart>,
) -> Drawn<M> {
    match sampler.sample_into_since(plan, &mut memory.buffers(), since) {
        Ok(()) => Ok(memory),
        Err(error) => Err((Some(memory), error)),
    }
}
