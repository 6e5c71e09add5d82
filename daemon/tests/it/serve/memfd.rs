//! Rings in sealed memfds: the daemon keeps them, and finds them again after it was killed.
#![cfg(target_os = "linux")]

use backcast_budget::BoundedCommand;
use backcast_core::{Ring, RingOptions, WriterOptions, list_objects};
use backcast_daemon::ClientError;
use rustix::process::Signal;

use super::budget::used;
use super::rings::{LONG, ROWS, append};
use super::running::{Running, until};
use crate::shelf::{Shelf, schema};

fn options(shelf: &Shelf) -> RingOptions {
    RingOptions::with_capacity(ROWS).lanes(2).base(shelf.base()).memfd(true)
}

fn fill(ring: &Ring, rows: u64) {
    append(&mut ring.writer(WriterOptions::lanes(1)).unwrap(), rows);
}

const CREATE: [&str; 10] = [
    "create",
    "pong",
    "--column",
    "obs:f4:2x3",
    "--column",
    "action:i4",
    "--capacity",
    "20000",
    "--daemon",
    "--memfd",
];

#[test]
fn the_command_line_makes_it_and_every_command_finds_it() {
    let shelf = Shelf::new();
    let alone = shelf.run(&[&CREATE[..8], &["--memfd"]].concat()).expect(2);
    assert!(alone.err.contains("--daemon"), "{}", alone.err);
    let daemon = Running::spawn(&shelf, &["--budget", "64MiB"]);
    shelf.run(&CREATE).expect(0);
    // No process but the daemon has its memory, and the daemon does not count as a holder.
    assert_eq!(shelf.states(), [("pong".to_owned(), "idle".to_owned())]);
    let stat = shelf.json(&["stat", "pong"]).remove(0);
    assert_eq!((&stat["memfd"], &stat["persistent"]), (&true.into(), &true.into()));
    assert!(shelf.run(&["stat", "pong"]).expect(0).out.contains("sealed memfds"));
    assert!(used(&shelf) >= stat["allocated_bytes"].as_u64().unwrap(), "{} bytes", used(&shelf));
    let ring = Ring::attach_in(&shelf.base(), "pong").unwrap();
    fill(&ring, 50);
    drop(ring);
    shelf.run(&["save", "pong", "a"]).expect(0);
    shelf.run(&["export", "pong", "pong.parquet"]).expect(0);
    shelf.run(&["resize", "pong", "--capacity", "40000"]).expect(0);
    let grown = shelf.json(&["stat", "pong"]).remove(0);
    assert_eq!((&grown["capacity_rows"], &grown["memfd"]), (&40_000.into(), &true.into()));
    assert_eq!(grown["transitions"], 49);
    shelf.run(&["gc"]).expect(0);
    shelf.run(&["doctor"]);
    shelf.run(&["rm", "pong"]).expect(0);
    assert_eq!(daemon.end(Signal::TERM).status, Some(0));
    assert_eq!(used(&shelf), 0);
}

#[test]
fn a_killed_daemon_takes_nothing_along_that_others_have() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--budget", "64MiB"]);
    let (ring, _) =
        daemon.client().create("pong", &schema(), &options(&shelf).persistent(true)).unwrap();
    let (lone, _) =
        daemon.client().create("lone", &schema(), &options(&shelf).persistent(true)).unwrap();
    fill(&lone, 5);
    drop(lone);
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    append(&mut writer, 30);
    let before = used(&shelf);
    assert_eq!(daemon.end(Signal::KILL).signal, Some(Signal::KILL.as_raw()));
    // Holders notice no difference, and a new process finds it.
    append(&mut writer, 30);
    assert_eq!(shelf.json(&["stat", "pong"])[0]["transitions"], 59);
    let heir = Running::spawn(&shelf, &["--budget", "64MiB"]);
    // The next daemon keeps what there is.
    drop((ring, writer));
    assert_eq!(shelf.states(), [("pong".to_owned(), "idle".to_owned())]);
    let again = heir.client().attach("pong").unwrap();
    assert_eq!(again.len(), 59);
    // Memory that only the first daemon held is gone, and so is its name.
    assert!(used(&shelf) < before, "{} of {before} bytes", used(&shelf));
    fill(&again, 10);
    let resized = heir.client().resize("pong", 2 * ROWS, LONG).unwrap();
    assert_eq!((resized.capacity_rows, again.stats().memfd), (2 * ROWS, true));
    drop(again);
    let ended = heir.end(Signal::TERM);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(list_objects(&shelf.base()).unwrap().is_empty(), "nobody has it any more");
}

