//! Snapshots of a ring: saving while it is written, loading as a ring, opening read-only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backcast_core::plumbing::printable;
use backcast_core::{Base, Exist, OnUnlinked, Ring};
use backcast_persist::{
    LeftOutTable, LoadError, LoadOptions, SaveOptions, Snapshot, Store, StoreError,
};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};
use serde_json::Value;

use super::ReplayBuffer;
use crate::argument::{Argument, seconds_of};
use crate::error::{Failure, bad_argument};
use crate::json;
use crate::location::{base_at, base_of, dir_of, exist_of, on_unlinked_of};
use crate::progress::ProgressReporter;
use crate::replay::params::{FlatParams, named_params};
use crate::replay::snapshots::{store_of, warn_of_damage, warn_of_left_out};

/// Snapshot that a buffer was loaded from.
#[derive(Debug)]
pub(super) struct Saved {
    store: PathBuf,
    /// `name@label`.
    spec: String,
    state: Value,
}

impl ReplayBuffer {
    fn of_saved(ring: Ring, store: &Store, snapshot: Snapshot) -> Self {
        let (store, spec) = (store.path().to_owned(), snapshot.spec());
        let saved = Some(Arc::new(Saved { store, spec, state: snapshot.state }));
        Self { saved, ..Self::of(ring) }
    }

    /// Attaches to `"pong@epoch-10"`, which another process may have open although the store no
    /// longer has it.
    pub(super) fn attach_snapshot(
        py: Python<'_>,
        name: &str,
        place: Option<Argument<PathBuf>>,
        base: &Base,
        on_unlinked: OnUnlinked,
    ) -> Result<Self, Failure> {
        let there = || {
            let ring = Ring::attach_in(base, name).ok().filter(Ring::is_snapshot)?;
            Some(ring.on_unlinked(on_unlinked))
        };
        let store = match store_of(place) {
            Ok(store) => store,
            Err(error) => return there().map(Self::of).ok_or(error),
        };
        let mut reporter = ProgressReporter::new(None)?;
        let opened = py.detach(|| {
            let options =
                LoadOptions::default().base(base.clone()).on_progress(|done| reporter.report(done));
            store.attach_snapshot_with_state(name, options)
        });
        match opened {
            Err(LoadError::Store(error @ StoreError::NotFound { .. })) => {
                there().map(Self::of).ok_or_else(|| error.into())
            }
            opened => {
                let (ring, snapshot) = reporter.finish(opened)?;
                Ok(Self::of_saved(ring.on_unlinked(on_unlinked), &store, snapshot))
            }
        }
    }

    /// Returns the pickle of an open snapshot: a call that opens it again. Returns `None` for any
    /// other buffer, and for a snapshot that [`attach_snapshot`](Self::attach_snapshot) did not
    /// find in the store.
    pub(super) fn reopened<'py>(
        &self,
        py: Python<'py>,
    ) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let snapshot = self.name.as_deref().is_some_and(|name| name.contains('@'));
        let Some(saved) = self.saved.as_ref().filter(|_| snapshot) else { return Ok(None) };
        let open = py.import("backcast._native")?.getattr("_open_snapshot")?;
        let dir = self.path.as_deref().and_then(dir_of);
        let on_unlinked = self.ask(py, Ring::unlinked_choice)?;
        let arguments = (&saved.spec, saved.store.clone(), dir, on_unlinked.as_str());
        Ok(Some((open, arguments).into_pyobject(py)?.into_any()))
    }
}

