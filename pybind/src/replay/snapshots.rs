//! Functions of the package that list, verify and remove snapshots, and their errors.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::plumbing::printable;
use backcast_files::Progress;
use backcast_persist::{
    BadSamplerState, Damage, LeftOutTable, LoadError, SaveError, Snapshot, Store, StoreError,
};
use backcast_pybind_macros::exact_arguments;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};

use crate::argument::Argument;
use crate::error::{ErrorClass, Failure};
use crate::json;
use crate::location::name_of;
use crate::progress::ProgressReporter;
use crate::replay::schema::entry;
use crate::warning::warn_as;

/// Longest wait for a process that saves under the name that is to be removed.
const REMOVE_WAIT: Duration = Duration::from_secs(60);

/// Reads the `store` argument.
pub(crate) fn store_of(given: Option<Argument<PathBuf>>) -> Result<Store, Failure> {
    match given {
        None => Ok(Store::standard()?),
        Some(given) => Ok(Store::at(given.get("store", "a path, or None for the standard place")?)),
    }
}

/// Warns of the damaged manifest, if one was damaged and the other one was used.
pub(crate) fn warn_of_damage(py: Python<'_>, damage: Option<&Damage>) -> Result<(), Failure> {
    let Some(damage) = damage else { return Ok(()) };
    let text = format!(
        "{damage}; the other manifest is used, which is one save older: what was saved last may be \
         missing"
    );
    Ok(warn_as(&py.get_type::<PyUserWarning>(), &text, 1)?)
}

/// Warns of the tables, and of the rate limiter, that a snapshot lacks.
pub(crate) fn warn_of_left_out(py: Python<'_>, left_out: &[LeftOutTable]) -> Result<(), Failure> {
    for table in left_out {
        warn_as(&py.get_type::<PyUserWarning>(), &table.to_string(), 1)?;
    }
    Ok(())
}

/// List the snapshots of a store.
///
/// Parameters
/// ----------
/// name : str, optional
///     Name of the saved ring; all names when left out.
/// store : path, optional
///     Directory of snapshots; by default ``BACKCAST_STORE``, else ``~/.local/share/backcast``.
///
/// Returns
/// -------
/// list of dict
///     By name, oldest first, each with ``snapshot`` (``name@label``), ``name``, ``label``,
///     ``saved_unix_ns``, ``rows``, ``bytes`` (of the files, also where snapshots share them),
///     ``files``, ``lanes`` (first row and one past the last of each), ``lane_capacity``,
///     ``columns``, ``ring_uuid``, ``state`` and ``params`` (the version of each that was saved, by
///     name). Empty if nothing was saved.
///
/// Raises
/// ------
/// CorruptError
///     If no manifest of a name can be used.
/// StorageError
///     If the store cannot be read. A store that does not exist gives an empty list.
///
/// Warns
/// -----
/// UserWarning
///     If one of the two manifests of a name is damaged, and the other one is used.
#[exact_arguments]
#[pyfunction]
#[pyo3(signature = (name=None, *, store=None))]
#[pyo3(text_signature = "(name=None, *, store=None)")]
pub(crate) fn list_snapshots<'py>(
    py: Python<'py>,
    name: Option<Argument<String>>,
    store: Option<Argument<PathBuf>>,
) -> Result<Bound<'py, PyList>, Failure> {
    let name = name.map(name_of).transpose()?;
    let store = store_of(store)?;
    let listings = py.detach(|| {
        let names = name.map_or_else(|| store.names(), |name| Ok(vec![name]))?;
        names.iter().map(|name| store.snapshots(name)).collect::<Result<Vec<_>, _>>()
    })?;
    let list = PyList::empty(py);
    for listing in listings {
        warn_of_damage(py, listing.damages.first())?;
        for snapshot in &listing.snapshots {
            list.append(as_dict(py, snapshot)?)?;
        }
    }
    Ok(list)
}

