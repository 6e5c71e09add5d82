//! Why a daemon does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use backcast_core::SegmentError;
use thiserror::Error;

use super::budget::BadBudget;

/// Everything that stops a daemon from starting, before it has changed anything.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// One daemon per base directory.
    #[error(
        "a daemon looks after {} already: process {holder}; stop that one first (`kill {holder}`), \
         or give another directory with --dir",
        base.display()
    )]
    AlreadyRunning {
        /// The base directory.
        base: PathBuf,
        /// The other daemon's process, as it says.
        holder: String,
    },
    /// A Unix socket's path has a limit that files do not have.
    #[error(
        "socket path {} has {bytes} bytes, the system's limit is {limit}; give a shorter one with \
         --socket",
        path.display()
    )]
    LongPath {
        /// The socket.
        path: PathBuf,
        /// Length.
        bytes: usize,
        /// Longest that the system takes.
        limit: usize,
    },
    /// Something answers there.
    #[error(
        "{} is the socket of a process that answers; stop it, or give another path with --socket",
        path.display()
    )]
    SocketTaken {
        /// The socket.
        path: PathBuf,
    },
    /// A file of somebody's.
    #[error(
        "{} exists and is no socket; remove it, or give another path with --socket",
        path.display()
    )]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refused the socket.
    #[error("cannot {operation} socket {}: {source}; check that its directory is yours", path.display())]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Metrics tell names and sizes to whoever can connect.
    #[error(
        "--metrics {address} can be reached from other machines, and metrics ask for no password; \
         use a loopback address such as 127.0.0.1:{}, or add --metrics-any-address",
        address.port()
    )]
    OpenAddress {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The system refused the address.
    #[error("cannot listen on {address} for --metrics: {source}; choose another port")]
    Metrics {
        /// The address asked for.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration file.
    #[error("cannot read {}: {source}; check the path given with --config", path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Not TOML, or a value of the wrong type.
    #[error("{} is not understood: {why}", path.display())]
    BadConfig {
        /// The file.
        path: PathBuf,
        /// Where and why.
        why: String,
    },
    /// A key that is none.
    #[error(
        "{} has the key `{key}`, which is none{}; keys are: {known}",
        path.display(),
        near.as_ref().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The one that is spelt most alike.
        near: Option<String>,
        /// All.
        known: String,
    },
    /// A value that is none.
    #[error("{} has {key} = {value}: {why}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        why: String,
    },
    /// The budget.
    #[error(transparent)]
    Budget(#[from] BadBudget),
    /// The base directory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Threads, pipes and signals.
    #[error("cannot {operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl ServeError {
    pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }

    /// Whether what was typed, or is in the file, is to blame.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::LongPath { .. }
                | Self::OpenAddress { .. }
                | Self::ReadConfig { .. }
                | Self::BadConfig { .. }
                | Self::UnknownKey { .. }
                | Self::BadValue { .. }
                | Self::Budget(_)
        )
    }
}
