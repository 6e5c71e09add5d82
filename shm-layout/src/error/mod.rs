//! Errors of segments: one enum for every operation on named objects.
#![expect(missing_docs, reason = "the messages show the fields")]

mod closest_name;
mod io_cause;
mod kind;
mod number;
mod printable;
mod sizes;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

pub use self::closest_name::closest_name;
pub use self::io_cause::IoCause;
pub use self::kind::{MAX_NAME_BYTES, ObjectKind};
pub use self::number::ShownNumber;
pub use self::printable::printable;
pub use self::sizes::binary_size;
use self::sizes::object_at;

/// State of an existing object of another layout version, to which this build cannot attach.
pub const OTHER_VERSION: &str = "another version of Backcast made it";

/// Error of creating, attaching to, listing or removing a named object.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No object of that name and kind exists, or it is about to be removed.
    #[error(
        "no {kind} named `{name}` in {base}; {}`backcast ls` lists what exists, or name the \
         directory where it was created (BACKCAST_DIR)",
        hint(*other, near.as_deref())
    )]
    NotFound {
        kind: ObjectKind,
        name: String,
        base: PathBuf,
        /// Another kind of object that has the name there.
        other: Option<ObjectKind>,
        /// Most similar name in that directory, if there is one.
        near: Option<String>,
    },
    /// The name is taken by a live or persistent object.
    #[error(
        "a {kind} named `{name}` already exists ({state}); use {}exist \"replace\" to start over, \
         or `backcast rm {name}`",
        if *state == OTHER_VERSION { "" } else { "exist \"attach\" to join it, " }
    )]
    AlreadyExists { kind: ObjectKind, name: String, state: &'static str },
    /// The object exists, but differs from the requested one.
    #[error(
        "the {kind} named `{name}` differs from the requested one: {what}; ask for the same, \
         choose another name, or use exist \"replace\""
    )]
    Different { kind: ObjectKind, name: String, what: String },
    /// A table has other settings than those requested, or is of another kind.
    #[error(
        "the table `{table}` differs from the requested one: {what}; ask for the \
         same, or choose another name for the table"
    )]
    TableDiffers { table: String, what: String },
    /// A table was removed while a handle has it open.
    #[error(
        "the table `{table}` was removed while this handle has it open; make another sampler or \
         handle, which makes the table anew"
    )]
    TableRemoved { table: String },
    /// The ring has no such table.
    #[error("the ring `{name}` has no table `{table}`; {}", tables_in_words(known))]
    NoTable {
        name: String,
        table: String,
        /// Tables of the ring.
        known: Vec<String>,
    },
    /// Some process holds the object, or a lock of it.
    #[error(
        "the {kind} named `{name}` is in use by a live process; \
         stop its users first, or force the removal (they keep their memory until they end)"
    )]
    InUse { kind: ObjectKind, name: String },
    /// The object lost its name while a process held it.
    #[error(
        "the {kind} named `{name}` was removed or replaced: its holders keep their memory, but no \
         process can join it any more; attach again to join the one that has the name now"
    )]
    Unlinked { kind: ObjectKind, name: String },
    /// The process that filled the object abandoned it.
    #[error(
        "the {kind} named `{name}` was abandoned before it was complete; nothing of it is left"
    )]
    Abandoned { kind: ObjectKind, name: String },
    /// Rings of this kind cannot be resized.
    #[error("{what} cannot be resized; {remedy}")]
    FixedSize { what: &'static str, remedy: &'static str },
    /// Only the daemon that keeps a ring in memfds can resize it.
    #[error(
        "`{name}` is in memfds, which only the daemon that keeps them can enlarge; use `backcast \
         resize` or `client.resize` while `backcast serve` runs"
    )]
    NotItsKeeper { name: String },
    /// A resize to fewer rows than a lane keeps.
    #[error(
        "the lanes of `{name}` keep {is} rows each, but {asked} were requested: a ring can only \
         grow; ask for more, or make another ring"
    )]
    NotLarger { name: String, asked: u64, is: u64 },
    /// Another process resizes the ring.
    #[error("another process is resizing `{name}`; wait until it has ended")]
    BeingResized { name: String },
    /// A resize has not finished the relocation of a lane.
    #[error(
        "lane {lane} of `{name}` is being relocated by a resize, for over {waited:?}: the process \
         that resizes is stopped or very slow; let it continue, or end it, and try again"
    )]
    LaneRelocating { name: String, lane: u32, waited: Duration },
    /// A resize to another size is not finished.
    #[error(
        "`{name}` is still being resized to lanes of {rows} rows: lanes {lanes:?} move when their \
         writers append next, or end; resize again then"
    )]
    ResizeUnfinished { name: String, lanes: Vec<u32>, rows: u64 },
    /// The name cannot be a file name.
    #[error(
        "`{name}` cannot name {what}: {reason}; use 1 to {} of the characters A-Z a-z 0-9 _ - . \
         and do not begin with a dot",
        MAX_NAME_BYTES
    )]
    BadName { what: &'static str, name: String, reason: &'static str },
    /// There is too little memory, or too little space, files or quota in the file system.
    #[error(
        "not enough space for {}: {} asked for, {} available ({limit}); lower the capacity, free \
         space (`backcast gc`), or choose another directory (BACKCAST_DIR)",
        object_at(.path), binary_size(*.asked), binary_size(*.available)
    )]
    NoSpace { path: PathBuf, asked: u64, available: u64, limit: &'static str },
    /// The sealed memory of a ring was freed with the processes that held it, or is out of reach.
    #[error(
        "the memory of {path} is lost or out of reach: process {pid} created it, and no process \
         that this one can inspect holds it; create the ring again, and let a daemon keep it \
         (`backcast serve`)"
    )]
    MemoryGone { path: PathBuf, pid: u32 },
    /// A file belongs to another user, or other users can access it.
    #[error(
        "{path} is not safe to use: {reason}; remove it or choose another directory (BACKCAST_DIR)"
    )]
    Permission { path: PathBuf, reason: String },
    /// The bytes are not those of a Backcast segment, or are damaged.
    #[error("{path} is damaged or not a Backcast file: {what}; {}", way_out(path))]
    Corrupt { path: PathBuf, what: String },
    /// Another layout version wrote the file.
    #[error(
        "another version of Backcast made {}: {path} has layout version {found}, this build reads \
         {supported}; use the same Backcast version in every process, save and load it with the \
         one that made it, or create it anew",
        object_at(.path)
    )]
    WrongVersion { path: PathBuf, found: u32, supported: u32 },
    /// A number is outside its limits.
    #[error("{what} is {value}, {} {limit}; {remedy}", bound(*.value, *.limit))]
    Limit { what: &'static str, value: u64, limit: u64, remedy: &'static str },
    /// A read outside a segment.
    #[error("{count} words at byte {offset} do not fit the {len} bytes of data")]
    OutOfBounds { offset: usize, count: usize, len: usize },
    /// The operating system refused an operation.
    #[error("cannot {operation} {path}: {source}; {}", IoCause::of(.source).remedy())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
}

