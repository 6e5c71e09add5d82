//! Rings passed as descriptors to processes that do not see the rings' directory.

use std::process::Command;

use backcast_budget::{BoundedCommand, skipped};
use backcast_core::{Ring, StepColumns, Writer, WriterOptions, list_objects};
use backcast_daemon::Client;

use super::running::{Running, until};
use crate::shelf::{Shelf, schema, set_by_the_parent};

/// Set in a process of another mount namespace: the daemon's socket.
const ASK_SOCKET: &str = "BACKCAST_TEST_ASK_SOCKET";

fn append(ring: &Ring) {
    append_with(ring, &mut ring.writer(WriterOptions::lanes(1)).unwrap());
}

fn append_with(ring: &Ring, writer: &mut Writer) {
    let (obs, action) = ([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [7_i32]);
    let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
    let columns = columns.with("action", &action).unwrap();
    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
}

/// A role: the other process of the test below.
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_does_not_see_the_ring() {
    let socket = set_by_the_parent(ASK_SOCKET);
    let client = Client::at(socket.as_ref());
    let ring = client.attach("pong").expect("handed over");
    assert!(!ring.path().expect("a name").exists(), "it is hidden here");
    append(&ring);
    let (made, granted) = client
        .create("from-inside", &schema(), &backcast_core::RingOptions::with_capacity(100u64))
        .expect("made");
    assert!(granted.made);
    append(&made);
    assert_eq!(made.rows(0, 0..1).expect("readable").len(), 1);
    println!("wrote a row");
}

#[test]
fn a_process_in_another_mount_namespace_joins_and_writes() {
    if !Command::new("unshare").args(["-m", "true"]).status_bounded().is_ok_and(|s| s.success()) {
        let test = "a_process_in_another_mount_namespace_joins_and_writes";
        return skipped(test, "needs the right to make a mount namespace");
    }
    let (shelf, outside) = (Shelf::new(), Shelf::new());
    let socket = outside.path().join("s");
    let socket = socket.to_str().unwrap();
    let daemon = Running::spawn(&shelf, &["--socket", socket]);
    let ring = Ring::create("pong", &schema(), shelf.options()).unwrap();
    // An empty file system over the rings' directory, which only the other process sees.
    let hide = "mount -t tmpfs none \"$1\" && exec \"$2\" --exact \
                serve::descriptors::a_process_that_does_not_see_the_ring --ignored --nocapture";
    let inside = Command::new("unshare")
        .args(["-m", "sh", "-c", hide, "sh"])
        .arg(shelf.path())
        .arg(std::env::current_exe().unwrap())
        .env(ASK_SOCKET, socket)
        .output_bounded()
        .unwrap();
    let text = String::from_utf8_lossy(&inside.stdout).into_owned();
    assert!(inside.status.success() && text.contains("wrote a row"), "{text}");
    assert_eq!(ring.stats().rows_published, 1);
    // The process could not remove its ring, whose directory it does not see; the daemon does.
    let left =
        || list_objects(&shelf.base()).unwrap().iter().any(|info| info.name == "from-inside");
    until("the other process's ring is collected", || {
        daemon.client().gc().unwrap();
        !left()
    });
}

#[test]
fn a_ring_that_lost_its_name_after_it_was_handed_over_still_works() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let first = Ring::create("pong", &schema(), shelf.options()).unwrap();
    let handed = daemon.client().attach("pong").unwrap();
    let mut writer = first.writer(WriterOptions::lanes(1)).unwrap();
    first.unlink().unwrap();
    append_with(&first, &mut writer);
    assert_eq!(handed.stats().rows_published, 1);
    assert!(daemon.client().attach("pong").is_err());
}
