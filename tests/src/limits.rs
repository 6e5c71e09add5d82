//! What keeps a test that meets damaged bytes from hanging, or from taking the machine along.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A case that takes so long will never end.
const WATCHDOG: Duration = Duration::from_secs(120);
/// Private memory that [`limit_memory`] leaves a process: what is tested has some KiB.
pub const MEMORY_LIMIT_BYTES: u64 = 1 << 30;

/// Ends the process with the case's name when a case does not end; nothing else can.
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

/// From here on a large allocation fails, which ends the process.
///
/// # Panics
/// If the limit cannot be lowered.
pub fn limit_memory() {
    let limit = Rlimit { current: Some(MEMORY_LIMIT_BYTES), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).expect("a limit can be lowered");
}
