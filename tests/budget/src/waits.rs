//! Bounds on the waits of tests, and threads that end with their test.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a test that waits counts as hung.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// Time between two looks at a process that takes longer than this.
const LOOK: Duration = Duration::from_millis(1);

/// Yields until `is_so`.
///
/// # Panics
///
/// If that takes longer than [`WATCHDOG`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < WATCHDOG, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// End of the time that all waits of a test have together: [`WATCHDOG`] after it was made.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Starts the time.
    #[expect(clippy::new_without_default, reason = "the moment matters")]
    #[must_use]
    pub fn new() -> Self {
        Self(Instant::now() + WATCHDOG)
    }

    /// Returns the time left, as the limit of the next wait.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Returns a number of waits that take twice the [`WATCHDOG`] together if each is woken by nothing
/// and looks again after `slice`. A [`Deadline`] over that many waits fails if wake-ups are lost.
#[must_use]
pub fn sleeps_beyond_watchdog(slice: Duration) -> u64 {
    u64::try_from(2 * WATCHDOG.as_nanos() / slice.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// Lines that a process prints. The wait for each ends after [`WATCHDOG`], with a panic.
#[derive(Debug)]
pub struct Lines(Receiver<io::Result<String>>);

impl Lines {
    /// Reads `output` in a thread, which holds at most one line that nobody has asked for.
    ///
    /// The thread closes `output` at its end, or at the next line after `self` is dropped.
    #[must_use]
    pub fn of(output: impl Read + Send + 'static) -> Self {
        let (tell, lines) = sync_channel(0);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// Skips lines until one contains `word`, and returns that one.
    ///
    /// # Panics
    ///
    /// If the output ends before that, or no line comes within [`WATCHDOG`].
    #[track_caller]
    pub fn wait_for(&mut self, word: &str) -> String {
        let found = self.by_ref().map_while(Result::ok).find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("the process ends and does not print {word:?}"))
    }
}

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.recv_timeout(WATCHDOG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for a line"),
        }
    }
}

/// Waits for a child process that end after [`WATCHDOG`].
pub trait BoundedChild {
    /// Closes the child's stdin, and waits for its end.
    ///
    /// # Errors
    ///
    /// If it runs for [`WATCHDOG`] more: it is killed then.
    fn wait_bounded(&mut self) -> io::Result<ExitStatus>;

    /// Waits for the end of the child, and of its piped output.
    ///
    /// # Errors
    ///
    /// Fails like [`wait_bounded`](Self::wait_bounded), or if another process keeps the output open.
    fn output_bounded(&mut self) -> io::Result<Output>;
}

impl BoundedChild for Child {
    fn wait_bounded(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let begin = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            let waited = begin.elapsed();
            if waited >= WATCHDOG {
                break;
            }
            if waited < LOOK {
                thread::yield_now();
            } else {
                thread::park_timeout(LOOK);
            }
        }
        self.kill()?;
        self.wait()?;
        let what = format!("process {} ran for {} s", self.id(), WATCHDOG.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    fn output_bounded(&mut self) -> io::Result<Output> {
        let (stdout, stderr) = (bytes_of(self.stdout.take()), bytes_of(self.stderr.take()));
        let status = self.wait_bounded()?;
        let all = |bytes: Receiver<io::Result<Vec<u8>>>| {
            bytes.recv_timeout(WATCHDOG).unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps a pipe open"))
            })
        };
        Ok(Output { status, stdout: all(stdout)?, stderr: all(stderr)? })
    }
}

/// Runs of a command that end after [`WATCHDOG`].
pub trait BoundedCommand {
    /// Runs the command without stdin, and captures its output.
    ///
    /// # Errors
    ///
    /// Fails like [`BoundedChild::output_bounded`], or if the command cannot be started.
    fn output_bounded(&mut self) -> io::Result<Output>;

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Fails like [`BoundedChild::wait_bounded`], or if the command cannot be started.
    fn status_bounded(&mut self) -> io::Result<ExitStatus>;
}

impl BoundedCommand for Command {
    fn output_bounded(&mut self) -> io::Result<Output> {
        let command = self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()?.output_bounded()
    }

    fn status_bounded(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait_bounded()
    }
}

/// Reads a pipe to its end in a thread.
fn bytes_of(pipe: Option<impl Read + Send + 'static>) -> Receiver<io::Result<Vec<u8>>> {
    let (tell, bytes) = sync_channel(1);
    thread::spawn(move || {
        let mut all = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut all));
        let _ = tell.send(read.map(|_| all));
    });
    bytes
}

/// Sets a flag when dropped, even by a panic, which ends the threads of a test.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_so() {
        let mut looks = 0;
        until("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn waits_that_nothing_wakes_outlast_the_deadline() {
        let slice = Duration::from_millis(50);
        let waits = sleeps_beyond_watchdog(slice);
        assert_eq!(waits, 2_400);
        assert!(slice * u32::try_from(waits).unwrap() > Deadline::new().left());
        let past = Deadline(Instant::now());
        assert_eq!(past.left(), Duration::ZERO);
    }

    #[test]
    fn lines_come_in_order_and_end_with_the_output() {
        let mut lines = Lines::of("one\ntwo words\nthree".as_bytes());
        assert_eq!(lines.wait_for("words"), "two words");
        assert_eq!(lines.map_while(Result::ok).collect::<Vec<_>>(), ["three"]);
    }

    #[test]
    #[should_panic(expected = "\"four\"")]
    fn a_word_that_is_not_printed_is_named() {
        let _ = Lines::of("one\n".as_bytes()).wait_for("four");
    }

    #[test]
    fn a_bounded_run_has_the_status_and_all_output() {
        let mut shell = Command::new("sh");
        let run = shell.args(["-c", "cat; head -c 300000 /dev/zero; echo said >&2; exit 3"]);
        let output = run.output_bounded().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 300_000));
        assert_eq!(output.stderr, b"said\n");
        // A child that reads until its stdin ends is not waited for in vain.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.wait_bounded().unwrap().success());
        assert!(Command::new("false").status_bounded().unwrap().code() == Some(1));
    }

    #[test]
    fn a_panic_stops_the_threads() {
        let stop = AtomicBool::new(false);
        let panicked = std::panic::catch_unwind(|| {
            let _stop = Stop(&stop);
            panic!("as a failed assertion does");
        });
        assert!(panicked.is_err() && stop.load(Relaxed));
    }
}