/// Returns the store and the snapshot that `given` names: `pong@epoch-10`, or
/// `/mnt/store/pong@epoch-10`.
fn spec_of(
    given: Argument<PathBuf>,
    place: Option<Argument<PathBuf>>,
) -> Result<(Store, String), Failure> {
    const WANTED: &str = "\"NAME@LABEL\", \"NAME\" for the newest, or a path that ends so";
    let given = given.get("snapshot", WANTED)?;
    let spec = given.file_name().and_then(|name| name.to_str());
    let spec = spec
        .ok_or_else(|| bad_argument(format!("snapshot is '{}'; give {WANTED}", given.display())))?;
    let folder = given.parent().filter(|folder| *folder != Path::new(""));
    match (folder, &place) {
        (None, _) => Ok((store_of(place)?, spec.to_owned())),
        (Some(folder), None) => Ok((Store::at(folder), spec.to_owned())),
        (Some(_), Some(_)) => Err(bad_argument(format!(
            "snapshot is '{}', a path, and store is given too; leave one of them out",
            given.display()
        ))),
    }
}

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Save the ring's rows to disk, as ``name@label``.
    ///
    /// Writers and learners continue meanwhile. The call waits for other saves, reads parameters
    /// and tables, and then copies the rows that are published by then, with their episodes and
    /// sequence numbers. Rows that an earlier snapshot of the ring has are shared with it and not
    /// written again. When this returns, the snapshot survives a reboot; after an error, or a kill
    /// at any moment, everything saved before is as it was. Needs memory for some megabytes of
    /// rows, for the tables, and for one version of parameters. Releases the interpreter; Ctrl-C
    /// stops it.
    ///
    /// Parameters
    /// ----------
    /// label : str
    ///     Label of the snapshot, such as ``"epoch-10"``.
    /// name : str, optional
    ///     Name to save under, instead of the ring's own; a private ring needs one.
    /// store : path, optional
    ///     Directory of snapshots; by default ``BACKCAST_STORE``, else
    ///     ``~/.local/share/backcast``.
    /// state : dict, optional
    ///     JSON value that is saved with the snapshot: ``Sampler.state()``, a step count, names of
    ///     files. NumPy's scalars are taken as Python's; arrays are not.
    /// params : Params, str or list of these, optional
    ///     Parameters, or their names, to save with the snapshot: the newest version of each after
    ///     the wait for other saves. :meth:`Params.load` makes them again.
    /// replace : bool, default False
    ///     Replace a snapshot of that label, once the new one is complete.
    /// timeout : float, default 60.0
    ///     Seconds to wait for another process that saves under the same name. A table that a
    ///     process has locked is waited for up to 5 of these seconds, since a stopped process keeps
    ///     its lock.
    /// progress : callable, optional
    ///     Called every few megabytes with the bytes done and the bytes in all. An exception that
    ///     it raises stops the call.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``snapshot`` (``name@label``), ``rows``, ``rows_written`` (the others were in earlier
    ///     files), ``rows_lapped`` (overwritten before they were copied: the snapshot begins after
    ///     them), ``bytes_written``, ``files_written``, ``bytes_freed``, and ``left_out``: the
    ///     tables and the rate limiter that the snapshot lacks, by name, with the reason of each.
    ///
    /// Raises
    /// ------
    /// ExistsError
    ///     If there is a snapshot of that label.
    /// ArgumentError
    ///     If a name is not valid, the state is no JSON value, or parameters have no name.
    /// NotFoundError
    ///     If there are no parameters of a name.
    /// InUseError
    ///     If another process is still saving under that name after ``timeout``.
    /// SpaceError
    ///     If the disk is full.
    /// StorageError
    ///     If the store cannot be written.
    /// CorruptError
    ///     If the store's manifests of that name are damaged or of another version.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If one of the two manifests is damaged, and the other one was used; and for each table
    ///     that is damaged or that a process kept locked, and for a damaged rate limiter: all rows
    ///     are saved without it.
    ///
    /// Examples
    /// --------
    /// >>> import tempfile
    /// >>> buf = bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     index = writer.append(x=1.5, terminated=False, truncated=False)
    /// >>> with tempfile.TemporaryDirectory() as store:
    /// ...     buf.snapshot("s1", name="x", store=store)["rows"]
    /// 1
    #[pyo3(signature = (
        label=Argument::Missing, *, name=None, store=None, state=None, params=None,
        replace=false.into(), timeout=60.0_f64.into(), progress=None
    ))]
    #[pyo3(text_signature = "($self, label, *, name=None, store=None, state=None, params=None, \
                             replace=False, timeout=60.0, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        label: Argument<String>,
        name: Option<Argument<String>>,
        store: Option<Argument<PathBuf>>,
        state: Option<&Bound<'py, PyAny>>,
        params: Option<&Bound<'py, PyAny>>,
        replace: Argument<bool>,
        timeout: Argument<f64>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let label = label.get("label", "a label, such as \"epoch-10\"")?;
        let mut options = SaveOptions::default()
            .replace(replace.get("replace", "True or False")?)
            .wait(seconds_of("timeout", timeout)?);
        if let Some(name) = name {
            options = options.name(&name.get("name", "a name to save under, or None")?);
        }
        if let Some(state) = state {
            options = options.state(json::from_python(state, "state")?);
        }
        let base = base_at(self.path.as_deref().and_then(dir_of));
        let params = params.map(|given| named_params(given, &base)).transpose()?;
        let store = store_of(store)?;
        let mut reporter = ProgressReporter::new(progress)?;
        let ring = self.ring()?;
        let saved = py.detach(|| {
            let options = options.params(params.iter().flatten());
            store.save(&ring, &label, options.on_progress(|progress| reporter.report(progress)))
        });
        let saved = reporter.finish(saved)?;
        warn_of_damage(py, saved.damage.as_ref())?;
        warn_of_left_out(py, &saved.left_out)?;
        let report = PyDict::new(py);
        report.set_item("snapshot", format!("{}@{}", saved.name, saved.label))?;
        report.set_item("rows", saved.rows)?;
        report.set_item("rows_written", saved.rows_written)?;
        report.set_item("rows_lapped", saved.rows_lapped)?;
        report.set_item("bytes_written", saved.bytes_written)?;
        report.set_item("files_written", saved.files_written)?;
        report.set_item("bytes_freed", saved.bytes_freed)?;
        let left_out = PyDict::new(py);
        for LeftOutTable { table, reason } in &saved.left_out {
            left_out.set_item(table, printable(reason))?;
        }
        report.set_item("left_out", left_out)?;
        Ok(report)
    }

    /// Load a snapshot as a ring.
    ///
    /// Rows, sequence numbers, episodes and flags are restored, so that a seed gives the same
    /// draws. A writer continues after the newest row, with a new episode. Every value is checked
    /// first: a damaged snapshot is refused (:func:`verify_snapshot` also checks the bytes of the
    /// files that hold no values). What was saved as ``state`` is the buffer's
    /// :attr:`saved_state`. Releases the interpreter; Ctrl-C stops it.
    ///
    /// Parameters
    /// ----------
    /// snapshot : str or path
    ///     ``"pong@epoch-10"``, or ``"pong"`` for the newest of that name; or a path that ends so,
    ///     whose folder is the store.
    /// name : str, optional
    ///     Name of the ring, instead of the saved one.
    /// store : path, optional
    ///     Directory of snapshots; by default ``BACKCAST_STORE``, else
    ///     ``~/.local/share/backcast``.
    /// exist : {"error", "replace"}, default "error"
    ///     Policy when the name is taken. The old ring stays until the new one is complete.
    /// persistent : bool, default False
    ///     Keep the ring when no process holds it.
    /// huge_pages : bool, default True
    ///     Request huge pages from the system.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// progress : callable, optional
    ///     Called every few megabytes with the bytes done and the bytes in all. An exception that
    ///     it raises stops the call.
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
    ///     If a file is missing, cut or changed; the message names the part.
    /// ExistsError
    ///     If the ring's name is taken.
    /// ArgumentError
    ///     If an argument is invalid, such as ``exist="attach"``.
    /// SpaceError
    ///     If there is not enough memory.
    /// StorageError
    ///     If the store cannot be read, or the directory of rings cannot be used.
    #[staticmethod]
    #[pyo3(signature = (
        snapshot=Argument::Missing, name=None, *, store=None, exist="error".into(),
        persistent=false.into(), huge_pages=true.into(), dir=None, progress=None
    ))]
    #[pyo3(text_signature = "(snapshot, name=None, *, store=None, exist='error', \
                             persistent=False, huge_pages=True, dir=None, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn load<'py>(
        py: Python<'py>,
        snapshot: Argument<PathBuf>,
        name: Option<Argument<String>>,
        store: Option<Argument<PathBuf>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        huge_pages: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Self, Failure> {
        let (store, spec) = spec_of(snapshot, store)?;
        let mut options = LoadOptions::default()
            .exist(fresh_exist(exist, "ReplayBuffer.attach")?)
            .persistent(persistent.get("persistent", "True or False")?)
            .huge_pages(huge_pages.get("huge_pages", "True or False")?)
            .base(base_of(dir)?);
        if let Some(name) = name {
            options = options.name(&name.get("name", "a name for the ring, or None")?);
        }
        let mut reporter = ProgressReporter::new(progress)?;
        let loaded = py.detach(|| {
            store.load_with_state(&spec, options.on_progress(|progress| reporter.report(progress)))
        });
        let (ring, snapshot) = reporter.finish(loaded)?;
        Ok(Self::of_saved(ring, &store, snapshot))
    }

    /// Open a snapshot read-only, in shared memory.
    ///
    /// All processes that open it share one copy; the first one reads it from disk. The copy lies
    /// beside the live ring under the name ``name@label`` and goes with its last holder. It can be
    /// sampled and inspected like any ring and leased as a whole, but not written. What was saved
    /// as ``state`` is the buffer's :attr:`saved_state`. A context manager.
    ///
    /// Parameters
    /// ----------
    /// snapshot : str or path
    ///     ``"pong@epoch-10"``, or ``"pong"`` for the newest of that name; or a path that ends so,
    ///     whose folder is the store.
    /// store : path, optional
    ///     Directory of snapshots; by default ``BACKCAST_STORE``, else
    ///     ``~/.local/share/backcast``.
    /// dir : path, optional
    ///     Base directory of the copy; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// progress : callable, optional
    ///     Called every few megabytes with the bytes done and the bytes in all. An exception that
    ///     it raises stops the call.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     A handle on the copy. Pickled, it is opened again.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such snapshot.
    /// CorruptError
    ///     If a file is missing, cut or changed; the message names the part.
    /// ExistsError
    ///     If some process has another snapshot open that had this name before it was replaced.
    /// SpaceError
    ///     If there is not enough memory.
    #[staticmethod]
    #[pyo3(signature = (snapshot=Argument::Missing, *, store=None, dir=None, progress=None))]
    #[pyo3(text_signature = "(snapshot, *, store=None, dir=None, progress=None)")]
    fn open_snapshot<'py>(
        py: Python<'py>,
        snapshot: Argument<PathBuf>,
        store: Option<Argument<PathBuf>>,
        dir: Option<Argument<PathBuf>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Self, Failure> {
        let (store, spec) = spec_of(snapshot, store)?;
        let (base, reporter) = (base_of(dir)?, ProgressReporter::new(progress)?);
        open(py, &store, &spec, base, OnUnlinked::default(), reporter)
    }

    /// Whether the buffer is a read-only snapshot.
    #[getter]
    fn is_snapshot(&self) -> Result<bool, Failure> {
        self.ring.with(|ring| Ok(ring.is_snapshot()))
    }

    /// The ``state`` of the snapshot that this handle was loaded from or has open, else None.
    ///
    /// A new object each time, as JSON gives it back: tuples are lists.
    #[getter]
    fn saved_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.saved.as_ref().map(|saved| &saved.state);
        json::to_python(py, state.unwrap_or(&Value::Null))
    }
}

