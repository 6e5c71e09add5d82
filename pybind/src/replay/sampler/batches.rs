//! `backcast.types.Batches`: an iterator over batches that a thread draws ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use backcast_core::{
    Batch as CoreBatch, Batches as CoreBatches, BatchesOptions, Ring, SampleError,
    Sampler as CoreSampler, SamplerState,
};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::no_constructor;
use crate::array::view::LentArrays;
use crate::error::{ErrorClass, Failure, on_drop, signals};
use crate::handle::Handle;
use crate::replay::sampler::SharedSampler;
use crate::replay::sampler::batch::{memory_of, to_python};
use crate::warning::warn_unlinked;

/// Interval between two checks for signals.
const WAIT: Duration = Duration::from_millis(20);

/// Sampler that draws ahead.
pub(crate) enum Prefetcher {
    /// Draws into new memory.
    Fresh(CoreBatches<CoreBatch>),
    /// Draws into a few batches in turn; holds those that the caller has.
    Cycle(CoreBatches<LentArrays>, HeldBatches),
}

/// Batches that the caller has, and who says that they can be filled again.
pub(crate) enum HeldBatches {
    /// The next call fills the one that was returned last.
    Last(Option<LentArrays>),
    /// The caller gives each back.
    Any(Vec<LentArrays>),
}

impl HeldBatches {
    /// Takes those that the next call can fill.
    fn take_last(&mut self) -> Option<LentArrays> {
        match self {
            Self::Last(held) => held.take(),
            Self::Any(_) => None,
        }
    }

    /// Takes batch `number` back from the caller, if the caller has it.
    fn take(&mut self, number: usize) -> Option<LentArrays> {
        let Self::Any(held) = self else { return None };
        let at = held.iter().position(|held| held.number == number)?;
        Some(held.swap_remove(at))
    }

    /// Holds a batch that the caller gets. Returns its number.
    fn hold(&mut self, lent: LentArrays) -> usize {
        let number = lent.number;
        match self {
            Self::Last(held) => *held = Some(lent),
            Self::Any(held) => held.push(lent),
        }
        number
    }
}

/// Batch that the thread has drawn.
enum Drawn {
    Fresh(Box<CoreBatch>),
    /// Number of the batch that was filled.
    Again(usize),
}

/// Result of looking for a batch.
struct Looked {
    found: Poll<Option<Result<Drawn, SampleError>>>,
    /// Number of the batch.
    number: u64,
    /// Report of a long wait.
    report: Option<String>,
    /// Ring that was found to have lost its name.
    unlinked: Option<Ring>,
}

impl Prefetcher {
    fn poll(&mut self, wait: Duration) -> Poll<Option<Result<Drawn, SampleError>>> {
        match self {
            Self::Fresh(batches) => batches
                .next_within(wait)
                .map(|next| next.map(|drawn| drawn.map(|batch| Drawn::Fresh(Box::new(batch))))),
            Self::Cycle(batches, held) => {
                if let Some(over) = held.take_last() {
                    batches.refill(over);
                }
                batches
                    .next_within(wait)
                    .map(|next| next.map(|drawn| drawn.map(|lent| Drawn::Again(held.hold(lent)))))
            }
        }
    }

    fn next_batch(&self) -> u64 {
        match self {
            Self::Fresh(batches) => batches.next_batch(),
            Self::Cycle(batches, _) => batches.next_batch(),
        }
    }

    /// Takes back batch `number` if it was returned last, so that it is drawn again. Returns
    /// whether it was.
    fn take_back(&mut self, number: u64) -> bool {
        match self {
            Self::Fresh(batches) => batches.take_back(number),
            Self::Cycle(batches, _) => batches.take_back(number),
        }
    }

    /// Fills batch `number` again, which the caller gives back.
    fn refill(&mut self, number: usize) {
        if let Self::Cycle(batches, held) = self
            && let Some(over) = held.take(number)
        {
            batches.refill(over);
        }
    }

    /// Counts the batch that was returned last as not used yet, if the caller says when it is.
    fn count_unused(&mut self) {
        if let Self::Cycle(batches, HeldBatches::Any(_)) = self {
            batches.set_unused(batches.unused() + 1);
        }
    }

    /// Counts the oldest unused batch as used.
    fn use_oldest(&mut self) {
        if let Self::Cycle(batches, _) = self {
            batches.set_unused(batches.unused().saturating_sub(1));
        }
    }

    fn sampled(&self) -> u64 {
        match self {
            Self::Fresh(batches) => batches.sampled(),
            Self::Cycle(batches, _) => batches.sampled(),
        }
    }

    /// Returns the number of the next batch to be returned, or of the first unused one.
    pub(crate) fn next_unused(&self) -> u64 {
        match self {
            Self::Fresh(batches) => batches.next_batch().wrapping_sub(batches.unused()),
            Self::Cycle(batches, _) => batches.next_batch().wrapping_sub(batches.unused()),
        }
    }

