//! Arrays and columns of a file that an import leaves out.

use std::path::Path;

use crate::error::ImportError;

/// Names to leave out. Everything below a name is left out too.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaveOut(Vec<String>);

impl LeaveOut {
    pub(crate) fn of(names: Vec<String>) -> Self {
        Self(names)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an array with any of these names is left out.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.0.iter().any(|out| names.iter().any(|name| is_below(name, out)))
    }

    /// Refuses a name that the file does not have.
    pub(crate) fn check(&self, path: &Path, known: &[String]) -> Result<(), ImportError> {
        for out in &self.0 {
            if !known.iter().any(|name| is_below(name, out)) {
                let (path, name) = (path.to_owned(), out.clone());
                return Err(ImportError::NotThere { path, name, known: known.join(", ") });
            }
        }
        Ok(())
    }
}

/// Returns the remedy for an array that cannot be imported.
pub(crate) fn remedy(name: &str) -> String {
    format!("leave it out with `--leave-out {name}` (in Python, `leave_out=[\"{name}\"]`)")
}

fn is_below(name: &str, root: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_everything_below_it_and_nothing_else() {
        let out = LeaveOut::of(vec!["metadata".to_owned(), "infos/goal".to_owned()]);
        for (name, expected) in [
            ("metadata", true),
            ("metadata/algorithm", true),
            ("metadata2", false),
            ("infos/goal", true),
            ("infos/goals", false),
            ("infos", false),
        ] {
            assert_eq!(out.has(&["other", name]), expected, "{name}");
        }
        let known = ["metadata/x", "infos/goal"].map(str::to_owned);
        assert!(out.check(Path::new("a.npz"), &known).is_ok());
        let refused = out.check(Path::new("a.npz"), &known[..1]).unwrap_err();
        let ImportError::NotThere { name, known, .. } = &refused else { panic!("{refused}") };
        assert_eq!((&**name, &**known), ("infos/goal", "metadata/x"));
    }
}