#[test]
fn of_a_sealed_ring_that_went_with_its_daemon_its_memory_is_said_to_be_gone() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--budget", "64MiB"]);
    shelf.run(&CREATE).expect(0);
    daemon.end(Signal::KILL);
    for line in
        ["stat pong", "export pong pong.parquet", "save pong", "resize pong --capacity 30000"]
    {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = shelf.run(&args).expect(3);
        for text in ["`pong`", "memory", "daemon", "backcast gc"] {
            assert!(ran.err.contains(text), "{line}: `{text}` is missing: {}", ran.err);
        }
        assert!(!ran.err.contains("not persistent"), "{line}: {}", ran.err);
    }
    shelf.run(&["gc"]).expect(0);
    assert_eq!(shelf.states(), []);
}

#[test]
fn the_budget_counts_it_and_its_room_is_given_back() {
    let shelf = Shelf::new();
    let one = Ring::planned_bytes(&schema(), &options(&shelf)).unwrap();
    let budget = (one + one / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--budget", &budget]);
    let client = daemon.client();
    let (ring, granted) = client.create("pong", &schema(), &options(&shelf)).unwrap();
    assert_eq!((granted.allocated_bytes, client.ping().unwrap().used_bytes), (one, one));
    let Err(ClientError::OverBudget { numbers, .. }) =
        client.create("more", &schema(), &options(&shelf))
    else {
        panic!("there was no room")
    };
    assert_eq!((numbers.used_bytes, numbers.asked_bytes), (one, one));
    let refused = client.resize("pong", 2 * ROWS, LONG).unwrap_err();
    assert!(matches!(refused, ClientError::OverBudget { .. }), "{refused}");
    drop(ring);
    let (more, _) = client.create("more", &schema(), &options(&shelf)).unwrap();
    assert!(
        client
            .create("more", &schema(), &options(&shelf))
            .is_err_and(|error| matches!(error, ClientError::NameTaken { .. }))
    );
    drop(more);
    until("its memory is given back", || client.ping().unwrap().used_bytes == 0);
}

#[test]
fn evicted_rings_are_loaded_into_memfds_again() {
    let shelf = Shelf::new();
    let one = Ring::planned_bytes(&schema(), &options(&shelf)).unwrap();
    let budget = (one + one / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--budget", &budget, "--when-full", "evict"]);
    let client = daemon.client();
    let persistent = options(&shelf).persistent(true);
    let (ring, _) = client.create("old", &schema(), &persistent).unwrap();
    fill(&ring, 20);
    drop(ring);
    drop(client.create("new", &schema(), &persistent).unwrap());
    assert!(used(&shelf) <= one + one / 2);
    let back = client.attach("old").unwrap();
    assert_eq!((back.len(), back.stats().memfd), (19, true));
    let pid = daemon.pid();
    let kept = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let kept = kept.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let memfds = kept.filter(|target| target.to_string_lossy().contains("memfd:backcast")).count();
    // Some files have two descriptors: one of the keeper, one of the follower or the observer.
    assert!((1..=3 * 4).contains(&memfds), "{memfds} descriptors of one ring's four files");
}

#[test]
fn all_rings_may_be_in_memfds_and_lack_of_descriptors_is_reported() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--budget", "64MiB", "--memfd"]);
    let plain = RingOptions::with_capacity(ROWS).lanes(64).base(shelf.base()).persistent(true);
    let (ring, _) = daemon.client().create("pong", &schema(), &plain).unwrap();
    assert!(ring.stats().memfd);
    let few = |args: &str| {
        let mut few = std::process::Command::new("sh");
        few.args(["-c", &format!("ulimit -n 40; exec \"$0\" {args}")]);
        few.arg(env!("CARGO_BIN_EXE_backcast")).env("BACKCAST_DIR", shelf.path());
        let output = few.output_bounded().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, text) = few("stat pong");
    assert_ne!(status, Some(0), "{text}");
    assert!(text.contains("40 files") && text.contains("ulimit -n"), "{text}");
    // A command that cannot open the ring does not remove it.
    assert_eq!(shelf.json(&["stat", "pong"])[0]["memfd"], true);
}
