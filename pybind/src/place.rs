//! Where named objects live, and the functions that list, remove and collect them.

use std::path::{Path, PathBuf};

use backcast_core::{Base, Exist, Kind as ObjectKind, ObjectInfo, collect, list, remove};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::{Failure, bad_argument};

/// The base directory that a `dir` argument means.
pub(crate) fn base(dir: Option<PathBuf>) -> Base {
    dir.map_or_else(Base::standard, Base::at)
}

/// The `dir` argument that leads to an object of this path again: `<dir>/backcast-<uid>/<object>`.
fn dir_of(path: &Path) -> Option<PathBuf> {
    path.parent()?.parent().map(Path::to_owned)
}

/// What `__reduce__` returns for an object that pickles by name: a function and its arguments.
pub(crate) type ByName<'py> = (Bound<'py, PyAny>, (String, Option<PathBuf>));

/// Pickle an object by its name and the directory that it lives in.
pub(crate) fn by_name<'py>(
    py: Python<'py>,
    attach: &str,
    name: Option<&str>,
    path: Option<&Path>,
) -> Result<ByName<'py>, Failure> {
    let Some(name) = name else {
        return Err(Failure::Python(PyTypeError::new_err(
            "an object without a name is private to its process and cannot be pickled; \
             create it with a name",
        )));
    };
    let attach = py.import("backcast._native")?.getattr(attach)?;
    Ok((attach, (name.to_owned(), path.and_then(dir_of))))
}

/// The `exist` argument.
pub(crate) fn exist(text: &str) -> Result<Exist, Failure> {
    text.parse().map_err(|_| {
        bad_argument(format!("exist is {text:?}; write \"error\", \"attach\" or \"replace\""))
    })
}

fn kind(text: &str) -> Result<ObjectKind, Failure> {
    match text {
        "ring" => Ok(ObjectKind::Ring),
        "panel" => Ok(ObjectKind::Panel),
        _ => Err(bad_argument(format!("kind is {text:?}; write \"ring\" or \"panel\""))),
    }
}

/// List the rings and panels of a directory.
///
/// Parameters
/// ----------
/// dir : path, optional
///     Where they live; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
///
/// Returns
/// -------
/// list of dict
///     Sorted by kind and name, each with ``name``, ``kind``, ``path``, ``bytes`` (allocated),
///     ``persistent``, ``held`` (by a live process) and ``building``. Damaged ones are listed too.
#[pyfunction]
#[pyo3(name = "list", signature = (dir=None))]
pub(crate) fn list_objects(
    py: Python<'_>,
    dir: Option<PathBuf>,
) -> Result<Bound<'_, PyList>, Failure> {
    let found = py.detach(|| list(&base(dir)))?;
    as_dicts(py, &found)
}

/// Remove a ring or panel by name.
///
/// Who has it open keeps its memory until it lets go.
///
/// Parameters
/// ----------
/// name : str
/// kind : {"ring", "panel"}
/// force : bool
///     Also when a live process holds it.
/// dir : path, optional
///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
///
/// Returns
/// -------
/// dict
///     What was removed, as in :func:`list`.
///
/// Raises
/// ------
/// NotFoundError
///     If there is none of that name.
/// InUseError
///     If a live process holds it and ``force`` is False.
#[pyfunction]
#[pyo3(name = "remove", signature = (name, kind="ring", force=false, dir=None))]
pub(crate) fn remove_object<'py>(
    py: Python<'py>,
    name: &str,
    kind: &str,
    force: bool,
    dir: Option<PathBuf>,
) -> Result<Bound<'py, PyDict>, Failure> {
    let kind = self::kind(kind)?;
    let removed = py.detach(|| remove(&base(dir), kind, name, force))?;
    Ok(as_dict(py, &removed)?)
}

/// Remove every ring and panel that nobody holds and that is not persistent.
///
/// Parameters
/// ----------
/// dir : path, optional
///     Where they live; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
///
/// Returns
/// -------
/// list of dict
///     What was removed, as in :func:`list`.
#[pyfunction]
#[pyo3(name = "gc", signature = (dir=None))]
pub(crate) fn collect_objects(
    py: Python<'_>,
    dir: Option<PathBuf>,
) -> Result<Bound<'_, PyList>, Failure> {
    let removed = py.detach(|| collect(&base(dir)))?;
    as_dicts(py, &removed)
}

fn as_dicts<'py>(py: Python<'py>, objects: &[ObjectInfo]) -> Result<Bound<'py, PyList>, Failure> {
    let list = PyList::empty(py);
    for object in objects {
        list.append(as_dict(py, object)?)?;
    }
    Ok(list)
}

fn as_dict<'py>(py: Python<'py>, object: &ObjectInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &object.name)?;
    let kind = match object.kind {
        ObjectKind::Ring => "ring",
        ObjectKind::Panel => "panel",
    };
    dict.set_item("kind", kind)?;
    dict.set_item("path", object.path.as_os_str())?;
    dict.set_item("bytes", object.bytes)?;
    dict.set_item("persistent", object.persistent)?;
    dict.set_item("held", object.held)?;
    dict.set_item("building", object.building)?;
    Ok(dict)
}
