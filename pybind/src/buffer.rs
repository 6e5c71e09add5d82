//! `backcast.ReplayBuffer`: a ring by name, for writers and learners of any process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backcast_core::{LanePolicy, MAX_LANES, MAX_READER_SLOTS, Ring, RingOptions, WriterOptions};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::capacity;
use crate::coerce::{autoreset_mode_of, count, count_in, whole};
use crate::error::{Failure, Kind, bad_argument};
use crate::given::{Given, method, not_called, refuse_strangers};
use crate::handle::Handle;
use crate::lease::Lease;
use crate::place::{ByName, base, by_name, exist, name_of, place};
use crate::sampler::{Asked, Draws, Sampler, Windows};
use crate::schema::{Schema, schema_of};
use crate::writer::Writer;

/// Sampler settings that a buffer keeps ready for its own `sample` and `gather`.
const KEPT_DRAWS: usize = 4;

/// A ring of transitions in shared memory.
///
/// Made by :meth:`create`, joined by :meth:`attach` from any process at any time. A context
/// manager; pickles by name, so that it can be handed to spawned processes, and copies to another
/// handle on the same ring. The ring goes when its last holder does, unless it is persistent.
/// Threads may share one; a forked child may not, and is told so. ``len`` is the transitions that
/// can be drawn, O(lanes).
///
/// Examples
/// --------
/// >>> columns = {"obs": ("f4", (3,)), "action": "i4", "reward": "f4"}
/// >>> buf = bc.ReplayBuffer.create(None, columns, capacity=1_000)  # a name shares it
/// >>> buf
/// <backcast.ReplayBuffer: a private ring, 0/1000 transitions, 1 lane>
/// >>> step = {"obs": [0.0, 0.1, 0.2], "action": 1, "reward": 0.5}
/// >>> with buf.writer() as writer:
/// ...     for _ in range(20):
/// ...         index = writer.append(**step, terminated=False, truncated=False)
/// >>> len(buf), buf.sample(64)["obs"].shape
/// (19, (64, 3))
/// >>> buf.close()
#[pyclass(module = "backcast", name = "ReplayBuffer", frozen)]
pub(crate) struct ReplayBuffer {
    ring: Handle<Ring>,
    name: Option<String>,
    path: Option<PathBuf>,
    schema: Schema,
    draws: Mutex<Vec<(Windows, Arc<Draws>)>>,
}

impl ReplayBuffer {
    pub(crate) fn of(ring: Ring) -> Self {
        let name = ring.name().map(str::to_owned);
        Self {
            path: ring.path().map(ToOwned::to_owned),
            schema: Schema(ring.schema().clone()),
            draws: Mutex::default(),
            ring: Handle::new(label(name.as_deref()), "attach or create it again", ring),
            name,
        }
    }

    /// The ring, for as long as the caller's call takes.
    pub(crate) fn ring(&self) -> Result<Ring, Failure> {
        self.ring.with(|ring| Ok(ring.clone()))
    }

    /// Ask the ring for something while the interpreter is released.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Ring) -> R + Send,
    ) -> Result<R, Failure> {
        let ring = self.ring()?;
        Ok(py.detach(move || question(&ring)))
    }

    /// The buffer's own sampler for these windows, made at first use.
    fn draws(&self, py: Python<'_>, windows: Windows) -> Result<Arc<Draws>, Failure> {
        let ring = self.ring()?;
        py.detach(|| {
            let mut kept = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, draws)) = kept.iter().find(|(known, _)| *known == windows) {
                return Ok(Arc::clone(draws));
            }
            let label = format!("the sampler of {}", self.ring.label());
            let draws = Arc::new(Draws::new(&ring, label, None, windows)?);
            if kept.len() == KEPT_DRAWS {
                kept.remove(0);
            }
            kept.push((windows, Arc::clone(&draws)));
            Ok(draws)
        })
    }
}

