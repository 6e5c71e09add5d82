//! `backcast.types.DaemonOptions`: a client, with the options of a ring that only a daemon has.

use std::path::Path;

use backcast_core::{Ring, RingOptions, Schema};
use backcast_persist::PersistMode;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::Client;
use crate::argument::{Argument, no_constructor, wrong_type};
use crate::error::{Failure, bad_argument};

/// A client, with the options of a ring that only a daemon has.
///
/// Made by :meth:`backcast.Client.options`, for ``daemon`` of :meth:`backcast.ReplayBuffer.create`.
#[pyclass(module = "backcast.types", name = "DaemonOptions", frozen, eq)]
pub(crate) struct DaemonOptions {
    client: Py<Client>,
    memfd: bool,
    persist: Option<PersistMode>,
}

impl PartialEq for DaemonOptions {
    fn eq(&self, other: &Self) -> bool {
        let of = |options: &Self| (options.memfd, options.persist);
        of(self) == of(other) && self.socket() == other.socket()
    }
}

impl DaemonOptions {
    /// Reads the `daemon` argument: a client, or a client with options.
    pub(crate) fn given(given: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        if let Ok(client) = given.cast::<Client>() {
            return Ok(Self { client: client.clone().unbind(), memfd: false, persist: None });
        }
        let wanted = "a Client, as Client.connect() returns it, or client.options(...)";
        let options = given.cast::<Self>().map_err(|_| wrong_type(given, "daemon", wanted))?.get();
        let client = options.client.clone_ref(given.py());
        Ok(Self { client, memfd: options.memfd, persist: options.persist })
    }

    /// Creates a ring within the daemon's budget, or attaches to it as `options` says.
    pub(crate) fn create(
        &self,
        py: Python<'_>,
        name: &str,
        schema: &Schema,
        options: RingOptions,
    ) -> Result<Ring, Failure> {
        let options = options.memfd(self.memfd);
        let mode = self.persist;
        let (ring, _) = self.client.get().ask(py, |asking| match mode {
            Some(mode) => asking.create_persisted(name, schema, &options, mode),
            None => asking.create(name, schema, &options),
        })?;
        Ok(ring)
    }

    /// Attaches to a ring through a descriptor from the daemon.
    pub(crate) fn attach(&self, py: Python<'_>, name: &str) -> Result<Ring, Failure> {
        if self.memfd || self.persist.is_some() {
            return Err(bad_argument(
                "daemon has memfd or persist, which are options of a new ring; give the Client \
                 itself, or call ReplayBuffer.create with exist=\"attach\"",
            ));
        }
        self.client.get().ask(py, |asking| asking.attach(name))
    }

    fn socket(&self) -> &Path {
        self.client.get().asking.socket()
    }
}

#[pymethods]
impl DaemonOptions {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("DaemonOptions", "call client.options(memfd=..., persist=...)"))
    }

    /// The client.
    #[getter]
    fn client(&self, py: Python<'_>) -> Py<Client> {
        self.client.clone_ref(py)
    }

    /// Whether the ring is put into sealed memory.
    #[getter]
    fn memfd(&self) -> bool {
        self.memfd
    }

    /// Mode in which the daemon saves the ring; None if the daemon's settings decide.
    #[getter]
    fn persist(&self) -> Option<String> {
        self.persist.map(|mode| mode.to_string())
    }

    fn __repr__(&self) -> String {
        let memfd = if self.memfd { "True" } else { "False" };
        let persist = self.persist.map_or_else(|| "None".to_owned(), |mode| format!("'{mode}'"));
        format!(
            "<backcast.types.DaemonOptions: memfd={memfd}, persist={persist}, daemon at {}>",
            self.socket().display()
        )
    }
}

#[exact_arguments]
#[pymethods]
impl Client {
    /// Return this client, with options of a ring that only a daemon has.
    ///
    /// Parameters
    /// ----------
    /// memfd : bool, default False
    ///     Put the ring into sealed memory, which no process can cut short, instead of files
    ///     (Linux). The daemon keeps it. If the daemon is killed, the ring goes with the last
    ///     process that has it open.
    /// persist : {"off", "periodic", "continuous", "block"}, optional
    ///     Mode in which the daemon saves the ring to disk by itself. When left out, the daemon's
    ///     settings decide. The ring keeps the choice, so that a daemon that is started later
    ///     continues it.
    ///
    /// Returns
    /// -------
    /// DaemonOptions
    ///     For ``daemon`` of :meth:`ReplayBuffer.create`. Sends no request.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If an option has another value.
    #[pyo3(signature = (*, memfd=false.into(), persist=None))]
    #[pyo3(text_signature = "($self, *, memfd=False, persist=None)")]
    fn options(
        slf: &Bound<'_, Self>,
        memfd: Argument<bool>,
        persist: Option<Argument<String>>,
    ) -> Result<DaemonOptions, Failure> {
        let memfd = memfd.get("memfd", "True or False")?;
        let persist = persist.map(mode).transpose()?;
        Ok(DaemonOptions { client: slf.clone().unbind(), memfd, persist })
    }
}

/// Reads the `persist` argument.
fn mode(given: Argument<String>) -> Result<PersistMode, Failure> {
    const CHOICE: &str = "\"off\", \"periodic\", \"continuous\" or \"block\"";
    let text = given.get("persist", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("persist is '{text}'; give {CHOICE}")))
}