fn as_dict<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("snapshot", snapshot.spec())?;
    dict.set_item("name", &snapshot.name)?;
    dict.set_item("label", &snapshot.label)?;
    dict.set_item("saved_unix_ns", snapshot.saved_unix_ns)?;
    dict.set_item("rows", snapshot.rows)?;
    dict.set_item("bytes", snapshot.bytes)?;
    let files = snapshot.files.iter().map(|file| file.as_os_str());
    dict.set_item("files", PyList::new(py, files)?)?;
    let lanes = snapshot.lanes.iter().map(|rows| (rows.start, rows.end));
    dict.set_item("lanes", lanes.collect::<Vec<_>>())?;
    dict.set_item("lane_capacity", snapshot.lane_capacity)?;
    let columns = PyDict::new(py);
    for column in &snapshot.columns {
        columns.set_item(column.name(), entry(py, column)?)?;
    }
    dict.set_item("columns", columns)?;
    dict.set_item("ring_uuid", &snapshot.ring_uuid)?;
    dict.set_item("state", json::to_python(py, &snapshot.state)?)?;
    let params = PyDict::new(py);
    for saved in &snapshot.params {
        params.set_item(&saved.name, saved.version)?;
    }
    dict.set_item("params", params)?;
    Ok(dict)
}

/// Check every byte of a snapshot.
///
/// Reads all its files and both manifests, and verifies their checksums. Makes no ring. Releases
/// the interpreter; Ctrl-C stops it.
///
/// Parameters
/// ----------
/// snapshot : str
///     ``"pong@epoch-10"``, or ``"pong"`` for all of that name.
/// store : path, optional
///     Directory of snapshots; by default ``BACKCAST_STORE``, else ``~/.local/share/backcast``.
/// progress : callable, optional
///     Called every few megabytes with the bytes done and the bytes in all. An exception that it
///     raises stops the call.
///
/// Returns
/// -------
/// dict
///     ``whole`` (whether every byte is as it was written), ``snapshots`` that were read,
///     ``files``, ``bytes``, and ``damages``: a list of str. Each names the file, and where known
///     the column and rows. Files that could not be read are listed too.
///
/// Raises
/// ------
/// NotFoundError
///     If there is no such snapshot.
/// CorruptError
///     If no manifest can be used.
/// StorageError
///     If a file cannot be read and no other is damaged, so that the state of the snapshot is
///     unknown.
#[exact_arguments]
#[pyfunction]
#[pyo3(signature = (snapshot=Argument::Missing, *, store=None, progress=None))]
#[pyo3(text_signature = "(snapshot, *, store=None, progress=None)")]
pub(crate) fn verify_snapshot<'py>(
    py: Python<'py>,
    snapshot: Argument<String>,
    store: Option<Argument<PathBuf>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyDict>, Failure> {
    let snapshot = snapshot.get("snapshot", "\"NAME@LABEL\", or \"NAME\" for all of that name")?;
    let store = store_of(store)?;
    let mut reporter = ProgressReporter::new(progress)?;
    let found = py.detach(|| store.verify(&snapshot, |progress| reporter.report(progress)));
    let found = reporter.finish(found)?;
    if found.damages.is_empty()
        && let Some(unread) = found.unread.first()
    {
        return Err(unread_file(unread, found.unread.len()));
    }
    let report = PyDict::new(py);
    report.set_item("whole", found.is_whole())?;
    report.set_item("snapshots", &found.snapshots)?;
    report.set_item("files", found.files)?;
    report.set_item("bytes", found.bytes)?;
    let shown = |damage: &Damage| printable(&damage.to_string());
    let damages: Vec<String> = found.damages.iter().chain(&found.unread).map(shown).collect();
    report.set_item("damages", damages)?;
    Ok(report)
}

