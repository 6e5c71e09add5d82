//! Reads the arrays of an `.npz` archive, which is not trusted.

use std::fs::File;
use std::path::Path;

use backcast_core::DType;
use backcast_files::{catch_panics, unpacked_limit};
use zip::ZipArchive;

use super::npy::{self, NpyError};
use crate::error::ImportError;
use crate::leave_out::{self, LeaveOut};

/// Names of columns and flags, each with the names that other libraries give the same array.
const NAMES: [(&str, &[&str]); 6] = [
    ("obs", &["observations", "observation", "states"]),
    ("action", &["actions"]),
    ("reward", &["rewards", "rew"]),
    ("terminated", &["terminations", "terminals", "dones", "done"]),
    ("truncated", &["truncations", "timeouts"]),
    ("next_obs", &["next_observations", "next_observation", "next_states"]),
];

/// One array of the file.
#[derive(Debug)]
pub(super) struct NpzArray {
    /// Name of the ring's column, or of the flag.
    pub(super) name: String,
    /// Name in the file.
    theirs: String,
    pub(super) dtype: DType,
    /// Shape, rows first.
    pub(super) shape: Vec<u64>,
    pub(super) bytes: Vec<u8>,
}

/// Reads all arrays that are not left out, under the ring's names.
pub(super) fn arrays(path: &Path, leave_out: &LeaveOut) -> Result<Vec<NpzArray>, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let file_bytes = file.metadata().map_err(unreadable)?.len();
    let limit = unpacked_limit(file_bytes);
    let damaged = |part: &str, what: String| ImportError::Damaged {
        path: path.to_owned(),
        part: part.to_owned(),
        what,
    };
    let mut archive = catch_panics(|| ZipArchive::new(file))
        .and_then(|archive| archive.map_err(|error| error.to_string()))
        .map_err(|what| damaged("the archive", what))?;
    let (mut arrays, mut names) = (Vec::<NpzArray>::new(), Vec::new());
    let mut total = 0_u64;
    for at in 0..archive.len() {
        let left = limit.saturating_sub(total);
        let read = catch_panics(|| entry(&mut archive, at, left, leave_out));
        let (name, found) =
            read.unwrap_or_else(|what| (format!("entry {at}.npy"), Err(NpyError::Damaged(what))));
        let Some(name) = name.strip_suffix(".npy") else { continue };
        names.extend([name.to_owned(), our_name(name)]);
        let of_array =
            |what| ImportError::Array { path: path.to_owned(), name: name.to_owned(), what };
        let array = match found {
            Ok(None) => continue,
            Ok(Some(array)) => array,
            Err(NpyError::Damaged(what)) => return Err(damaged(&format!("array `{name}`"), what)),
            Err(NpyError::Unfit(what)) => {
                return Err(of_array(format!("{what}, or {}", leave_out::remedy(name))));
            }
        };
        total += array.bytes.len() as u64;
        if let Some(twin) = arrays.iter().find(|other| other.name == array.name) {
            let (twin, remedy) = (&twin.theirs, leave_out::remedy(name));
            return Err(of_array(format!("means the same as `{twin}`; {remedy}")));
        }
        arrays.push(array);
    }
    names.dedup();
    leave_out.check(path, &names)?;
    Ok(arrays)
}

/// Reads one file of the archive and returns its name with the array. The array is `None` if it is
/// left out, or if the file is no array.
fn entry(
    archive: &mut ZipArchive<File>,
    at: usize,
    limit: u64,
    leave_out: &LeaveOut,
) -> (String, Result<Option<NpzArray>, NpyError>) {
    let unnamed = |what| (format!("entry {at}.npy"), Err(NpyError::Damaged(what)));
    let mut entry = match archive.by_index(at) {
        Ok(entry) => entry,
        Err(error) => return unnamed(error.to_string()),
    };
    let file_name = match entry.name() {
        Ok(name) => name.into_owned(),
        Err(error) => return unnamed(error.to_string()),
    };
    let array = match file_name.strip_suffix(".npy") {
        Some(name) if leave_out.has(&[name, &our_name(name)]) => Ok(None),
        Some(theirs) => npy::read(&mut entry, limit).map(|(dtype, shape, bytes)| {
            let name = our_name(theirs);
            // Some data sets keep rewards as a column of one number.
            let shape = if name == "reward" && shape.get(1..) == Some(&[1]) {
                shape[..1].to_vec()
            } else {
                shape
            };
            Some(NpzArray { name, theirs: theirs.to_owned(), dtype, shape, bytes })
        }),
        None => Ok(None),
    };
    (file_name, array)
}

/// Returns the ring's name: `obs/x` for `observations/x`.
fn our_name(theirs: &str) -> String {
    let (first, rest) = theirs.split_once('/').map_or((theirs, None), |(a, b)| (a, Some(b)));
    let ours =
        NAMES.iter().find(|(_, names)| names.contains(&first)).map_or(first, |(ours, _)| ours);
    rest.map_or_else(|| ours.to_owned(), |rest| format!("{ours}/{rest}"))
}
