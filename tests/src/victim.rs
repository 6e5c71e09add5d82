//! Processes that a test starts and kills, and the threads beside them. None outlives its test,
//! even if it panics.
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;

use backcast_budget::BoundedChild;
pub use backcast_budget::{Stop, WATCHDOG};

/// A process that is killed and reaped when dropped.
#[derive(Debug)]
pub struct Victim(Child);

impl Victim {
    /// Runs `program DIR ARGS...`.
    pub fn start<A: AsRef<str>>(program: &str, dir: &Path, args: &[A]) -> Self {
        let args = args.iter().map(AsRef::as_ref);
        let child = Command::new(program).arg(dir).args(args).spawn();
        Self(child.expect("the binary starts"))
    }

    /// Returns the exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child can be looked at")
    }

    /// Sends SIGKILL and returns the exit status. The process may have ended by itself before.
    pub fn kill(&mut self) -> ExitStatus {
        self.0.kill().expect("SIGKILL can be sent");
        self.0.wait_bounded().expect("a killed child can be waited for")
    }

    /// Waits until the process ends by itself.
    pub fn wait_bounded(&mut self) -> ExitStatus {
        self.0.wait_bounded().expect("it ends")
    }

    /// Yields until `done`. Panics if the process ends by itself, or after the time limit.
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
        let _ = self.0.wait_bounded();
    }
}
