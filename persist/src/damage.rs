//! Damage of a file of a store.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// A damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Kind of damage.
    pub kind: DamageKind,
}

/// Kind of damage of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file is missing.
    Missing,
    /// The file has another size.
    Size {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// Bytes changed.
    Changed {
        /// Part that changed.
        part: ChunkPart,
        /// Byte range.
        bytes: Range<u64>,
    },
    /// A manifest is cut, changed or invalid.
    Manifest {
        /// Description of the problem.
        problem: String,
    },
    /// Rows have other sequence numbers.
    Rows {
        /// Lane of the rows.
        lane: u32,
        /// Rows expected.
        rows: Range<u64>,
    },
    /// In place of the file there is a directory, a device, or another thing that is not a regular
    /// file.
    NotAFile,
    /// The system cannot read the file, whose bytes may be right.
    Unreadable {
        /// Error of the system.
        problem: String,
    },
}

/// A part of a chunk file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkPart {
    /// Magic and schema.
    Head,
    /// Message before the rows of a batch.
    Frame {
        /// Lane of the batch.
        lane: u32,
        /// Rows of the batch.
        rows: Range<u64>,
    },
    /// A column of a batch.
    Column {
        /// Name of the column.
        column: String,
        /// Lane of the batch.
        lane: u32,
        /// Rows of the batch.
        rows: Range<u64>,
    },
    /// The footer.
    Tail,
}

impl fmt::Display for ChunkPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkPart::Head => f.write_str("the head"),
            ChunkPart::Frame { lane, rows } => {
                write!(f, "the frame of rows {}..{} of lane {lane}", rows.start, rows.end)
            }
            ChunkPart::Column { column, lane, rows } => {
                write!(f, "column `{column}` of rows {}..{} of lane {lane}", rows.start, rows.end)
            }
            ChunkPart::Tail => f.write_str("the footer"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match &self.kind {
            DamageKind::Missing => f.write_str("the file is missing"),
            DamageKind::NotAFile => f.write_str("it is not a regular file"),
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