    pub(crate) fn state(&self) -> SamplerState {
        match self {
            Self::Fresh(batches) => batches.state(),
            Self::Cycle(batches, _) => batches.state(),
        }
    }

    /// Returns the report of a wait of more than 10 s, once.
    fn take_report(&self) -> Option<String> {
        match self {
            Self::Fresh(batches) => batches.take_report(),
            Self::Cycle(batches, _) => batches.take_report(),
        }
    }

    fn ring(&self) -> &Ring {
        match self {
            Self::Fresh(batches) => batches.ring(),
            Self::Cycle(batches, _) => batches.ring(),
        }
    }

    /// Stops the thread. Releases the arrays with the interpreter held.
    pub(crate) fn stop(self, py: Python<'_>) -> CoreSampler {
        match self {
            Self::Fresh(batches) => py.detach(|| batches.into_sampler()),
            Self::Cycle(batches, _held) => py.detach(|| batches.into_parts()).0,
        }
    }
}

/// An iterator over a sampler's batches, which a thread draws ahead.
///
/// Made by :meth:`backcast.Sampler.batches`; a context manager. It ends at its limit; closing or
/// dropping it stops the thread and gives the sampler back. It cannot be used in a forked child.
#[pyclass(module = "backcast.types", name = "Batches", frozen)]
pub(crate) struct Batches {
    ahead: Arc<Handle<Prefetcher>>,
    draws: Arc<SharedSampler>,
    /// Batches that are filled in turn.
    cycle: Vec<Py<PyDict>>,
    /// Whether the caller applies `transform` and gives each batch back.
    by_caller: bool,
    /// Set at the end of the iterator, before it is closed.
    ended: AtomicBool,
}

impl Batches {
    /// Lends the sampler to a new iterator, which fills `memory` batches in turn if that is given.
    /// The first `next` starts the thread.
    pub(crate) fn new(
        py: Python<'_>,
        draws: &Arc<SharedSampler>,
        batch: usize,
        options: BatchesOptions,
        memory: Option<usize>,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let cycle = draws.blanks(py, batch, memory.unwrap_or(0))?;
        let mut lent = Vec::new();
        for (number, blank) in cycle.iter().enumerate() {
            if let Some(memory) = memory_of(blank.as_any())? {
                let mut memory = memory.get().lend(py)?;
                memory.number = number;
                lent.push(memory);
            }
        }
        let ahead = py.detach(|| {
            draws.lend(|mut sampler| {
                sampler.set_timeout(timeout);
                if memory.is_none() {
                    return sampler.try_batches(batch, options).map(Prefetcher::Fresh);
                }
                let batches = sampler.try_batches_over(batch, lent, options);
                batches.map(|batches| Prefetcher::Cycle(batches, HeldBatches::Last(None)))
            })
        })?;
        let cycle = cycle.into_iter().map(Bound::unbind).collect();
        let (draws, ended) = (Arc::clone(draws), AtomicBool::new(false));
        Ok(Self { ahead, draws, cycle, by_caller: false, ended })
    }

    /// Lends the sampler to a new iterator that fills dicts of arrays of the caller. It draws all
    /// of them ahead, and fills each again only after the caller gave it back.
    pub(crate) fn into_memory(
        py: Python<'_>,
        draws: &Arc<SharedSampler>,
        batch: usize,
        memory: Vec<Bound<'_, PyDict>>,
        options: BatchesOptions,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let lent = draws.lend_arrays(py, batch, &memory)?;
        let options = options.unused(lent.len());
        let ahead = py.detach(|| {
            draws.lend(|mut sampler| {
                sampler.set_timeout(timeout);
                let batches = sampler.try_batches_over(batch, lent, options);
                batches.map(|batches| Prefetcher::Cycle(batches, HeldBatches::Any(Vec::new())))
            })
        })?;
        let cycle = memory.into_iter().map(Bound::unbind).collect();
        let (draws, ended) = (Arc::clone(draws), AtomicBool::new(false));
        Ok(Self { ahead, draws, cycle, by_caller: true, ended })
    }