/// Returns the names of the arrays of parameters that were saved with a snapshot.
#[pyfunction]
#[pyo3(signature = (snapshot=Argument::Missing, params=Argument::Missing, *, store=None))]
#[pyo3(text_signature = "(snapshot, params, *, store=None)")]
pub(crate) fn _saved_arrays(
    py: Python<'_>,
    snapshot: Argument<PathBuf>,
    params: Argument<String>,
    store: Option<Argument<PathBuf>>,
) -> Result<Vec<String>, Failure> {
    let (store, spec) = spec_of(snapshot, store)?;
    let params = params_of(params)?;
    Ok(py.detach(|| store.saved_arrays(&spec, &params))?)
}

fn params_of(given: Argument<String>) -> Result<String, Failure> {
    given.get("params", "the name that the parameters were saved under")
}

/// Makes parameters that were saved with a snapshot.
#[pyfunction]
#[pyo3(signature = (
    snapshot=Argument::Missing, params=Argument::Missing, name=None, *, store=None,
    exist="error".into(), persistent=false.into(), dir=None
))]
#[pyo3(text_signature = "(snapshot, params, name=None, *, store=None, exist='error', \
                         persistent=False, dir=None)")]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn _load_params(
    py: Python<'_>,
    snapshot: Argument<PathBuf>,
    params: Argument<String>,
    name: Option<Argument<String>>,
    store: Option<Argument<PathBuf>>,
    exist: Argument<String>,
    persistent: Argument<bool>,
    dir: Option<Argument<PathBuf>>,
) -> Result<FlatParams, Failure> {
    let (store, spec) = spec_of(snapshot, store)?;
    let params = params_of(params)?;
    let mut options = LoadOptions::default()
        .exist(fresh_exist(exist, "Params.attach")?)
        .persistent(persistent.get("persistent", "True or False")?)
        .base(base_of(dir)?);
    if let Some(name) = name {
        options = options.name(&name.get("name", "a name for the parameters, or None")?);
    }
    Ok(FlatParams::of(py.detach(|| store.load_params(&spec, &params, options))?))
}

