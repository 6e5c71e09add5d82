//! Why the daemon did not do what it was asked, or was not there to be asked.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::RingError;
use thiserror::Error;

use crate::wire::{Code, NameTaken, OverBudget, OverQuota, Refusal};

/// What asking a daemon can lead to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon answers at {}; start one with `backcast serve{}`, or do without: rings need none",
        socket.display(),
        dir.as_ref().map(|dir| format!(" --dir {}", dir.display())).unwrap_or_default()
    )]
    NotRunning {
        /// The socket tried.
        socket: PathBuf,
        /// Where its rings are, if that is known.
        dir: Option<PathBuf>,
    },
    /// The socket belongs to somebody else.
    #[error(
        "the process that listens at {} belongs to user {uid}, and only one of your own is asked; \
         remove that socket",
        socket.display()
    )]
    Stranger {
        /// The socket.
        socket: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// It was silent too long.
    #[error(
        "the daemon at {} has been silent for {} s; it may be stopped: try again, look at its log, or \
         give a longer timeout",
        socket.display(),
        timeout.as_secs_f64()
    )]
    TimedOut {
        /// The socket.
        socket: PathBuf,
        /// How long it may be silent.
        timeout: Duration,
    },
    /// It ended before it answered.
    #[error(
        "the daemon at {} ended before it answered; what was asked may have been done: look with \
         `backcast ls`, then try again",
        socket.display()
    )]
    Gone {
        /// The socket.
        socket: PathBuf,
    },
    /// An answer that is none.
    #[error(
        "the daemon at {} answers what is not understood ({why}); use the same Backcast for both",
        socket.display()
    )]
    Nonsense {
        /// The socket.
        socket: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("cannot talk to the daemon at {}: {source}; check that the socket is yours", socket.display())]
    Io {
        /// The socket.
        socket: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The caller ended the wait.
    #[error("interrupted while the daemon was being asked; what was asked may have been done")]
    Interrupted,
    /// The ring does not fit the budget.
    #[error("{message}")]
    OverBudget {
        /// What the daemon says.
        message: String,
        /// Its numbers.
        numbers: OverBudget,
    },
    /// This process would have more than its quota.
    #[error("{message}")]
    OverQuota {
        /// What the daemon says.
        message: String,
        /// Its numbers.
        numbers: OverQuota,
    },
    /// The name is taken, or what has it is not what was to be joined.
    #[error("{message}")]
    NameTaken {
        /// What the daemon says.
        message: String,
        /// What has the name.
        taken: NameTaken,
    },
    /// The daemon did not do it.
    #[error("{message}")]
    Refused {
        /// Which kind of refusal.
        code: Code,
        /// What the daemon says.
        message: String,
    },
    /// The ring that was handed over cannot be used here.
    #[error(transparent)]
    Ring(#[from] RingError),
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, over_budget, over_quota, name_taken } = refusal;
        match (over_budget, over_quota, name_taken) {
            (Some(numbers), _, _) if code == Code::OverBudget => {
                Self::OverBudget { message, numbers: *numbers }
            }
            (_, Some(numbers), _) if code == Code::OverQuota => {
                Self::OverQuota { message, numbers: *numbers }
            }
            (_, _, Some(taken)) if code == Code::Exists => {
                Self::NameTaken { message, taken: *taken }
            }
            _ => Self::Refused { code, message },
        }
    }
}
