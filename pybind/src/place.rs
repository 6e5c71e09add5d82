//! Where named objects live, and the functions that list, remove and collect them.

use std::path::{Path, PathBuf};

use backcast_core::{
    Base, Exist, Kind as ObjectKind, ObjectInfo, OnUnlinked, collect, list, remove,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::{Failure, Kind, bad_argument};
use crate::given::{Given, function, refuse_strangers};

/// The base directory that a `dir` argument means.
pub(crate) fn base(dir: Option<PathBuf>) -> Base {
    dir.map_or_else(Base::standard, Base::at)
}

/// The same of an argument that may be anything.
pub(crate) fn place(dir: Option<Given<PathBuf>>) -> Result<Base, Failure> {
    let dir = dir.map(|dir| dir.get("dir", "a path, or None for the standard place"));
    Ok(base(dir.transpose()?))
}

/// The `dir` argument that leads to an object of this path again: `<dir>/backcast-<uid>/<object>`.
pub(crate) fn dir_of(path: &Path) -> Option<PathBuf> {
    path.parent()?.parent().map(Path::to_owned)
}

/// What `__reduce__` returns for an object that pickles by name: a function and its arguments.
pub(crate) type ByName<'py> = (Bound<'py, PyAny>, (String, Option<PathBuf>));

/// Pickle an object, `what` as errors call it, by its name and the directory that it lives in.
pub(crate) fn by_name<'py>(
    py: Python<'py>,
    what: &str,
    attach: &str,
    name: Option<&str>,
    path: Option<&Path>,
) -> Result<ByName<'py>, Failure> {
    let Some(name) = name else {
        return Err(Failure::new(
            Kind::ArgumentType,
            format!(
                "{what} without a name is private to its process and cannot be pickled; create it \
                 with a name"
            ),
        ));
    };
    let attach = py.import("backcast._native")?.getattr(attach)?;
    Ok((attach, (name.to_owned(), path.and_then(dir_of))))
}

/// The `exist` argument.
pub(crate) fn exist(given: impl Into<Given<String>>) -> Result<Exist, Failure> {
    const CHOICE: &str = "\"error\", \"attach\" or \"replace\"";
    let text = given.into().get("exist", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("exist is '{text}'; give {CHOICE}")))
}

/// The `on_unlinked` argument.
pub(crate) fn on_unlinked(given: impl Into<Given<String>>) -> Result<OnUnlinked, Failure> {
    const CHOICE: &str = "\"warn\", \"error\" or \"ignore\"";
    let text = given.into().get("on_unlinked", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("on_unlinked is '{text}'; give {CHOICE}")))
}

/// The `persistent` argument of what has a name, or has none.
pub(crate) fn persistence(given: Given<bool>, named: bool, kind: &str) -> Result<bool, Failure> {
    let persistent = given.get("persistent", "True or False")?;
    if persistent && !named {
        return Err(bad_argument(format!(
            "persistent is True, but a {kind} without a name goes with its process; give it a name, or \
             leave persistent out"
        )));
    }
    Ok(persistent)
}

/// The `name` argument of what must have one.
pub(crate) fn name_of(given: Given<String>) -> Result<String, Failure> {
    given.get("name", "the name, a str")
}

/// The `kind` argument.
pub(crate) fn kind(given: Given<String>) -> Result<ObjectKind, Failure> {
    const CHOICE: &str = "\"ring\" or \"panel\"";
    let text = given.get("kind", CHOICE)?;
    match text.as_str() {
        "ring" => Ok(ObjectKind::Ring),
        "panel" => Ok(ObjectKind::Panel),
        _ => Err(bad_argument(format!("kind is '{text}'; give {CHOICE}"))),
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
///     ``persistent``, ``held`` (by a live process) and ``building``. Damaged ones are listed too. One that is
///     ``building``, not ``held``, and has a name is what a cut import left: the same one goes on from there.
///
/// Raises
/// ------
/// StorageError
///     If the directory cannot be read. One that does not exist holds nothing.
#[pyfunction]
#[pyo3(
    name = "list", signature = (dir=None, *extra, **unknown), text_signature = "(dir=None)"
)]
pub(crate) fn list_objects<'py>(
    py: Python<'py>,
    dir: Option<Given<PathBuf>>,
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyList>, Failure> {
    refuse_strangers(extra, unknown, function("list"))?;
    let base = place(dir)?;
    let found = py.detach(|| list(&base))?;
    as_dicts(py, &found)
}

/// Remove a ring or panel by name.
///
/// Who has it open keeps its memory until it lets go.
///
/// Parameters
/// ----------
/// name : str
///     What it was created as.
/// kind : {"ring", "panel"}, default "ring"
///     Which of the two: a ring and a panel may have one name.
/// force : bool, default False
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
#[pyo3(
    name = "remove",
    signature = (
        name=Given::Missing, kind="ring".into(), force=false.into(), dir=None, *extra, **unknown
    ),
    text_signature = "(name, kind='ring', force=False, dir=None)"
)]
pub(crate) fn remove_object<'py>(
    py: Python<'py>,
    name: Given<String>,
    kind: Given<String>,
    force: Given<bool>,
    dir: Option<Given<PathBuf>>,
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyDict>, Failure> {
    refuse_strangers(extra, unknown, function("remove"))?;
    let (name, kind) = (name_of(name)?, self::kind(kind)?);
    let force = force.get("force", "True or False")?;
    let base = place(dir)?;
    let removed = py.detach(|| remove(&base, kind, &name, force))?;
    Ok(as_dict(py, &removed)?)
}

/// Remove every ring and panel that nobody holds and that is not persistent, and what cut imports left.
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
///
/// Raises
/// ------
/// StorageError
///     If the directory cannot be read or written.
#[pyfunction]
#[pyo3(name = "gc", signature = (dir=None, *extra, **unknown), text_signature = "(dir=None)")]
pub(crate) fn collect_objects<'py>(
    py: Python<'py>,
    dir: Option<Given<PathBuf>>,
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyList>, Failure> {
    refuse_strangers(extra, unknown, function("gc"))?;
    let base = place(dir)?;
    let removed = py.detach(|| collect(&base))?;
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
