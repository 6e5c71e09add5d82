//! `backcast.connect`: asking the daemon from Python.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::{Exist, MAX_LANES, MAX_READER_SLOTS, RingOptions};
use backcast_daemon::{Client as Asking, ClientError, Code};
use backcast_persist::Mode;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};
use serde::Serialize;

use crate::buffer::{ReplayBuffer, policy, seconds_of};
use crate::capacity;
use crate::coerce::count_in;
use crate::error::{Failure, Kind, bad_argument};
use crate::given::{Given, function, method, not_called, refuse_strangers};
use crate::place::{exist, kind, name_of, place};
use crate::schema::schema_of;

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::Ring(error) => return error.into(),
            ClientError::NotRunning { .. } => Kind::DaemonNotRunning,
            ClientError::TimedOut { .. } => Kind::DaemonTimeout,
            ClientError::OverBudget { .. } => Kind::OverBudget,
            ClientError::OverQuota { .. } => Kind::OverQuota,
            ClientError::Refused { code, .. } => match code {
                Code::NotFound => Kind::NotFound,
                Code::Exists => Kind::Exists,
                Code::InUse => Kind::InUse,
                Code::NoSpace => Kind::Space,
                Code::BadArgument => Kind::Argument,
                Code::Schema => Kind::Schema,
                Code::Corrupt => Kind::Corrupt,
                Code::Storage => Kind::Storage,
                _ => Kind::Daemon,
            },
            _ => Kind::Daemon,
        };
        Self::new(kind, error)
    }
}

/// Asks the daemon that looks after a directory's rings.
///
/// Made by :func:`backcast.connect`. Each call is a connection of its own: a daemon that was restarted in
/// between is no error, and nothing is held between calls. A context manager. Rings that it makes or
/// joins are as any others, and need neither it nor the daemon any more.
///
/// Examples
/// --------
/// >>> try:
/// ...     client = bc.connect(socket="no-such-socket")
/// ... except bc.DaemonNotRunningError:
/// ...     print("start one: backcast serve")
/// start one: backcast serve
#[pyclass(module = "backcast", name = "Client", frozen)]
pub(crate) struct Client {
    asking: Asking,
    closed: AtomicBool,
}

/// Find the daemon of a directory, and ask whether it is there.
///
/// Parameters
/// ----------
/// dir : path, optional
///     Where the rings live; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
/// timeout : float, default 5.0
///     Seconds that the daemon may be silent. While it makes a large ring it is not.
/// socket : path, optional
///     The daemon's socket, for processes that do not see the directory, such as in a container.
///
/// Returns
/// -------
/// Client
///     Holds nothing, so it need not be closed.
///
/// Raises
/// ------
/// DaemonNotRunningError
///     If nobody listens; the message says how to start one.
/// DaemonTimeoutError
///     If it stays silent.
/// DaemonError
///     If it is another user's, or speaks another version's language.
#[pyfunction]
#[pyo3(signature = (dir=None, timeout=5.0_f64.into(), socket=None, *extra, **unknown))]
#[pyo3(text_signature = "(dir=None, timeout=5.0, socket=None)")]
pub(crate) fn connect<'py>(
    py: Python<'py>,
    dir: Option<Given<PathBuf>>,
    timeout: Given<f64>,
    socket: Option<Given<PathBuf>>,
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
) -> Result<Client, Failure> {
    refuse_strangers(extra, unknown, function("connect"))?;
    let socket = socket.map(|socket| socket.get("socket", "a path")).transpose()?;
    let timeout = seconds_of("timeout", timeout)?;
    if timeout.is_zero() {
        return Err(bad_argument("timeout is 0; give seconds above 0, or the daemon has no time"));
    }
    let asking = match (socket, dir) {
        (Some(_), Some(_)) => {
            return Err(bad_argument(
                "connect takes either dir or socket, got both; give one of them",
            ));
        }
        (Some(socket), None) => Asking::at(&socket),
        (None, dir) => Asking::of(&place(dir)?),
    };
    let client = Client { asking: asking.timeout(timeout), closed: AtomicBool::new(false) };
    client.ask(py, Asking::ping)?;
    Ok(client)
}

/// The `persist` argument.
fn mode(given: Given<String>) -> Result<Mode, Failure> {
    const CHOICE: &str = "\"off\", \"periodic\", \"continuous\" or \"block\"";
    let text = given.get("persist", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("persist is '{text}'; give {CHOICE}")))
}

