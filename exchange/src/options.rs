//! Options of exports and imports.

use std::fmt;
use std::ops::ControlFlow;

use backcast_core::{Base, Exist, Filling, RestoreError, Ring, RingOptions, Schema};
use backcast_files::{OnProgress, Progress, RingPlacement};

use crate::leave_out::LeaveOut;

/// Default bytes of rows in a row group, before compression.
const GROUP_BYTES: u64 = 32 << 20;
const MAX_GROUP_ROWS: u64 = 1 << 20;
/// Default for the maximum bytes of rows that are read ahead of compression. Writers overwrite
/// fewer rows if more are read ahead.
const READ_AHEAD_BYTES: u64 = 64 << 20;

/// Options of an export.
#[must_use]
#[derive(Default)]
pub struct ExportOptions<'a> {
    pub(crate) overwrite: bool,
    group_rows: Option<u64>,
    read_ahead: Option<u64>,
    pub(crate) progress: Option<OnProgress<'a>>,
}

impl fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportOptions")
            .field("overwrite", &self.overwrite)
            .field("group_rows", &self.group_rows)
            .field("read_ahead", &self.read_ahead)
            .finish_non_exhaustive()
    }
}

impl<'a> ExportOptions<'a> {
    /// Sets whether the file or folder at the path is replaced once the new one is complete. A
    /// table replaces a file; a dataset replaces an empty folder or another Minari dataset. Other
    /// files and folders are refused with
    /// [`ExportError::NotReplaced`](crate::ExportError::NotReplaced).
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets the rows of a Parquet row group, clamped to 1 to 2²⁰. Default: as many as take 32 MiB
    /// uncompressed.
    pub fn group_rows(mut self, rows: u64) -> Self {
        self.group_rows = Some(rows);
        self
    }

    /// Sets the bytes of rows to read before they are compressed. A larger value loses fewer rows
    /// to a fast writer; 0 reads about a megabyte at a time. Default: 64 MiB.
    pub fn read_ahead(mut self, bytes: u64) -> Self {
        self.read_ahead = Some(bytes);
        self
    }

    /// Sets a callback that is called during the export and may stop it.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    pub(crate) fn group_rows_of(&self, ring: &Ring) -> u64 {
        let fit = GROUP_BYTES / (ring.schema().row_bytes() as u64).max(1);
        self.group_rows.unwrap_or(fit).clamp(1, MAX_GROUP_ROWS)
    }

    pub(crate) fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead.unwrap_or(READ_AHEAD_BYTES)
    }
}

/// Options of an import.
#[must_use]
pub struct ImportOptions<'a> {
    /// Name of the ring; `None` for one in private memory.
    pub(crate) name: Option<String>,
    pub(crate) capacity: Option<u64>,
    pub(crate) placement: RingPlacement,
    pub(crate) leave_out: LeaveOut,
    pub(crate) progress: Option<OnProgress<'a>>,
}

impl fmt::Debug for ImportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportOptions")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

/// Makes the ring of an import, which `fill` fills.
pub(crate) fn make_ring<E: From<RestoreError>>(
    name: Option<&str>,
    schema: &Schema,
    options: RingOptions,
    fill: impl FnMut(&mut Filling<'_>) -> Result<(), E>,
) -> Result<Ring, E> {
    match name {
        Some(name) => Ring::restore(name, schema, options, fill),
        None => Ring::restore_heap(schema, options, fill),
    }
}

impl<'a> ImportOptions<'a> {
    /// Returns options for a ring with this name. By default it is made in the standard base
    /// directory, with the capacity of the exported ring or of the data. A taken name is an error.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::private() }
    }

    /// Returns options for a ring in private memory, without a name. The base directory, the
    /// behaviour for a taken name and the lifetime do not concern it.
    pub fn private() -> Self {
        Self {
            name: None,
            capacity: None,
            placement: RingPlacement::default(),
            leave_out: LeaveOut::default(),
            progress: None,
        }
    }

    /// Sets the capacity in rows over all lanes, for a ring that will hold more than the data. Less
    /// than the data need is an error of the import.
    pub fn capacity(mut self, rows: u64) -> Self {
        self.capacity = Some(rows);
        self
    }

    /// Sets the base directory of the ring.
    pub fn base(mut self, base: Base) -> Self {
        self.placement.base = base;
        self
    }

    /// Sets the behaviour if the name is taken.
    pub fn exist(mut self, exist: Exist) -> Self {
        self.placement.exist = exist;
        self
    }

    /// Sets whether the ring stays when no process holds it.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.placement.persistent = persistent;
        self
    }

    /// Sets whether to ask the system for huge pages.
    pub fn huge_pages(mut self, ask: bool) -> Self {
        self.placement.huge_pages = ask;
        self
    }

    /// Leaves out arrays of a `.npz` or columns of a Minari dataset, such as ones that a ring
    /// cannot hold. Everything below a name is left out too. A dataset's columns have the ring's
    /// names; for a `.npz`, the file's names work too. An exported Parquet table is imported whole.
    pub fn leave_out<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.leave_out = LeaveOut::of(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets a callback that is called during the import and may stop it.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}
