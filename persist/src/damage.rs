//! What was found wrong with a file of a store.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// A file that does not hold what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub kind: DamageKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// It is not there.
    Missing,
    /// It has another size.
    Size {
        /// Bytes it has.
        found: u64,
        /// Bytes it had.
        expected: u64,
    },
    /// Bytes of it changed.
    Changed {
        /// What stands in them.
        part: Part,
        /// Where.
        bytes: Range<u64>,
    },
    /// A manifest that is cut or changed, or says what cannot be.
    Manifest {
        /// Why.
        problem: String,
    },
    /// Rows that say they are others.
    Rows {
        /// Lane.
        lane: u32,
        /// The rows that should be there.
        rows: Range<u64>,
    },
    /// The system does not give its bytes.
    Unreadable {
        /// What the system says.
        problem: String,
    },
}

/// A part of a chunk file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Magic and schema.
    Head,
    /// What stands before the rows of a batch.
    Frame {
        /// Lane of the batch.
        lane: u32,
        /// Its rows.
        rows: Range<u64>,
    },
    /// A column of a batch.
    Column {
        /// Name of the column.
        column: String,
        /// Lane of the batch.
        lane: u32,
        /// Its rows.
        rows: Range<u64>,
    },
    /// The footer.
    Tail,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Head => f.write_str("the head"),
            Part::Frame { lane, rows } => {
                write!(f, "the frame of rows {}..{} of lane {lane}", rows.start, rows.end)
            }
            Part::Column { column, lane, rows } => {
                write!(f, "column `{column}` of rows {}..{} of lane {lane}", rows.start, rows.end)
            }
            Part::Tail => f.write_str("the footer"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match &self.kind {
            DamageKind::Missing => f.write_str("the file is missing"),
            DamageKind::Size { found, expected } => {
                write!(f, "it has {found} bytes, saved were {expected}")
            }
            DamageKind::Changed { part, bytes } => {
                write!(f, "{part} changed (bytes {}..{})", bytes.start, bytes.end)
            }
            DamageKind::Manifest { problem } | DamageKind::Unreadable { problem } => {
                f.write_str(problem)
            }
            DamageKind::Rows { lane, rows } => {
                write!(f, "it does not hold rows {}..{} of lane {lane}", rows.start, rows.end)
            }
        }
    }
}

impl std::error::Error for Damage {}
