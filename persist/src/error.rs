//! What can go wrong: one enum per operation, and what all of them share.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use backcast_core::{RestoreError, RingError, SchemaError};
use thiserror::Error;

use crate::damage::{Damage, DamageKind};

/// Why a store could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A name or label that no directory can have.
    #[error(
        "{what} `{name}` is refused: {reason}; use 1 to {limit} of A-Z a-z 0-9 _ - . and no dot in \
         front, as in `pong` or `pong@epoch-10`"
    )]
    BadName {
        /// What it was to name.
        what: &'static str,
        /// As given.
        name: String,
        /// Rule broken.
        reason: &'static str,
        /// Longest name.
        limit: usize,
    },
    /// Nothing was saved under that name, or under that label.
    #[error("{what} `{name}` is not in the store {}{}", store.display(), hint(suggestion.as_deref()))]
    NotFound {
        /// `"ring"` or `"snapshot"`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Directory of the store.
        store: PathBuf,
        /// The most similar name there is.
        suggestion: Option<String>,
    },
    /// Another process is saving to, or removing from, the same directory.
    #[error(
        "{} is being changed by another process, after a wait of {waited_ms} ms; wait longer, or end \
         that process",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// How long it waited.
        waited_ms: u128,
    },
    /// No room on the disk.
    #[error(
        "no space left to {operation} {}; free some space, or remove snapshots with `backcast rm \
         NAME@LABEL`. Nothing that was saved before is lost",
        path.display()
    )]
    NoSpace {
        /// What it was doing.
        operation: &'static str,
        /// To which file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {operation} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What it was doing.
        operation: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A manifest that may be the newer one, and must not be written over.
    #[error(
        "cannot read {}: {problem}; nothing was changed. Try again, or remove the file if it is lost: \
         the other manifest is used then",
        path.display()
    )]
    Unreadable {
        /// The manifest.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// Neither manifest can be used.
    #[error(
        "no manifest of {} can be used ({}); restore the directory from a backup, or remove it",
        path.display(),
        list(damages)
    )]
    NoManifest {
        /// The directory.
        path: PathBuf,
        /// What is wrong with each.
        damages: Vec<Damage>,
    },
    /// Saved by another version of this program.
    #[error(
        "{} is of version {found}, this program knows version {known}; use the program that saved it, \
         or a newer one",
        path.display()
    )]
    OtherVersion {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// No directory was named and none can be guessed.
    #[error(
        "no place for the store: neither BACKCAST_STORE nor XDG_DATA_HOME nor HOME is set; name a \
         directory, or set BACKCAST_STORE"
    )]
    NoPlace,
}

/// Why a ring was not saved. Whatever was saved before is still there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The label has a snapshot.
    #[error(
        "`{name}@{label}` is there already; choose another label, replace it with `--replace` (in Python, \
         `replace=True`), or remove it with `backcast rm {name}@{label}`"
    )]
    LabelTaken {
        /// Name of the ring.
        name: String,
        /// The label.
        label: String,
    },
    /// A label of snapshots that are taken by themselves.
    #[error(
        "the label `{label}` is for snapshots that are taken by themselves (live, before, evicted and \
         auto-…); choose another one"
    )]
    LabelReserved {
        /// The label.
        label: String,
    },
    /// Following that is off.
    #[error("persist mode `off` follows nothing; use periodic, continuous or block")]
    NotFollowed,
    /// Rows that are not on disk yet cannot be kept from being overwritten.
    #[error("{0}; mode `continuous` follows the ring without making its writers wait")]
    Guard(#[from] backcast_core::LeaseError),
    /// A ring in private memory, which has no name to be saved under.
    #[error("the ring has no name; say under which one to save it")]
    NoName,
    /// A ring whose rows say they are others, in a lane that nobody laps.
    #[error("row {seq} of lane {lane} cannot be read: {problem}; create the ring anew")]
    Unreadable {
        /// Lane.
        lane: u32,
        /// First row of those that could not be read.
        seq: u64,
        /// Why.
        problem: String,
    },
    /// The state is larger than a manifest should be.
    #[error(
        "the state has {bytes} bytes as JSON, the limit is {limit}; save it in a file of its own"
    )]
    StateTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The state has more levels than a manifest can be read with.
    #[error("the state is {depth} levels deep, the limit is {limit}; save flatter data")]
    StateTooDeep {
        /// Its levels.
        depth: usize,
        /// The limit.
        limit: usize,
    },
    /// The store has rows of a ring of the same identity and another shape.
    #[error(
        "the store has rows of this very ring, but with other columns or lanes; somebody changed \
         {} or the ring",
        path.display()
    )]
    OtherRing {
        /// Directory of the saved ring.
        path: PathBuf,
    },
    /// The caller's wish.
    #[error("the save was cancelled; nothing of it is left")]
    Cancelled,
}

/// Why a snapshot was not loaded. No ring was made, and none was replaced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file that does not hold what was saved, or is not to be read.
    #[error("`{snapshot}` {}", ways_out(damage))]
    Damaged {
        /// The snapshot.
        snapshot: String,
        /// What is wrong.
        damage: Damage,
    },
    /// The ring could not be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The ring could not be filled.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The columns saved make no schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Shared memory has another snapshot under this name.
    #[error(
        "shared memory holds another snapshot called `{name}`, which some process has open; close it, \
         or load this one under a name of its own"
    )]
    OtherSnapshot {
        /// `name@label`.
        name: String,
    },
    /// The caller's wish.
    #[error("the load was cancelled; no ring was made")]
    Cancelled,
}

impl StoreError {
    /// For `map_err`.
    pub(crate) fn io<'a>(
        operation: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| {
            let path = path.to_owned();
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
                return Self::NoSpace { operation, path };
            }
            Self::Io { operation, path, source }
        }
    }
}

fn remedy(source: &io::Error) -> &'static str {
    if source.kind() == ErrorKind::PermissionDenied {
        "; ask its owner for access, or name another directory (`--store`, BACKCAST_STORE)"
    } else {
        ""
    }
}

/// What is wrong with a snapshot that cannot be loaded, and what to do.
fn ways_out(damage: &Damage) -> String {
    match damage.kind {
        DamageKind::Unreadable { .. } => format!(
            "cannot be read: {damage}; see to it that this user may read the file and that the disk gives \
             it, or load another snapshot (`backcast ls` lists them)"
        ),
        _ => format!(
            "is damaged: {damage}; load another snapshot (`backcast ls` lists them), or restore the file \
             from a backup"
        ),
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "; `backcast ls` lists what there is".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}

fn list(damages: &[Damage]) -> String {
    damages.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
