//! Leaves objects at the normal end of a process, whose threads may still have handles of them.

use std::path::Path;

use super::removal::{collect_one, tidy};
use super::{HOLD_BYTE, ObjectKind};
use crate::os::exit_release;

/// Releases the locks of this process on all objects, then removes the objects that [`collect_one`]
/// removes. Threads that still run keep the memory of their handles.
pub(super) fn leave_all() {
    // All locks go first: this process may have several handles of an object.
    for lock in exit_release::release(HOLD_BYTE) {
        if let Some(path) = lock.parent()
            && let Some(kind) = kind_of(path)
            && matches!(collect_one(path, kind), Ok(true))
        {
            tidy(path);
        }
    }
}

/// Returns the kind of an object by the extension of its path. Returns `None` for a directory that
/// has no name of an object, as after a removal.
fn kind_of(path: &Path) -> Option<ObjectKind> {
    let extension = path.extension()?.to_str()?;
    ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == extension)
}
