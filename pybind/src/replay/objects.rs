//! Functions of the package that list, remove and collect named objects.

use std::path::PathBuf;

use backcast_core::ObjectInfo;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::argument::Argument;
use crate::error::Failure;
use crate::location::{base_of, kind_of, name_of};

/// List the rings, panels and parameters of a directory.
///
/// Parameters
/// ----------
/// dir : path, optional
///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
///
/// Returns
/// -------
/// list of dict
///     Sorted by kind and name, each with ``name``, ``kind``, ``path``, ``bytes`` (allocated),
///     ``persistent``, ``held`` (by a live process), ``holders`` (process ids, as far as this user
///     may see them) and ``building``. Damaged ones are listed too.
///
/// Raises
/// ------
/// StorageError
///     If the directory cannot be read. A directory that does not exist gives an empty list.
#[exact_arguments]
#[pyfunction]
#[pyo3(signature = (dir=None), text_signature = "(dir=None)")]
pub(crate) fn list_objects<'py>(
    py: Python<'py>,
    dir: Option<Argument<PathBuf>>,
) -> Result<Bound<'py, PyList>, Failure> {
    let base = base_of(dir)?;
    let (holders, found) = py.detach(|| {
        backcast_core::list_objects(&base)
            .map(|found| (backcast_core::object_holders(&found), found))
    })?;
    let dicts = found.iter().zip(holders).map(|(object, pids)| as_dict(py, object, pids));
    Ok(PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)?)
}

/// Remove a ring, panel or set of parameters by name.
///
/// Processes that have it open keep its memory until they close it.
///
/// Parameters
/// ----------
/// name : str
///     Name of the object.
/// kind : {"ring", "panel", "params"}, default "ring"
///     Kind of the object: objects of two kinds may have the same name.
/// force : bool, default False
///     Remove it even if a live process holds it.
/// dir : path, optional
///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
///
/// Returns
/// -------
/// dict
///     The removed object, as in :func:`list_objects`.
///
/// Raises
/// ------
/// NotFoundError
///     If no object has that name.
/// InUseError
///     If a live process holds it and ``force`` is False.
#[exact_arguments]
#[pyfunction]
#[pyo3(
    signature = (name=Argument::Missing, kind="ring".into(), force=false.into(), dir=None),
    text_signature = "(name, kind='ring', force=False, dir=None)"
)]
pub(crate) fn remove_object<'py>(
    py: Python<'py>,
    name: Argument<String>,
    kind: Argument<String>,
    force: Argument<bool>,
    dir: Option<Argument<PathBuf>>,
) -> Result<Bound<'py, PyDict>, Failure> {
    let (name, kind) = (name_of(name)?, kind_of(kind)?);
    let force = force.get("force", "True or False")?;
    let base = base_of(dir)?;
    let removed = py.detach(|| backcast_core::remove_object(&base, kind, &name, force))?;
    Ok(as_dict(py, &removed, Vec::new())?)
}

/// Remove every object that no process holds and that is not persistent.
///
/// A persistent ring in sealed memory counts as not persistent once no daemon keeps it. Unfinished
/// objects of dead processes are removed too.
///
/// Parameters
/// ----------
/// dir : path, optional
///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
///
/// Returns
/// -------
/// list of dict
///     Removed objects, as in :func:`list_objects`.
///
/// Raises
/// ------
/// StorageError
///     If the directory cannot be read or written.
#[exact_arguments]
#[pyfunction]
#[pyo3(signature = (dir=None), text_signature = "(dir=None)")]
pub(crate) fn collect_garbage<'py>(
    py: Python<'py>,
    dir: Option<Argument<PathBuf>>,
) -> Result<Bound<'py, PyList>, Failure> {
    let base = base_of(dir)?;
    let removed = py.detach(|| backcast_core::collect_garbage(&base))?;
    let dicts = removed.iter().map(|object| as_dict(py, object, Vec::new()));
    Ok(PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)?)
}

fn as_dict<'py>(
    py: Python<'py>,
    object: &ObjectInfo,
    holders: Vec<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &object.name)?;
    dict.set_item("kind", object.kind.as_str())?;
    dict.set_item("path", object.path.as_os_str())?;
    dict.set_item("bytes", object.bytes)?;
    dict.set_item("persistent", object.persistent)?;
    dict.set_item("held", object.held)?;
    dict.set_item("holders", holders)?;
    dict.set_item("building", object.building)?;
    Ok(dict)
}
