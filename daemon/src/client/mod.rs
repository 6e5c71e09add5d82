//! Client of the daemon, for programs and the command line.

mod error;

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use backcast_core::plumbing::{BaseLock, DAEMON_SOCKET, Peer};
use backcast_core::{Base, Capacity, Exist, ObjectKind, Ring, RingOptions, Schema};
use backcast_persist::PersistMode;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::ClientError;

use crate::protocol::lines::{Line, Lines, write_line};
use crate::protocol::{
    Answer, Ask, CreateAsk, Gone, Granted, Grown, Holder, ListedObject, LoadAsk, MAX_ANSWER_BYTES,
    PROTOCOL, Pong, ResizeAsk, SaveAsk, SaveOutcome, StoredSnapshot,
};

/// Interval at which a wait checks for an interruption.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Client of a daemon. Each call makes its own connection, so the daemon may be restarted between
/// calls.
#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    /// Base directory, if known.
    base: Option<PathBuf>,
    timeout: Duration,
    interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("socket", &self.socket)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Default of [`timeout`](Self::timeout).
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Finds the daemon of `base` and checks that it answers.
    pub fn connect(base: &Base) -> Result<Self, ClientError> {
        let client = Self::of(base);
        client.ping()?;
        Ok(client)
    }

    /// Returns a client for the daemon of `base` without connecting.
    #[must_use]
    pub fn of(base: &Base) -> Self {
        // The lock file names the socket. The file is not trusted: `open` checks the peer.
        let holder = BaseLock::said(base).and_then(|said| serde_json::from_str(&said).ok());
        let socket = holder.map_or_else(|| base.path().join(DAEMON_SOCKET), |h: Holder| h.socket);
        Self { base: Some(base.path().to_owned()), ..Self::at(&socket) }
    }

    /// Returns a client for the daemon at `socket` without connecting. A process that does not see
    /// the daemon's base directory can use it.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        let socket = socket.to_owned();
        Self { socket, base: None, timeout: Self::TIMEOUT, interrupted: Arc::new(|| false) }
    }

    /// Sets how long the daemon may be silent. During long work it sends a line every second or so.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Ends waits for an answer with [`ClientError::Interrupted`] when `check` returns true. Waits
    /// call `check` every 50 ms.
    #[must_use]
    pub fn interrupted_by(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupted = Arc::new(check);
        self
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the status of the daemon.
    pub fn ping(&self) -> Result<Pong, ClientError> {
        self.ask(&Ask::Ping)
    }

    /// Creates a ring within the daemon's budget, or attaches to it as [`RingOptions::exist`] says.
    /// The ring is in the daemon's base directory; the base directory of the options is ignored.
    pub fn create(
        &self,
        name: &str,
        schema: &Schema,
        options: &RingOptions,
    ) -> Result<(Ring, Granted), ClientError> {
        self.handed(&Ask::Create(Box::new(CreateAsk::new(name, schema, options))), name)
    }

    /// Creates a ring like [`create`](Self::create) and sets its persistence mode, which stays with
    /// the ring for later daemons.
    pub fn create_persisted(
        &self,
        name: &str,
        schema: &Schema,
        options: &RingOptions,
        mode: PersistMode,
    ) -> Result<(Ring, Granted), ClientError> {
        let mut ask = CreateAsk::new(name, schema, options);
        ask.persist = Some(mode.to_string());
        self.handed(&Ask::Create(Box::new(ask)), name)
    }

    /// Attaches to a ring through a descriptor that the daemon passes. The daemon restores an
    /// evicted ring first. This process need not see the ring's directory.
    pub fn attach(&self, name: &str) -> Result<Ring, ClientError> {
        Ok(self.handed(&Ask::Attach { name: name.to_owned() }, name)?.0)
    }

    /// Makes a ring larger while it is written and read, like [`Ring::resize`]. The larger memory
    /// must fit the daemon's budget beside the old one. Waits up to `wait` for writers to relocate
    /// their lanes; the rest are relocated later. The daemon refuses a `wait` above an hour.
    pub fn resize(
        &self,
        name: &str,
        capacity: impl Into<Capacity>,
        wait: Duration,
    ) -> Result<Grown, ClientError> {
        self.ask(&Ask::Resize(ResizeAsk::new(name, capacity.into(), wait)))
    }

    /// Saves a ring to the daemon's store under `label`. Without a label, uses the first of s1, s2,
    /// … that is free. With `replace`, the new snapshot replaces one that has the label.
    pub fn save(
        &self,
        name: &str,
        label: Option<&str>,
        replace: bool,
    ) -> Result<SaveOutcome, ClientError> {
        let label = label.map(str::to_owned);
        self.ask(&Ask::Save(SaveAsk { name: name.to_owned(), label, replace }))
    }

    /// Loads a snapshot of the daemon's store within its budget: `"pong@epoch-10"`, or the newest
    /// of `"pong"`. `name` renames the ring. A `persistent` ring stays when no process holds it.
    pub fn load(
        &self,
        snapshot: &str,
        name: Option<&str>,
        exist: Exist,
        persistent: bool,
    ) -> Result<(Ring, Granted), ClientError> {
        let own = name.or_else(|| snapshot.split('@').next()).unwrap_or(snapshot);
        let ask = LoadAsk {
            snapshot: snapshot.to_owned(),
            name: name.map(str::to_owned),
            exist: exist.to_string(),
            persistent,
        };
        self.handed(&Ask::Load(ask), own)
    }

    /// Lists the snapshots in the daemon's store, of one name or of all names in order. Those of a
    /// name are listed oldest first.
    pub fn snapshots(&self, name: Option<&str>) -> Result<Vec<StoredSnapshot>, ClientError> {
        self.ask(&Ask::Snapshots { name: name.map(str::to_owned) })
    }

    /// Lists all rings, panels and parameters, evicted rings included.
    pub fn list(&self) -> Result<Vec<ListedObject>, ClientError> {
        self.ask(&Ask::List)
    }

    /// Returns everything about a ring, with the keys of `backcast --json stat`.
    pub fn stats(&self, name: &str) -> Result<Value, ClientError> {
        self.ask(&Ask::Stats { name: name.to_owned() })
    }

    /// Removes a ring, panel or set of parameters. An object that a process holds is removed only
    /// with `force`. `kind` is needed if objects of two kinds share the name.
    pub fn remove(
        &self,
        name: &str,
        kind: Option<ObjectKind>,
        force: bool,
    ) -> Result<Gone, ClientError> {
        let kind = kind.map(|kind| kind.as_str().to_owned());
        self.ask(&Ask::Remove { name: name.to_owned(), kind, force })
    }

    /// Removes objects that are not persistent and that no process holds.
    pub fn gc(&self) -> Result<Vec<Gone>, ClientError> {
        self.ask(&Ask::Gc)
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, ClientError> {
        let socket = self.open()?;
        let (value, _) = self.exchange(&socket, ask)?;
        self.understood(value)
    }

    /// Receives a ring. The daemon holds it until the connection ends; by then this process does
    /// too.
    fn handed(&self, ask: &Ask, name: &str) -> Result<(Ring, Granted), ClientError> {
        let socket = self.open()?;
        let (value, directory) = self.exchange(&socket, ask)?;
        let granted: Granted = self.understood(value)?;
        let directory = directory
            .ok_or_else(|| self.nonsense("it named a ring and handed over no descriptor"))?;
        let ring = Ring::attach_at(directory, &granted.path, name)?;
        // Wait until the daemon has closed its handle, so that this process can be the last holder.
        if socket.shutdown(Shutdown::Write).is_ok() {
            let _ = Lines::new(&socket, MAX_ANSWER_BYTES).next(Instant::now() + self.timeout);
        }
        Ok((ring, granted))
    }

    fn open(&self) -> Result<UnixStream, ClientError> {
        let socket = UnixStream::connect(&self.socket).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NotRunning {
                socket: self.socket.clone(),
                dir: self.base.as_deref().and_then(Path::parent).map(Path::to_owned),
            },
            _ => self.failed(error),
        })?;
        // A socket of another user does not belong to this user's daemon.
        match Peer::of(&socket) {
            Ok(peer) if peer.is_us() => Ok(socket),
            Ok(Peer { uid, .. }) => Err(ClientError::Stranger { socket: self.socket.clone(), uid }),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn exchange(
        &self,
        socket: &UnixStream,
        ask: &Ask,
    ) -> Result<(Value, Option<OwnedFd>), ClientError> {
        let request = RequestLine { protocol: PROTOCOL, ask };
        let line = serde_json::to_vec(&request).map_err(|error| self.failed(error.into()))?;
        let sent = write_line(socket, line, None, Instant::now() + self.timeout);
        match sent {
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(self.silent()),
            // The daemon may have answered before it closed.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            sent => sent.map_err(|error| self.failed(error))?,
        }
        let mut lines = Lines::new(socket, MAX_ANSWER_BYTES);
        loop {
            match self.read(&mut lines)? {
                Answer::Working(_) => {}
                Answer::Ok(value) => return Ok((value, lines.take_descriptor())),
                Answer::Error(refusal) => return Err(refusal.into()),
            }
        }
    }

    fn read(&self, lines: &mut Lines<'_>) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if (self.interrupted)() {
                return Err(ClientError::Interrupted);
            }
            let now = Instant::now();
            match lines.next(deadline.min(now + LOOK_EVERY)) {
                Ok(Line::Whole(line)) => {
                    return serde_json::from_slice(&line)
                        .map_err(|error| self.nonsense(&error.to_string()));
                }
                Ok(Line::TooSlow) if now < deadline => {}
                Ok(Line::TooSlow) => return Err(self.silent()),
                Ok(Line::TooLong) => return Err(self.nonsense("its answer has no end")),
                Ok(Line::Closed) => return Err(ClientError::Gone { socket: self.socket.clone() }),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn understood<T: DeserializeOwned>(&self, value: Value) -> Result<T, ClientError> {
        serde_json::from_value(value).map_err(|error| self.nonsense(&error.to_string()))
    }

    fn silent(&self) -> ClientError {
        ClientError::TimedOut { socket: self.socket.clone(), timeout: self.timeout }
    }

    fn failed(&self, source: io::Error) -> ClientError {
        ClientError::Io { socket: self.socket.clone(), source }
    }

    fn nonsense(&self, why: &str) -> ClientError {
        ClientError::Nonsense { socket: self.socket.clone(), why: why.to_owned() }
    }
}

/// [`Request`](crate::protocol::Request) with a borrowed body.
#[derive(serde::Serialize)]
struct RequestLine<'a> {
    protocol: u32,
    #[serde(flatten)]
    ask: &'a Ask,
}
