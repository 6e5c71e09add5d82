//! Asking the daemon: what a program or the command line says to it, and what it hears.

mod error;

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use backcast_core::{
    Base, BaseLock, Capacity, DAEMON_SOCKET, Exist, Kind, Peer, Ring, RingOptions, Schema,
};
use backcast_persist::Mode;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::ClientError;

use crate::lines::{Line, Lines, write_line};
use crate::serve::Holder;
use crate::wire::{
    Answer, Ask, CreateAsk, Gone, Granted, Grown, ListedObject, LoadAsk, MAX_ANSWER_BYTES,
    PROTOCOL, Pong, ResizeAsk, SaveAsk, Saved, SavedSnapshot,
};

/// How often a wait looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Asks a daemon. Each call is a connection of its own, so a daemon that was restarted meanwhile is
/// no error, and nothing is held between calls.
#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    /// The base directory, where it is known.
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
    /// How long a daemon may be silent, unless the caller says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Finds the daemon that looks after `base`, and asks whether it is there.
    pub fn connect(base: &Base) -> Result<Self, ClientError> {
        let client = Self::of(base);
        client.ping()?;
        Ok(client)
    }

    /// The daemon that looks after `base`, not asked yet.
    #[must_use]
    pub fn of(base: &Base) -> Self {
        // Where its lock says that it listens; what is written there is only tried.
        let holder = BaseLock::said(base).and_then(|said| serde_json::from_str(&said).ok());
        let socket = holder.map_or_else(|| base.path().join(DAEMON_SOCKET), |h: Holder| h.socket);
        Self { base: Some(base.path().to_owned()), ..Self::at(&socket) }
    }

    /// The daemon that listens at `socket`, not asked yet: for processes that do not see its base
    /// directory.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        let socket = socket.to_owned();
        Self { socket, base: None, timeout: Self::TIMEOUT, interrupted: Arc::new(|| false) }
    }

    /// How long the daemon may be silent. While it works on something that takes long it is not.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Waits end with [`ClientError::Interrupted`] when this says so; it is asked every 50 ms.
    #[must_use]
    pub fn interrupted_by(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupted = Arc::new(check);
        self
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What the daemon says of itself.
    pub fn ping(&self) -> Result<Pong, ClientError> {
        self.ask(&Ask::Ping)
    }

    /// Makes a ring within the daemon's budget, or joins it as [`RingOptions::exist`] says. Its place
    /// is the daemon's, whatever the options say of it.
    pub fn create(
        &self,
        name: &str,
        schema: &Schema,
        options: &RingOptions,
    ) -> Result<(Ring, Granted), ClientError> {
        self.handed(&Ask::Create(Box::new(CreateAsk::new(name, schema, options))), name)
    }

    /// The same, and has the daemon bring the ring to disk in some way. That stays with the ring: every
    /// daemon after this one does so too.
    pub fn create_persisted(
        &self,
        name: &str,
        schema: &Schema,
        options: &RingOptions,
        mode: Mode,
    ) -> Result<(Ring, Granted), ClientError> {
        let mut ask = CreateAsk::new(name, schema, options);
        ask.persist = Some(mode.to_string());
        self.handed(&Ask::Create(Box::new(ask)), name)
    }

    /// Joins a ring through a descriptor that the daemon hands over: this process need not see the
    /// ring's directory.
    pub fn attach(&self, name: &str) -> Result<Ring, ClientError> {
        Ok(self.handed(&Ask::Attach { name: name.to_owned() }, name)?.0)
    }

    /// Makes a ring larger while it is written and read, as [`Ring::resize`], if the larger memory fits the
    /// daemon's budget beside the old. Waits for writers to move their lanes for `wait` at most, an hour
    /// or less; they move later by themselves.
    pub fn resize(
        &self,
        name: &str,
        capacity: impl Into<Capacity>,
        wait: Duration,
    ) -> Result<Grown, ClientError> {
        self.ask(&Ask::Resize(ResizeAsk::new(name, capacity.into(), wait)))
    }

    /// Saves a ring to the daemon's store, under `label` or the first of s1, s2, … that is free;
    /// `replace` puts it in the place of one with that label.
    pub fn save(
        &self,
        name: &str,
        label: Option<&str>,
        replace: bool,
    ) -> Result<Saved, ClientError> {
        let label = label.map(str::to_owned);
        self.ask(&Ask::Save(SaveAsk { name: name.to_owned(), label, replace }))
    }

    /// Makes a ring of a snapshot in the daemon's store, within its budget: of `"pong@epoch-10"`, or of
    /// the newest of `"pong"`; under a name of its own, if one is given. A `persistent` one stays when
    /// nobody holds it.
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

    /// The snapshots in the daemon's store, of one name or of all, oldest first.
    pub fn snapshots(&self, name: Option<&str>) -> Result<Vec<SavedSnapshot>, ClientError> {
        self.ask(&Ask::Snapshots { name: name.map(str::to_owned) })
    }

    /// All rings and panels.
    pub fn list(&self) -> Result<Vec<ListedObject>, ClientError> {
        self.ask(&Ask::List)
    }

    /// Everything about one ring: the keys of `backcast --json stat`.
    pub fn stats(&self, name: &str) -> Result<Value, ClientError> {
        self.ask(&Ask::Stats { name: name.to_owned() })
    }

    /// Removes a ring or panel; one that is held only with `force`.
    pub fn remove(&self, name: &str, kind: Option<Kind>, force: bool) -> Result<Gone, ClientError> {
        let kind = kind.map(|kind| kind.as_str().to_owned());
        self.ask(&Ask::Remove { name: name.to_owned(), kind, force })
    }

    /// Removes what nobody holds and nobody asked to keep.
    pub fn gc(&self) -> Result<Vec<Gone>, ClientError> {
        self.ask(&Ask::Gc)
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, ClientError> {
        let socket = self.open()?;
        let (value, _) = self.exchange(&socket, ask)?;
        self.understood(value)
    }

    /// The daemon holds the ring until the connection ends: by then this process holds it too.
    fn handed(&self, ask: &Ask, name: &str) -> Result<(Ring, Granted), ClientError> {
        let socket = self.open()?;
        let (value, directory) = self.exchange(&socket, ask)?;
        let granted: Granted = self.understood(value)?;
        let directory = directory
            .ok_or_else(|| self.nonsense("it named a ring and handed over no descriptor"))?;
        let ring = Ring::attach_at(directory, &granted.path, name)?;
        // We hold it: the daemon need not any more. That it does not is what its end of the
        // connection tells, so that whoever drops the ring next is its last holder.
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
        // A socket that somebody else put there is not our daemon.
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
            // It may have said why before it closed.
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

/// A request that borrows what it asks.
#[derive(serde::Serialize)]
struct RequestLine<'a> {
    protocol: u32,
    #[serde(flatten)]
    ask: &'a Ask,
}