/// Returns what the name may have meant.
fn hint(other: Option<ObjectKind>, near: Option<&str>) -> String {
    match (other, near) {
        (Some(other), _) => format!("{} has that name: open it as one. ", other.described()),
        (None, Some(near)) => format!("did you mean `{near}`? "),
        (None, None) => String::new(),
    }
}

/// Returns the remedy of a damaged file. A table is removed alone.
fn way_out(path: &Path) -> &'static str {
    let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
    if file.starts_with("table-") {
        "remove the table alone with `backcast rm NAME --table TABLE`"
    } else {
        "remove the object with `backcast rm NAME`"
    }
}

fn tables_in_words(known: &[String]) -> String {
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match known.as_slice() {
        [] => "it has none".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

/// Returns the words for a limit: a value below it is too small.
fn bound(value: u64, limit: u64) -> &'static str {
    if value < limit { "the least is" } else { "the limit is" }
}

impl SegmentError {
    pub(crate) fn io(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> SegmentError + use<> {
        let path = path.to_owned();
        move |source| match IoCause::of(&source) {
            // `space::allocate` reports missing bytes. Other resources that run out are files and
            // quotas.
            IoCause::Space => {
                let limit = "the file system has no file (inode) or quota left";
                SegmentError::NoSpace { path, asked: 0, available: 0, limit }
            }
            _ => SegmentError::Io { operation, path, source },
        }
    }

    /// Returns whether the process or the machine ran out of something, so that the error says
    /// nothing about the object ([`IoCause::is_of_process`]).
    #[must_use]
    pub fn is_of_process(&self) -> bool {
        matches!(self, SegmentError::Io { source, .. } if IoCause::of(source).is_of_process())
    }

    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> SegmentError {
        SegmentError::Corrupt { path: path.to_owned(), what: what.into() }
    }
}