impl Client {
    /// Asks, detached, and so that Ctrl-C ends the wait.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Asking) -> Result<T, ClientError> + Send,
    ) -> Result<T, Failure> {
        // ORDERING: relaxed; a flag beside no data.
        if self.closed.load(Relaxed) {
            return Err(Failure::new(Kind::Closed, "the client is closed; connect again"));
        }
        let signal = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&signal);
        let asking = self.asking.clone().interrupted_by(move || {
            let raised = Python::attach(|py| py.check_signals().err());
            let interrupted = raised.is_some();
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = raised;
            interrupted
        });
        let answer = py.detach(|| question(&asking));
        match signal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(raised) => Err(raised.into()),
            None => Ok(answer?),
        }
    }

    /// Asks, and hands on what the answer says as Python's own objects.
    fn told<'py, T: Serialize + Send>(
        &self,
        py: Python<'py>,
        question: impl FnOnce(&Asking) -> Result<T, ClientError> + Send,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let answer = self.ask(py, question)?;
        let text = serde_json::to_string(&answer).map_err(|error| {
            Failure::new(Kind::Daemon, format!("cannot show the answer: {error}"))
        })?;
        Ok(py.import("json")?.call_method1("loads", (text,))?)
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(_given: &Bound<'_, PyAny>, _named: Option<&Bound<'_, PyDict>>) -> Result<Self, Failure> {
        Err(not_called("Client", "call backcast.connect"))
    }

    /// What the daemon says of itself.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``pid``, ``version``, ``base`` (the directory), ``uptime_s``, ``budget_bytes``, ``used_bytes``,
    ///     ``quota_bytes`` (of one process; None: no limit), ``when_full``.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn ping<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("ping"))?;
        self.told(py, Asking::ping)
    }

    /// Make a ring within the daemon's budget.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What other processes attach to.
    /// schema : Schema or dict
    ///     The columns, as for :meth:`ReplayBuffer.create`.
    /// capacity : int or str
    ///     Transitions, or bytes as text. A daemon that shrinks may give less: see ``capacity`` of the
    ///     buffer.
    /// lanes : int, default 1
    ///     Single-writer lanes; these and the following are as for :meth:`ReplayBuffer.create`.
    /// exist : {"error", "attach", "replace"}, default "error"
    ///     When the name is taken.
    /// persistent : bool, default False
    ///     Keep the ring when nobody holds it.
    /// lane_policy : {"block", "drop_new", "fail", "overwrite"}, default "block"
    ///     What a writer does about a lease in its way.
    /// lease_timeout : float, optional
    ///     Seconds that it waits for one, with ``"block"``.
    /// reader_slots : int, default 64
    ///     Room for readers.
    /// huge_pages : bool, default True
    ///     Ask the system for huge pages.
    /// memfd : bool, default False
    ///     Put the ring into sealed memory, which no process can cut short, instead of files (Linux). The
    ///     daemon keeps it; if that is killed, the ring goes with the last process that has it.
    /// persist : {"off", "periodic", "continuous", "block"}, optional
    ///     Have the daemon bring the ring to disk by itself; its settings say whether, when left out. It
    ///     stays with the ring, so that a daemon that is started later goes on with it.
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
    /// OverQuotaError
    ///     If this process would have more than the daemon allows one.
    /// ExistsError
    ///     If the name is taken.
    #[pyo3(signature = (
        name=Given::Missing, schema=None, *extra, capacity=None, lanes=1_i64.into(),
        exist="error".into(), persistent=false.into(), lane_policy="block".into(),
        lease_timeout=None, reader_slots=64_i64.into(), huge_pages=true.into(), memfd=false.into(),
        persist=None, **unknown
    ))]
    #[pyo3(text_signature = "($self, name, schema, *, capacity, lanes=1, exist='error', \
                             persistent=False, lane_policy='block', lease_timeout=None, \
                             reader_slots=64, huge_pages=True, memfd=False, persist=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn create<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
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
        memfd: Given<bool>,
        persist: Option<Given<String>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<ReplayBuffer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("create"))?;
        let name = name_of(name)?;
        let schema = schema_of(schema)?;
        let slots = count_in(reader_slots, "reader_slots", 1..=MAX_READER_SLOTS, Kind::Argument)?;
        let options = RingOptions::with_capacity(capacity::from_python(capacity)?)
            .lanes(count_in(lanes, "lanes", 1..=MAX_LANES, Kind::Argument)?)
            .exist(self::exist(exist)?)
            .persistent(persistent.get("persistent", "True or False")?)
            .lane_policy(policy(lane_policy, lease_timeout)?)
            .reader_slots(slots)
            .huge_pages(huge_pages.get("huge_pages", "True or False")?)
            .memfd(memfd.get("memfd", "True or False")?);
        let mode = persist.map(mode).transpose()?;
        let (ring, _) = self.ask(py, |asking| match mode {
            Some(mode) => asking.create_persisted(&name, &schema, &options, mode),
            None => asking.create(&name, &schema, &options),
        })?;
        Ok(ReplayBuffer::of(ring))
    }

    /// Make a ring larger within the daemon's budget, while it is written and read.
    ///
    /// As :meth:`ReplayBuffer.resize`, which does not ask. The larger memory has to fit beside the old. A
    /// ring that was evicted is brought back for it.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// capacity : int or str
    ///     Transitions over all lanes, or bytes as text (``"16GiB"``): more than there is. A daemon
    ///     that shrinks may give less.
    /// timeout : float, default 10.0
    ///     Seconds that the daemon waits for writers to move their lanes, at most an hour; they move later
    ///     by themselves.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name``, ``capacity_rows``, ``lane_capacity_rows``, ``allocated_bytes``, ``copied_rows``,
    ///     ``waiting_lanes`` (lanes that move when their writers append next, or end), and ``shrunk``.
    ///
    /// Raises
    /// ------
    /// OverBudgetError
    ///     If it does not fit; the ring is as it was.
    /// OverQuotaError
    ///     If this process would have more than the daemon allows one.
    /// NotFoundError
    ///     If there is no such ring.
    /// ArgumentError
    ///     If the capacity is less than there is.
    /// InUseError
    ///     If somebody else resizes the ring, or an earlier resize to another size is not finished.
    #[pyo3(signature = (name=Given::Missing, capacity=None, *extra, timeout=10.0.into(), **unknown))]
    #[pyo3(text_signature = "($self, name, capacity, *, timeout=10.0)")]
    fn resize<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        capacity: Option<&Bound<'py, PyAny>>,
        extra: &Bound<'py, PyTuple>,
        timeout: Given<f64>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("resize"))?;
        let name = name_of(name)?;
        let capacity = capacity::from_python(capacity)?;
        let timeout = seconds_of("timeout", timeout)?;
        self.told(py, |asking| asking.resize(&name, capacity, timeout))
    }

    /// Save a ring to the daemon's store, beside its writers.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// label : str, optional
    ///     Label of the snapshot; the first of s1, s2, ... that is free, when left out.
    /// replace : bool, default False
    ///     Put it in the place of the snapshot that has the label.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name`` (``"pong@s1"``), ``rows``, ``written_rows``, ``written_files``, ``size_bytes``,
    ///     ``lapped_rows``, ``freed_bytes``.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such ring.
    /// ExistsError
    ///     If the label has a snapshot.
    /// SpaceError
    ///     If the disk is full. What was saved before is not touched.
    #[pyo3(signature = (name=Given::Missing, label=None, replace=false.into(), *extra, **unknown))]
    #[pyo3(text_signature = "($self, name, label=None, replace=False)")]
    fn save<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        label: Option<Given<String>>,
        replace: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("save"))?;
        let name = name_of(name)?;
        let label = label.map(|label| label.get("label", "a str, or None")).transpose()?;
        let replace = replace.get("replace", "True or False")?;
        self.told(py, |asking| asking.save(&name, label.as_deref(), replace))
    }

    /// Make a ring of a snapshot in the daemon's store, within its budget.
    ///
    /// Parameters
    /// ----------
    /// snapshot : str
    ///     ``"pong@epoch-10"``, or ``"pong"`` for the newest of that name.
    /// name : str, optional
    ///     Of the ring, if not the one that was saved.
    /// exist : {"error", "replace"}, default "error"
    ///     When the name is taken. The old ring stays until the new one is whole.
    /// persistent : bool, default False
    ///     Keep the ring when nobody holds it.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     The ring, held by this process.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such snapshot.
    /// CorruptError
    ///     If a byte of it changed; no ring was made.
    /// OverBudgetError
    ///     If it does not fit.
    #[pyo3(signature = (
        snapshot=Given::Missing, name=None, exist="error".into(), persistent=false.into(), *extra,
        **unknown
    ))]
    #[pyo3(text_signature = "($self, snapshot, name=None, exist='error', persistent=False)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn load<'py>(
        &self,
        py: Python<'py>,
        snapshot: Given<String>,
        name: Option<Given<String>>,
        exist: Given<String>,
        persistent: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<ReplayBuffer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("load"))?;
        let snapshot = snapshot.get("snapshot", "a snapshot, such as \"pong@epoch-10\"")?;
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        let exist = match self::exist(exist)? {
            Exist::Attach => {
                return Err(bad_argument("exist is 'attach'; give \"error\" or \"replace\""));
            }
            exist => exist,
        };
        let persistent = persistent.get("persistent", "True or False")?;
        let load = |asking: &Asking| asking.load(&snapshot, name.as_deref(), exist, persistent);
        let (ring, _) = self.ask(py, load)?;
        Ok(ReplayBuffer::of(ring))
    }

    /// List what is in the daemon's store.
    ///
    /// Parameters
    /// ----------
    /// name : str, optional
    ///     Of one ring; all, when left out.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``name`` (``"pong@s1"``), ``saved_unix_ns``, ``lane_count``, ``rows`` and ``size_bytes`` of
    ///     each snapshot, oldest first.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (name=None, *extra, **unknown), text_signature = "($self, name=None)")]
    fn snapshots<'py>(
        &self,
        py: Python<'py>,
        name: Option<Given<String>>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("snapshots"))?;
        let name = name.map(|name| name.get("name", "a name, a str, or None")).transpose()?;
        self.told(py, |asking| asking.snapshots(name.as_deref()))
    }

    /// Join a ring through a descriptor that the daemon hands over.
    ///
    /// This process need not see the ring's directory, as in a container that has the socket alone.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     The ring, held by this process.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    #[pyo3(signature = (name=Given::Missing, *extra, **unknown), text_signature = "($self, name)")]
    fn attach<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<ReplayBuffer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("attach"))?;
        let name = name_of(name)?;
        Ok(ReplayBuffer::of(self.ask(py, |asking| asking.attach(&name))?))
    }

    /// List all rings and panels.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     The objects of ``backcast --json ls``.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn list<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("list"))?;
        self.told(py, Asking::list)
    }

    /// Tell everything about one ring.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    ///
    /// Returns
    /// -------
    /// dict
    ///     The object of ``backcast --json stat``.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    #[pyo3(signature = (name=Given::Missing, *extra, **unknown), text_signature = "($self, name)")]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("stats"))?;
        let name = name_of(name)?;
        self.told(py, |asking| asking.stats(&name))
    }

    /// Remove a ring or panel by name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     What it was created as.
    /// kind : {"ring", "panel"}, optional
    ///     Needed when a ring and a panel share the name.
    /// force : bool, default False
    ///     Also when a live process holds it.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    /// InUseError
    ///     If a live process holds it.
    #[pyo3(signature = (name=Given::Missing, kind=None, force=false.into(), *extra, **unknown))]
    #[pyo3(text_signature = "($self, name, kind=None, force=False)")]
    fn remove<'py>(
        &self,
        py: Python<'py>,
        name: Given<String>,
        kind: Option<Given<String>>,
        force: Given<bool>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("remove"))?;
        let name = name_of(name)?;
        let kind = kind.map(self::kind).transpose()?;
        let force = force.get("force", "True or False")?;
        self.told(py, |asking| asking.remove(&name, kind, force))
    }

    /// Remove what nobody holds and nobody asked to keep.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``kind``, ``name`` and ``size_bytes`` of what was removed.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If it has ended since.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn gc<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("gc"))?;
        self.told(py, Asking::gc)
    }

    /// The daemon's socket.
    #[getter]
    fn socket(&self) -> PathBuf {
        self.asking.socket().to_owned()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Ask nothing more. Rings that it made or joined stay.
    fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { "closed, " } else { "" };
        format!("<backcast.Client: {state}{}>", self.asking.socket().display())
    }
}
