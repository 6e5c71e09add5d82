//! Errors of starting a daemon.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use backcast_core::SegmentError;
use thiserror::Error;

use super::budget::BadBudget;

/// Error of starting a daemon, or of its settings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another daemon serves the base directory.
    #[error(
        "a daemon serves {} already: process {holder}; stop that one first (`kill {holder}`), or \
         give another directory with --dir",
        base.display()
    )]
    AlreadyRunning {
        /// The base directory.
        base: PathBuf,
        holder: String,
    },
    /// The path exceeds the limit of Unix sockets.
    #[error(
        "socket path {} has {bytes} bytes, the system's limit is {limit}; give a shorter one with \
         --socket",
        path.display()
    )]
    LongPath {
        /// The socket.
        path: PathBuf,
        bytes: usize,
        limit: usize,
    },
    /// Another process answers at the socket.
    #[error(
        "{} is the socket of a process that answers; stop it, or give another path with --socket",
        path.display()
    )]
    SocketTaken {
        /// The socket.
        path: PathBuf,
    },
    /// The path is not a socket.
    #[error(
        "{} exists and is no socket; remove it, or give another path with --socket",
        path.display()
    )]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refused an operation on the socket.
    #[error(
        "cannot {operation} socket {}: {source}; check that its directory is yours",
        path.display()
    )]
    Socket {
        operation: &'static str,
        /// The socket.
        path: PathBuf,
        source: io::Error,
    },
    /// Other machines could read the metrics.
    #[error(
        "--metrics {address} can be reached from other machines, and metrics have no \
         authentication; use a loopback address such as 127.0.0.1:{}, or add \
         --metrics-any-address",
        address.port()
    )]
    OpenAddress { address: SocketAddr },
    /// The system refused the address.
    #[error("cannot listen on {address} for --metrics: {source}; choose another port")]
    Metrics { address: SocketAddr, source: io::Error },
    /// The configuration file cannot be read.
    #[error("cannot read {}: {source}; check the path given with --config", path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The configuration file is not TOML.
    #[error("{} is not understood: {why}", path.display())]
    BadConfig {
        /// The file.
        path: PathBuf,
        why: String,
    },
    /// The configuration file has an unknown key.
    #[error(
        "{} has the unknown key `{key}`{}; keys are: {known}",
        path.display(),
        near.as_ref().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        key: String,
        near: Option<String>,
        known: String,
    },
    /// The configuration file has an invalid value.
    #[error("{} has {key} = {value}: {why}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        key: &'static str,
        value: String,
        why: String,
    },
    /// Settings of persistence are for a name that no ring can have.
    #[error(
        "[persist.ring.{name}] is for no ring: {problem}; write the name of one ring there, of \
         letters, digits, `_`, `-` and `.`"
    )]
    NoRingName { name: String, problem: &'static str },
    /// The budget is invalid.
    #[error(transparent)]
    Budget(#[from] BadBudget),
    /// Error of the base directory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The system refused a thread, a pipe or a signal handler.
    #[error("cannot {operation}: {source}")]
    System { operation: &'static str, source: io::Error },
}

impl ServeError {
    pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }

    /// Returns whether the options or the configuration file are invalid.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::LongPath { .. }
                | Self::OpenAddress { .. }
                | Self::ReadConfig { .. }
                | Self::BadConfig { .. }
                | Self::UnknownKey { .. }
                | Self::BadValue { .. }
                | Self::NoRingName { .. }
                | Self::Budget(_)
        )
    }
}
