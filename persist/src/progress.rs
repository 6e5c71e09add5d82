//! How far a save or a load has come, and stopping it.

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

/// Called after every few megabytes, and while it waits: `Break` stops the operation, which then
/// leaves nothing of itself.
pub type OnProgress<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + 'a>;
