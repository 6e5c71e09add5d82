//! Accepts clients of the same user and serves their requests. A request is bounded in bytes, and
//! reading it and writing its answer are bounded in time.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use backcast_core::Ring;
use backcast_core::plumbing::Peer;
use rustix::event::{PollFd, PollFlags, poll};

use super::answer::{Reply, answer, is_long};
use super::error::ServeError;
use super::limiter::{Admission, ConnectionLimiter};
use super::listen::Listener;
use super::shared::{Shared, add};
use super::{spawn, stop_pipe};
use crate::protocol::lines::{Line, Lines, write_line};
use crate::protocol::{
    Answer, Ask, Code, MAX_REQUEST_BYTES, PROTOCOL, Refusal, Request, WORKING_EVERY,
};

/// Time-out for reading a request and for writing an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Thread that accepts clients.
#[derive(Debug)]
pub(crate) struct Acceptor {
    path: PathBuf,
    // Dropping this end stops the thread.
    stop: Option<std::io::PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn start(
        listener: Listener,
        shared: &Arc<Shared>,
        limit: usize,
    ) -> Result<Self, ServeError> {
        let path = listener.path().to_owned();
        let (stopped, stop) = stop_pipe()?;
        listener.socket.set_nonblocking(true).map_err(ServeError::system("set up the socket"))?;
        let shared = Arc::clone(shared);
        let thread = spawn("accept", move || {
            let limiter = ConnectionLimiter::new(limit);
            while wait_for(&listener.socket, &stopped) {
                accept(&listener.socket, &shared, &limiter);
            }
            // Remove the socket first, so that new clients do not wait for an answer.
            drop(listener);
            limiter.close();
        })?;
        Ok(Self { path, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Stops the thread once running requests are answered.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a connection. Returns false if the daemon stops or the wait fails.
pub(crate) fn wait_for(listener: &impl AsFd, stopped: &impl AsFd) -> bool {
    loop {
        let mut found = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN | PollFlags::HUP),
        ];
        match poll(&mut found, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot wait for connections");
                return false;
            }
            Ok(_) => {}
        }
        if !found[1].revents().is_empty() {
            return false;
        }
        if !found[0].revents().is_empty() {
            return true;
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>, limiter: &Arc<ConnectionLimiter>) {
    let socket = match listener.accept() {
        Ok((socket, _)) => socket,
        // The process has most likely no descriptors left. The client waits in the queue, and this
        // thread must not spin.
        Err(error) => {
            if error.kind() != std::io::ErrorKind::WouldBlock {
                tracing::warn!(%error, "cannot accept a connection");
                thread::sleep(Duration::from_millis(50));
            }
            return;
        }
    };
    add(&shared.tally.connections, 1);
    // Check the user before reading a byte.
    let peer = Peer::of(&socket);
    if !may_ask(peer.as_ref().ok()) {
        add(&shared.tally.strangers_refused, 1);
        tracing::warn!(?peer, "refused another user");
        return;
    }
    if socket.set_nonblocking(false).is_err() {
        return;
    }
    let Ok(copy) = socket.try_clone() else { return };
    let Some(admission) = limiter.enter(move || drop(copy.shutdown(std::net::Shutdown::Both)))
    else {
        let why = "all connections that the daemon allows are at work; try again later";
        let _ = send(&socket, &Answer::Error(Refusal::new(Code::Busy, why)), None, Duration::ZERO);
        return;
    };
    let shared = Arc::clone(shared);
    // Without a thread the connection is closed, which the client notices.
    if let Err(error) = spawn("client", move || serve(&shared, &socket, &admission)) {
        tracing::warn!(%error, "refused a connection");
    }
}

/// Returns whether the peer runs as the same user. Returns false if the kernel does not name the
/// peer's user.
fn may_ask(peer: Option<&Peer>) -> bool {
    peer.is_some_and(Peer::is_us)
}

fn serve(shared: &Shared, socket: &UnixStream, admission: &Admission) {
    let mut lines = Lines::new(socket, MAX_REQUEST_BYTES);
    // Held until the next answer or the end of the connection. By then the client holds the ring.
    let mut handed: Option<Ring>;
    loop {
        let line = match lines.next(Instant::now() + PATIENCE) {
            Ok(Line::Whole(line)) => line,
            Ok(Line::TooLong) => {
                let why = format!("a request has {MAX_REQUEST_BYTES} bytes at most, this one more");
                shared.tally.count_error(Code::TooLong);
                let refusal = Answer::Error(Refusal::new(Code::TooLong, why));
                let _ = send(socket, &refusal, None, PATIENCE);
                return;
            }
            Ok(Line::Closed | Line::TooSlow) | Err(_) => return,
        };
        // A descriptor from a client has no meaning and is closed.
        drop(lines.take_descriptor());
        let stopping = !admission.begin_work();
        let outcome = if stopping || shared.is_stopping() {
            Err(Refusal::new(Code::Stopping, "the daemon is ending; start another, then try again"))
        } else {
            work(shared, socket, &line)
        };
        let (answer, ring) = match outcome {
            Ok(reply) => (Answer::Ok(reply.value), reply.ring),
            Err(refusal) => {
                shared.tally.count_error(refusal.code);
                tracing::debug!(code = refusal.code.word(), why = refusal.message, "refused");
                (Answer::Error(refusal), None)
            }
        };
        handed = ring;
        let sent = send(socket, &answer, handed.as_ref(), PATIENCE);
        admission.end_work();
        if sent.is_err() || stopping {
            return;
        }
    }
}

/// Parses and answers a request. A long one runs in another thread while this one reports progress.
fn work(shared: &Shared, socket: &UnixStream, line: &[u8]) -> Result<Reply, Refusal> {
    let ask = read(line)?;
    shared.tally.count_request(ask.word());
    if !is_long(&ask) {
        return answer(shared, &ask);
    }
    thread::scope(|scope| {
        let (done, result) = mpsc::sync_channel(1);
        scope.spawn(|| {
            // A request is completed even if the client is gone.
            let _ = done.send(answer(shared, &ask));
            drop(done);
        });
        loop {
            match result.recv_timeout(WORKING_EVERY) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = send(socket, &Answer::Working(true), None, WORKING_EVERY);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "the daemon failed at it; its log may say more";
                    return Err(Refusal::new(Code::Storage, why));
                }
            }
        }
    })
}

fn read(line: &[u8]) -> Result<Ask, Refusal> {
    // Parse the version first, because another version may give the rest any meaning.
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    let bad = |error: serde_json::Error| {
        let why = format!(
            "the line is no request: {error}; send one JSON object, such as \
             {{\"protocol\": {PROTOCOL}, \"ask\": \"ping\"}}"
        );
        Refusal::new(Code::BadRequest, why)
    };
    let Version { protocol } = serde_json::from_slice(line).map_err(bad)?;
    if protocol != PROTOCOL {
        let why = format!(
            "the client speaks protocol {protocol}, the daemon ({}) {PROTOCOL}; use the same \
             Backcast for both",
            env!("CARGO_PKG_VERSION")
        );
        return Err(Refusal::new(Code::OtherProtocol, why));
    }
    Ok(serde_json::from_slice::<Request>(line).map_err(bad)?.ask)
}

fn send(
    socket: &UnixStream,
    answer: &Answer,
    ring: Option<&Ring>,
    patience: Duration,
) -> std::io::Result<()> {
    let line = serde_json::to_vec(answer)?;
    let directory = match ring.map(Ring::directory) {
        Some(Ok(directory)) => directory,
        Some(Err(error)) => return Err(std::io::Error::other(error)),
        None => None,
    };
    // A patience of zero becomes 1 ms, so that refusing a client hardly blocks a busy daemon.
    let deadline = Instant::now() + patience.max(Duration::from_millis(1));
    write_line(socket, line, directory.as_ref(), deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_may_ask() {
        let (here, _there) = UnixStream::pair().unwrap();
        let us = Peer::of(&here).unwrap();
        assert!(may_ask(Some(&us)));
        for uid in [us.uid.wrapping_add(1), us.uid ^ 0x8000_0000, u32::MAX] {
            assert!(!may_ask(Some(&Peer { uid, pid: us.pid })), "{uid}");
        }
        assert!(!may_ask(None), "whom the kernel cannot name");
    }

    #[test]
    fn invalid_requests_are_refused_with_the_reason() {
        for (line, code, word) in [
            (&b""[..], Code::BadRequest, "EOF"),
            (b"\xff\xfe\x00", Code::BadRequest, "no request"),
            (b"[1]", Code::BadRequest, "ping"),
            (b"{}", Code::BadRequest, "protocol"),
            (b"{\"protocol\": 1}", Code::BadRequest, "ask"),
            (b"{\"protocol\": 1, \"ask\": \"fly\"}", Code::BadRequest, "fly"),
            (b"{\"protocol\": 1, \"ask\": \"stats\"}", Code::BadRequest, "name"),
            (b"{\"protocol\": 7, \"ask\": \"ping\"}", Code::OtherProtocol, "protocol 7"),
            (b"{\"protocol\": 1, \"ask\": \"create\", \"wings\": 2}", Code::BadRequest, "wings"),
        ] {
            let refusal = read(line).unwrap_err();
            let shown = String::from_utf8_lossy(line);
            assert_eq!(refusal.code, code, "{shown}");
            assert!(refusal.message.contains(word), "{shown}: {}", refusal.message);
        }
        assert!(matches!(read(b"{\"protocol\": 1, \"ask\": \"ping\"}"), Ok(Ask::Ping)));
    }

    #[test]
    fn deep_and_long_garbage_is_refused_without_harm() {
        let deep = [b"{\"protocol\":".to_vec(), vec![b'['; 100_000]].concat();
        assert_eq!(read(&deep).unwrap_err().code, Code::BadRequest);
    }
}
