//! How a daemon is started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::{Base, DAEMON_SOCKET};

use super::budget::{Budget, WhenFull};
use super::error::ServeError;
use super::persist::PersistOptions;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// How a daemon is started.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeOptions {
    /// Memory that all objects may have together.
    pub budget: Budget,
    /// Memory that the rings may have that one process asked for; no limit if left out.
    pub quota: Option<Budget>,
    /// What becomes of a ring that does not fit.
    pub when_full: WhenFull,
    /// Every ring that it makes lies in sealed memfds (Linux).
    pub memfd: bool,
    /// Time between two looks at everything.
    pub interval: Duration,
    /// Socket; in the base directory if left out.
    pub socket: Option<PathBuf>,
    /// Where to serve metrics, if anywhere; port 0 finds a free one.
    pub metrics: Option<SocketAddr>,
    /// Metrics may be served to other machines.
    pub metrics_any_address: bool,
    /// Connections at a time.
    pub max_connections: usize,
    /// How rings are brought to disk.
    pub persist: PersistOptions,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            quota: None,
            when_full: WhenFull::default(),
            memfd: false,
            interval: Duration::from_secs(2),
            socket: None,
            metrics: None,
            metrics_any_address: false,
            max_connections: MAX_CONNECTIONS,
            persist: PersistOptions::default(),
        }
    }
}

impl ServeOptions {
    pub(crate) fn socket_in(&self, base: &Base) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| base.path().join(DAEMON_SOCKET))
    }

    /// What can be told without touching anything.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        match self.metrics {
            Some(address) if !address.ip().is_loopback() && !self.metrics_any_address => {
                Err(ServeError::OpenAddress { address })
            }
            _ => Ok(()),
        }
    }
}
