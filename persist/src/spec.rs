//! Names of saved rings and labels of snapshots: `pong@epoch-10`.

use std::fmt;
use std::str::FromStr;

use backcast_core::plumbing::{MAX_NAME_BYTES, name_problem};

use crate::error::{SaveError, StoreError};

/// Name of a snapshot: `"pong@epoch-10"`, or `"pong"` for the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Name of the saved ring.
    pub name: String,
    /// Label; `None` for the newest.
    pub label: Option<String>,
}

impl FromStr for SnapshotSpec {
    type Err = StoreError;

    /// Parses `name@label`, or a name alone.
    ///
    /// ```
    /// use backcast_persist::SnapshotSpec;
    /// let spec: SnapshotSpec = "pong@epoch-10".parse()?;
    /// assert_eq!((spec.name.as_str(), spec.label.as_deref()), ("pong", Some("epoch-10")));
    /// assert_eq!("pong".parse::<SnapshotSpec>()?.label, None);
    /// assert!("pong@".parse::<SnapshotSpec>().is_err());
    /// # Ok::<(), backcast_persist::StoreError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let (name, label) = match text.split_once('@') {
            Some((name, label)) => (name, Some(label)),
            None => (text, None),
        };
        check_name("name", name)?;
        label.map(|label| check_name("label", label)).transpose()?;
        Ok(Self { name: name.to_owned(), label: label.map(str::to_owned) })
    }
}

impl fmt::Display for SnapshotSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.label.iter().try_for_each(|label| write!(f, "@{label}"))
    }
}

/// Refuses an invalid name or label.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    match name_problem(name) {
        Some(reason) => {
            Err(StoreError::BadName { what, name: name.to_owned(), reason, limit: MAX_NAME_BYTES })
        }
        None => Ok(()),
    }
}

/// Label of the snapshot of a followed ring.
pub(crate) const LIVE: &str = "live";
/// Label of the last live snapshot of the previous ring of the name.
pub(crate) const BEFORE: &str = "before";
/// Prefix of the labels of periodic snapshots.
pub(crate) const ROLLING: &str = "auto-";
/// Label of the snapshot of an evicted ring.
pub(crate) const EVICTED: &str = "evicted";

/// Refuses the labels of automatic snapshots.
pub(crate) fn check_free(label: &str) -> Result<(), SaveError> {
    if [LIVE, BEFORE, EVICTED].contains(&label) || label.starts_with(ROLLING) {
        return Err(SaveError::LabelReserved { label: label.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_store_are_refused() {
        for bad in ["", "@a", "a@", "..", "a@..", "a/b", "a@b/c", "a@b@c", "a b", "naïve"] {
            let error = bad.parse::<SnapshotSpec>().unwrap_err();
            assert!(matches!(error, StoreError::BadName { .. }), "{bad:?}: {error}");
        }
        let long = "x".repeat(101);
        let text = long.parse::<SnapshotSpec>().unwrap_err().to_string();
        assert!(text.contains(&long) && text.contains("100"), "{text}");
        for good in ["pong", "pong-v5@epoch_10.b"] {
            assert_eq!(good.parse::<SnapshotSpec>().unwrap().to_string(), good);
        }
    }
}
