//! The thread that draws batches ahead: what it is given, what it sends, and what it leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle, Result as Joined};
use std::time::Duration;

use crate::error::SampleError;
use crate::sampler::Sampler;
use crate::sampler::batch::Memory;
use crate::sampler::plan::BatchPlan;

/// Makes memory to fill.
pub(super) type Make<M> = fn(&mut Sampler, usize) -> Result<M, SampleError>;

/// What the thread sends: a filled batch, or why it could not be filled, and its memory.
pub(super) type Drawn<M> = Result<M, (Option<M>, SampleError)>;

/// What the thread leaves behind: the sampler, and the memory that it was not given time to fill.
type Left<M> = (Box<Sampler>, Receiver<M>);

/// A thread that draws.
pub(super) struct Running<M> {
    drawn: Receiver<Drawn<M>>,
    empty: Sender<M>,
    /// Set when nobody wants another batch.
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Left<M>>,
}

impl<M: Memory> Running<M> {
    /// Starts it, to draw `left` batches at most; without a thread the sampler comes back.
    pub(super) fn start(
        sampler: Box<Sampler>,
        plan: Arc<BatchPlan>,
        make: Option<Make<M>>,
        left: Option<u64>,
        prefetch: usize,
    ) -> Result<Self, (Box<Sampler>, SampleError)> {
        let (filled, drawn) = sync_channel(prefetch.saturating_sub(1));
        let (empty, empties) = channel();
        let (hand_over, receive) = sync_channel::<Box<Sampler>>(1);
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut sampler = receive.recv().expect("handed over below");
            let memory = Supply { make, empties };
            run(&mut sampler, &plan, &memory, left, &stopped, &filled);
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

    /// The next batch, if it is there within the time.
    pub(super) fn next_within(&self, wait: Duration) -> Result<Drawn<M>, RecvTimeoutError> {
        self.drawn.recv_timeout(wait)
    }

    /// Gives it memory to fill; a thread that ended takes none.
    pub(super) fn give(&self, memory: M) -> Result<(), M> {
        self.empty.send(memory).map_err(|unsent| unsent.0)
    }

    /// Stops it after the batch that it is at, and waits for it; every memory that it has goes to `keep`.
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

/// Where the thread finds memory to fill.
struct Supply<M> {
    make: Option<Make<M>>,
    empties: Receiver<M>,
}

/// The thread's work: draw until nobody wants more, or a draw fails.
fn run<M: Memory>(
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
            // Not lost: it is handed back below, unfilled.
            let _ = filled.send(memory);
            return;
        }
        let drawn = memory.and_then(|memory| draw(sampler, plan, memory));
        let failed = drawn.is_err();
        if filled.send(drawn).is_err() || failed {
            return;
        }
    }
}

/// Fills memory with the next batch.
pub(super) fn draw<M: Memory>(sampler: &mut Sampler, plan: &BatchPlan, mut memory: M) -> Drawn<M> {
    match sampler.sample_into(plan, &mut memory.buffers()) {
        Ok(()) => Ok(memory),
        Err(error) => Err((Some(memory), error)),
    }
}