/// Remove a snapshot, and those of its files that no other snapshot needs.
///
/// Rings loaded from it, and open handles of :meth:`ReplayBuffer.open_snapshot`, stay usable.
///
/// Parameters
/// ----------
/// snapshot : str
///     ``"pong@epoch-10"``, or ``"pong"`` for all of that name.
/// store : path, optional
///     Directory of snapshots; by default ``BACKCAST_STORE``, else ``~/.local/share/backcast``.
///
/// Returns
/// -------
/// dict
///     ``removed``, a list of ``name@label``, and ``bytes_freed``.
///
/// Raises
/// ------
/// NotFoundError
///     If there is no such snapshot.
/// InUseError
///     If another process is still saving under that name after a minute.
/// CorruptError
///     If the manifest of the snapshot is damaged, or of another version.
/// SpaceError
///     If the disk is full.
/// StorageError
///     If the store cannot be written for another reason.
#[exact_arguments]
#[pyfunction]
#[pyo3(signature = (snapshot=Argument::Missing, *, store=None))]
#[pyo3(text_signature = "(snapshot, *, store=None)")]
pub(crate) fn remove_snapshot<'py>(
    py: Python<'py>,
    snapshot: Argument<String>,
    store: Option<Argument<PathBuf>>,
) -> Result<Bound<'py, PyDict>, Failure> {
    let snapshot = snapshot.get("snapshot", "\"NAME@LABEL\", or \"NAME\" for all of that name")?;
    let store = store_of(store)?;
    let mut reporter = ProgressReporter::new(None)?;
    let removed = py.detach(|| {
        let waiting = || -> ControlFlow<()> { reporter.report(&Progress::default()) };
        store.remove_within(&snapshot, REMOVE_WAIT, waiting)
    });
    let removed = reporter.finish(removed)?;
    let report = PyDict::new(py);
    report.set_item("removed", &removed.removed)?;
    report.set_item("bytes_freed", removed.bytes_freed)?;
    Ok(report)
}

/// Returns the error for a snapshot without known damage, of which `count` files were not read.
fn unread_file(first: &Damage, count: usize) -> Failure {
    let more = match count {
        1 => String::new(),
        count => format!(", and {} more files were not read", count - 1),
    };
    let text = format!(
        "cannot read {first}{more}; whether the snapshot is whole is unknown: remedy that error \
         and verify again"
    );
    Failure::new(ErrorClass::Storage, text)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        use StoreError as E;
        let class = match &error {
            E::BadName { .. } | E::NoPlace => ErrorClass::Argument,
            E::NotFound { .. } => ErrorClass::NotFound,
            E::Busy { .. } => ErrorClass::InUse,
            E::NoSpace { .. } => ErrorClass::Space,
            E::NoManifest { .. } | E::OtherVersion { .. } => ErrorClass::Corrupt,
            _ => ErrorClass::Storage,
        };
        Self::of(class, error)
    }
}

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Self {
        let class = match error {
            SaveError::Store(error) => return error.into(),
            SaveError::Params(error) => return error.into(),
            SaveError::Table(error) => return error.into(),
            SaveError::Learned(error) => return error.into(),
            SaveError::Limiter(error) => return error.into(),
            SaveError::Guard(error) => return error.into(),
            SaveError::ArrayTooLarge { .. } => ErrorClass::Schema,
            SaveError::LabelTaken { .. } => ErrorClass::Exists,
            SaveError::NoName
            | SaveError::LabelReserved { .. }
            | SaveError::NamelessParams
            | SaveError::ParamsTwice { .. }
            | SaveError::StateTooLarge { .. }
            | SaveError::StateTooDeep { .. } => ErrorClass::Argument,
            SaveError::Unreadable { .. } | SaveError::OtherRing { .. } => ErrorClass::Corrupt,
            _ => ErrorClass::Base,
        };
        Self::of(class, error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let class = match error {
            LoadError::Store(error) => return error.into(),
            LoadError::Ring(error) => return error.into(),
            LoadError::Restore(error) => return error.into(),
            LoadError::Params(error) => return error.into(),
            LoadError::NoParams { .. } => ErrorClass::NotFound,
            LoadError::Schema(_) | LoadError::Damaged { .. } => ErrorClass::Corrupt,
            LoadError::OtherSnapshot { .. } => ErrorClass::Exists,
            _ => ErrorClass::Base,
        };
        Self::of(class, error)
    }
}

impl From<BadSamplerState> for Failure {
    fn from(error: BadSamplerState) -> Self {
        Self::of(ErrorClass::Sample, error)
    }
}
