//! Leaves objects at the normal end of a process, whose threads may still have handles of them.

use std::path::Path;

use super::removal::{collect_one, tidy};
use super::{HOLD_BYTE, ObjectKind};
use crate::os::exit_release;

/// Stops holding every object, and removes those that no process holds any more and that are not
/// persistent. Handles of threads that still run keep their memory.
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

/// Returns the kind of the object at a path, by the path. A removed one has no path.
fn kind_of(path: &Path) -> Option<ObjectKind> {
    let extension = path.extension()?.to_str()?;
    ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == extension)
}
