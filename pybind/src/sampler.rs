//! `backcast.Sampler`: draws and gathers transitions into fresh NumPy memory.

use backcast_core::{Ring, Sampler as CoreSampler, SamplerOptions};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::batch::Arenas;
use crate::coerce::{self, count, count_in};
use crate::error::{Failure, Kind};
use crate::given::{Given, method, needed, not_called, refuse_strangers};
use crate::handle::Handle;

/// Largest batch, as the core has it.
const MAX_BATCH: u32 = 1 << 24;

/// What a sampler returns of each transition: its windows, and whether they may overlap in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    history: Option<u32>,
    future: u32,
    copy: bool,
}

impl Windows {
    pub(crate) fn new(
        history: Option<Given<i128>>,
        future: Given<i128>,
        copy: Given<bool>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            history: history.map(|asked| count(asked, "history", 1, Kind::Sample)).transpose()?,
            future: count(future, "future", 0, Kind::Sample)?,
            copy: copy.get("copy", "True or False")?,
        })
    }

    /// The transition alone.
    pub(crate) fn none() -> Self {
        Self { history: None, future: 0, copy: false }
    }
}

/// A core sampler behind a handle: what a `Sampler` and the buffer's own draws are made of.
pub(crate) struct Draws(Handle<CoreSampler>);

impl Draws {
    pub(crate) fn new(
        ring: &Ring,
        label: String,
        seed: Option<u64>,
        windows: Windows,
    ) -> Result<Self, Failure> {
        let options = match seed {
            Some(seed) => SamplerOptions::seeded(seed),
            None => SamplerOptions::from_entropy(),
        };
        let options = match windows.history {
            Some(history) => options.history(history),
            None => options,
        };
        let options = options.future(windows.future).copy(windows.copy);
        Ok(Self(Handle::new(label, ring.sampler(options)?)))
    }

    pub(crate) fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Given<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let batch = count_in(batch_size, "batch_size", 1..=MAX_BATCH, Kind::Sample)?;
        self.fill(
            py,
            batch as usize,
            |sampler, plan, arenas| Ok(sampler.sample_into(plan, arenas)?),
        )
    }

    pub(crate) fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let index = needed(index, "index", "what a batch has as its index, or append returned")?;
        let index = coerce::int64s(index, "index", Kind::Sample)?;
        self.fill(py, index.len(), |sampler, plan, arenas| {
            Ok(sampler.gather_into(&index, plan, arenas)?)
        })
    }

    fn fill<'py>(
        &self,
        py: Python<'py>,
        batch: usize,
        read: impl FnOnce(
            &mut CoreSampler,
            &backcast_core::BatchPlan,
            &mut [&mut [u8]],
        ) -> Result<(), Failure>
        + Send,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let plan = py.detach(|| self.0.with(|sampler| Ok(sampler.plan(batch)?)))?;
        let mut arenas = Arenas::of(py, &plan)?;
        {
            let mut bytes = arenas.bytes_mut();
            py.detach(|| self.0.with(|sampler| read(sampler, &plan, &mut bytes)))?;
        }
        Ok(arenas.into_batch(py, &plan)?)
    }

    pub(crate) fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// Draws transitions uniformly, each with the windows around it.
///
/// Made by :meth:`ReplayBuffer.sampler`; a context manager. A seeded sampler draws the same
/// transitions from the same data in any process, in Rust and in Python. One call at a time enters
/// a sampler; give every thread one of its own.
#[pyclass(module = "backcast", name = "Sampler", frozen)]
pub(crate) struct Sampler {
    draws: Draws,
    windows: Windows,
}

impl Sampler {
    pub(crate) fn new(draws: Draws, windows: Windows) -> Self {
        Self { draws, windows }
    }

    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&CoreSampler) -> R + Send,
    ) -> Result<R, Failure> {
        py.detach(|| self.draws.0.with(|sampler| Ok(question(sampler))))
    }
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(not_called("Sampler", "call buf.sampler(seed=..., history=..., future=...)"))
    }

    /// Draw transitions uniformly over all that the ring holds.
    ///
    /// One gather, with the interpreter released, never blocking a writer; rows that are
    /// overwritten meanwhile are drawn again and counted in :attr:`lapped`.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int
    ///     Transitions to draw, ``B``; at least 1.
    ///
    /// Returns
    /// -------
    /// Batch
    ///     Every column, ``next_*`` of the observation columns, ``terminated``, ``truncated``,
    ///     ``index``, ``age``; ``mask`` with a history window; ``future`` and ``future_mask`` with
    ///     a future one. Arrays are ``[B, ...]``, windows ``[B, H, ...]`` and ``[B, F, ...]``.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If the ring holds no transition yet.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, reward=1, terminated=False, truncated=False)
    /// >>> batch = buf.sampler(seed=7, history=4, future=2).sample(32)
    /// >>> batch["obs"].shape, batch.mask.shape, batch.future_mask.shape
    /// ((32, 4), (32, 4), (32, 2))
    #[pyo3(signature = (batch_size=Given::Missing, *extra, **unknown))]
    #[pyo3(text_signature = "($self, batch_size)")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Given<i128>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("sample"))?;
        self.draws.sample(py, batch_size)
    }

    /// Fetch the transitions of an earlier batch again.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, shape (B,)
    ///     As in :attr:`Batch.index` or as :meth:`Writer.append` returned them.
    ///
    /// Returns
    /// -------
    /// Batch
    ///     As from :meth:`sample`, in the order of ``index``.
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a row was overwritten since.
    /// SampleError
    ///     If an index names no transition.
    #[pyo3(signature = (index=None, *extra, **unknown))]
    #[pyo3(text_signature = "($self, index)")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("gather"))?;
        self.draws.gather(py, index)
    }

    /// Draws that had to be repeated because a writer overwrote the row during the copy.
    #[getter]
    fn lapped(&self, py: Python<'_>) -> Result<u64, Failure> {
        self.ask(py, CoreSampler::lapped)
    }

    /// Transitions returned so far.
    #[getter]
    fn sampled(&self, py: Python<'_>) -> Result<u64, Failure> {
        self.ask(py, CoreSampler::sampled)
    }

    /// The seed, also of a sampler that was not given one.
    #[getter]
    fn seed(&self, py: Python<'_>) -> Result<u64, Failure> {
        self.ask(py, CoreSampler::seed)
    }

    /// Length of the history window, ``H``, or None.
    #[getter]
    fn history(&self) -> Option<u32> {
        self.windows.history
    }

    /// Length of the future window, ``F``, or 0.
    #[getter]
    fn future(&self) -> u32 {
        self.windows.future
    }

    /// Let go of the ring. Closing again does nothing.
    fn close(&self, py: Python<'_>) {
        self.draws.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = self.draws.0.describe(|sampler| {
            format!("seed {}, {} transitions drawn", sampler.seed(), sampler.sampled())
        });
        let history = self.windows.history.map_or("None".to_owned(), |history| history.to_string());
        format!(
            "<backcast.Sampler: {}, history {history}, future {}, {state}>",
            self.draws.0.label(),
            self.windows.future
        )
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            Kind::ArgumentType,
            format!(
                "{} cannot be pickled or copied; pickle the ReplayBuffer and make a sampler of \
                 the same seed from it",
                self.draws.0.label()
            ),
        ))
    }
}
