//! The daemon: one process per base directory that looks after all its objects and is in nobody's
//! way. It holds no ring and no lock that a writer or a reader waits for, so that it can be killed
//! and started again at any moment.

mod answer;
mod budget;
mod caller;
mod census;
mod command;
mod config;
mod connection;
mod create;
mod error;
mod evict;
mod gate;
mod http;
mod listen;
mod log;
mod metrics;
mod options;
mod persist;
mod quota;
mod refusal;
mod resize;
mod shared;
mod snapshot;
mod sweep;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use backcast_core::{Base, BaseLock, Claimed};
use serde::{Deserialize, Serialize};

pub(crate) use budget::used;
pub use budget::{BadBudget, Budget, WhenFull};
pub(crate) use caller::Caller;
pub(crate) use command::{Args, run};
pub use error::ServeError;
pub(crate) use evict::EVICTED;
pub use options::ServeOptions;
pub use persist::{BadSpan, PersistOptions, Span};

use connection::Acceptor;
use http::MetricsServer;
use listen::Listener;
use shared::Shared;
use sweep::Sweeper;

/// What a daemon says of itself in its lock file, for people and for clients that look for it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) socket: std::path::PathBuf,
    /// Bytes that all objects may have together.
    #[serde(default)]
    pub(crate) budget_bytes: Option<u64>,
    /// Where it keeps snapshots, and rings that it evicted.
    #[serde(default)]
    pub(crate) store: Option<std::path::PathBuf>,
}

impl Holder {
    /// Of the daemon that looks after `base`, if one does.
    pub(crate) fn of(base: &Base) -> Option<Self> {
        let said = BaseLock::is_held(base).then(|| BaseLock::said(base))??;
        serde_json::from_str(&said).ok()
    }

    fn say(lock: &BaseLock, socket: &Path, shared: &Shared) -> Result<(), ServeError> {
        let (pid, socket) = (std::process::id(), socket.to_owned());
        let store = shared.persist().store().ok().map(|store| store.path().to_owned());
        let holder = Self { pid, socket, budget_bytes: Some(shared.live().budget_bytes), store };
        Ok(lock.say(&serde_json::to_string(&holder).unwrap_or_default())?)
    }
}

/// A running daemon. Dropping it ends it, after the requests that it works on.
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
    // In the order of their end: no new requests, no sweeps, then the right to be the daemon.
    acceptor: Acceptor,
    metrics: Option<MetricsServer>,
    sweeper: Sweeper,
    shared: Arc<Shared>,
    lock: BaseLock,
}

impl Daemon {
    /// Starts to look after the objects of `base`; the directory is made if it is missing. Nothing
    /// is changed unless everything can be.
    pub fn start(base: &Base, options: &ServeOptions) -> Result<Self, ServeError> {
        options.check()?;
        let lock = match BaseLock::claim(base)? {
            Claimed::Ours(lock) => lock,
            Claimed::Theirs(said) => {
                let holder = serde_json::from_str::<Holder>(&said)
                    .map_or_else(|_| "(unknown)".to_owned(), |holder| holder.pid.to_string());
                return Err(ServeError::AlreadyRunning { base: base.path().to_owned(), holder });
            }
        };
        let listener = Listener::bind(&options.socket_in(base))?;
        let metrics = options.metrics.map(MetricsServer::bind).transpose()?;
        let shared = Arc::new(Shared::new(base, options)?);
        Holder::say(&lock, listener.path(), &shared)?;
        let sweeper = Sweeper::start(&shared)?;
        let metrics = metrics.map(|server| server.start(&shared)).transpose()?;
        let acceptor = Acceptor::start(listener, &shared, options.max_connections)?;
        Ok(Self { acceptor, metrics, sweeper, shared, lock })
    }

    /// Takes over what can be changed while it runs: budget, quota, what happens when it is full, interval,
    /// how rings are brought to disk.
    pub fn reload(&self, options: &ServeOptions) -> Result<(), ServeError> {
        self.shared.take_over(options)?;
        Holder::say(&self.lock, self.socket(), &self.shared)?;
        self.sweeper.wake();
        Ok(())
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.acceptor.path()
    }

    /// Where metrics are served: the port that was found, if any was asked for.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// Bytes that all objects may have together.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.shared.live().budget_bytes
    }

    /// Bytes that the rings may have that one process asked for. `None`: as many as there are.
    #[must_use]
    pub fn quota_bytes(&self) -> Option<u64> {
        self.shared.live().quota_bytes
    }

    /// Ends it: requests at work are answered, the socket is removed.
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

/// A thread with a name, or why there is none.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServeError> {
    std::thread::Builder::new()
        .name(format!("backcast-{name}"))
        .spawn(work)
        .map_err(ServeError::system("start a thread"))
}

/// A pipe whose reading end becomes readable when the writing end is dropped: how a thread that
/// waits for connections is told to end.
fn stop_pipe() -> Result<(io::PipeReader, io::PipeWriter), ServeError> {
    io::pipe().map_err(ServeError::system("make a pipe"))
}
