//! `backcast.Client`: requests to the daemon.

mod objects;
mod options;
mod resize;
mod store;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use backcast_daemon::{Client as CoreClient, ClientError, Code};
use backcast_pybind_macros::exact_arguments;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};
use serde::Serialize;

pub(crate) use self::options::DaemonOptions;
use crate::argument::{Argument, no_constructor, seconds_of};
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::location::base_of;

/// Attributes that a client does not have, and what to write instead.
const ELSEWHERE: [(&str, &str); 8] = [
    ("attach", "bc.ReplayBuffer.attach(name, daemon=client)"),
    ("create", "bc.ReplayBuffer.create(..., daemon=client)"),
    ("gc", "client.collect_garbage()"),
    ("list", "client.list_objects()"),
    ("load", "client.load_snapshot(...)"),
    ("remove", "client.remove_object(...)"),
    ("save", "client.save_snapshot(...)"),
    ("snapshots", "client.list_snapshots()"),
];

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let class = match error {
            ClientError::Ring(error) => return error.into(),
            ClientError::NotRunning { .. } => ErrorClass::DaemonNotRunning,
            ClientError::TimedOut { .. } => ErrorClass::DaemonTimeout,
            ClientError::OverBudget { .. } => ErrorClass::OverBudget,
            ClientError::NameTaken { .. } => ErrorClass::Exists,
            ClientError::Refused { code, .. } => match code {
                Code::NotFound => ErrorClass::NotFound,
                Code::Exists => ErrorClass::Exists,
                Code::InUse => ErrorClass::InUse,
                Code::NoSpace => ErrorClass::Space,
                Code::BadArgument => ErrorClass::Argument,
                Code::Schema => ErrorClass::Schema,
                Code::Corrupt => ErrorClass::Corrupt,
                Code::Storage => ErrorClass::Storage,
                _ => ErrorClass::Daemon,
            },
            _ => ErrorClass::Daemon,
        };
        Self::of(class, error)
    }
}

/// Client of the daemon that manages the rings of a directory.
///
/// :meth:`connect` returns it. :meth:`ReplayBuffer.create` and :meth:`ReplayBuffer.attach` take it
/// as ``daemon``. Such a ring is an ordinary ring, which needs neither the client nor the daemon
/// afterwards.
///
/// Each call opens a connection of its own, so the daemon may be restarted between calls. The
/// client holds nothing between calls. It is a context manager.
///
/// Examples
/// --------
/// >>> try:
/// ...     client = bc.Client.connect(socket="no-such-socket")
/// ... except bc.errors.DaemonNotRunningError:
/// ...     print("start one: backcast serve")
/// start one: backcast serve
#[pyclass(module = "backcast", name = "Client", frozen)]
pub(crate) struct Client {
    asking: CoreClient,
    closed: AtomicBool,
}

impl Client {
    /// Sends a request with the interpreter released. Ctrl-C ends the wait.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&CoreClient) -> Result<T, ClientError> + Send,
    ) -> Result<T, Failure> {
        // ORDERING: relaxed; the flag guards no other data.
        if self.closed.load(Relaxed) {
            return Err(Failure::new(ErrorClass::Closed, "the client is closed; connect again"));
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

    /// Sends a request and returns the answer as Python objects.
    fn answer<'py, T: Serialize + Send>(
        &self,
        py: Python<'py>,
        question: impl FnOnce(&CoreClient) -> Result<T, ClientError> + Send,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let answer = self.ask(py, question)?;
        let text = serde_json::to_string(&answer).map_err(|error| {
            Failure::new(ErrorClass::Daemon, format!("cannot show the answer: {error}"))
        })?;
        Ok(py.import("json")?.call_method1("loads", (text,))?)
    }
}

#[exact_arguments]
#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(_given: &Bound<'_, PyAny>, _named: Option<&Bound<'_, PyDict>>) -> Result<Self, Failure> {
        Err(no_constructor("Client", "call Client.connect()"))
    }

    /// Connect to the daemon of a directory.
    ///
    /// Parameters
    /// ----------
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// timeout : float, default 5.0
    ///     Seconds that the daemon may be silent. While it makes a large ring, it reports progress.
    /// socket : path, optional
    ///     The daemon's socket, for processes that do not see the directory, such as in a
    ///     container.
    ///
    /// Returns
    /// -------
    /// Client
    ///     Holds nothing, so it need not be closed.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If no daemon runs; the message tells how to start one.
    /// DaemonTimeoutError
    ///     If it stays silent.
    /// DaemonError
    ///     If it belongs to another user or has another protocol version.
    /// ArgumentError
    ///     If ``timeout`` is 0 or negative, or both ``dir`` and ``socket`` are given.
    #[staticmethod]
    #[pyo3(signature = (dir=None, timeout=5.0_f64.into(), socket=None))]
    #[pyo3(text_signature = "(dir=None, timeout=5.0, socket=None)")]
    fn connect(
        py: Python<'_>,
        dir: Option<Argument<PathBuf>>,
        timeout: Argument<f64>,
        socket: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let socket = socket.map(|socket| socket.get("socket", "a path")).transpose()?;
        let timeout = seconds_of("timeout", timeout)?;
        if timeout.is_zero() {
            let text = "timeout is 0; give seconds above 0, or the daemon has no time";
            return Err(bad_argument(text));
        }
        let asking = match (socket, dir) {
            (Some(_), Some(_)) => {
                return Err(bad_argument(
                    "connect takes either dir or socket, got both; give one of them",
                ));
            }
            (Some(socket), None) => CoreClient::at(&socket),
            (None, dir) => CoreClient::of(&base_of(dir)?),
        };
        let client = Self { asking: asking.timeout(timeout), closed: AtomicBool::new(false) };
        client.ask(py, CoreClient::ping)?;
        Ok(client)
    }

    /// Return the daemon's report about itself.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``pid``, ``version``, ``base`` (the directory), ``uptime_s``, ``budget_bytes``,
    ///     ``used_bytes``, ``when_full``.
    ///
    /// Raises
    /// ------
    /// DaemonNotRunningError
    ///     If the daemon has ended.
    /// DaemonTimeoutError
    ///     If it stays silent.
    /// ClosedError
    ///     If the client was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn ping<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.answer(py, CoreClient::ping)
    }

    /// The daemon's socket.
    #[getter]
    fn socket(&self) -> PathBuf {
        self.asking.socket().to_owned()
    }

    /// Whether the client was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Close the client, so that later requests fail.
    ///
    /// Rings that were created or attached to through it stay open.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self) -> Result<(), Failure> {
        self.closed.store(true, Relaxed);
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.closed.store(true, Relaxed);
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { "closed, " } else { "" };
        format!("<backcast.Client: {state}{}>", self.asking.socket().display())
    }

    /// Refuses unknown attributes, with a hint for names of methods that are elsewhere.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        let instead = ELSEWHERE.iter().find(|(attribute, _)| *attribute == name);
        let hint = instead.map(|(_, write)| format!("; write {write}")).unwrap_or_default();
        let message = format!("'Client' object has no attribute '{name}'{hint}");
        Err(PyAttributeError::new_err(message))
    }
}
