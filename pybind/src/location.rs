//! Arguments for the directory of a named object and the treatment of a taken name.

use std::path::{Path, PathBuf};

use backcast_core::{Base, Exist, ObjectKind, OnUnlinked};
use pyo3::prelude::*;

use crate::argument::Argument;
use crate::error::{ErrorClass, Failure, bad_argument};

/// Returns the base directory for a `dir`, or the standard one.
pub(crate) fn base_at(dir: Option<PathBuf>) -> Base {
    dir.map_or_else(Base::standard, Base::at)
}

/// Reads the `dir` argument.
pub(crate) fn base_of(dir: Option<Argument<PathBuf>>) -> Result<Base, Failure> {
    let dir = dir.map(|dir| dir.get("dir", "a path, or None for the standard place"));
    Ok(base_at(dir.transpose()?))
}

/// Returns the `dir` argument for an object at `<dir>/backcast-<uid>/<object>`.
pub(crate) fn dir_of(path: &Path) -> Option<PathBuf> {
    path.parent()?.parent().map(Path::to_owned)
}

/// Value of `__reduce__` for an object that pickles by name: a function and its arguments.
pub(crate) type ByName<'py> = (Bound<'py, PyAny>, (String, Option<PathBuf>));

/// Pickles an object by its name and directory; errors call it `what`.
pub(crate) fn reduce_by_name<'py>(
    py: Python<'py>,
    what: &str,
    attach: &str,
    name: Option<&str>,
    path: Option<&Path>,
) -> Result<ByName<'py>, Failure> {
    let Some(name) = name else {
        return Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{what} without a name is private to its process and cannot be pickled; create it \
                 with a name"
            ),
        ));
    };
    let attach = py.import("backcast._native")?.getattr(attach)?;
    Ok((attach, (name.to_owned(), path.and_then(dir_of))))
}

/// Reads the `exist` argument.
pub(crate) fn exist_of(given: impl Into<Argument<String>>) -> Result<Exist, Failure> {
    const CHOICE: &str = "\"error\", \"attach\" or \"replace\"";
    let text = given.into().get("exist", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("exist is '{text}'; give {CHOICE}")))
}

/// Reads the `on_unlinked` argument.
pub(crate) fn on_unlinked_of(given: impl Into<Argument<String>>) -> Result<OnUnlinked, Failure> {
    const CHOICE: &str = "\"warn\", \"error\" or \"ignore\"";
    let text = given.into().get("on_unlinked", CHOICE)?;
    text.parse().map_err(|_| bad_argument(format!("on_unlinked is '{text}'; give {CHOICE}")))
}

/// Reads the `persistent` argument, which only an object with a name may set.
pub(crate) fn persistent_of(
    given: Argument<bool>,
    named: bool,
    kind: &str,
) -> Result<bool, Failure> {
    let persistent = given.get("persistent", "True or False")?;
    if persistent && !named {
        return Err(bad_argument(format!(
            "persistent is True, but a {kind} without a name goes with its process; give it a \
             name, or leave persistent out"
        )));
    }
    Ok(persistent)
}

/// Reads the `name` argument of an object that must have one.
pub(crate) fn name_of(given: Argument<String>) -> Result<String, Failure> {
    given.get("name", "the name, a str")
}

/// Reads the `kind` argument.
pub(crate) fn kind_of(given: Argument<String>) -> Result<ObjectKind, Failure> {
    const CHOICE: &str = "\"ring\", \"panel\" or \"params\"";
    let text = given.get("kind", CHOICE)?;
    match text.as_str() {
        "ring" => Ok(ObjectKind::Ring),
        "panel" => Ok(ObjectKind::Panel),
        "params" => Ok(ObjectKind::Params),
        _ => Err(bad_argument(format!("kind is '{text}'; give {CHOICE}"))),
    }
}
