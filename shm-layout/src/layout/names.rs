//! Places and names of named objects.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{MAX_NAME_BYTES, SegmentError};

/// The directory that holds the objects of this user: `<dir>/backcast-<uid>/`.
///
/// ```
/// use backcast_layout::Base;
/// let base = Base::at("/dev/shm/example");
/// assert!(base.path().starts_with("/dev/shm/example"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    path: PathBuf,
}

impl Base {
    /// Returns the standard place: below `$BACKCAST_DIR` if that is set and not empty, else below
    /// `/dev/shm` on Linux, and below the temporary directory elsewhere.
    #[must_use]
    pub fn standard() -> Self {
        let dir = match env::var_os("BACKCAST_DIR") {
            Some(dir) if !dir.is_empty() => PathBuf::from(dir),
            _ if cfg!(target_os = "linux") => PathBuf::from("/dev/shm"),
            _ => env::temp_dir(),
        };
        Self::at(dir)
    }

    /// Returns the place below `dir`. A tmpfs keeps objects in memory; any other directory works
    /// too.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self { path: dir.into().join(format!("backcast-{uid}")) }
    }

    /// Returns `<dir>/backcast-<uid>`, which may not exist yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Behaviour of `create` when the name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Exist {
    /// Refuse. The default.
    #[default]
    Error,
    /// Attach to the object if it is the same as the one described.
    Attach,
    /// Replace the object. Processes that hold the old one keep their memory, under no name.
    Replace,
}

/// A word that names no [`Exist`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exist is `{0}`; use \"error\", \"attach\" or \"replace\"")]
pub struct BadExist(String);

impl FromStr for Exist {
    type Err = BadExist;

    fn from_str(text: &str) -> Result<Self, BadExist> {
        match text {
            "error" => Ok(Exist::Error),
            "attach" => Ok(Exist::Attach),
            "replace" => Ok(Exist::Replace),
            other => Err(BadExist(other.to_owned())),
        }
    }
}

impl fmt::Display for Exist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exist::Error => "error",
            Exist::Attach => "attach",
            Exist::Replace => "replace",
        })
    }
}

/// Accepts a plain name, and `name@label` of a snapshot. Refuses every other name.
pub(crate) fn check_known(name: &str) -> Result<(), SegmentError> {
    match name.split_once('@') {
        Some((ring, label)) => check_name(ring).and_then(|()| check_name(label)),
        None => check_name(name),
    }
}

/// Refuses a name of an object that has a [problem](name_problem).
pub(crate) fn check_name(name: &str) -> Result<(), SegmentError> {
    check("a ring or panel", name)
}

/// Refuses a name of a table that has a [problem](name_problem).
pub(crate) fn check_table_name(name: &str) -> Result<(), SegmentError> {
    check("a table", name)
}

fn check(what: &'static str, name: &str) -> Result<(), SegmentError> {
    match name_problem(name) {
        Some(reason) => Err(SegmentError::BadName { what, name: name.to_owned(), reason }),
        None => Ok(()),
    }
}

/// Returns, as a clause, why a name cannot be that of an object or the label of a snapshot. `None`
/// if it can.
#[must_use]
pub fn name_problem(name: &str) -> Option<&'static str> {
    Some(if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "it is too long"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if name.contains('@') {
        "`@` joins the name of a ring and the label of a snapshot"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
        "it has a character outside the allowed ones"
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for bad in
            ["a@b", "", ".", "..", ".hidden", "a/b", "a b", "naïve", "a\0b", &"x".repeat(101)]
        {
            assert!(matches!(check_name(bad), Err(SegmentError::BadName { .. })), "{bad:?}");
        }
        for good in ["a", "pong-v5", "run_7.b", &"x".repeat(100)] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
        for (name, known) in
            [("a@b", true), ("a", true), ("a@", false), ("@b", false), ("a@b@c", false)]
        {
            assert_eq!(check_known(name).is_ok(), known, "{name:?}");
        }
    }

    #[test]
    fn exist_reads_what_it_writes() {
        for exist in [Exist::Error, Exist::Attach, Exist::Replace] {
            assert_eq!(exist.to_string().parse(), Ok(exist));
        }
        assert!("overwrite".parse::<Exist>().is_err());
    }
}
