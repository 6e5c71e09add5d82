//! Exit status of a command, and the error that stopped it.

use std::error::Error;
use std::fmt;
use std::io;

use thiserror::Error;

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    FoundProblems,
    WrongUsage,
    NoSuchObject,
    /// The exported file lacks rows of the ring.
    RowsMissing,
    /// A signal stopped the command. [`Watch`](crate::cli::watch::Watch) knows which.
    Interrupted,
    /// Status of another program, or 128 plus a signal's number.
    Status(u8),
}

impl Exit {
    /// Returns the exit status of the process.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::FoundProblems => 1,
            Self::WrongUsage => 2,
            Self::NoSuchObject | Self::RowsMissing => 3,
            // The status that shells report for SIGINT.
            Self::Interrupted => 130,
            Self::Status(status) => status,
        }
    }
}

/// An error that stops a command with a certain exit status. A command implements it for its own
/// errors and for those of the crates that it calls.
pub(crate) trait Fails: Error + 'static {
    /// Returns the exit status.
    fn exit(&self) -> Exit;
}

/// The error that stopped a command.
#[derive(Debug)]
pub(crate) struct CommandError {
    error: Box<dyn Error>,
    exit: Exit,
}

impl CommandError {
    /// Returns an error that prints the message of `error` and ends the command with the status
    /// `exit`.
    pub(crate) fn plain<E: Error + 'static>(error: E, exit: impl FnOnce(&E) -> Exit) -> Self {
        let exit = exit(&error);
        Self { error: Box::new(error), exit }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Replaces the exit status.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: Fails> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::plain(error, Fails::exit)
    }
}

/// Error of a command that a signal stopped.
#[derive(Debug, Error)]
#[error("interrupted; nothing was left")]
pub(crate) struct Interrupted;

impl Fails for Interrupted {
    fn exit(&self) -> Exit {
        Exit::Interrupted
    }
}

/// Error of `--json` with a command that has no JSON.
#[derive(Debug, Error)]
#[error("`backcast {command}` prints {prints}; leave --json out")]
pub(crate) struct NoJson {
    pub(crate) command: &'static str,
    pub(crate) prints: &'static str,
}

impl Fails for NoJson {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

/// Error of writing to stdout or stderr.
#[derive(Debug, Error)]
#[error("cannot write to stdout or stderr: {0}")]
pub(crate) struct OutputError(pub(crate) io::Error);

impl Fails for OutputError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}