    /// Passes what was drawn to the caller's functions, and warns of a ring that lost its name.
    fn received<'py>(
        &self,
        py: Python<'py>,
        drawn: Drawn,
        unlinked: Option<&Ring>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        if let Some(ring) = unlinked {
            warn_unlinked(py, ring)?;
        }
        let batch = match drawn {
            Drawn::Fresh(batch) => to_python(py, *batch)?,
            Drawn::Again(number) => {
                let batch = self.cycle[number].bind(py).clone();
                if let Some(memory) = memory_of(batch.as_any())? {
                    memory.get().restore(&batch)?;
                }
                batch
            }
        };
        if self.by_caller {
            self.draws.hooks.store_rewards(&batch)?;
            return Ok(batch.into_any());
        }
        self.draws.hooks.apply(batch, true)
    }

    /// Takes back a batch that the caller did not get. Does nothing if the iterator was closed, or
    /// has returned another batch meanwhile.
    fn take_back(&self, number: u64) {
        let _ = self.ahead.with_uninterrupted(|ahead| {
            ahead.take_back(number);
            self.draws.set_under_way(ahead.next_unused());
            Ok(())
        });
    }

    /// Looks for the next batch, for at most `wait`.
    fn look(&self, py: Python<'_>, wait: Duration) -> Result<Looked, Failure> {
        py.detach(|| {
            self.ahead.with(|ahead| {
                let number = ahead.next_batch();
                let found = ahead.poll(wait);
                if let Poll::Ready(Some(Ok(_))) = found {
                    ahead.count_unused();
                }
                self.draws.set_under_way(ahead.next_unused());
                let report = if found.is_pending() { ahead.take_report() } else { None };
                let ring = ahead.ring();
                let unlinked = ring.take_unlinked().then(|| ring.clone());
                Ok(Looked { found, number, report, unlinked })
            })
        })
    }

    /// Hands a batch out. Takes it back if a function of the caller fails.
    fn hand_out<'py>(
        &self,
        py: Python<'py>,
        drawn: Drawn,
        number: u64,
        unlinked: Option<&Ring>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let received = self.received(py, drawn, unlinked);
        if received.is_err() {
            py.detach(|| self.take_back(number));
        }
        received
    }

    /// Stops the thread and gives the sampler back.
    fn finish(&self, py: Python<'_>) -> Result<(), Failure> {
        let ahead = py.detach(|| self.ahead.take())?;
        self.give_back(py, ahead);
        Ok(())
    }

    fn give_back(&self, py: Python<'_>, ahead: Option<Prefetcher>) {
        if let Some(ahead) = ahead {
            let sampler = ahead.stop(py);
            py.detach(|| self.draws.take_back(sampler));
        }
    }
}

#[exact_arguments]
#[pymethods]
impl Batches {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Batches", "call buf.sampler(...).batches(batch_size, prefetch=2)"))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        loop {
            let Looked { found, number, report, unlinked } = match self.look(py, WAIT) {
                // The iterator has ended, perhaps in another thread, which closed it.
                Err(_) if self.ended.load(Ordering::Relaxed) => return Ok(None),
                looked => looked?,
            };
            if let Poll::Ready(Some(Ok(drawn))) = found {
                return self.hand_out(py, drawn, number, unlinked.as_ref()).map(Some);
            }
            if let Some(ring) = unlinked {
                warn_unlinked(py, &ring)?;
            }
            match found {
                Poll::Pending => signals::listen(py, report.as_deref())?,
                Poll::Ready(None) => {
                    self.ended.store(true, Ordering::Relaxed);
                    self.finish(py)?;
                    return Ok(None);
                }
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                Poll::Ready(Some(Ok(_))) => {}
            }
        }
    }

    /// Return the next batch if the thread has drawn it, else None; None after the last one too.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn _next_ready<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let Looked { found, number, unlinked, .. } = self.look(py, Duration::ZERO)?;
        if let Poll::Ready(Some(Ok(drawn))) = found {
            return self.hand_out(py, drawn, number, unlinked.as_ref()).map(Some);
        }
        if let Some(ring) = unlinked {
            warn_unlinked(py, &ring)?;
        }
        match found {
            Poll::Ready(Some(Err(error))) => Err(error.into()),
            _ => Ok(None),
        }
    }

    /// Give back dict number `place`, which the thread fills again.
    #[pyo3(signature = (place), text_signature = "($self, place)")]
    fn _refill(&self, py: Python<'_>, place: usize) -> Result<(), Failure> {
        py.detach(|| {
            self.ahead.with_uninterrupted(|ahead| {
                ahead.refill(place);
                Ok(())
            })
        })
    }

    /// Count the oldest batch that was returned, and not used yet, as used. The sampler draws those
    /// that are not used again after the iterator.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn _use_oldest(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| {
            self.ahead.with_uninterrupted(|ahead| {
                ahead.use_oldest();
                Ok(())
            })
        })
    }

    /// Stop the thread after its current batch, and give the sampler back.
    ///
    /// Batches that were returned stay valid. The sampler draws those that were drawn ahead again.
    /// Closing again does nothing.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.finish(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.finish(py)
    }

    fn __repr__(&self) -> String {
        let state = self.ahead.describe(|ahead| format!("{} transitions drawn", ahead.sampled()));
        format!("<backcast.types.Batches: {}, {state}>", self.ahead.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        let label = self.ahead.label();
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!("{label} cannot be pickled or copied; pickle the ReplayBuffer instead"),
        ))
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // `on_drop` does nothing at interpreter shutdown, when the threads end with the process.
        on_drop(|py| {
            let ahead = py.detach(|| self.ahead.take_uninterrupted());
            self.give_back(py, ahead);
        });
    }
}
