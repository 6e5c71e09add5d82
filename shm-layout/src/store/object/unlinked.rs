//! Telling the holders of an object that it has lost its name.
//!
//! Whoever takes the name away sets a byte of `ring.rdr` after the rename, which holders find by a
//! load. It is a hint: a remover may be killed before it sets the byte, files may be deleted by hand,
//! and any process of the user may set it. So holders ask the file system what the byte says, and now
//! and then without it.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Object, is_at};
use crate::layout::reader_table::UNLINKED_AT;
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::ring_files::RDR;

/// Sets the byte in the readers' file of a ring that was moved to `grave`. Does nothing where there is
/// none, or where it lies in a memfd, whose link goes with the directory.
pub(super) fn mark(dir: &OwnedFd, grave: &Path) {
    let Ok(readers) = files::open(dir, RDR, grave, Access::ReadWrite, None) else { return };
    let inside =
        |stat: rustix::fs::Stat| u64::try_from(stat.st_size).is_ok_and(|n| n > UNLINKED_AT);
    // A shorter file is not ours, and would grow.
    if rustix::fs::fstat(&readers).is_ok_and(inside) {
        let _ = rustix::io::pwrite(&readers, &[1], UNLINKED_AT);
    }
}

impl Object {
    /// Whether the name is not the object's any more. `marked`: the byte says so.
    pub(crate) fn is_unlinked(&self, marked: bool) -> bool {
        // Files are deleted soon after the name is gone. The path need not lead anywhere in the name
        // space of a process that was handed the directory, so it is asked only with a reason.
        self.hold.links().is_ok_and(|links| links == 0) || (marked && !is_at(&self.dir, &self.path))
    }
}
