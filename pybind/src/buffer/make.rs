//! Making a ring, and joining one: `ReplayBuffer.create` and `ReplayBuffer.attach`.

use std::path::PathBuf;

use backcast_core::{LanePolicy, MAX_LANES, MAX_READER_SLOTS, Ring, RingOptions};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::look::seconds_of;
use super::{ReplayBuffer, label};
use crate::capacity;
use crate::coerce::count_in;
use crate::error::{Failure, Kind, bad_argument};
use crate::given::{Given, method, refuse_strangers};
use crate::place::{base, exist, name_of, on_unlinked, persistence, place};
use crate::schema::schema_of;

#[pymethods]
impl ReplayBuffer {
    /// Create a ring, or join the one of that name as ``exist`` says.
    ///
    /// The memory is paid for now: a full file system is an error here and never later.
    ///
    /// Parameters
    /// ----------
    /// name : str or None
    ///     What other processes attach to; None for memory private to this process.
    /// schema : dict or Schema
    ///     The columns, see :class:`Schema`.
    /// capacity : int or str
    ///     Rows over all lanes, or the bytes to allocate, such as ``"8GiB"``. Each lane gets an equal
    ///     share, rounded up, and an episode of n transitions takes n + 1 rows: a lane of one row
    ///     never holds a transition.
    /// lanes : int, default 1
    ///     Independent single-writer rings, one per environment; 1 to 4096.
    /// exist : {"error", "attach", "replace"}, default "error"
    ///     What to do when the name is taken by a ring that somebody holds or that is persistent.
    ///     One that is neither is collected and counts as absent.
    /// persistent : bool, default False
    ///     Keep the ring when nobody holds it. One that is attached to has to be kept already; private
    ///     memory cannot be.
    /// lane_policy : {"block", "drop_new", "fail", "overwrite"}, default "block"
    ///     What a writer does when a lease freezes the rows it would overwrite: wait, once per lease
    ///     and ``lease_timeout`` at most, and then drop the new row and mark a gap; drop it at once;
    ///     raise. ``"overwrite"`` grants no leases.
    /// lease_timeout : float, optional
    ///     Seconds a writer waits for a lease; 1.0 when left out. Only with ``"block"``.
    /// reader_slots : int, default 64
    ///     Samplers and handles with leases that the ring has room for at a time, over all
    ///     processes; 1 to 1024.
    /// huge_pages : bool, default True
    ///     Ask the system for huge pages, of which draws profit. ``stats()["bytes_huge"]`` says how
    ///     many bytes it granted.
    /// on_unlinked : {"warn", "error", "ignore"}, default "warn"
    ///     What this buffer's writers, samplers and waits do once the ring was removed or replaced
    ///     while they use it: an :class:`UnlinkedWarning`, once; a :class:`NotFoundError`, each time;
    ///     nothing. The ring stays usable for those who have it, but nobody else can join it.
    /// dir : path, optional
    ///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
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
    ///     If an argument cannot be.
    /// ExistsError
    ///     If the name is taken, or by another ring than the one to be attached.
    /// SpaceError
    ///     If there is not the room; nothing is left behind then.
    /// StorageError
    ///     If the directory cannot be used, or its owner or mode make it unsafe.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If more than twice the bytes asked for had to be allocated, as wide columns of odd sizes
    ///     demand.
    ///
    /// Examples
    /// --------
    /// >>> columns = {"obs": {"image": ("u1", (84, 84)), "speed": "f4"}, "action": "i4"}
    /// >>> with bc.ReplayBuffer.create(None, columns, capacity="16MiB", lanes=4) as buf:
    /// ...     list(buf.schema.columns), buf.capacity > 2_000
    /// (['obs/image', 'obs/speed', 'action'], True)
    #[staticmethod]
    #[pyo3(signature = (
        name=Some(Given::Missing), schema=None, *extra, capacity=None, lanes=1_i64.into(),
        exist="error".into(), persistent=false.into(), lane_policy="block".into(),
        lease_timeout=None, reader_slots=64_i64.into(), huge_pages=true.into(),
        on_unlinked="warn".into(), dir=None, **unknown
    ))]
    #[pyo3(text_signature = "(name, schema, *, capacity, lanes=1, exist='error', \
                             persistent=False, lane_policy='block', \
                             lease_timeout=None, reader_slots=64, huge_pages=True, on_unlinked='warn', \
                             dir=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn create<'py>(
        py: Python<'py>,
        name: Option<Given<String>>,
        schema: Option<&Bound<'py, PyAny>>,
        extra: &Bound<'py, PyTuple>,
        capacity: Option<&Bound<'py, PyAny>>,
        lanes: Given<i128>,
        exist: Given<String>,
        persistent: Given<bool>,
        lane_policy: Given<String>,
        lease_timeout: Option<Given<f64>>,
        reader_slots: Given<i128>,
        huge_pages: Given<bool>,
        on_unlinked: Given<String>,
        dir: Option<Given<PathBuf>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Self, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("create"))?;
        let wanted = "a name for other processes to attach to, or None for private memory";
        let name = name.map(|name| name.get("name", wanted)).transpose()?;
        let persistent = persistence(persistent, name.is_some(), "ring")?;
        let schema = schema_of(schema)?;
        let on_unlinked = self::on_unlinked(on_unlinked)?;
        let options = RingOptions::with_capacity(capacity::from_python(capacity)?)
            .lanes(count_in(lanes, "lanes", 1..=MAX_LANES, Kind::Argument)?)
            .exist(self::exist(exist)?)
            .persistent(persistent)
            .lane_policy(policy(lane_policy, lease_timeout)?)
            .reader_slots(count_in(
                reader_slots,
                "reader_slots",
                1..=MAX_READER_SLOTS,
                Kind::Argument,
            )?)
            .huge_pages(huge_pages.get("huge_pages", "True or False")?)
            .base(place(dir)?);
        let ring = py.detach(|| match &name {
            Some(name) => Ring::create(name, &schema, options),
            None => Ring::heap(&schema, options),
        })?;
        capacity::warn_if_wasteful(py, &ring, &label(name.as_deref()))?;
        Ok(Self::of(ring.on_unlinked(on_unlinked)))
    }

    /// Join the ring of that name, or a snapshot of one.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as. ``"pong@epoch-10"`` is the snapshot ``epoch-10`` of ``pong``:
    ///     read-only, in shared memory beside the live ring, one copy for all processes that open it;
    ///     the first one reads it from disk. See :meth:`open_snapshot`.
    /// on_unlinked : {"warn", "error", "ignore"}, default "warn"
    ///     What this buffer's writers, samplers and waits do once the ring was removed or replaced
    ///     while they use it: an :class:`UnlinkedWarning`, once; a :class:`NotFoundError`, each time;
    ///     nothing. The ring stays usable for those who have it, but nobody else can join it.
    /// dir : path, optional
    ///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
    /// store : path, optional
    ///     Where snapshots are kept; ``BACKCAST_STORE``, else ``~/.local/share/backcast``, when left
    ///     out.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     A handle on the ring; of a live one nothing is copied.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    /// CorruptError
    ///     If the bytes there are no ring of this version, or a snapshot is damaged.
    #[staticmethod]
    #[pyo3(signature = (
        name=Given::Missing, *extra, on_unlinked="warn".into(), dir=None, store=None, **unknown
    ))]
    #[pyo3(text_signature = "(name, *, on_unlinked='warn', dir=None, store=None)")]
    fn attach<'py>(
        py: Python<'py>,
        name: Given<String>,
        extra: &Bound<'py, PyTuple>,
        on_unlinked: Given<String>,
        dir: Option<Given<PathBuf>>,
        store: Option<Given<PathBuf>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Self, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("attach"))?;
        let (name, base) = (name_of(name)?, place(dir)?);
        let on_unlinked = self::on_unlinked(on_unlinked)?;
        if name.contains('@') {
            return Self::attach_snapshot(py, &name, store, &base);
        }
        if store.is_some() {
            return Err(bad_argument(format!(
                "store is given, but '{name}' is a ring in memory; leave it out, or name a snapshot, \
                 '{name}@LABEL'"
            )));
        }
        let ring = py.detach(|| Ring::attach_in(&base, &name))?;
        Ok(Self::of(ring.on_unlinked(on_unlinked)))
    }
}

