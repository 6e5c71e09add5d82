//! The `backcast` command line as a library, the daemon of a directory, and its client.
//!
//! The cargo binary calls [`run`], and the wheel's console script [`run_with`]. Neither ends the
//! process, except that `demo` and `ui` replace the process of [`run`] by Python. Results go to
//! `out`, everything else to `err`. The return value is the exit status: 0 done, 1 found problems,
//! 2 wrong usage, 3 no such object, or an export that misses rows, 128 plus the number of a signal.
//!
//! ```
//! use std::ffi::OsString;
//!
//! let (mut out, mut err) = (Vec::new(), Vec::new());
//! let args = ["backcast", "stat", "--help"].map(OsString::from);
//! assert_eq!(backcast_daemon::run(args, &mut out, &mut err), 0);
//! assert!(String::from_utf8_lossy(&out).contains("backcast stat"));
//! assert!(err.is_empty());
//! ```
#![forbid(unsafe_code)]

mod cli;
mod client;
mod objects;
mod protocol;
mod serve;
mod text;

// The tests of the whole program use this module too.
#[cfg(test)]
#[path = "../tests/it/shelf/pty.rs"]
mod pty;

pub use cli::{Host, PageSettings, PythonCall, PythonLauncher, Stream, run, run_with};
pub use client::{Client, ClientError};
pub use protocol::{
    Code, Gone, Granted, Grown, LeftOut, ListedObject, NameTaken, OverBudget, Pong, SaveOutcome,
    StoredSnapshot,
};
pub use serve::{
    BadBudget, BadTimeSpan, Budget, Daemon, PersistOptions, ServeError, ServeOptions, TimeSpan,
    WhenFull,
};
