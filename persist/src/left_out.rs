//! Tables that a snapshot lacks.

use std::fmt;

/// A table of the ring that a snapshot lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutTable {
    /// Name of the table.
    pub table: String,
    /// Reason: who has it locked, or its damage.
    pub reason: String,
}

impl fmt::Display for LeftOutTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, reason } = self;
        write!(f, "the snapshot has all rows, but not the table `{table}`: {reason}")
    }
}
