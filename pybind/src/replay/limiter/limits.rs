//! `backcast.RateLimiter`: limits between inserts and samples, as a value.

use backcast_core::{
    LimiterCounts, NoLearner, NoWriter, RateLimiter as CoreRateLimiter, RequiredLimits,
};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyAny;

use crate::argument::{Argument, whole, wrong_type};
use crate::error::{ErrorClass, Failure, bad_argument};

/// Maximum number of transitions that a limiter counts.
const MOST: u64 = (1 << 48) - 1;

/// Limits between the transitions that writers insert and the items that samplers draw.
///
/// Single transitions and items are allowed as by Reverb's rate limiter. With ``diff = inserts *
/// samples_per_insert - samples``, an item is allowed if ``min_size`` transitions are there and
/// ``diff - 1`` is at least the lower end of the error band. A transition is allowed if it is one
/// of the first ``min_size``, or ``diff + samples_per_insert`` is at most the upper end. An append
/// is admitted whole when one more transition is allowed; a batch takes its items as they are
/// allowed. So one side can always continue, with batches and appends of any size.
///
/// Give it to :meth:`ReplayBuffer.create` or to :meth:`types.Limiter.set`.
/// :meth:`ReplayBuffer.attach` compares the arguments that were given with the limits of the ring.
///
/// Parameters
/// ----------
/// samples_per_insert : float, optional
///     Items to be drawn for each transition after the first ``min_size``. Left out, draws wait for
///     ``min_size`` transitions, and appends never wait.
/// min_size : int, default 1
///     Transitions before the first draw.
/// error_buffer : float or (float, float), optional
///     Only with ``samples_per_insert``: how many items the samplers may be ahead or behind, around
///     ``min_size * samples_per_insert``; or both ends of the error band, which has to be at least
///     ``samples_per_insert + 1`` wide, or ``samples_per_insert`` if both this ratio and the lower
///     end are whole numbers. When left out, 1,024 or 64 inserts' worth, whichever is more.
/// no_learner : {"wait", "pass", "error"}, default "wait"
///     Policy of a writer that the limiter holds back while no sampler lives. ``"wait"``: wait,
///     with a warning after 10 s. ``"pass"``: append anyway. ``"error"``: raise.
/// no_writer : {"wait", "pass", "error"}, default "wait"
///     Policy of a draw that the limiter holds back while no writer has lived for 100 ms.
///     ``"wait"``: wait, with a warning after 10 s. ``"pass"``: draw what is there anyway.
///     ``"error"``: raise.
/// enabled : bool, default True
///     Whether the limiter is on. While it is off, both sides are counted and neither waits.
///
/// Raises
/// ------
/// ArgumentError
///     If the limits can never be satisfied.
///
/// Examples
/// --------
/// >>> limits = bc.RateLimiter(samples_per_insert=8, min_size=1_000, error_buffer=800)
/// >>> limits.error_band
/// (7200.0, 8800.0)
/// >>> limits.can_sample(256, inserts=1_000), limits.can_insert(1, inserts=1_100)
/// (True, False)
#[pyclass(module = "backcast", name = "RateLimiter", frozen, eq)]
pub(crate) struct RateLimiter {
    limits: CoreRateLimiter,
    /// Limits that were given, which `ReplayBuffer.attach` compares with those of the ring.
    required: RequiredLimits,
}

impl PartialEq for RateLimiter {
    fn eq(&self, other: &Self) -> bool {
        self.limits == other.limits
    }
}

impl RateLimiter {
    /// Reads a limiter that was given for `what`.
    pub(crate) fn given(value: &Bound<'_, PyAny>, what: &str) -> Result<CoreRateLimiter, Failure> {
        Ok(Self::object(value, what)?.get().limits)
    }

    /// Reads a limiter, and returns the limits that its caller gave. A ring must have these.
    pub(crate) fn required(value: &Bound<'_, PyAny>) -> Result<RequiredLimits, Failure> {
        Ok(Self::object(value, "limiter")?.get().required)
    }

    fn object<'a, 'py>(
        value: &'a Bound<'py, PyAny>,
        what: &str,
    ) -> Result<&'a Bound<'py, Self>, Failure> {
        let wanted = "a backcast.RateLimiter, such as RateLimiter(8, min_size=1_000)";
        value.cast::<Self>().map_err(|_| wrong_type(value, what, wanted))
    }

    fn checked(limits: CoreRateLimiter, required: RequiredLimits) -> Result<Self, Failure> {
        limits.check(MOST).map_err(bad_argument)?;
        Ok(Self { limits, required })
    }

