//! Reports of exports and imports.

/// Outcome of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Rows written.
    pub rows: u64,
    /// Rows that writers overwrote before they were read: at most as many as they published during
    /// the export, and none of a snapshot.
    pub rows_lapped: u64,
    /// Bytes of the file, or of all files of a dataset.
    pub bytes: u64,
    /// Episodes of a dataset; `None` for a table.
    pub episodes: Option<u64>,
}

/// Outcome of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows of the new ring.
    pub rows: u64,
    /// Episodes of a dataset, or made of plain steps; `None` for a table.
    pub episodes: Option<u64>,
    /// Last steps of episodes that did not terminate and whose next observation is unknown: no
    /// transition starts there.
    pub rows_without_successor: u64,
    /// Rows of a table that are not in the ring: rows after them were overwritten before they were
    /// exported, and a ring has no gaps.
    pub rows_before_gap: u64,
    /// Episodes of plain steps that no flag ends: the next step's observation differs from
    /// `next_obs`, so they end there, truncated.
    pub episodes_cut: u64,
}
