//! Rings within the daemon's budget: creation, attachment and resizing.

use backcast_core::{MAX_LANES, MAX_READER_SLOTS, RingOptions};
use backcast_persist::Mode;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Client;
use crate::argument::{Argument, count_in, seconds_of};
use crate::buffer::capacity;
use crate::buffer::{ReplayBuffer, policy};
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::limiter::RateLimiter;
use crate::location::{exist_of, name_of};
use crate::schema::schema_of;

#[exact_arguments]
#[pymethods]
impl Client {
    /// Create a ring within the daemon's budget.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name that other processes attach to.
    /// schema : Schema or dict
    ///     The columns, as for :meth:`ReplayBuffer.create`.
    /// capacity : int or str
    ///     Rows over all lanes, or bytes as text. With ``--when-full shrink`` the daemon may grant
    ///     less: see ``capacity`` of the buffer.
    /// lanes : int, default 1
    ///     Single-writer lanes; these and the following are as for :meth:`ReplayBuffer.create`.
    /// exist : {"error", "attach", "replace"}, default "error"
    ///     Policy when the name is taken.
    /// persistent : bool, default False
    ///     Keep the ring when no process holds it.
    /// lane_policy : {"block", "drop_new", "fail", "overwrite"}, default "block"
    ///     Policy of a writer that a lease blocks.
    /// lease_timeout : float, optional
    ///     Seconds that a writer waits for a lease, with ``"block"``.
    /// reader_slots : int, default 64
    ///     Samplers and handles with leases that the ring has room for at a time.
    /// huge_pages : bool, default True
    ///     Request huge pages from the system.
    /// limiter : RateLimiter, optional
    ///     Limits that hold back writers and samplers.
    /// memfd : bool, default False
    ///     Put the ring into sealed memory, which no process can cut short, instead of files
    ///     (Linux). The daemon keeps it; if that is killed, the ring goes with the last process
    ///     that has it.
    /// persist : {"off", "periodic", "continuous", "block"}, optional
    ///     Mode in which the daemon saves the ring to disk by itself. When left out, the daemon's
    ///     settings decide. The ring keeps the choice, so that a daemon that is started later
    ///     continues it.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     The ring, held by this process.
    ///
    /// Raises
    /// ------
    /// OverBudgetError
    ///     If it does not fit; the message has the numbers and the largest rings.
    /// ExistsError
    ///     If the name is taken.
    #[pyo3(signature = (
        name=Argument::Missing, schema=None, *, capacity=None, lanes=1_i64.into(),
        exist="error".into(), persistent=false.into(), lane_policy="block".into(),
        lease_timeout=None, reader_slots=64_i64.into(), huge_pages=true.into(), limiter=None,
        memfd=false.into(), persist=None
    ))]
    #[pyo3(text_signature = "($self, name, schema, *, capacity, lanes=1, exist='error', \
                             persistent=False, lane_policy='block', lease_timeout=None, \
                             reader_slots=64, huge_pages=True, limiter=None, \
                             memfd=False, persist=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn create<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
        schema: Option<&Bound<'py, PyAny>>,
        capacity: Option<&Bound<'py, PyAny>>,
        lanes: Argument<i128>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        lane_policy: Argument<String>,
        lease_timeout: Option<Argument<f64>>,
        reader_slots: Argument<i128>,
        huge_pages: Argument<bool>,
        limiter: Option<&Bound<'py, PyAny>>,
        memfd: Argument<bool>,
        persist: Option<Argument<String>>,
    ) -> Result<ReplayBuffer, Failure> {
        let name = name_of(name)?;
        let schema = schema_of(schema)?;
        let slots =
            count_in(reader_slots, "reader_slots", 1..=MAX_READER_SLOTS, ErrorClass::Argument)?;
        let options = RingOptions::with_capacity(capacity::from_python(capacity)?)
            .lanes(count_in(lanes, "lanes", 1..=MAX_LANES, ErrorClass::Argument)?)
            .exist(exist_of(exist)?)
            .persistent(persistent.get("persistent", "True or False")?)
            .lane_policy(policy(lane_policy, lease_timeout)?)
            .reader_slots(slots)
            .huge_pages(huge_pages.get("huge_pages", "True or False")?)
            .memfd(memfd.get("memfd", "True or False")?);
        let limiter = limiter.map(|given| RateLimiter::given(given, "limiter")).transpose()?;
        let options = match limiter {
            Some(limits) => options.limiter(limits),
            None => options,
        };
        let mode = persist.map(mode).transpose()?;
        let (ring, _) = self.ask(py, |asking| match mode {
            Some(mode) => asking.create_persisted(&name, &schema, &options, mode),
            None => asking.create(&name, &schema, &options),
        })?;
        Ok(ReplayBuffer::of(ring))
    }

    /// Attach to a ring through a descriptor from the daemon.
    ///
    /// This process needs no access to the ring's directory, as in a container that has only the
    /// socket.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     The ring, held by this process.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such object.
    #[pyo3(signature = (name=Argument::Missing), text_signature = "($self, name)")]
    fn attach(&self, py: Python<'_>, name: Argument<String>) -> Result<ReplayBuffer, Failure> {
        let name = name_of(name)?;
        Ok(ReplayBuffer::of(self.ask(py, |asking| asking.attach(&name))?))
    }

    /// Make a ring larger within the daemon's budget, while it is written and read.
    ///
    /// Like :meth:`ReplayBuffer.resize`, but only if the larger memory fits the budget beside the
    /// old one. The daemon restores an evicted ring first.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring.
    /// capacity : int or str
    ///     Rows over all lanes, or bytes as text (``"16GiB"``); not less than the present capacity.
    ///     With ``--when-full shrink`` the daemon may grant less.
    /// timeout : float, default 10.0
    ///     Seconds that the daemon waits for writers to relocate their lanes, at most an hour. The
    ///     rest are relocated later, at their writers' next appends.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name``, ``capacity_rows``, ``lane_capacity_rows``, ``allocated_bytes``,
    ///     ``copied_rows``, ``waiting_lanes`` (lanes that are relocated when their writers append
    ///     next, or end), and ``shrunk``.
    ///
    /// Raises
    /// ------
    /// OverBudgetError
    ///     If the larger ring exceeds the daemon's budget; the ring is unchanged.
    /// NotFoundError
    ///     If there is no such ring.
    /// ArgumentError
    ///     If the capacity is less than the present one.
    /// InUseError
    ///     If another process resizes the ring, or an earlier resize to another size is not
    ///     finished.
    #[pyo3(signature = (name=Argument::Missing, capacity=None, *, timeout=10.0.into()))]
    #[pyo3(text_signature = "($self, name, capacity, *, timeout=10.0)")]
    fn resize<'py>(
        &self,
        py: Python<'py>,
        name: Argument<String>,
        capacity: Option<&Bound<'py, PyAny>>,
        timeout: Argument<f64>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let name = name_of(name)?;
        let capacity = capacity::from_python(capacity)?;
        let timeout = seconds_of("timeout", timeout)?;
        self.answer(py, |asking| asking.resize(&name, capacity, timeout))
    }
}

/// Reads the `persist` argument.
fn mode(given: Argument<String>) -> Result<Mode, Failure> {
    const CHOICE: &str = "\"off\", \"periodic\", \"continuous\" or \"block\"";
    let text = given.get("persist", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("persist is '{text}'; give {CHOICE}")))
}
