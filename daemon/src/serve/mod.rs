//! The daemon: one process per base directory that maintains its objects. It holds no lock that a
//! writer or reader waits for, so it can be killed and restarted at any moment. A killed daemon
//! loses only those rings in memfds that no other process holds.

mod answer;
mod budget;
mod config;
mod connection;
mod create;
mod error;
mod fleet_metrics;
mod grant;
mod http;
mod limiter;
mod listen;
mod log;
mod metrics;
mod options;
mod params_metrics;
mod persist;
mod reader_totals;
mod refusal;
mod resize;
mod restore;
mod shared;
mod snapshot;
mod sweep;
mod table_metrics;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use backcast_core::Base;
use backcast_core::plumbing::{BaseLock, LockAttempt};

use crate::protocol::Holder;

pub(crate) use budget::used;
pub use budget::{BadBudget, Budget, WhenFull};
pub(crate) use config::{GivenSettings, Settings};
pub use error::ServeError;
pub(crate) use log::Log;
pub use options::ServeOptions;
pub use persist::{BadTimeSpan, PersistOptions, TimeSpan};

use connection::Acceptor;
use http::MetricsServer;
use listen::Listener;
use shared::Shared;
use sweep::Sweeper;

/// A running daemon. Dropping it stops it after the running requests.
///
/// ```
/// use backcast_core::{Base, DType, RingOptions, Schema};
/// use backcast_daemon::{Budget, Client, Daemon, ServeOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let base = Base::at(dir.path());
/// let options = ServeOptions { budget: Budget::Bytes(64 << 20), ..ServeOptions::default() };
/// let daemon = Daemon::start(&base, &options)?;
/// let client = Client::connect(&base)?;
/// let schema = Schema::builder().column("obs", DType::F32, &[2]).build()?;
/// let (ring, granted) = client.create("pong", &schema, &RingOptions::with_capacity(1_000))?;
/// assert!(granted.made && ring.capacity() == 1_000);
/// assert!(client.create("big", &schema, &RingOptions::with_capacity(10_000_000)).is_err());
/// daemon.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Daemon {
    // Declared in the order in which they stop; the lock is released last.
    acceptor: Acceptor,
    metrics: Option<MetricsServer>,
    sweeper: Sweeper,
    shared: Arc<Shared>,
    lock: BaseLock,
}

impl Daemon {
    /// Starts a daemon for `base`, and creates the directory if it is missing. An error changes no
    /// ring, unless the system refuses a thread or a pipe.
    pub fn start(base: &Base, options: &ServeOptions) -> Result<Self, ServeError> {
        options.check()?;
        let lock = match BaseLock::claim(base)? {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::Held(said) => {
                let holder = serde_json::from_str::<Holder>(&said)
                    .map_or_else(|_| "(unknown)".to_owned(), |holder| holder.pid.to_string());
                return Err(ServeError::AlreadyRunning { base: base.path().to_owned(), holder });
            }
        };
        let listener = Listener::bind(&options.socket_in(base))?;
        let metrics = options.metrics.map(MetricsServer::bind).transpose()?;
        let shared = Arc::new(Shared::new(base, options)?);
        announce(&lock, listener.path(), &shared)?;
        let sweeper = Sweeper::start(&shared)?;
        let metrics = metrics.map(|server| server.start(&shared)).transpose()?;
        let acceptor = Acceptor::start(listener, &shared, options.max_connections)?;
        Ok(Self { acceptor, metrics, sweeper, shared, lock })
    }

    /// Applies the settings that can change while the daemon runs: budget, policy for rings that do
    /// not fit, memfds, interval, persistence.
    pub fn reload(&self, options: &ServeOptions) -> Result<(), ServeError> {
        self.shared.take_over(options)?;
        announce(&self.lock, self.socket(), &self.shared)?;
        self.sweeper.wake();
        Ok(())
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.acceptor.path()
    }

    /// Returns the address of the metrics, with the port that was picked. `None` if none are
    /// served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// Returns the maximum bytes of all objects together.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.shared.live().budget_bytes
    }

    /// Returns whether the daemon maintains its rings: no sweep has run for `limit`. A supervisor
    /// restarts a daemon that does not.
    #[must_use]
    pub fn maintains(&self, limit: Duration) -> bool {
        self.shared.sweeping_for().is_none_or(|taken| taken < limit)
    }

    /// Stops the daemon after answering running requests, and removes the socket.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shared.stop();
        self.acceptor.stop();
        if let Some(metrics) = &mut self.metrics {
            metrics.stop();
        }
        self.sweeper.stop();
        self.shared.keeper().stop();
        self.shared.release_memory();
    }
}

/// Writes the daemon's process, socket, budget and store into its lock file.
fn announce(lock: &BaseLock, socket: &Path, shared: &Shared) -> Result<(), ServeError> {
    let (pid, socket) = (std::process::id(), socket.to_owned());
    let store = shared.persist().store().ok().map(|store| store.path().to_owned());
    let holder = Holder { pid, socket, budget_bytes: Some(shared.live().budget_bytes), store };
    Ok(lock.say(&serde_json::to_string(&holder).unwrap_or_default())?)
}

/// Starts a named thread.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServeError> {
    std::thread::Builder::new()
        .name(format!("backcast-{name}"))
        .spawn(work)
        .map_err(ServeError::system("start a thread"))
}

/// Returns a pipe whose reading end becomes readable when the writing end is dropped. It stops
/// threads that wait for connections.
fn stop_pipe() -> Result<(io::PipeReader, io::PipeWriter), ServeError> {
    io::pipe().map_err(ServeError::system("make a pipe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_does_not_end_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        // No sweep begins but the first, which has ended.
        let interval = Duration::from_secs(3600);
        let options = ServeOptions { interval, ..ServeOptions::default() };
        let daemon = Daemon::start(&Base::at(dir.path()), &options).unwrap();
        assert!(daemon.maintains(Duration::ZERO));
        daemon.shared.set_sweeping(true);
        assert!(daemon.maintains(Duration::from_secs(60)));
        assert!(!daemon.maintains(Duration::ZERO));
        daemon.shared.set_sweeping(false);
        assert!(daemon.maintains(Duration::ZERO));
    }
}