/// The `lane_policy` and `lease_timeout` arguments.
pub(crate) fn policy(
    given: Given<String>,
    timeout: Option<Given<f64>>,
) -> Result<LanePolicy, Failure> {
    let wanted = "\"block\", \"drop_new\", \"fail\" or \"overwrite\"";
    let policy = given.get("lane_policy", wanted)?.parse().map_err(bad_argument)?;
    let Some(timeout) = timeout else { return Ok(policy) };
    let timeout = seconds_of("lease_timeout", timeout)?;
    let seconds = timeout.as_secs_f64();
    let LanePolicy::Block(_) = policy else {
        return Err(bad_argument(format!(
            "lease_timeout is {seconds}, but lane_policy \"{policy}\" never waits; leave it out, or \
             write lane_policy=\"block\""
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
/// What pickles of a buffer call.
#[pyfunction]
#[pyo3(signature = (name, dir=None, on_unlinked="warn".to_owned()))]
pub(crate) fn _attach_buffer(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
    on_unlinked: String,
) -> Result<ReplayBuffer, Failure> {
    let on_unlinked = self::on_unlinked(on_unlinked)?;
    let ring = py.detach(|| Ring::attach_in(&base(dir), name))?;
    Ok(ReplayBuffer::of(ring.on_unlinked(on_unlinked)))
}
