//! Processes that a test starts and kills, and the threads beside them: none outlives its test,
//! however that ends.
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What takes so long will never end.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// A process, killed and reaped when this is dropped.
#[derive(Debug)]
pub struct Victim(Child);

impl Victim {
    /// Runs `program DIR ARGS...`.
    pub fn start<A: AsRef<str>>(program: &str, dir: &Path, args: &[A]) -> Self {
        let args = args.iter().map(AsRef::as_ref);
        let child = Command::new(program).arg(dir).args(args).spawn();
        Self(child.expect("the binary starts"))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child can be looked at")
    }

    /// Sends SIGKILL: how it ended, by itself perhaps.
    pub fn kill(&mut self) -> ExitStatus {
        self.0.kill().expect("SIGKILL can be sent");
        self.0.wait().expect("a killed child can be waited for")
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(start.elapsed() < WATCHDOG, "it never ends");
            thread::yield_now();
        }
    }

    /// Yields until `done`. Panics when the process ends by itself, or nothing happens.
    pub fn spin_until(&mut self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            if let Some(status) = self.ended() {
                panic!("it ended by itself, {status}");
            }
            assert!(start.elapsed() < WATCHDOG, "it makes no progress");
            thread::yield_now();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says that a test is over when it is dropped, also by a panic: the threads beside it look at it.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
