//! A process that ends by itself leaves nothing in shared memory, whatever its threads still have.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use backcast_layout::{Base, Exist, Kind, SealedSegment, list};
use tempfile::TempDir;

/// Directory of a process that one of the tests started.
const DIR: &str = "BACKCAST_TEST_LEAVING";

fn memory_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn make(base: &Base, name: &str, exist: Exist, persistent: bool) -> SealedSegment {
    SealedSegment::create(base, Kind::Panel, name, b"meta", &[], exist, persistent).unwrap()
}

/// Starts a role of this binary.
fn start(role: &str, dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]).env(DIR, dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until a role says that it has its handles, and returns the rest of its output.
fn wait_for_handles(child: &mut Child) -> BufReader<ChildStdout> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("holding") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it gave up");
    }
    lines
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
    let ended = start("a_process_whose_thread_has_handles", dir.path()).wait().unwrap();
    assert!(ended.success());
    let mut names: Vec<_> =
        list(&base).unwrap().into_iter().map(|one| (one.name, one.held)).collect();
    names.sort();
    assert_eq!(names, [("kept".to_owned(), false), ("shared".to_owned(), true)]);
    drop(shared);
    assert_eq!(list(&base).unwrap().len(), 1);
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
        let mut children: Vec<Child> =
            (0..2).map(|_| start("a_process_that_waits_with_a_handle", dir.path())).collect();
        let outputs: Vec<_> = children.iter_mut().map(wait_for_handles).collect();
        drop(shared);
        for child in &mut children {
            drop(child.stdin.take());
        }
        for (mut child, mut output) in children.into_iter().zip(outputs) {
            output.read_to_end(&mut Vec::new()).unwrap();
            assert!(child.wait().unwrap().success());
        }
        assert!(!base.path().exists(), "{:?}", list(&base));
    }
}
