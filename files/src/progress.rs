//! How far a piece of work on rows has come, and stopping it.

use std::ops::ControlFlow;

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows done.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Rows to do.
    pub total_rows: u64,
    /// Bytes of them, about.
    pub total_bytes: u64,
}

/// Called after every few megabytes, and while the work waits: `Break` stops it, and it then leaves
/// nothing of itself.
pub type OnProgress<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a>;
