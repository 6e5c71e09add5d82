//! Marks an object that has lost its name, for its holders.
//!
//! A remover sets a byte of `ring.rdr` or `params.rdr` to 1 after the rename. Holders read the byte
//! by one load. The byte is a hint. A remover may be killed before it sets it, files may be deleted
//! by hand, and any process of the user may set it. So holders check a set byte against the file
//! system, and sometimes check an unset one.
//!
//! In a ring the bits above the lowest one count removed tables. Writing 1 overwrites that count.
//! The byte of a ring that has its name is never 1, so holders notice the change.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Object, is_at};
use crate::layout::reader_table::UNLINKED_AT;
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::params_files;
use crate::store::ring_files::RDR;

/// Sets the byte in the readers' file of an object that was moved to `grave`. Does nothing if there
/// is none, or if it lies in a memfd, whose link is removed with the directory.
pub(super) fn mark(dir: &OwnedFd, grave: &Path) {
    let open = |name| files::open(dir, name, grave, Access::ReadWrite, None);
    let Ok(readers) = open(RDR).or_else(|_| open(params_files::RDR)) else { return };
    let inside =
        |stat: rustix::fs::Stat| u64::try_from(stat.st_size).is_ok_and(|n| n > UNLINKED_AT);
    // A shorter file was not made by this build, and the write would extend it.
    if rustix::fs::fstat(&readers).is_ok_and(inside) {
        let _ = rustix::io::pwrite(&readers, &[1], UNLINKED_AT);
    }
}

impl Object {
    /// Returns whether the object has lost its name. `marked` tells whether the byte is set.
    pub(crate) fn is_unlinked(&self, marked: bool) -> bool {
        // Files are deleted soon after the name. The path is checked only if the byte is set: it
        // need not exist in the mount namespace of a process that was passed the directory.
        self.hold.links().is_ok_and(|links| links == 0) || (marked && !is_at(&self.dir, &self.path))
    }
}