    /// Returns a limiter with all its limits given: `ReplayBuffer.attach` compares each of them.
    pub(super) fn whole(limits: CoreRateLimiter) -> Result<Self, Failure> {
        let (least, most) = limits.error_band();
        let has_ratio = least.is_finite() || most.is_finite();
        let required = RequiredLimits {
            samples_per_insert: has_ratio.then(|| limits.samples_per_insert()),
            min_size: Some(limits.min_size_to_sample()),
            error_buffer: None,
            error_band: Some((least, most)),
            no_learner: Some(limits.no_learner_choice()),
            no_writer: Some(limits.no_writer_choice()),
            enabled: Some(limits.is_enabled()),
        };
        Self::checked(limits, required)
    }
}

/// Reads the `samples_per_insert` argument.
fn ratio_of(given: Argument<f64>) -> Result<f64, Failure> {
    given.get("samples_per_insert", "items per transition, a number above 0")
}

/// Reads the `min_size` argument.
fn min_size_of(given: Argument<i128>) -> Result<u64, Failure> {
    whole(given, "min_size", "transitions from 1 up", ErrorClass::Argument)
}

/// Reads the `no_learner` argument.
fn no_learner_of(given: Argument<String>) -> Result<NoLearner, Failure> {
    let word = given.get("no_learner", "\"wait\", \"pass\" or \"error\"")?;
    word.parse().map_err(bad_argument)
}

/// Reads the `no_writer` argument.
fn no_writer_of(given: Argument<String>) -> Result<NoWriter, Failure> {
    let word = given.get("no_writer", "\"wait\", \"pass\" or \"error\"")?;
    word.parse().map_err(bad_argument)
}

/// Reads a count of transitions or items.
fn count_of(given: Argument<i128>, what: &str) -> Result<u64, Failure> {
    whole(given, what, "a whole number from 0 up", ErrorClass::Argument)
}