#[pymethods]
impl ReplayBuffer {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        let instead = "call ReplayBuffer.create(name, schema, capacity=...) or, for a ring that \
                       exists, ReplayBuffer.attach(name)";
        Err(not_called("ReplayBuffer", instead))
    }

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
    ///     Transitions kept, over all lanes, or the bytes to allocate, such as ``"8GiB"``.
    /// lanes : int, default 1
    ///     Independent single-writer rings, one per environment; 1 to 4096.
    /// exist : {"error", "attach", "replace"}, default "error"
    ///     What to do when the name is taken by a ring that somebody holds or that is persistent.
    ///     One that is neither is collected and counts as absent.
    /// persistent : bool, default False
    ///     Keep the ring when nobody holds it.
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
        lease_timeout=None, reader_slots=64_i64.into(), huge_pages=true.into(), dir=None, **unknown
    ))]
    #[pyo3(text_signature = "(name, schema, *, capacity, lanes=1, exist='error', \
                             persistent=False, lane_policy='block', \
                             lease_timeout=None, reader_slots=64, huge_pages=True, dir=None)")]
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
        dir: Option<Given<PathBuf>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Self, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("create"))?;
        let wanted = "a name for other processes to attach to, or None for private memory";
        let name = name.map(|name| name.get("name", wanted)).transpose()?;
        let schema = schema_of(schema)?;
        let options = RingOptions::with_capacity(capacity::from_python(capacity)?)
            .lanes(count_in(lanes, "lanes", 1..=MAX_LANES, Kind::Argument)?)
            .exist(self::exist(exist)?)
            .persistent(persistent.get("persistent", "True or False")?)
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
        Ok(Self::of(ring))
    }

    /// Join the ring of that name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// dir : path, optional
    ///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     A handle on the ring; nothing is copied.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    /// CorruptError
    ///     If the bytes there are no ring of this version.
    #[staticmethod]
    #[pyo3(signature = (name=Given::Missing, *extra, dir=None, **unknown))]
    #[pyo3(text_signature = "(name, *, dir=None)")]
    fn attach<'py>(
        py: Python<'py>,
        name: Given<String>,
        extra: &Bound<'py, PyTuple>,
        dir: Option<Given<PathBuf>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Self, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("attach"))?;
        let (name, base) = (name_of(name)?, place(dir)?);
        Ok(Self::of(py.detach(|| Ring::attach_in(&base, &name))?))
    }

    /// Claim free lanes for writing.
    ///
    /// A lane whose writer died is free, and continues where it stopped with a new episode.
    ///
    /// Parameters
    /// ----------
    /// lanes : int, default 1
    ///     How many; rows of an append go one to each.
    /// autoreset_mode : {"next_step", "same_step", "disabled"}, default "next_step"
    ///     How the environments reset, in Gymnasium's words.
    ///
    /// Returns
    /// -------
    /// Writer
    ///     Owner of the lanes until it is closed or its process ends.
    ///
    /// Raises
    /// ------
    /// WriterError
    ///     If fewer lanes are free; the message names who holds them.
    #[pyo3(signature = (lanes=1_i64.into(), autoreset_mode="next_step".into(), *extra, **unknown))]
    #[pyo3(text_signature = "($self, lanes=1, autoreset_mode='next_step')")]
    fn writer<'py>(
        &self,
        py: Python<'py>,
        lanes: Given<i128>,
        autoreset_mode: Given<String>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Writer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("writer"))?;
        let mode = autoreset_mode_of(autoreset_mode, Kind::Writer)?;
        let options = WriterOptions::lanes(count_in(lanes, "lanes", 1..=MAX_LANES, Kind::Writer)?)
            .autoreset(mode);
        let writer = self.ask(py, |ring| ring.writer(options))??;
        Ok(Writer::new(py, self.ring.label(), writer)?)
    }

    /// Make a sampler of its own, for a seed or for many draws with the same windows.
    ///
    /// Parameters
    /// ----------
    /// seed : int, optional
    ///     Equal seeds draw equal transitions from equal data; unset, the system chooses one.
    /// history : int, optional
    ///     Transitions per history window, ``H``, the drawn one included. None: no window axis.
    /// future : int
    ///     Transitions after the drawn one, ``F``.
    /// n_step : int, optional
    ///     Add the discounted return of up to ``n_step`` transitions from the drawn one on:
    ///     ``n_reward``, ``n_discount`` and ``n_next_obs``. See Notes; needs ``gamma``.
    /// gamma : float, optional
    ///     Discount per transition of that return, 0 to 1: the learner's own, hence no default.
    /// boundary : {"mask", "reject", "clamp"}
    ///     What becomes of windows that reach beyond their episode, or beyond what the ring holds of
    ///     it: ``"mask"`` zeroes those places; ``"reject"`` draws only whole windows, uniformly
    ///     over those; ``"clamp"`` repeats the first and the last observation there, as frame
    ///     stacks do, and zeroes all other columns. Masks say in each case what is there.
    /// copy : bool
    ///     Give ``obs`` and ``next_obs`` windows memory of their own, to be written to.
    ///
    /// Returns
    /// -------
    /// Sampler
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If a window is longer than a lane, ``gamma`` is missing or out of range, or ``n_step`` is
    ///     asked of a ring without a column ``reward`` of one ``f4`` or ``f8`` a row.
    ///
    /// Notes
    /// -----
    /// An n-step return uses ``k`` transitions from the drawn one ``t`` on; ``k = n_step`` unless the
    /// episode, or what is published of it, has fewer. ``n_reward`` is ``r[t] + gamma r[t+1] + ... +
    /// gamma**(k-1) r[t+k-1]``; ``n_discount`` is ``gamma**k``, and 0 if the last transition used
    /// terminated; ``n_next_obs`` is the observation after it. So the target is
    /// ``n_reward + n_discount * V(n_next_obs)`` (Sutton, Machine Learning 3, 1988; Hessel et al.,
    /// "Rainbow", AAAI 2018, "Multi-step learning"). A truncated episode bootstraps from its final
    /// observation. The newest transitions of a lane are drawn as often as all others, with the
    /// shorter return that can be summed of them. Which transitions are drawn, and all other
    /// columns, do not depend on ``n_step``.
    #[pyo3(signature = (
        *extra, seed=None, history=None, future=0_i64.into(), n_step=None, gamma=None,
        boundary="mask".into(), copy=false.into(), **unknown
    ))]
    #[pyo3(text_signature = "($self, *, seed=None, history=None, future=0, n_step=None, \
                             gamma=None, boundary='mask', copy=False)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn sampler<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        seed: Option<Given<i128>>,
        history: Option<Given<i128>>,
        future: Given<i128>,
        n_step: Option<Given<i128>>,
        gamma: Option<Given<f64>>,
        boundary: Given<String>,
        copy: Given<bool>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Sampler, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("sampler"))?;
        let seed = seed
            .map(|seed| {
                let range = format!("a whole number from 0 to {}, or None", u64::MAX);
                let seed = seed.get("seed", &range)?;
                u64::try_from(seed).map_err(|_| {
                    Failure::new(Kind::Sample, format!("seed is {seed}; give {range}"))
                })
            })
            .transpose()?;
        let windows = Windows::new(Asked { history, future, n_step, gamma, boundary, copy })?;
        let label = format!("the sampler of {}", self.ring.label());
        let draws = self.ask(py, |ring| Draws::new(ring, label, seed, windows))??;
        Ok(Sampler::new(draws, windows))
    }

    /// Draw transitions uniformly, unseeded; see :meth:`Sampler.sample`.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int
    ///     Transitions to draw, ``B``.
    /// history : int, optional
    ///     Transitions per history window, ``H``, the drawn one included. None: no window axis.
    /// future : int
    ///     Transitions after the drawn one, ``F``.
    /// copy : bool
    ///     Give ``obs`` and ``next_obs`` windows memory of their own, to be written to.
    /// n_step : int, optional
    ///     Add the discounted return of up to ``n_step`` transitions from the drawn one on:
    ///     ``n_reward``, ``n_discount`` and ``n_next_obs``. See :meth:`sampler`; needs
    ///     ``gamma``.
    /// gamma : float, optional
    ///     Discount per transition of that return, 0 to 1: the learner's own, hence no default.
    /// boundary : {"mask", "reject", "clamp"}
    ///     What becomes of windows that reach beyond their episode, or beyond what the ring holds of
    ///     it: ``"mask"`` zeroes those places; ``"reject"`` draws only whole windows, uniformly
    ///     over those; ``"clamp"`` repeats the first and the last observation there, as frame
    ///     stacks do, and zeroes all other columns. Masks say in each case what is there.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory, as in :meth:`Sampler.sample`.
    ///
    /// Returns
    /// -------
    /// Batch
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If the ring holds no transition yet, or with ``boundary="reject"`` no whole window, or a
    ///     window is longer than a lane, or ``gamma`` is missing or out of range, or ``out`` does not
    ///     fit.
    #[pyo3(signature = (
        batch_size=Given::Missing, history=None, future=0_i64.into(), copy=false.into(),
        *extra, n_step=None, gamma=None, boundary="mask".into(), out=None, **unknown
    ))]
    #[pyo3(text_signature = "($self, batch_size, history=None, future=0, copy=False, *, \
                             n_step=None, gamma=None, boundary='mask', out=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Given<i128>,
        history: Option<Given<i128>>,
        future: Given<i128>,
        copy: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        n_step: Option<Given<i128>>,
        gamma: Option<Given<f64>>,
        boundary: Given<String>,
        out: Option<&Bound<'py, PyAny>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("sample"))?;
        let windows = Windows::new(Asked { history, future, n_step, gamma, boundary, copy })?;
        self.draws(py, windows)?.sample(py, batch_size, out)
    }

    /// Fetch transitions by index, without windows; see :meth:`Sampler.gather`.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, shape (B,)
    ///     As in :attr:`Batch.index` or as :meth:`Writer.append` returned them.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory, as in :meth:`Sampler.sample`.
    ///
    /// Returns
    /// -------
    /// Batch
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a row was overwritten since.
    /// SampleError
    ///     If an index names no transition, or ``out`` does not fit.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     end = {"terminated": False, "truncated": False}
    /// ...     at = [int(writer.append(obs=t, **end)[0]) for t in range(5)]
    /// >>> buf.gather(at[1:3])["next_obs"]
    /// array([2., 3.], dtype=float32)
    #[pyo3(signature = (index=None, out=None, *extra, **unknown))]
    #[pyo3(text_signature = "($self, index, out=None)")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("gather"))?;
        self.draws(py, Windows::none())?.gather(py, index, out)
    }

    /// Copy consecutive rows of one lane, as they were written.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     From 0 to ``lanes - 1``.
    /// start : int
    ///     Sequence number of the first row, within :meth:`lane_span`.
    /// length : int
    ///     Rows to copy.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Every column as ``[length, ...]``, and the built-in ``seq`` and ``episode`` (uint64),
    ///     ``t`` and ``flags`` (uint32: 1 terminated, 2 truncated, 4 final observation, 8 does not
    ///     continue the row before).
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a writer overwrote a row meanwhile.
    /// SampleError
    ///     If the rows are not, or no longer, in the ring.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"reward": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(3):
    /// ...         index = writer.append(reward=t, terminated=t == 1, truncated=False)
    /// >>> rows = buf.rows(0, 0, 3)
    /// >>> rows["reward"], rows["flags"]
    /// (array([0., 1., 0.], dtype=float32), array([0, 1, 4], dtype=uint32))
    #[pyo3(signature = (
        lane=Given::Missing, start=Given::Missing, length=Given::Missing, *extra, **unknown
    ))]
    #[pyo3(text_signature = "($self, lane, start, length)")]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        lane: Given<i128>,
        start: Given<i128>,
        length: Given<i128>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("rows"))?;
        let lane = count(lane, "lane", 0, Kind::Sample)?;
        let start = start.get("start", "a sequence number, from 0 up")?;
        let start = u64::try_from(start).map_err(|_| {
            Failure::new(Kind::Sample, format!("start is {start}; sequence numbers begin at 0"))
        })?;
        let length = count(length, "length", 0, Kind::Sample)?;
        let range = start..start.saturating_add(u64::from(length));
        let rows = self.ask(py, |ring| ring.rows(lane, range))??;
        Ok(crate::rows::as_dict(py, &rows)?)
    }

    /// The sequence numbers that can be read from a lane.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     From 0 to ``lanes - 1``.
    ///
    /// Returns
    /// -------
    /// (int, int)
    ///     The oldest row, and one past the newest.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If the ring has no such lane.
    #[pyo3(signature = (lane=Given::Missing, *extra, **unknown))]
    #[pyo3(text_signature = "($self, lane)")]
    fn lane_span<'py>(
        &self,
        py: Python<'py>,
        lane: Given<i128>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(u64, u64), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("lane_span"))?;
        let number = count(lane, "lane", 0, Kind::Sample)?;
        let (span, lanes) = self.ask(py, |ring| (ring.lane_span(number), ring.lanes()))?;
        let span = span.ok_or_else(|| {
            Failure::new(
                Kind::Sample,
                format!("there is no lane {number}; the ring has lanes 0 to {}", lanes - 1),
            )
        })?;
        Ok((span.start, span.end))
    }

    /// Read rows of a lane where they are, without a copy.
    ///
    /// While the lease or any array from it lives, no writer overwrites the rows. A writer that
    /// arrives at them does what the ring's ``lane_policy`` says, so let go of them soon.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     The lane.
    /// start : int
    ///     Sequence number of the first row; :meth:`lane_span` says which there are.
    /// length : int
    ///     Rows; at most a quarter of the lane's capacity.
    ///
    /// Returns
    /// -------
    /// Lease
    ///     A context manager whose items are read-only arrays.
    ///
    /// Raises
    /// ------
    /// LeaseError
    ///     If the ring grants no leases, the rows are not readable or too many, or all reader slots
    ///     are taken.
    /// LappedError
    ///     If the writer overwrote the rows meanwhile.
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (
        lane=Given::Missing, start=Given::Missing, length=Given::Missing, *extra, **unknown
    ))]
    #[pyo3(text_signature = "($self, lane, start, length)")]
    fn lease<'py>(
        &self,
        py: Python<'py>,
        lane: Given<i128>,
        start: Given<i128>,
        length: Given<i128>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Lease, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("lease"))?;
        let lane = count(lane, "lane", 0, Kind::Lease)?;
        let start = whole(start, "start", "a sequence number, from 0 up", Kind::Lease)?;
        let length = whole(length, "length", "rows from 1 up", Kind::Lease)?;
        let lease =
            self.ask(py, |ring| ring.lease(lane, start..start.saturating_add(length)))??;
        Ok(Lease::new(self.ring.label(), lease))
    }

    /// Wait until the ring holds enough transitions, or until enough rows were published.
    ///
    /// Sleeps in the kernel and is woken by writers; Ctrl-C interrupts it.
    ///
    /// Parameters
    /// ----------
    /// min_size : int, optional
    ///     Transitions to wait for.
    /// timeout : float, optional
    ///     Seconds to wait at most; without end when left out.
    /// rows_published : int, optional
    ///     Rows published since the ring was made to wait for instead, over all lanes; in a full
    ///     ring the number of transitions tells nothing.
    ///
    /// Returns
    /// -------
    /// int
    ///     Transitions in the ring, or rows published.
    ///
    /// Raises
    /// ------
    /// WaitTimeoutError
    ///     If the time ran out; the message says how many there were.
    /// ArgumentError
    ///     If neither or both are given, a number is negative, or the ring can never hold so many.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> buf.wait(0, timeout=5)
    /// 0
    #[pyo3(signature = (min_size=None, timeout=None, *extra, rows_published=None, **unknown))]
    #[pyo3(text_signature = "($self, min_size=None, timeout=None, *, rows_published=None)")]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        min_size: Option<Given<i128>>,
        timeout: Option<Given<f64>>,
        extra: &Bound<'py, PyTuple>,
        rows_published: Option<Given<i128>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<u64, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("wait"))?;
        let transitions = "transitions from 0 up";
        let min_size = min_size
            .map(|given| whole(given, "min_size", transitions, Kind::Argument))
            .transpose()?;
        let rows = rows_published
            .map(|given| whole(given, "rows_published", "rows from 0 up", Kind::Argument))
            .transpose()?;
        let timeout = timeout.map(|given| seconds_of("timeout", given)).transpose()?;
        let ring = self.ring()?;
        let mut signal = None;
        let mut interrupted = || {
            signal = Python::attach(|py| py.check_signals().err());
            signal.is_some()
        };
        let waited = match (min_size, rows) {
            (Some(size), None) => py.detach(|| ring.wait_for(size, timeout, &mut interrupted)),
            (None, Some(rows)) => py.detach(|| ring.wait_for_rows(rows, timeout, &mut interrupted)),
            _ => {
                let got = if rows.is_some() { "both" } else { "neither" };
                return Err(bad_argument(format!(
                    "wait takes either min_size or rows_published, got {got}; give one of them"
                )));
            }
        };
        match signal {
            Some(raised) => Err(raised.into()),
            None => Ok(waited?),
        }
    }

    /// Counters and sizes.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Of the ring, with ``lane_stats`` and ``readers`` as lists of dicts. Sizes are in rows,
    ///     or in bytes where the key says so; ``created_unix_ns`` is a wall clock. Taken without
    ///     stopping anybody, O(lanes + readers).
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> stats = bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=100, lanes=4).stats()
    /// >>> stats["capacity"], stats["row_bytes"], stats["lane_stats"][0]["held"]
    /// (100, 28, False)
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let stats = self.ask(py, Ring::stats)?;
        Ok(crate::stats::as_dict(py, &stats)?)
    }

    /// The ring's name; None when it is private to this process.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The ring's directory; None when it is private to this process.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// Independent single-writer rings in it.
    #[getter]
    fn lanes(&self) -> Result<u32, Failure> {
        self.ring.with(|ring| Ok(ring.lanes()))
    }

    /// Rows that each lane keeps.
    #[getter]
    fn lane_capacity(&self) -> Result<u64, Failure> {
        self.ring.with(|ring| Ok(ring.lane_capacity()))
    }

    /// Rows that all lanes keep.
    #[getter]
    fn capacity(&self) -> Result<u64, Failure> {
        self.ring.with(|ring| Ok(ring.capacity()))
    }

    /// True after :meth:`close`.
    #[getter]
    fn closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// Let go of the ring, which stays for its other holders. Closing again does nothing.
    ///
    /// Writers and samplers made from this buffer hold the ring on their own.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            self.draws.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.ring.close();
        });
    }

    /// Remove the ring's name, also of a persistent ring; who has it open keeps it.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If the name was removed or taken over by another ring already.
    /// ClosedError
    ///     If the buffer was closed.
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(self.ask(py, Ring::unlink)??)
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize, Failure> {
        let transitions = self.ask(py, Ring::len)?;
        Ok(usize::try_from(transitions).map_err(PyErr::from)?)
    }

    /// A ring is true however few transitions it holds, so that `if buf:` asks for its existence.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = self.ring.describe(|ring| {
            format!(
                "{}/{} transitions, {} lane{}",
                ring.len(),
                ring.capacity(),
                ring.lanes(),
                if ring.lanes() == 1 { "" } else { "s" }
            )
        });
        format!("<backcast.ReplayBuffer: {}, {state}>", self.ring.label())
    }

    /// Asked for what a buffer has not: the names that rows are appended by elsewhere.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        let hint = match name {
            "append" | "add" | "extend" | "push" | "put" | "insert" | "store" => {
                "; rows are appended by a writer: `with buf.writer() as w: w.append(...)`"
            }
            _ => "",
        };
        let message = format!("'ReplayBuffer' object has no attribute '{name}'{hint}");
        Err(PyAttributeError::new_err(message))
    }

    /// Another handle on the same ring.
    fn __copy__(&self, py: Python<'_>) -> Result<Self, Failure> {
        Ok(Self::of(self.ask(py, Ring::clone)?))
    }

    /// Another handle on the same ring: what is shared is not copied.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        self.__copy__(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<ByName<'py>, Failure> {
        by_name(py, "_attach_buffer", self.name.as_deref(), self.path.as_deref())
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

/// A duration given in seconds.
pub(crate) fn seconds_of(what: &str, given: Given<f64>) -> Result<Duration, Failure> {
    const SECONDS: &str = "seconds from 0 up, or None to wait without end";
    let seconds = given.get(what, SECONDS)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| bad_argument(format!("{what} is {seconds}; give {SECONDS}")))
}

/// What pickles of a buffer call.
#[pyfunction]
#[pyo3(signature = (name, dir=None))]
pub(crate) fn _attach_buffer(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
) -> Result<ReplayBuffer, Failure> {
    Ok(ReplayBuffer::of(py.detach(|| Ring::attach_in(&base(dir), name))?))
}

fn label(name: Option<&str>) -> String {
    name.map_or_else(|| "a private ring".to_owned(), |name| format!("ring '{name}'"))
}
