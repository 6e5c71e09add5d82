//! Progress of work on rows, and its interruption.

use std::ops::ControlFlow;

/// Progress of work on rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows done.
    pub rows: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Rows to do.
    pub total_rows: u64,
    /// Approximate bytes to do.
    pub total_bytes: u64,
}

/// Callback for progress, called after every few megabytes and while the work waits. If it returns
/// `Break`, the work stops and leaves nothing behind.
pub type OnProgress<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a>;
