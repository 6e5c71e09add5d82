//! Creation and attachment: `ReplayBuffer.create` and `ReplayBuffer.attach`.

use std::path::PathBuf;

use backcast_core::{LanePolicy, LimiterError, MAX_LANES, MAX_READER_SLOTS, Ring, RingOptions};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::daemon::daemon_of;
use super::{ReplayBuffer, label};
use crate::argument::{Argument, count_in, seconds_of};
use crate::capacity;
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::location::{base_at, base_of, exist_of, name_of, on_unlinked_of, persistent_of};
use crate::replay::limiter::RateLimiter;
use crate::replay::schema::schema_of;

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Create a ring, or attach to the one of that name, as ``exist`` says.
    ///
    /// All memory of the rows is allocated now: a full file system is an error here, not at an
    /// append.
    ///
    /// Parameters
    /// ----------
    /// name : str or None
    ///     Name that other processes attach to; None for memory private to this process.
    /// schema : dict or Schema
    ///     The columns, see :class:`Schema`.
    /// capacity : int or str
    ///     Rows over all lanes, or the bytes to allocate, such as ``"8GiB"``. Each lane gets an
    ///     equal share, rounded up. An episode of n transitions takes n + 1 rows: a lane of one row
    ///     never holds a transition.
    /// lanes : int, default 1
    ///     Single-writer ring buffers of rows, one per environment; 1 to 4096.
    /// exist : {"error", "attach", "replace"}, default "error"
    ///     Policy when the name is taken by a ring that is in use or persistent. Any other ring of
    ///     that name is removed.
    /// persistent : bool, default False
    ///     Keep the ring when no process holds it. A ring that is attached to has to be persistent
    ///     already; private memory cannot be persistent.
    /// lane_policy : {"block", "drop_new", "fail", "overwrite"}, default "block"
    ///     Policy of a writer when a lease freezes the rows it would overwrite. ``"block"``: wait,
    ///     once per lease and for at most ``lease_timeout``, then drop the new row and mark a gap.
    ///     ``"drop_new"``: drop the new row immediately. ``"fail"``: raise ``LeaseError``.
    ///     ``"overwrite"``: the ring grants no leases.
    /// lease_timeout : float, optional
    ///     Seconds a writer waits for a lease; 1.0 when left out. Only with ``"block"``.
    /// reader_slots : int, default 64
    ///     Samplers and handles with leases that the ring has room for at a time, over all
    ///     processes; 1 to 1024.
    /// huge_pages : bool, default True
    ///     Request huge pages from the system, which make draws faster. ``stats()["bytes_huge"]``
    ///     says how many bytes it granted.
    /// limiter : RateLimiter, optional
    ///     Limits that hold back writers and samplers, so that transitions are drawn about as often
    ///     as configured. :attr:`limiter` reads, changes and switches them off. A ring that is
    ///     created without a limiter never gets one. With ``exist="attach"``, a process that leaves
    ///     it out follows the limiter of the ring that is there.
    /// on_unlinked : {"warn", "error", "ignore"}, default "warn"
    ///     Policy of this buffer's writers, samplers and waits once the ring was removed or
    ///     replaced while they use it. ``"warn"``: one :class:`errors.UnlinkedWarning`.
    ///     ``"error"``: a :class:`NotFoundError` each time. ``"ignore"``: nothing. The ring stays
    ///     usable for its holders, but no other process can attach to it.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// daemon : Client or DaemonOptions, optional
    ///     Daemon that makes the ring within its budget, in place of ``dir``: a client, or
    ///     :meth:`Client.options` of one. With ``--when-full shrink`` it may grant less: see
    ///     :attr:`capacity`. When left out, no daemon is asked.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     A handle on the ring, which lives as long as any process has one.
    ///
    /// Raises
    /// ------
    /// SchemaError
    ///     If the columns make no schema.
    /// ArgumentError
    ///     If an argument is invalid.
    /// ExistsError
    ///     If the name is taken, or the ring to attach to differs from the requested one.
    /// SpaceError
    ///     If there is not enough memory; nothing is left behind.
    /// StorageError
    ///     If the directory cannot be used, or its owner or mode make it unsafe.
    /// OverBudgetError
    ///     If the ring does not fit the daemon's budget; the message has the numbers and the
    ///     largest rings.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If the ring takes more than 64 MiB, and more than twice the memory that its rows need,
    ///     as wide columns of odd sizes demand.
    ///
    /// Examples
    /// --------
    /// >>> columns = {"obs": {"image": ("u1", (84, 84)), "speed": "f4"}, "action": "i4"}
    /// >>> with bc.ReplayBuffer.create(None, columns, capacity="16MiB", lanes=4) as buf:
    /// ...     list(buf.schema.columns), buf.capacity > 2_000
    /// (['obs/image', 'obs/speed', 'action'], True)
    #[staticmethod]
    #[pyo3(signature = (
        name=Some(Argument::Missing), schema=None, *, capacity=None, lanes=1_i64.into(),
        exist="error".into(), persistent=false.into(), lane_policy="block".into(),
        lease_timeout=None, reader_slots=64_i64.into(), huge_pages=true.into(),
        limiter=None, on_unlinked="warn".into(), dir=None, daemon=None
    ))]
    #[pyo3(text_signature = "(name, schema, *, capacity, lanes=1, exist='error', \
                             persistent=False, lane_policy='block', \
                             lease_timeout=None, reader_slots=64, huge_pages=True, \
                             limiter=None, on_unlinked='warn', dir=None, daemon=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn create<'py>(
        py: Python<'py>,
        name: Option<Argument<String>>,
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
        on_unlinked: Argument<String>,
        dir: Option<Argument<PathBuf>>,
        daemon: Option<&Bound<'py, PyAny>>,
    ) -> Result<Self, Failure> {
        let daemon = daemon_of(daemon, dir.as_ref())?;
        let wanted = "a name for other processes to attach to, or None for private memory";
        let name = name.map(|name| name.get("name", wanted)).transpose()?;
        let persistent = persistent_of(persistent, name.is_some(), "ring")?;
        let schema = schema_of(schema)?;
        let on_unlinked = on_unlinked_of(on_unlinked)?;
        let limiter = limiter.map(|given| RateLimiter::given(given, "limiter")).transpose()?;
        let options = RingOptions::with_capacity(capacity::from_python(capacity)?)
            .lanes(count_in(lanes, "lanes", 1..=MAX_LANES, ErrorClass::Argument)?)
            .exist(exist_of(exist)?)
            .persistent(persistent)
            .lane_policy(policy(lane_policy, lease_timeout)?)
            .reader_slots(count_in(
                reader_slots,
                "reader_slots",
                1..=MAX_READER_SLOTS,
                ErrorClass::Argument,
            )?)
            .huge_pages(huge_pages.get("huge_pages", "True or False")?)
            .base(base_of(dir)?);
        let options = match limiter {
            Some(limits) => options.limiter(limits),
            None => options,
        };
        let ring = match (daemon, &name) {
            (Some(daemon), Some(name)) => daemon.create(py, name, &schema, options)?,
            (Some(_), None) => {
                return Err(bad_argument(
                    "name is None, but a daemon has no private rings; give a name, or leave \
                     daemon out",
                ));
            }
            (None, Some(name)) => py.detach(|| Ring::create(name, &schema, options))?,
            (None, None) => py.detach(|| Ring::heap(&schema, options))?,
        };
        capacity::warn_if_wasteful(py, &ring, &label(name.as_deref()))?;
        Ok(Self::of(ring.on_unlinked(on_unlinked)))
    }

    /// Attach to the ring of that name, or to a snapshot of one.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the ring. ``"pong@epoch-10"`` is the snapshot ``epoch-10`` of ``pong``:
    ///     read-only, in shared memory beside the live ring. There is one copy for all processes
    ///     that open it; the first one reads it from disk. See :meth:`open_snapshot`.
    /// on_unlinked : {"warn", "error", "ignore"}, default "warn"
    ///     Policy of this buffer's writers, samplers and waits once the ring was removed or
    ///     replaced while they use it. ``"warn"``: one :class:`errors.UnlinkedWarning`.
    ///     ``"error"``: a :class:`NotFoundError` each time. ``"ignore"``: nothing. The ring stays
    ///     usable for its holders, but no other process can attach to it.
    /// limiter : RateLimiter, optional
    ///     Limits that this process relies on: refuses a ring without a limiter, or with other
    ///     limits than the arguments that ``RateLimiter`` was given. Changes nothing.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// store : path, optional
    ///     Directory of snapshots; by default ``BACKCAST_STORE``, else
    ///     ``~/.local/share/backcast``.
    /// daemon : Client or DaemonOptions, optional
    ///     Daemon that hands the ring over as a descriptor, in place of ``dir``. This process
    ///     needs no access to the ring's directory, as in a container that has only the socket. An
    ///     evicted ring is loaded again. Options of a new ring are refused.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     A handle on the ring. Rows of a live ring are not copied.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such object.
    /// ExistsError
    ///     If the ring's limiter differs from an argument that ``limiter`` was given, or a process
    ///     has another snapshot open that had this name before it was replaced.
    /// ArgumentError
    ///     If an argument is invalid, or ``limiter`` is given for a ring without a limiter, or for
    ///     a snapshot.
    /// CorruptError
    ///     If the files are not a valid ring of this version, or a snapshot is damaged.
    /// SpaceError
    ///     If there is not enough memory for the copy of a snapshot.
    /// DaemonError
    ///     If the daemon cannot be reached, or refuses.
    #[staticmethod]
    #[pyo3(signature = (
        name=Argument::Missing, *, on_unlinked="warn".into(), limiter=None, dir=None, store=None,
        daemon=None
    ))]
    #[pyo3(text_signature = "(name, *, on_unlinked='warn', limiter=None, dir=None, store=None, \
                             daemon=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn attach(
        py: Python<'_>,
        name: Argument<String>,
        on_unlinked: Argument<String>,
        limiter: Option<&Bound<'_, PyAny>>,
        dir: Option<Argument<PathBuf>>,
        store: Option<Argument<PathBuf>>,
        daemon: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let daemon = daemon_of(daemon, dir.as_ref())?;
        let (name, base) = (name_of(name)?, base_of(dir)?);
        let on_unlinked = on_unlinked_of(on_unlinked)?;
        let required = limiter.map(RateLimiter::required).transpose()?;
        if daemon.is_some() && store.is_some() {
            return Err(bad_argument(
                "store and daemon are both given, but a daemon has a store of its own; leave store \
                 out, or call client.load_snapshot(...)",
            ));
        }
        if daemon.is_none() && name.contains('@') {
            if required.is_some() {
                return Err(bad_argument(format!(
                    "limiter is given, but '{name}' is a snapshot, to which no process appends; \
                     leave it out"
                )));
            }
            return Self::attach_snapshot(py, &name, store, &base, on_unlinked);
        }
        if store.is_some() {
            return Err(bad_argument(format!(
                "store is given, but '{name}' is a ring in memory; leave it out, or name a \
                 snapshot, '{name}@LABEL'"
            )));
        }
        let ring = match daemon {
            Some(daemon) => daemon.attach(py, &name)?,
            None => py.detach(|| Ring::attach_in(&base, &name))?,
        };
        if let Some(required) = required {
            ring.limiter().ok_or(LimiterError::NoLimiter)?.require(&required)?;
        }
        Ok(Self::of(ring.on_unlinked(on_unlinked)))
    }
}

