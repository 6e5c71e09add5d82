//! The kinds of named objects, which errors and listings tell apart.

use std::fmt;

/// Longest name of an object, in bytes.
pub const MAX_NAME_BYTES: usize = 100;

/// Kind of a named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A replay ring: directory `<name>.ring`.
    Ring,
    /// A market panel: directory `<name>.panel`.
    Panel,
    /// Parameters of a policy: directory `<name>.params`.
    Params,
}

impl ObjectKind {
    /// All kinds, in the order of listings.
    pub const ALL: [ObjectKind; 3] = [ObjectKind::Ring, ObjectKind::Panel, ObjectKind::Params];

    /// Returns `"ring"`, `"panel"` or `"params"`, also the suffix of the object's directory.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Ring => "ring",
            ObjectKind::Panel => "panel",
            ObjectKind::Params => "params",
        }
    }

    /// Returns the kind with its article.
    pub(crate) fn described(self) -> &'static str {
        match self {
            ObjectKind::Ring => "a ring",
            ObjectKind::Panel => "a panel",
            ObjectKind::Params => "a set of parameters",
        }
    }

    pub(crate) fn lock_file(self) -> &'static str {
        match self {
            ObjectKind::Ring => "ring.lck",
            ObjectKind::Panel => "panel.lck",
            ObjectKind::Params => "params.lck",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
