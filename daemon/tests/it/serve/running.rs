//! A daemon of a test: the real binary on a shelf, ready when it is returned.

use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

pub(crate) use backcast_budget::until;
use backcast_budget::{BoundedChild, Lines, WATCHDOG};
use backcast_daemon::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shelf::Shelf;

pub(crate) struct Running {
    child: Child,
    /// The line that the daemon printed when it was ready.
    pub(crate) ready: Value,
    out: Lines,
    err: Lines,
}

/// Exit status or signal of a daemon, and its output.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    pub(crate) fn spawn(shelf: &Shelf, args: &[&str]) -> Self {
        Self::spawn_with(shelf, args, &[])
    }

    pub(crate) fn spawn_with(shelf: &Shelf, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = shelf
            .command()
            .args(["--json", "serve"])
            .args(args)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut out = Lines::of(child.stdout.take().expect("piped"));
        let mut err = Lines::of(child.stderr.take().expect("piped"));
        let line = out.next().transpose().expect("readable").unwrap_or_default();
        let Ok(ready) = serde_json::from_str(&line) else {
            let why: String = err.by_ref().map_while(Result::ok).collect();
            panic!("the daemon gave up: {line}{why}");
        };
        Self { child, ready, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.ready["socket"].as_str().expect("a path").into()
    }

    pub(crate) fn connect(&self) -> UnixStream {
        UnixStream::connect(self.socket()).expect("it listens")
    }

    pub(crate) fn client(&self) -> Client {
        Client::at(&self.socket()).timeout(WATCHDOG)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Ends the daemon with a signal and returns its exit.
    pub(crate) fn end(mut self, signal: Signal) -> Ended {
        self.signal(signal);
        let out = self.out.by_ref().map(|line| line.expect("text") + "\n").collect();
        let err = self.err.by_ref().map(|line| line.expect("text") + "\n").collect();
        let status = self.child.wait_bounded().expect("it ends");
        Ended { status: status.code(), signal: status.signal(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}