#[exact_arguments]
#[pymethods]
impl RateLimiter {
    #[new]
    #[pyo3(signature = (
        samples_per_insert=None, min_size=Argument::Missing, error_buffer=None, *,
        no_learner=Argument::Missing, no_writer=Argument::Missing, enabled=Argument::Missing
    ))]
    #[pyo3(text_signature = "(samples_per_insert=None, min_size=1, error_buffer=None, *, \
                             no_learner='wait', no_writer='wait', enabled=True)")]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        samples_per_insert: Option<Argument<f64>>,
        min_size: Argument<i128>,
        error_buffer: Option<&Bound<'_, PyAny>>,
        no_learner: Argument<String>,
        no_writer: Argument<String>,
        enabled: Argument<bool>,
    ) -> Result<Self, Failure> {
        let (has_size, has_enabled) = (min_size.is_given(), enabled.is_given());
        let (has_no_learner, has_no_writer) = (no_learner.is_given(), no_writer.is_given());
        let ratio = samples_per_insert.map(ratio_of).transpose()?;
        let min_size =
            min_size_of(min_size.or(Argument::Value(CoreRateLimiter::DEFAULT_MIN_SIZE.into())))?;
        let error = error_buffer.map(error_of).transpose()?;
        let limits = match ratio {
            None if error.is_some() => {
                return Err(bad_argument(
                    "error_buffer is given, and samples_per_insert is not; give both, or neither \
                     for a limiter of min_size alone",
                ));
            }
            None => CoreRateLimiter::min_size(min_size),
            Some(ratio) => {
                error.unwrap_or_else(|| ErrorBuffer::default_of(ratio)).around(ratio, min_size)
            }
        };
        let no_learner = no_learner_of(no_learner.or("wait"))?;
        let no_writer = no_writer_of(no_writer.or("wait"))?;
        let enabled = enabled.or(true).get("enabled", "True or False")?;
        let required = RequiredLimits {
            samples_per_insert: ratio,
            min_size: has_size.then_some(min_size),
            error_buffer: match error {
                Some(ErrorBuffer::Around(error)) => Some(error),
                _ => None,
            },
            error_band: match error {
                Some(ErrorBuffer::Band(least, most)) => Some((least, most)),
                _ => None,
            },
            no_learner: has_no_learner.then_some(no_learner),
            no_writer: has_no_writer.then_some(no_writer),
            enabled: has_enabled.then_some(enabled),
        };
        let limits = limits.no_learner(no_learner).no_writer(no_writer).enabled(enabled);
        Self::checked(limits, required)
    }

    /// Make the limits of a queue.
    ///
    /// A queue lets writers insert up to ``size`` transitions more than items are drawn. It limits
    /// counts: the sampler chooses which transitions are drawn.
    ///
    /// Parameters
    /// ----------
    /// size : int
    ///     Transitions that writers may be ahead.
    /// no_learner : {"wait", "pass", "error"}, default "wait"
    ///     Policy of a writer that the limiter holds back while no sampler lives.
    /// no_writer : {"wait", "pass", "error"}, default "wait"
    ///     Policy of a draw that the limiter holds back while no writer lives.
    ///
    /// Returns
    /// -------
    /// RateLimiter
    ///     With ``samples_per_insert`` 1 and the error band 0 to ``size``.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If ``size`` is less than 1, or a policy is not one of its choices.
    ///
    /// Examples
    /// --------
    /// >>> bc.RateLimiter.queue(64)
    /// RateLimiter(samples_per_insert=1.0, min_size=1, error_buffer=(0.0, 64.0))
    #[staticmethod]
    #[pyo3(signature = (
        size=Argument::Missing, *, no_learner="wait".into(), no_writer="wait".into()
    ))]
    #[pyo3(text_signature = "(size, *, no_learner='wait', no_writer='wait')")]
    fn queue(
        size: Argument<i128>,
        no_learner: Argument<String>,
        no_writer: Argument<String>,
    ) -> Result<Self, Failure> {
        let size = whole(size, "size", "transitions from 1 up", ErrorClass::Argument)?;
        if size == 0 {
            return Err(bad_argument(
                "size is 0, so no transition could be inserted; give the transitions that writers \
                 may be ahead, at least 1",
            ));
        }
        let limits = CoreRateLimiter::queue(size).no_learner(no_learner_of(no_learner)?);
        Self::whole(limits.no_writer(no_writer_of(no_writer)?))
    }

    /// Return whether items may be drawn with these counts without a wait. Changes nothing.
    ///
    /// Parameters
    /// ----------
    /// items : int
    ///     Items to be drawn.
    /// inserts : int
    ///     Transitions inserted.
    /// samples : int, default 0
    ///     Items drawn.
    ///
    /// Returns
    /// -------
    /// bool
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If a count is negative.
    #[pyo3(signature = (
        items=Argument::Missing, *, inserts=Argument::Missing, samples=0_i64.into()
    ))]
    #[pyo3(text_signature = "($self, items, *, inserts, samples=0)")]
    fn can_sample(
        &self,
        items: Argument<i128>,
        inserts: Argument<i128>,
        samples: Argument<i128>,
    ) -> Result<bool, Failure> {
        let items = count_of(items, "items")?;
        Ok(self.limits.can_sample(counts_of(inserts, samples)?, items))
    }

    /// Return whether an append is admitted with these counts. Changes nothing.
    ///
    /// An append is admitted whole when one more transition is allowed.
    ///
    /// Parameters
    /// ----------
    /// transitions : int
    ///     Transitions of the append.
    /// inserts : int
    ///     Transitions inserted.
    /// samples : int, default 0
    ///     Items drawn.
    ///
    /// Returns
    /// -------
    /// bool
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If a count is negative.
    #[pyo3(signature = (
        transitions=Argument::Missing, *, inserts=Argument::Missing, samples=0_i64.into()
    ))]
    #[pyo3(text_signature = "($self, transitions, *, inserts, samples=0)")]
    fn can_insert(
        &self,
        transitions: Argument<i128>,
        inserts: Argument<i128>,
        samples: Argument<i128>,
    ) -> Result<bool, Failure> {
        let transitions = count_of(transitions, "transitions")?;
        Ok(self.limits.can_insert(counts_of(inserts, samples)?, transitions))
    }

    /// Items to be drawn for each transition.
    #[getter]
    fn samples_per_insert(&self) -> f64 {
        self.limits.samples_per_insert()
    }

    /// Transitions before the first draw.
    #[getter]
    fn min_size(&self) -> u64 {
        self.limits.min_size_to_sample()
    }

    /// Both ends of the error band.
    ///
    /// The least and the largest ``inserts * samples_per_insert - samples``; infinite for a limiter
    /// of ``min_size`` alone.
    #[getter]
    fn error_band(&self) -> (f64, f64) {
        self.limits.error_band()
    }

    /// Behaviour of a held-back writer while no sampler lives: "wait", "pass" or "error".
    #[getter]
    fn no_learner(&self) -> &'static str {
        self.limits.no_learner_choice().as_str()
    }

    /// Behaviour of a held-back draw while no writer lives: "wait", "pass" or "error".
    #[getter]
    fn no_writer(&self) -> &'static str {
        self.limits.no_writer_choice().as_str()
    }

    /// Whether the limiter is on.
    #[getter]
    fn enabled(&self) -> bool {
        self.limits.is_enabled()
    }

    fn __hash__(&self) -> u64 {
        self.limits.min_size_to_sample() ^ self.limits.samples_per_insert().to_bits()
    }

    fn __repr__(&self) -> String {
        let (least, most) = self.limits.error_band();
        let min_size = self.limits.min_size_to_sample();
        let mut text = if most.is_infinite() {
            format!("RateLimiter(min_size={min_size}")
        } else {
            let ratio = self.limits.samples_per_insert();
            format!(
                "RateLimiter(samples_per_insert={ratio:?}, min_size={min_size}, \
                 error_buffer=({least:?}, {most:?})"
            )
        };
        if self.limits.no_learner_choice() != NoLearner::Wait {
            text = format!("{text}, no_learner='{}'", self.limits.no_learner_choice());
        }
        if self.limits.no_writer_choice() != NoWriter::Wait {
            text = format!("{text}, no_writer='{}'", self.limits.no_writer_choice());
        }
        if !self.limits.is_enabled() {
            text += ", enabled=False";
        }
        text + ")"
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let make = py.import("backcast._native")?.getattr("_restore_limiter")?;
        let (least, most) = self.limits.error_band();
        let ratio = self.limits.samples_per_insert();
        let min_size = self.limits.min_size_to_sample();
        let absent = (self.no_learner(), self.no_writer());
        let of = &self.required;
        let given = (
            of.samples_per_insert.is_some(),
            of.min_size.is_some(),
            of.error_buffer,
            of.error_band.is_some(),
            of.no_learner.is_some(),
            of.no_writer.is_some(),
            of.enabled.is_some(),
        );
        let words = (ratio, min_size, least, most, absent, self.enabled(), given);
        Ok((make, words).into_pyobject(py)?.into_any())
    }
}

