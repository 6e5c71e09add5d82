//! Full-screen views: switches and restores the terminal, reads its keys.

pub(crate) mod keys;
pub(crate) mod screen;

use std::io;

/// Exit status when the terminal closes: 128 plus SIGHUP.
pub(crate) const HUNG_UP: u8 = 129;

/// Returns whether a write failed because the terminal closed.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
