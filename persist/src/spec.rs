//! Names of saved rings and labels of snapshots: `pong@epoch-10`.

use std::fmt;
use std::str::FromStr;

use crate::error::{SaveError, StoreError};

/// Maximum bytes of a name or label, as for objects in shared memory.
pub(crate) const MAX_NAME_BYTES: usize = 100;

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

/// Refuses a name that is empty, too long, begins with a dot, or has a character outside of `A-Z
/// a-z 0-9 _ - .`.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "it is too long"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
        "it has a character outside the allowed ones"
    } else {
        return Ok(());
    };
    Err(StoreError::BadName { what, name: name.to_owned(), reason, limit: MAX_NAME_BYTES })
}

/// Label of the snapshot of a followed ring.
pub(crate) const LIVE: &str = "live";
/// Label of the last snapshot of the previous followed ring of the name.
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
