//! Turns signals that stop a command into flags.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::{SigId, flag, low_level};
use thiserror::Error;

use crate::cli::exit_status::{CommandError, Exit, Fails, Interrupted};

/// Interval at which a wait checks the flag.
const PIECE: Duration = Duration::from_millis(50);

/// Makes a write beyond the limit on file sizes (`ulimit -f`) an error instead of a fatal signal.
pub(crate) fn outlive_file_size_limit() -> io::Result<()> {
    // The failed write reports the error.
    flag::register(Signal::XFSZ.as_raw(), Arc::new(AtomicBool::new(false))).map(drop)
}

/// Error of listening to the signals that stop a command.
#[derive(Debug, Error)]
#[error("cannot listen to signals: {0}")]
pub(crate) struct ListenError(io::Error);

impl Fails for ListenError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

impl From<ListenError> for io::Error {
    fn from(error: ListenError) -> Self {
        error.0
    }
}

/// Returns whether this process ignores SIGHUP, as under `nohup`. Returns false if the system does
/// not tell.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (SIGHUP - 1)) != 0
}

/// Listener for signals that stop a command, until it is dropped. Earlier handlers still run.
pub(crate) struct Signals {
    came: Arc<AtomicUsize>,
    handlers: Vec<SigId>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, ListenError> {
        let came = Arc::new(AtomicUsize::new(0));
        let mut signals = Self { came, handlers: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && ignores_hang_up() {
                continue;
            }
            let number = usize::try_from(signal).unwrap_or(0);
            let came = Arc::clone(&signals.came);
            let handler = flag::register_usize(signal, came, number).map_err(ListenError)?;
            signals.handlers.push(handler);
        }
        Ok(signals)
    }

    /// Returns the exit status of the signal that arrived, if one did: 128 plus the signal's
    /// number.
    pub(crate) fn status(&self) -> Option<u8> {
        let number = u8::try_from(self.came.load(Relaxed)).unwrap_or(0);
        (number > 0).then(|| 128_u8.saturating_add(number))
    }

    /// Returns the error of work that a signal stopped, with the exit status of that signal.
    pub(crate) fn interrupted(&self) -> CommandError {
        let error = CommandError::from(Interrupted);
        match self.status() {
            Some(status) => error.with_exit(Exit::Status(status)),
            None => error,
        }
    }

    /// Waits until `then`. Returns false if a signal arrived before.
    pub(crate) fn wait_until(&self, then: Instant) -> bool {
        while self.status().is_none() {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(PIECE));
        }
        false
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}

/// Listener for resizes of the terminal, until it is dropped.
pub(crate) struct Resizes {
    came: Arc<AtomicBool>,
    handler: SigId,
}

impl Resizes {
    pub(crate) fn listen() -> io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        let handler = flag::register(SIGWINCH, Arc::clone(&came))?;
        Ok(Self { came, handler })
    }

    /// Returns whether the terminal was resized since the last call.
    pub(crate) fn came(&self) -> bool {
        self.came.swap(false, Relaxed)
    }
}

impl Drop for Resizes {
    fn drop(&mut self) {
        low_level::unregister(self.handler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_fails_says_so_and_not_that_output_is_lost() {
        let error = CommandError::from(ListenError(io::ErrorKind::OutOfMemory.into()));
        let text = error.to_string();
        assert!(text.contains("signals") && !text.contains("stdout"), "{text}");
        assert_eq!(error.exit(), Exit::FoundProblems);
    }

    #[test]
    fn a_signal_ends_a_wait_and_names_the_status() {
        let signals = Signals::listen().unwrap();
        assert!(signals.wait_until(Instant::now()));
        assert_eq!(signals.status(), None);
        low_level::raise(SIGTERM).unwrap();
        assert!(!signals.wait_until(Instant::now() + Duration::from_secs(3600)));
        assert_eq!(signals.status(), Some(128 + 15));
        assert_eq!(signals.interrupted().exit().status(), 128 + 15);
    }
}
