//! `backcast.types.Limiter`: the rate limiter of a ring. `backcast.RateLimiter`: its limits.

mod limits;
mod stats;

use backcast_core::plumbing::printable;
use backcast_core::{Limiter as CoreLimiter, Ring};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

pub(crate) use self::limits::{_restore_limiter, RateLimiter};
pub(crate) use self::stats::as_dict;
use crate::argument::{Argument, no_constructor, required, whole};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Rate limiter of a ring, which all its processes share.
///
/// Found at :attr:`backcast.ReplayBuffer.limiter`. What is set here is in force for every process
/// at its next append or draw, and processes that wait decide anew.
///
/// Examples
/// --------
/// >>> limits = bc.RateLimiter(samples_per_insert=4, min_size=50, error_buffer=100)
/// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=1_000, limiter=limits)
/// >>> buf.limiter.set(bc.RateLimiter(min_size=10))
/// >>> buf.limiter.disable()
/// >>> buf.limiter.enabled, buf.limiter.limits.min_size
/// (False, 10)
#[pyclass(module = "backcast.types", name = "Limiter", frozen)]
pub(crate) struct Limiter {
    handle: Handle<CoreLimiter>,
}

impl Limiter {
    pub(crate) fn of(ring: &Ring, label: &str) -> Option<Self> {
        let label = format!("the limiter of {label}");
        Some(Self { handle: Handle::new(label, "take buf.limiter again", ring.limiter()?) })
    }
}

#[exact_arguments]
#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Limiter", "take buf.limiter of a ring created with limiter=..."))
    }

    /// Put other limits into force. The counts stay.
    ///
    /// Parameters
    /// ----------
    /// limits : RateLimiter
    ///     The new limits. Their ``enabled`` switches the limiter on or off.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If ``min_size``, or the size of a queue, is beyond what the ring can hold.
    /// InUseError
    ///     If the ring can hold ``min_size`` only once a resize is finished, which waits for
    ///     writers.
    #[pyo3(signature = (limits=None), text_signature = "($self, limits)")]
    fn set(&self, py: Python<'_>, limits: Option<&Bound<'_, PyAny>>) -> Result<(), Failure> {
        let limits = required(limits, "limits", "a backcast.RateLimiter")?;
        let limits = RateLimiter::given(limits, "limits")?;
        py.detach(|| self.handle.with(|limiter| Ok(limiter.set(limits)?)))
    }

    /// Switch the limiter on.
    ///
    /// Transitions inserted and items drawn while it was off count, unless :meth:`reset_counts`
    /// was called since.
    ///
    /// Raises
    /// ------
    /// CorruptError
    ///     If the stored limits are damaged; ``set`` replaces them.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn enable(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.handle.with(|limiter| Ok(limiter.set_enabled(true)?)))
    }

    /// Switch the limiter off: neither side waits until it is switched on.
    ///
    /// Raises
    /// ------
    /// CorruptError
    ///     If the stored limits are damaged; ``set`` replaces them.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn disable(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.handle.with(|limiter| Ok(limiter.set_enabled(false)?)))
    }

    /// Count anew, as if the limiter were new and its transitions had just been inserted.
    ///
    /// ``inserts`` becomes the number of transitions in the ring, at most ``min_size``, and
    /// ``samples`` becomes 0. Use it for rows that require no draws, such as those of a data set or
    /// of an earlier run. The limits stay, and processes that wait decide anew.
    ///
    /// Raises
    /// ------
    /// CorruptError
    ///     If the stored limits are damaged; ``set`` replaces them.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn reset_counts(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.handle.with(|limiter| Ok(limiter.reset_counts()?)))
    }

    /// Set the count of inserts at which writers stop, or remove it with None.
    ///
    /// For a process that counts over several rings: it tells each how far its writers may go.
    /// Writers wait at the ceiling as they wait for draws, whatever the limits allow, and
    /// ``no_learner`` applies. Each may pass it by less than one append. A count that was reached
    /// already stops the next append. The ceiling is absolute, as :attr:`inserts` is. It stays
    /// until it is set again: after the death of the process that set it, and while other limits
    /// are set, rows are dropped, counts are reset or the ring is resized. A loaded ring has none.
    /// While the limiter is off, writers do not wait.
    ///
    /// Parameters
    /// ----------
    /// inserts : int or None
    ///     Transitions, as :attr:`inserts` counts them; from 0 up.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If ``inserts`` is negative.
    ///
    /// Examples
    /// --------
    /// >>> limits = bc.RateLimiter(min_size=1)
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=1_000, limiter=limits)
    /// >>> buf.limiter.set_ceiling(500)
    /// >>> buf.limiter.ceiling, buf.stats()["limiter"]["may_insert"]
    /// (500, 500)
    #[pyo3(signature = (inserts=Some(Argument::Missing)), text_signature = "($self, inserts)")]
    fn set_ceiling(&self, py: Python<'_>, inserts: Option<Argument<i128>>) -> Result<(), Failure> {
        let wanted = "a count of transitions from 0 up, or None to remove the ceiling";
        let inserts = inserts.map(|of| whole(of, "inserts", wanted, ErrorClass::Argument));
        let inserts = inserts.transpose()?;
        py.detach(|| self.handle.with(|limiter| Ok(limiter.set_ceiling(inserts)?)))
    }

    /// Count of inserts at which writers stop; None without one.
    #[getter]
    fn ceiling(&self) -> Result<Option<u64>, Failure> {
        self.handle.with(|limiter| Ok(limiter.ceiling()))
    }

    /// The limits in force.
    #[getter]
    fn limits(&self) -> Result<RateLimiter, Failure> {
        RateLimiter::whole(self.handle.with(|limiter| Ok(limiter.limits()?))?)
    }

    /// Whether the limiter is on.
    #[getter]
    fn enabled(&self) -> Result<bool, Failure> {
        self.handle.with(|limiter| Ok(limiter.limits()?.is_enabled()))
    }

    /// Transitions inserted since the ring was created.
    ///
    /// After :meth:`reset_counts`: those inserted since, and those that it counted.
    #[getter]
    fn inserts(&self) -> Result<u64, Failure> {
        self.handle.with(|limiter| Ok(limiter.counts().inserts))
    }

    /// Items drawn since the ring was created or the counts were reset.
    ///
    /// Includes the items that were still due, by the ratio, for transitions that
    /// :meth:`backcast.ReplayBuffer.clear` or :meth:`backcast.ReplayBuffer.drop_episode` dropped.
    #[getter]
    fn samples(&self) -> Result<u64, Failure> {
        self.handle.with(|limiter| Ok(limiter.counts().samples))
    }

    fn __repr__(&self) -> String {
        let state = self.handle.describe(|limiter| {
            let counts = limiter.counts();
            let limits =
                limiter.limits().map_or_else(|e| e.to_string(), |limits| limits.to_string());
            format!("{limits}; {} inserts, {} samples", counts.inserts, counts.samples)
        });
        printable(&format!("<backcast.types.Limiter: {}, {state}>", self.handle.label()))
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} cannot be pickled or copied; pickle the ReplayBuffer and take its limiter \
                 there",
                self.handle.label()
            ),
        ))
    }
}
