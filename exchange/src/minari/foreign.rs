//! Tells whether a folder holds an exported dataset and nothing else, so that another may replace
//! it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::{DATA, METADATA};

/// Describes the first entry that no export writes, or the lack of the metadata. Returns `None` for
/// a dataset and for an empty folder. The folders of episodes are recognised by their names.
pub(crate) fn foreign_entry(folder: &Path) -> io::Result<Option<String>> {
    let mut is_empty = true;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        is_empty = false;
        if entry.file_name() != DATA || !entry.file_type()?.is_dir() {
            return Ok(Some(holds(&entry.file_name())));
        }
    }
    if is_empty {
        return Ok(None);
    }
    let mut has_metadata = false;
    for entry in fs::read_dir(folder.join(DATA))? {
        let (entry, is_number) = {
            let entry = entry?;
            let name = entry.file_name();
            let digits = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
            (entry, name.to_str().is_some_and(digits))
        };
        let kind = entry.file_type()?;
        if entry.file_name() == METADATA && kind.is_file() {
            has_metadata = true;
        } else if !(is_number && kind.is_dir()) {
            return Ok(Some(holds(Path::new(DATA).join(entry.file_name()).as_os_str())));
        }
    }
    Ok((!has_metadata).then(|| format!("without {DATA}/{METADATA}")))
}

fn holds(name: &OsStr) -> String {
    format!("that holds `{}`", name.display())
}
