//! What is exported and how: the same plan gives the same bytes, so one that was cut can be gone on with.

use std::fmt;

use backcast_core::Ring;
use backcast_files::RingDescription;
use serde::{Deserialize, Serialize};

use crate::export::Format;
use crate::row_reader::RowReader;

/// Version of the folder that an export leaves when it is cut.
const PARTIAL_FORMAT: u32 = 2;
/// Bytes of rows of a unit, before they are packed: what a writer needs of memory, and what is lost of
/// an export that is killed.
const UNIT_BYTES: u64 = 32 << 20;
/// Most rows of one.
const MOST_ROWS: u64 = 1 << 20;

/// What an export does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    format: u32,
    /// Version that writes it: another one may pack the same rows in another way.
    build: String,
    /// Name of the format.
    to: String,
    ring: RingDescription,
    /// Per lane, the first row and one past the last.
    rows: Vec<(u64, u64)>,
    unit_rows: u64,
}

impl Plan {
    pub(crate) fn of(reader: &RowReader<'_, '_>, to: Format) -> Self {
        Self {
            format: PARTIAL_FORMAT,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            to: to.as_str().to_owned(),
            ring: RingDescription::of(reader.ring()),
            rows: reader.spans().iter().map(|span| (span.start, span.end)).collect(),
            unit_rows: reader.unit_rows(),
        }
    }

    /// Rows that are packed together, if `asked` does not say.
    pub(crate) fn unit_rows(ring: &Ring, asked: Option<u64>) -> u64 {
        let fit = UNIT_BYTES / (ring.schema().row_bytes() as u64).max(1);
        asked.unwrap_or(fit).clamp(1, MOST_ROWS)
    }

    /// Why what was done by the plan `before` is of no use to this one.
    pub(crate) fn differs(&self, before: &Self) -> Option<BeganAnew> {
        if (self.format, &self.build) != (before.format, &before.build) {
            Some(BeganAnew::Build)
        } else if (&self.to, self.unit_rows) != (&before.to, before.unit_rows) {
            Some(BeganAnew::Options)
        } else if self.ring != before.ring {
            Some(BeganAnew::Ring)
        } else {
            (self.rows != before.rows).then_some(BeganAnew::Rows)
        }
    }
}

/// Why an export or an import did not go on where an earlier one of the same path or name was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeganAnew {
    /// Another version of Backcast began it.
    Build,
    /// It was another format, rows were grouped in another way, or the ring was to be another one.
    Options,
    /// The ring has other columns, lanes or sizes.
    Ring,
    /// The file is another one, or was changed since.
    Source,
    /// The machine was started anew since: what memory held may be torn.
    Restarted,
    /// The ring has other rows: newer ones, or it was made anew.
    Rows,
    /// What was left of it was cut or changed.
    Damaged,
}

impl fmt::Display for BeganAnew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Build => "another version of Backcast began it",
            Self::Options => "it was begun with other options",
            Self::Ring => "the ring has other columns, lanes or sizes now",
            Self::Source => "the file is another one, or was changed since",
            Self::Restarted => "the machine was started anew since",
            Self::Rows => "the ring has other rows now",
            Self::Damaged => "what was left of it is cut or changed",
        })
    }
}