/// Restores a pickled limiter.
#[pyfunction]
#[pyo3(signature = (ratio, min_size, least, most, absent, enabled, given))]
pub(crate) fn _restore_limiter(
    ratio: f64,
    min_size: u64,
    least: f64,
    most: f64,
    absent: (PyBackedStr, PyBackedStr),
    enabled: bool,
    given: (bool, bool, Option<f64>, bool, bool, bool, bool),
) -> Result<RateLimiter, Failure> {
    let limits = CoreRateLimiter::band(ratio, min_size, least, most);
    let (no_learner, no_writer) = absent;
    let no_learner = no_learner.parse().map_err(bad_argument)?;
    let no_writer = no_writer.parse().map_err(bad_argument)?;
    let (has_ratio, has_size, error_buffer, has_band, has_no_learner, has_no_writer, has_enabled) =
        given;
    let required = RequiredLimits {
        samples_per_insert: has_ratio.then_some(ratio),
        min_size: has_size.then_some(min_size),
        error_buffer,
        error_band: has_band.then_some((least, most)),
        no_learner: has_no_learner.then_some(no_learner),
        no_writer: has_no_writer.then_some(no_writer),
        enabled: has_enabled.then_some(enabled),
    };
    let limits = limits.no_learner(no_learner).no_writer(no_writer).enabled(enabled);
    RateLimiter::checked(limits, required)
}

fn counts_of(inserts: Argument<i128>, samples: Argument<i128>) -> Result<LimiterCounts, Failure> {
    let inserts = count_of(inserts, "inserts")?;
    let samples = count_of(samples, "samples")?;
    Ok(LimiterCounts { inserts, samples, deletes: 0 })
}

#[derive(Clone, Copy)]
enum ErrorBuffer {
    Around(f64),
    Band(f64, f64),
}

impl ErrorBuffer {
    fn default_of(ratio: f64) -> Self {
        Self::Around(CoreRateLimiter::default_error_buffer(ratio))
    }

    fn around(self, ratio: f64, min_size: u64) -> CoreRateLimiter {
        match self {
            ErrorBuffer::Around(error) => CoreRateLimiter::ratio(ratio, min_size, error),
            ErrorBuffer::Band(least, most) => CoreRateLimiter::band(ratio, min_size, least, most),
        }
    }
}

/// Reads the `error_buffer` argument.
fn error_of(given: &Bound<'_, PyAny>) -> Result<ErrorBuffer, Failure> {
    if let Ok(error) = given.extract::<f64>() {
        return Ok(ErrorBuffer::Around(error));
    }
    if let Ok((least, most)) = given.extract::<(f64, f64)>() {
        return Ok(ErrorBuffer::Band(least, most));
    }
    Err(wrong_type(given, "error_buffer", "a number of items, or both ends of the error band"))
}
