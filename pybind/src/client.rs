//! `backcast.connect`: asking the daemon from Python.

mod listed;
mod rings;
mod store;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use backcast_daemon::{Client as Asking, ClientError, Code};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};
use serde::Serialize;

use crate::buffer::seconds_of;
use crate::error::{Failure, Kind, bad_argument};
use crate::given::{Given, function, method, not_called, refuse_strangers};
use crate::place::place;

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::Ring(error) => return error.into(),
            ClientError::NotRunning { .. } => Kind::DaemonNotRunning,
            ClientError::TimedOut { .. } => Kind::DaemonTimeout,
            ClientError::OverBudget { .. } => Kind::OverBudget,
            ClientError::OverQuota { .. } => Kind::OverQuota,
            ClientError::NameTaken { .. } => Kind::Exists,
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
