//! Options of a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::Base;
use backcast_core::plumbing::{DAEMON_SOCKET, name_problem};

use super::budget::{Budget, WhenFull};
use super::error::ServeError;
use super::persist::PersistOptions;

/// Maximum connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Options of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeOptions {
    /// Maximum memory of all objects together.
    pub budget: Budget,
    /// Policy for rings that do not fit.
    pub when_full: WhenFull,
    /// Whether every ring is created in sealed memfds (Linux).
    pub memfd: bool,
    /// Time between two sweeps.
    pub interval: Duration,
    /// Socket; `None` for one in the base directory.
    pub socket: Option<PathBuf>,
    /// Address at which metrics are served, if they are. Port 0 picks a free one.
    pub metrics: Option<SocketAddr>,
    /// Whether a metrics address is allowed that other machines can reach.
    pub metrics_any_address: bool,
    /// Maximum connections at a time.
    pub max_connections: usize,
    /// Settings of persistence.
    pub persist: PersistOptions,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
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

    /// Checks the options that need no resources.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        for name in self.persist.rings.keys() {
            if let Some(problem) = name_problem(name) {
                return Err(ServeError::NoRingName { name: name.clone(), problem });
            }
        }
        match self.metrics {
            Some(address) if !address.ip().is_loopback() && !self.metrics_any_address => {
                Err(ServeError::OpenAddress { address })
            }
            _ => Ok(()),
        }
    }
}
