//! `backcast.Batches`: a sampler's batches, drawn ahead by a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use backcast_core::{
    Batch as CoreBatch, Batches as CoreBatches, BatchesOptions, Ring, SampleError,
    Sampler as CoreSampler, SamplerState,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::batch::{memory_of, to_python};
use crate::error::{Failure, Kind, let_go};
use crate::given::{method, not_called, refuse_strangers};
use crate::handle::Handle;
use crate::held::warn_unlinked;
use crate::sampler::Draws;
use crate::view::Lent;

/// Between two looks at signals.
const WAIT: Duration = Duration::from_millis(20);

/// A sampler that draws ahead.
pub(crate) enum Ahead {
    /// Into new memory.
    Fresh(CoreBatches<CoreBatch>),
    /// Into the memory of a few batches in turn, and the one that the caller has.
    Cycle(CoreBatches<Lent>, Option<Lent>),
}

/// What a look at the thread brings.
enum Drawn {
    Fresh(Box<CoreBatch>),
    /// The number of the batch that was filled.
    Again(usize),
}

impl Ahead {
    fn poll(&mut self) -> Poll<Option<Result<Drawn, SampleError>>> {
        match self {
            Self::Fresh(batches) => batches
                .next_within(WAIT)
                .map(|next| next.map(|drawn| drawn.map(|batch| Drawn::Fresh(Box::new(batch))))),
            Self::Cycle(batches, held) => {
                if let Some(over) = held.take() {
                    batches.refill(over);
                }
                batches.next_within(WAIT).map(|next| {
                    next.map(|drawn| drawn.map(|lent| Drawn::Again(held.insert(lent).number)))
                })
            }
        }
    }

    pub(crate) fn sampled(&self) -> u64 {
        match self {
            Self::Fresh(batches) => batches.sampled(),
            Self::Cycle(batches, _) => batches.sampled(),
        }
    }

    pub(crate) fn state(&self) -> SamplerState {
        match self {
            Self::Fresh(batches) => batches.state(),
            Self::Cycle(batches, _) => batches.state(),
        }
    }

    pub(crate) fn lapped(&self) -> u64 {
        match self {
            Self::Fresh(batches) => batches.lapped(),
            Self::Cycle(batches, _) => batches.lapped(),
        }
    }

    fn ring(&self) -> &Ring {
        match self {
            Self::Fresh(batches) => batches.ring(),
            Self::Cycle(batches, _) => batches.ring(),
        }
    }

    /// Stops the thread. What was lent for filling is given back with the interpreter held.
    pub(crate) fn stop(self, py: Python<'_>) -> CoreSampler {
        match self {
            Self::Fresh(batches) => py.detach(|| batches.into_sampler()),
            Self::Cycle(batches, _held) => py.detach(|| batches.into_parts()).0,
        }
    }
}

/// An iterator over a sampler's batches, which a thread draws ahead.
///
/// Made by :meth:`Sampler.batches`; a context manager. It ends at its limit; closing it, or letting
/// go of it, stops the thread and gives the sampler back. In a forked child it is void.
#[pyclass(module = "backcast", name = "Batches", frozen)]
pub(crate) struct Batches {
    ahead: Arc<Handle<Ahead>>,
    draws: Arc<Draws>,
    /// The batches that are filled in turn.
    cycle: Vec<Py<PyDict>>,
    /// Set before the end closes it.
    ended: AtomicBool,
}

impl Batches {
    /// Draws ahead with the sampler of `draws`; in turn into `memory` batches, if that is given.
    pub(crate) fn new(
        py: Python<'_>,
        draws: &Arc<Draws>,
        batch: usize,
        options: BatchesOptions,
        memory: Option<usize>,
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
            draws.lend(|sampler| {
                Ok(match memory {
                    None => Ahead::Fresh(sampler.batches(batch, options)?),
                    Some(_) => Ahead::Cycle(sampler.batches_over(batch, lent, options)?, None),
                })
            })
        })?;
        let cycle = cycle.into_iter().map(Bound::unbind).collect();
        Ok(Self { ahead, draws: Arc::clone(draws), cycle, ended: AtomicBool::new(false) })
    }

    /// Stops the thread and gives the sampler back.
    fn finish(&self, py: Python<'_>) -> Result<(), Failure> {
        let ahead = py.detach(|| self.ahead.take())?;
        self.give_back(py, ahead);
        Ok(())
    }

    fn give_back(&self, py: Python<'_>, ahead: Option<Ahead>) {
        if let Some(ahead) = ahead {
            let sampler = ahead.stop(py);
            py.detach(|| self.draws.take_back(sampler));
        }
    }
}

#[pymethods]
impl Batches {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(not_called("Batches", "call buf.sampler(...).batches(batch_size, prefetch=2)"))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyDict>>, Failure> {
        loop {
            let look = |ahead: &mut Ahead| {
                let looked = ahead.poll();
                let ring = ahead.ring();
                Ok((looked, ring.take_unlinked().then(|| ring.clone())))
            };
            let (looked, unlinked) = match py.detach(|| self.ahead.with(look)) {
                // Closed by its end, which another thread may have come to.
                // ORDERING: relaxed; set before the handle was closed, whose lock orders the two.
                Err(_) if self.ended.load(Ordering::Relaxed) => return Ok(None),
                looked => looked?,
            };
            if let Some(ring) = unlinked {
                warn_unlinked(py, &ring)?;
            }
            match looked {
                Poll::Pending => py.check_signals()?,
                Poll::Ready(None) => {
                    self.ended.store(true, Ordering::Relaxed);
                    self.finish(py)?;
                    return Ok(None);
                }
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                Poll::Ready(Some(Ok(Drawn::Fresh(batch)))) => {
                    return Ok(Some(to_python(py, *batch)?));
                }
                Poll::Ready(Some(Ok(Drawn::Again(number)))) => {
                    let batch = self.cycle[number].bind(py).clone();
                    if let Some(memory) = memory_of(batch.as_any())? {
                        memory.get().restore(&batch)?;
                    }
                    return Ok(Some(batch));
                }
            }
        }
    }

    /// Stop the thread, after the batch that it is at, and give the sampler back.
    ///
    /// Batches that were returned stay; those drawn ahead are drawn again by whoever comes next.
    /// Closing again does nothing.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn close<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("close"))?;
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
        format!("<backcast.Batches: {}, {state}>", self.ahead.label())
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        let label = self.ahead.label();
        Err(Failure::new(
            Kind::ArgumentType,
            format!("{label} cannot be pickled or copied; pickle the ReplayBuffer instead"),
        ))
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // Not once the interpreter is going: the process ends, and its threads with it.
        let_go(|py| {
            let ahead = py.detach(|| self.ahead.take_surely());
            self.give_back(py, ahead);
        });
    }
}
