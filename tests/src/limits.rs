//! Limits of time and memory for tests of damaged bytes.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use backcast_budget::WATCHDOG;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Private memory that [`limit_memory`] leaves a process; the tested objects have some KiB.
pub const MEMORY_LIMIT_BYTES: u64 = 1 << 30;

/// Starts a watchdog, which ends the process and prints the name of a case that hangs. Returns the
/// sender of the names of cases.
#[must_use]
pub fn watch() -> Sender<String> {
    let (sender, receiver) = channel::<String>();
    thread::spawn(move || {
        let mut case = String::new();
        loop {
            match receiver.recv_timeout(WATCHDOG) {
                Ok(next) => case = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("no end of case: {case}");
                    std::process::abort();
                }
            }
        }
    });
    sender
}

/// Limits memory, so that a large allocation fails and ends the process.
///
/// # Panics
/// If the limit cannot be lowered.
pub fn limit_memory() {
    let limit = Rlimit { current: Some(MEMORY_LIMIT_BYTES), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).expect("a limit can be lowered");
}