/// Reads the `exist` argument of a load, which must not be `"attach"`. The error names the call
/// `attach` instead.
fn fresh_exist(given: Argument<String>, attach: &str) -> Result<Exist, Failure> {
    match exist_of(given)? {
        Exist::Attach => Err(bad_argument(format!(
            "exist is 'attach', and a ring or parameters that are there were not loaded; give \
             \"error\" or \"replace\", or call {attach}"
        ))),
        exist => Ok(exist),
    }
}

fn open(
    py: Python<'_>,
    store: &Store,
    spec: &str,
    base: Base,
    on_unlinked: OnUnlinked,
    mut reporter: ProgressReporter,
) -> Result<ReplayBuffer, Failure> {
    let opened = py.detach(|| {
        let options = LoadOptions::default().base(base).on_progress(|done| reporter.report(done));
        store.attach_snapshot_with_state(spec, options)
    });
    let (ring, snapshot) = reporter.finish(opened)?;
    Ok(ReplayBuffer::of_saved(ring.on_unlinked(on_unlinked), store, snapshot))
}

/// Opens the snapshot of a pickled buffer.
#[pyfunction]
#[pyo3(signature = (spec, store, dir=None, on_unlinked="warn".to_owned()))]
pub(crate) fn _open_snapshot(
    py: Python<'_>,
    spec: &str,
    store: PathBuf,
    dir: Option<PathBuf>,
    on_unlinked: String,
) -> Result<ReplayBuffer, Failure> {
    let (base, on_unlinked) = (base_at(dir), on_unlinked_of(on_unlinked)?);
    open(py, &Store::at(store), spec, base, on_unlinked, ProgressReporter::new(None)?)
}
