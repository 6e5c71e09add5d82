//! Errors of requests to the daemon.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::{IoCause, RingError};
use thiserror::Error;

use crate::protocol::{Code, NameTaken, OverBudget, Refusal};

/// Error of a request to the daemon.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No daemon listens at the socket.
    #[error(
        "no daemon answers at {}; start one with `backcast serve{}`, or use rings without one",
        socket.display(),
        dir.as_ref().map(|dir| format!(" --dir {}", dir.display())).unwrap_or_default()
    )]
    NotRunning {
        /// Socket of the daemon.
        socket: PathBuf,
        /// Directory of its rings, if known.
        dir: Option<PathBuf>,
    },
    /// The socket belongs to another user.
    #[error(
        "the process that listens at {} belongs to user {uid}, not to you; remove that socket",
        socket.display()
    )]
    Stranger {
        /// The socket.
        socket: PathBuf,
        uid: u32,
    },
    /// The daemon was silent too long.
    #[error(
        "the daemon at {} has been silent for {} s; it may be stopped: try again, look at its log, \
         or give a longer timeout",
        socket.display(),
        timeout.as_secs_f64()
    )]
    TimedOut {
        /// The socket.
        socket: PathBuf,
        /// Maximum silence.
        timeout: Duration,
    },
    /// The daemon ended before it answered.
    #[error(
        "the daemon at {} ended before it answered, and may have done what was asked; look with \
         `backcast ls`, then try again",
        socket.display()
    )]
    Gone {
        /// The socket.
        socket: PathBuf,
    },
    /// The answer is invalid.
    #[error(
        "the daemon at {} sent an invalid answer ({why}); use the same version of Backcast for \
         both",
        socket.display()
    )]
    Nonsense {
        /// The socket.
        socket: PathBuf,
        why: String,
    },
    /// The operating system refused.
    #[error(
        "cannot talk to the daemon at {}: {source}; {}",
        socket.display(),
        remedy(source)
    )]
    Io {
        /// The socket.
        socket: PathBuf,
        source: io::Error,
    },
    /// The caller ended the wait.
    #[error("interrupted while waiting for the daemon; it may have done what was asked")]
    Interrupted,
    /// The ring does not fit the budget.
    #[error("{message}")]
    OverBudget {
        message: String,
        /// Numbers of the refusal.
        numbers: OverBudget,
    },
    /// The name is taken, or the object differs from the request to attach.
    #[error("{message}")]
    NameTaken {
        message: String,
        /// The object that has the name.
        taken: NameTaken,
    },
    /// The daemon refused for another reason.
    #[error("{message}")]
    Refused {
        /// Kind of refusal.
        code: Code,
        message: String,
    },
    /// This process cannot use the ring that it received.
    #[error(transparent)]
    Ring(#[from] RingError),
}

fn remedy(source: &io::Error) -> String {
    match IoCause::of(source) {
        IoCause::Access => "check that the socket is yours".to_owned(),
        cause => cause.remedy_or("check that the socket is yours"),
    }
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, over_budget, name_taken } = refusal;
        match (over_budget, name_taken) {
            (Some(numbers), _) if code == Code::OverBudget => {
                Self::OverBudget { message, numbers: *numbers }
            }
            (_, Some(taken)) if code == Code::Exists => Self::NameTaken { message, taken: *taken },
            _ => Self::Refused { code, message },
        }
    }
}
