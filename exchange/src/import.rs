//! From a file to a ring: which format, and what was read.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use backcast_core::{Base, Exist, Ring, RingOptions};
use backcast_files::{OnProgress, Progress};

use crate::error::ImportError;
use crate::export::Format;
use crate::leave_out::LeaveOut;
use crate::plan::BeganAnew;
use crate::{minari, npz, parquet_file};

/// Bytes of rows after which it is noted down what is done.
const UNIT_BYTES: u64 = 32 << 20;

/// How a ring is made of a file.
#[must_use]
pub struct ImportOptions<'a> {
    pub(crate) name: String,
    pub(crate) capacity: Option<u64>,
    pub(crate) base: Base,
    exist: Exist,
    persistent: bool,
    pub(crate) huge_pages: bool,
    pub(crate) unit_bytes: u64,
    pub(crate) leave_out: LeaveOut,
    pub(crate) progress: Option<OnProgress<'a>>,
}

impl fmt::Debug for ImportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportOptions")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .field("base", &self.base)
            .field("exist", &self.exist)
            .field("persistent", &self.persistent)
            .finish_non_exhaustive()
    }
}

impl<'a> ImportOptions<'a> {
    /// A ring of that name in the standard place, as large as the one that was exported, or as the
    /// data are; an error if the name is taken.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            capacity: None,
            base: Base::standard(),
            exist: Exist::Error,
            persistent: false,
            huge_pages: true,
            unit_bytes: UNIT_BYTES,
            leave_out: LeaveOut::default(),
            progress: None,
        }
    }

    /// Rows over all lanes together, for rings that are to take more than they begin with.
    pub fn capacity(mut self, rows: u64) -> Self {
        self.capacity = Some(rows);
        self
    }

    /// Where the ring lives.
    pub fn base(mut self, base: Base) -> Self {
        self.base = base;
        self
    }

    /// What to do when the name is taken.
    pub fn exist(mut self, exist: Exist) -> Self {
        self.exist = exist;
        self
    }

    /// Keep the ring when nobody holds it.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Whether the system is asked for huge pages.
    pub fn huge_pages(mut self, ask: bool) -> Self {
        self.huge_pages = ask;
        self
    }

    /// Bytes of rows after which it is noted down what is done: an import that is killed loses those of
    /// one such unit, which ends where a row group or an episode does. When left out, 32 MiB.
    pub fn unit_bytes(mut self, bytes: u64) -> Self {
        self.unit_bytes = bytes;
        self
    }

    /// Leaves out arrays of a `.npz` or columns of a Minari dataset that no ring can hold, or that are not
    /// wanted: by the file's name or the ring's, each with what lies below it. An exported Parquet table comes
    /// back whole.
    pub fn leave_out<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.leave_out = LeaveOut::of(names.into_iter().map(Into::into).collect());
        self
    }

    /// Is told how far it has come, and may stop it.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// The place and name of these options, the rest of `made`.
    pub(crate) fn of_ring(&self, made: RingOptions) -> RingOptions {
        made.base(self.base.clone())
            .exist(self.exist)
            .persistent(self.persistent)
            .huge_pages(self.huge_pages)
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows of the new ring.
    pub rows: u64,
    /// Rows that an earlier import to the same name had done when it was cut.
    pub rows_resumed: u64,
    /// Why what an earlier one had done was dropped, if there was any.
    pub began_anew: Option<BeganAnew>,
    /// Episodes that were made of plain steps.
    pub episodes: Option<u64>,
    /// Last steps of episodes that did not terminate, and whose next observation is not known: no transition
    /// starts there.
    pub rows_without_successor: u64,
    /// Rows of a table that are not in the ring: rows after them were overwritten before they were exported, and
    /// a ring has no gap.
    pub rows_before_gap: u64,
    /// Episodes that no flag ends, of plain steps: the step after their last one begins with another
    /// observation than `next_obs` says, so they end there, truncated.
    pub episodes_cut: u64,
}

/// Makes a ring of a file. It has its name when it is whole; after an error there is none.
///
/// An import that is killed or stopped leaves what it has in the base directory, as
/// `.partial-NAME.ring`. The same import of the same file goes on from there, and gives the ring that it
/// would have given at once; any other begins anew, and says why ([`ImportReport::began_anew`]). Rows that
/// are there are read again and compared. A `.npz`, whose arrays are unpacked as a whole before the first
/// row is known, always begins anew, and leaves nothing to go on from.
pub fn import(
    from: &Path,
    format: Format,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    match format {
        Format::Parquet if !options.leave_out.is_empty() => {
            Err(ImportError::ComesWhole { path: from.to_owned() })
        }
        Format::Parquet => parquet_file::read(from, options),
        Format::Minari => minari::read(from, options),
        Format::Npz => npz::read(from, options),
        Format::Csv => Err(ImportError::OnlyWritten { format: "csv" }),
    }
}
