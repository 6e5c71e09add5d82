//! Errors of parameters: creating, publishing, copying, viewing and waiting.

use backcast_layout::protocol::ImpossibleVersion;
use backcast_layout::{ParamsShapeError, SegmentError};
use thiserror::Error;

/// Error of a call on parameters.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// Error of the files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The arrays cannot be stored.
    #[error(transparent)]
    Shape(#[from] ParamsShapeError),
    /// Words that no publisher leaves behind.
    #[error(transparent)]
    Damaged(#[from] ImpossibleVersion),
    /// Another handle publishes.
    #[error(
        "another handle publishes {name}{}; publish from one handle, or close that one: the right \
         passes on when it is closed or its process ends",
        holders(.pids)
    )]
    OtherPublisher { name: String, pids: Vec<u32> },
    /// The version is not above the newest one, or is above the limit.
    #[error(
        "version {version} is not above {newest}, the newest one; give a version from {} to \
         {limit}, or leave it out to count on", .newest + 1
    )]
    OldVersion { version: u64, newest: u64, limit: u64 },
    /// Views hold every slot that could be written.
    #[error(
        "version {version} was not published: views of processes {pids:?} hold all {spare} spare \
         slots; close views sooner, or create the parameters with more spare_slots"
    )]
    AllPinned { version: u64, pids: Vec<u64>, spare: u32 },
    /// The publisher reused the slot during every copy.
    #[error(
        "no copy of version {version} was whole after {attempts} attempts: versions are published \
         faster than this process copies one; publish less often, or create the parameters with \
         more spare_slots"
    )]
    Overtaken { version: u64, attempts: u32 },
    /// The version is not in memory.
    #[error(
        "version {version} cannot be read; versions {readable:?} can; keep more with versions_kept"
    )]
    NoVersion { version: u64, readable: Vec<u64> },
    /// No version is published yet.
    #[error("no version of {name} is published yet; publish one, or wait for it with `wait`")]
    Nothing { name: String },
    /// The arrays were made for parameters of other arrays.
    #[error(
        "the arrays were made for other parameters: their array {at} is {given}, that of these \
         parameters is {params}; make them with `arrays` of these parameters"
    )]
    OtherArrays { at: usize, given: String, params: String },
    /// The number of arrays of a call differs.
    #[error("{given} arrays are given, but the parameters have {arrays}; give each one")]
    ArrayCount { given: usize, arrays: usize },
    /// The bytes of an array have another length.
    #[error("array `{array}` has {bytes} bytes, but {given} are given; give its shape and dtype")]
    ArrayBytes { array: String, bytes: usize, given: usize },
    /// There is no array of that name and type.
    #[error(
        "there is no array `{array}` of {dtype}; the parameters have {}", known.join(", ")
    )]
    NoArray {
        array: String,
        dtype: &'static str,
        /// Names and element types of the arrays.
        known: Vec<String>,
    },
    /// All reader slots are taken.
    #[error(
        "all {slots} reader slots are taken by handles with views; close some, or create the \
         parameters with more reader_slots"
    )]
    NoReaderSlot { slots: u32 },
    /// The time-out has passed.
    #[error("version {newest} is the newest one after {waited_ms} ms, waited for {want}: {reason}")]
    TimedOut { want: u64, newest: u64, waited_ms: u128, reason: String },
    /// The parameters were removed or replaced.
    #[error(
        "the parameters waited for were removed or replaced: their publisher may fill others of \
         that name; attach again"
    )]
    Unlinked,
    /// The caller interrupted the wait.
    #[error("the wait was interrupted")]
    Interrupted,
}

fn holders(pids: &[u32]) -> String {
    match pids {
        [] => String::new(),
        [pid] => format!(" (process {pid})"),
        pids => format!(" (processes {pids:?})"),
    }
}
