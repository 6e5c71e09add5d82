//! Reads and writes lines over a socket with limits on length and time.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of one read.
const CHUNK: usize = 16 * 1024;

/// Outcome of reading a line.
#[derive(Debug)]
pub(crate) enum Line {
    /// A complete line without its newline.
    Whole(Vec<u8>),
    /// The peer closed the connection, perhaps within a line.
    Closed,
    /// The line exceeds the limit.
    TooLong,
    /// The deadline passed before the line was complete.
    TooSlow,
}

/// Reads lines and descriptors from a socket.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    socket: &'a UnixStream,
    limit: usize,
    /// Bytes read and not yet returned.
    rest: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(socket: &'a UnixStream, limit: usize) -> Self {
        Self { socket, limit, rest: Vec::new(), descriptor: None }
    }

    /// Reads the next line until `deadline`.
    pub(crate) fn next(&mut self, deadline: Instant) -> io::Result<Line> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.rest[looked..].iter().position(|&byte| byte == b'\n') {
                if looked + end > self.limit {
                    return Ok(Line::TooLong);
                }
                let mut line: Vec<u8> = self.rest.drain(..=looked + end).collect();
                line.pop();
                return Ok(Line::Whole(line));
            }
            looked = self.rest.len();
            if looked > self.limit {
                return Ok(Line::TooLong);
            }
            let Some(left) = left(deadline) else { return Ok(Line::TooSlow) };
            self.socket.set_read_timeout(Some(left))?;
            let mut chunk = [0; CHUNK];
            match backcast_core::plumbing::receive(self.socket, &mut chunk) {
                Ok((0, _)) => return Ok(Line::Closed),
                Ok((count, descriptor)) => {
                    self.rest.extend_from_slice(&chunk[..count]);
                    self.descriptor = descriptor.or(self.descriptor.take());
                }
                Err(error) if is_time_out(&error) => return Ok(Line::TooSlow),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Ok(Line::Closed);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the descriptor that came with the lines read so far, once.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

/// Reads from a stream until `enough` returns true. Returns `None` if the deadline passes, more
/// than `limit` bytes arrive, or the stream ends or fails.
pub(crate) fn read_until<S: Read>(
    stream: &mut S,
    limit: usize,
    deadline: Instant,
    set_timeout: impl Fn(&S, Duration) -> io::Result<()>,
    enough: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !enough(&bytes) {
        set_timeout(stream, left(deadline)?).ok()?;
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => bytes.extend_from_slice(chunk.get(..count)?),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
        if bytes.len() > limit {
            return None;
        }
    }
    Some(bytes)
}

/// Writes all of `bytes` until `deadline`.
pub(crate) fn write_by<S: Write>(
    stream: &mut S,
    bytes: &[u8],
    deadline: Instant,
    set_timeout: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = left(deadline).ok_or(ErrorKind::TimedOut)?;
        set_timeout(stream, left)?;
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_time_out(&error) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a line. Passes a descriptor, if there is one, with the first byte of the line.
pub(crate) fn write_line(
    socket: &UnixStream,
    mut line: Vec<u8>,
    descriptor: Option<&OwnedFd>,
    deadline: Instant,
) -> io::Result<()> {
    use std::os::fd::AsFd;
    line.push(b'\n');
    let mut rest = line.as_slice();
    if let Some(descriptor) = descriptor {
        let left = left(deadline).ok_or(ErrorKind::TimedOut)?;
        socket.set_write_timeout(Some(left))?;
        let sent = backcast_core::plumbing::send_with_descriptor(socket, rest, descriptor.as_fd())?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    let mut stream = socket;
    write_by(&mut stream, rest, deadline, |_, left| socket.set_write_timeout(Some(left)))
}

fn left(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    // The system refuses a time-out of zero, and rounds down to microseconds.
    (!left.is_zero()).then(|| left.max(Duration::from_millis(1)))
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"one\ntw").unwrap();
        let mut lines = Lines::new(&here, 100);
        assert!(matches!(lines.next(soon()), Ok(Line::Whole(line)) if line == b"one"));
        there.write_all(b"o\n\nhalf").unwrap();
        assert!(matches!(lines.next(soon()), Ok(Line::Whole(line)) if line == b"two"));
        assert!(matches!(lines.next(soon()), Ok(Line::Whole(line)) if line.is_empty()));
        drop(there);
        assert!(matches!(lines.next(soon()), Ok(Line::Closed)));
    }

    #[test]
    fn endless_lines_and_silent_peers_are_cut_off() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&[b'x'; 200]).unwrap();
        let mut lines = Lines::new(&here, 100);
        assert!(matches!(lines.next(soon()), Ok(Line::TooLong)));
        let (here, _there) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(&here, 100);
        let brief = Instant::now() + Duration::from_millis(5);
        assert!(matches!(lines.next(brief), Ok(Line::TooSlow)));
    }

    #[test]
    fn a_peer_that_reads_nothing_is_cut_off() {
        let (here, _there) = UnixStream::pair().unwrap();
        let line = vec![b'x'; 8 << 20];
        let brief = Instant::now() + Duration::from_millis(20);
        let error = write_line(&here, line, None, brief).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