/// Reads the `lane_policy` and `lease_timeout` arguments.
fn policy(given: Argument<String>, timeout: Option<Argument<f64>>) -> Result<LanePolicy, Failure> {
    let wanted = "\"block\", \"drop_new\", \"fail\" or \"overwrite\"";
    let policy = given.get("lane_policy", wanted)?.parse().map_err(bad_argument)?;
    let Some(timeout) = timeout else { return Ok(policy) };
    let timeout = seconds_of("lease_timeout", timeout)?;
    let seconds = timeout.as_secs_f64();
    let LanePolicy::Block(_) = policy else {
        return Err(bad_argument(format!(
            "lease_timeout is {seconds}, but lane_policy \"{policy}\" never waits; leave it out, \
             or write lane_policy=\"block\""
        )));
    };
    if timeout > LanePolicy::MAX_TIMEOUT {
        let most = LanePolicy::MAX_TIMEOUT.as_secs();
        return Err(bad_argument(format!(
            "lease_timeout is {seconds}, the limit is {most} seconds; give fewer, a writer that \
             waits so long looks dead"
        )));
    }
    Ok(LanePolicy::Block(timeout))
}

/// Attaches to the ring of a pickled buffer.
#[pyfunction]
#[pyo3(signature = (name, dir=None, on_unlinked="warn".to_owned()))]
pub(crate) fn _attach_buffer(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
    on_unlinked: String,
) -> Result<ReplayBuffer, Failure> {
    let on_unlinked = on_unlinked_of(on_unlinked)?;
    let ring = py.detach(|| Ring::attach_in(&base_at(dir), name))?;
    Ok(ReplayBuffer::of(ring.on_unlinked(on_unlinked)))
}
