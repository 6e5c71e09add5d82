//! A process that ends by itself leaves nothing in shared memory, whatever its threads still have.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use backcast_budget::{BoundedChild, WATCHDOG, until};
use backcast_layout::{Base, Exist, ObjectKind, SealedSegment, list_objects};
use tempfile::TempDir;

/// Directory of a process that one of the tests started.
const DIR: &str = "BACKCAST_TEST_LEAVING";

fn memory_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn make(base: &Base, name: &str, exist: Exist, persistent: bool) -> SealedSegment {
    SealedSegment::create(base, ObjectKind::Panel, name, b"meta", &[], exist, persistent).unwrap()
}

/// A process in a role of this binary. It is killed if its test ends first.
struct Role {
    child: Child,
    lines: Receiver<String>,
}

impl Role {
    fn start(role: &str, dir: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", role, "--ignored", "--nocapture"]).env(DIR, dir);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Ends with the process, whether or not anyone reads its lines.
        thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        Self { child, lines }
    }

    /// Waits until the process says that it has its handles.
    fn wait_for_handles(&self) {
        let line = || self.lines.recv_timeout(WATCHDOG).expect("it says that it has its handles");
        while !line().contains("holding") {}
    }

    /// Waits until the process has ended by itself.
    fn wait_for_end(&mut self) {
        let mut status = None;
        until("a process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

fn base() -> Base {
    Base::at(std::env::var_os(DIR).expect("a role, started by the tests below"))
}

/// Keeps a handle in a thread that never ends.
fn keep(handles: Vec<SealedSegment>) {
    thread::spawn(move || {
        let _handles = handles;
        loop {
            thread::park();
        }
    });
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_whose_thread_has_handles() {
    let base = base();
    keep(vec![
        make(&base, "own", Exist::Error, false),
        make(&base, "own", Exist::Attach, false),
        make(&base, "kept", Exist::Error, true),
        make(&base, "shared", Exist::Attach, false),
    ]);
}

#[test]
fn a_thread_that_still_runs_keeps_no_object_alive() {
    let dir = memory_dir();
    let base = Base::at(dir.path());
    let shared = make(&base, "shared", Exist::Error, false);
    Role::start("a_process_whose_thread_has_handles", dir.path()).wait_for_end();
    let mut names: Vec<_> =
        list_objects(&base).unwrap().into_iter().map(|one| (one.name, one.held)).collect();
    names.sort();
    assert_eq!(names, [("kept".to_owned(), false), ("shared".to_owned(), true)]);
    drop(shared);
    assert_eq!(list_objects(&base).unwrap().len(), 1);
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_waits_with_a_handle() {
    keep(vec![make(&base(), "shared", Exist::Attach, false)]);
    println!("holding");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn processes_that_end_at_once_leave_nothing() {
    for _ in 0..20 {
        let dir = memory_dir();
        let base = Base::at(dir.path());
        let shared = make(&base, "shared", Exist::Error, false);
        let mut roles =
            [(); 2].map(|()| Role::start("a_process_that_waits_with_a_handle", dir.path()));
        roles.iter().for_each(Role::wait_for_handles);
        drop(shared);
        for role in &mut roles {
            drop(role.child.stdin.take());
        }
        roles.iter_mut().for_each(Role::wait_for_end);
        assert!(!base.path().exists(), "{:?}", list_objects(&base));
    }
}
