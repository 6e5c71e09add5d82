//! Start and end: one daemon per directory, signals, settings, readiness, leftovers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

use backcast_core::{Base, Ring, list_objects};
use backcast_daemon::{Client, ClientError};
use rustix::process::Signal;

use super::running::{Running, until};
use crate::shelf::{Holder, Shelf, schema};

#[test]
fn a_second_daemon_is_refused_with_the_process_of_the_first() {
    let shelf = Shelf::new();
    let first = Running::spawn(&shelf, &[]);
    let second = shelf.run(&["serve"]).expect(1);
    assert!(second.err.contains(&format!("process {}", first.pid())), "{}", second.err);
    assert!(second.out.is_empty());
    let other = Shelf::new();
    let elsewhere = Running::spawn(&other, &[]);
    assert_eq!(elsewhere.client().ping().unwrap().base, other.base().path());
    assert_eq!(first.client().ping().unwrap().pid, first.pid());
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for signal in [Signal::TERM, Signal::INT] {
        let shelf = Shelf::new();
        let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
        let mode = fs::metadata(daemon.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let ended = daemon.end(signal);
        assert_eq!((ended.status, ended.signal), (Some(0), None), "{}", ended.err);
        assert!(ended.out.is_empty() && ended.err.contains("ending"), "{}", ended.err);
        assert!(!shelf.base().path().exists(), "{signal:?}");
    }
}

#[test]
fn a_killed_daemon_is_followed_by_another_on_the_same_socket() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let socket = daemon.socket();
    daemon.end(Signal::KILL);
    assert!(socket.exists(), "what a killed process leaves");
    assert!(matches!(Client::connect(&shelf.base()), Err(ClientError::NotRunning { .. })));
    let next = Running::spawn(&shelf, &[]);
    assert_eq!(next.socket(), socket);
    assert_eq!(Client::connect(&shelf.base()).unwrap().ping().unwrap().pid, next.pid());
}

#[test]
fn gc_takes_what_a_killed_daemon_left() {
    let shelf = Shelf::new();
    Running::spawn(&shelf, &[]).end(Signal::KILL);
    assert!(shelf.base().path().join("daemon.lck").exists());
    shelf.run(&["gc"]).expect(0);
    assert!(!shelf.base().path().exists());
    let daemon = Running::spawn(&shelf, &[]);
    shelf.run(&["gc"]).expect(0);
    assert!(daemon.client().ping().is_ok(), "a live daemon's files stay");
}

#[test]
fn clients_find_a_socket_that_is_elsewhere() {
    let (shelf, other) = (Shelf::new(), Shelf::new());
    let socket = other.path().join("s");
    let daemon = Running::spawn(&shelf, &["--socket", socket.to_str().unwrap()]);
    assert_eq!(Client::connect(&shelf.base()).unwrap().socket(), socket);
    daemon.end(Signal::TERM);
    assert!(!socket.exists());
}

#[test]
fn a_socket_path_that_is_too_long_is_refused_before_anything_is_made() {
    let shelf = Shelf::new();
    let long = shelf.path().join("x".repeat(120));
    let refused = shelf.run(&["serve", "--socket", long.to_str().unwrap()]).expect(2);
    assert!(refused.err.contains("--socket"), "{}", refused.err);
    assert!(!shelf.base().path().exists());
}

#[test]
fn hangup_reads_the_settings_again_and_keeps_them_if_they_are_wrong() {
    let shelf = Shelf::new();
    let config = shelf.file("backcast.toml", "budget = \"1MiB\"\n");
    let daemon = Running::spawn(&shelf, &["--config", &config]);
    assert_eq!(daemon.ready["budget_bytes"], 1 << 20);
    fs::write(&config, "budget = \"2MiB\"\nwhen-full = \"shrink\"\n").unwrap();
    daemon.signal(Signal::HUP);
    until("the new budget", || daemon.client().ping().unwrap().budget_bytes == 2 << 20);
    assert_eq!(daemon.client().ping().unwrap().when_full, "shrink");
    fs::write(&config, "bugdet = \"3MiB\"\n").unwrap();
    daemon.signal(Signal::HUP);
    fs::write(&config, "bugdet = \"3MiB\"\n").unwrap();
    let ended = daemon.end(Signal::TERM);
    assert_eq!(ended.status, Some(0));
    assert!(ended.err.contains("read the settings again"), "{}", ended.err);
}

#[test]
fn wrong_settings_are_wrong_usage_and_nothing_is_made() {
    let shelf = Shelf::new();
    let typo = shelf.file("typo.toml", "bugdet = \"8GiB\"\n");
    for (args, part) in [
        (&["--config", typo.as_str()][..], "`budget`"),
        (&["--config", "/no/such.toml"], "/no/such.toml"),
        (&["--budget", "8 gigs"], "8GiB"),
        (&["--interval", "0s"], "500ms"),
        (&["--when-full", "panic"], "panic"),
        (&["--metrics", "0.0.0.0:0"], "--metrics-any-address"),
    ] {
        let refused = shelf.run(&[&["serve"], args].concat()).expect(2);
        assert!(refused.err.contains(part) && refused.out.is_empty(), "{args:?}: {}", refused.err);
    }
    assert!(!shelf.base().path().exists());
}

#[test]
fn help_names_every_flag() {
    let help = Shelf::new().run(&["serve", "--help"]).expect(0).out;
    for flag in [
        "--budget",
        "--when-full",
        "--interval",
        "--metrics ",
        "--metrics-any-address",
        "--socket",
        "--log ",
        "--log-level",
        "--config",
        "SIGHUP",
    ] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}

#[test]
fn the_service_manager_is_notified_of_readiness_and_end() {
    let shelf = Shelf::new();
    let path = shelf.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let daemon = Running::spawn_with(&shelf, &[], &env);
    let hear = || {
        let mut bytes = [0; 1024];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let ready = hear();
    assert!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    daemon.end(Signal::TERM);
    let stopping = hear();
    assert!(stopping.lines().any(|line| line == "STOPPING=1"), "{stopping}");
}

#[test]
fn the_watchdog_of_the_service_manager_hears_of_a_working_daemon() {
    let shelf = Shelf::new();
    let path = shelf.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "20000")];
    let daemon = Running::spawn_with(&shelf, &[], &env);
    manager.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut beats = 0;
    while beats < 3 {
        let mut bytes = [0; 1024];
        let count = manager.recv(&mut bytes).expect("a message of the daemon");
        beats += usize::from(bytes[..count].starts_with(b"WATCHDOG=1"));
    }
    daemon.end(Signal::TERM);
}

#[test]
fn logs_are_lines_of_json_if_asked_for() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--log", "json"]);
    daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    let ended = daemon.end(Signal::TERM);
    let lines: Vec<serde_json::Value> =
        ended.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let created = lines.iter().find(|line| line["message"] == "create").expect("a line");
    assert_eq!(created["ring"], "pong");
    assert_eq!(created["level"], "INFO");
}

#[test]
fn orphans_go_by_themselves_and_what_is_held_or_kept_stays() {
    let shelf = Shelf::stocked();
    let holder = Holder::spawn(&shelf);
    let daemon = Running::spawn(&shelf, &["--interval", "50ms"]);
    // An object that is being removed has no name.
    let names = || -> Vec<String> {
        let named = list_objects(&shelf.base()).unwrap().into_iter().filter(|info| !info.building);
        named.map(|info| info.name).collect()
    };
    assert_eq!(names(), ["held", "pong", "twin", "prices", "twin"]);
    holder.kill();
    until("the orphan is gone", || !names().contains(&"held".to_owned()));
    assert_eq!(names(), ["pong", "twin", "prices", "twin"]);
    // A new daemon finds the orphan before it reports that it is ready.
    daemon.end(Signal::KILL);
    Holder::spawn(&shelf).kill();
    assert!(names().contains(&"held".to_owned()));
    let _daemon = Running::spawn(&shelf, &[]);
    assert!(!names().contains(&"held".to_owned()));
}

#[test]
fn rings_end_with_their_users_despite_the_daemon() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--interval", "50ms", "--metrics", "127.0.0.1:0"]);
    // A sweep may be removing the object at the same moment, so the test waits.
    for _ in 0..200 {
        let ring = Ring::create("brief", &schema(), shelf.options()).unwrap();
        let joined = daemon.client().attach("brief").unwrap();
        daemon.client().stats("brief").unwrap();
        drop(ring);
        assert_eq!(list_objects(&shelf.base()).unwrap().len(), 1, "still joined");
        drop(joined);
        until("it is gone", || list_objects(&shelf.base()).unwrap().is_empty());
        let (ring, granted) = daemon.client().create("asked", &schema(), &shelf.options()).unwrap();
        assert!(granted.made && !granted.shrunk());
        drop(ring);
        until("it is gone", || list_objects(&shelf.base()).unwrap().is_empty());
    }
}

#[test]
fn without_a_daemon_everything_but_asking_it_works() {
    let shelf = Shelf::stocked();
    let create = ["create", "new", "--column", "obs:f4", "--capacity", "100", "--daemon"];
    let refused = shelf.run(&create).expect(1);
    assert!(refused.err.contains("backcast serve --dir"), "{}", refused.err);
    assert_eq!(shelf.states().len(), 4);
    let base: Base = shelf.base();
    let error = Client::connect(&base).unwrap_err();
    assert!(error.to_string().contains("backcast serve"), "{error}");
    let daemon = Running::spawn(&shelf, &[]);
    shelf.run(&create).expect(0);
    assert_eq!(shelf.states().len(), 5);
    // The message names commands that can be typed, and is the same as without a daemon.
    let other = [&create[..3], &["obs:f8", "--capacity", "100", "--exist", "attach", "--daemon"]];
    for typed in [&create[..], &other.concat()] {
        let by_daemon = shelf.run(typed).expect(1).err;
        assert!(by_daemon.contains("--exist replace"), "{by_daemon}");
        let (_, alone) = typed.split_last().unwrap();
        assert_eq!(by_daemon, shelf.run(alone).expect(1).err);
    }
    let listed = daemon.client().list().unwrap();
    assert_eq!(listed.len(), 5);
    let by_command = shelf.json(&["stat", "new"]);
    assert_eq!(daemon.client().stats("new").unwrap(), by_command[0]);
    daemon.client().remove("new", None, false).unwrap();
    assert_eq!(shelf.states().len(), 4);
}

#[test]
fn refusals_are_those_of_the_commands() {
    let shelf = Shelf::stocked();
    let daemon = Running::spawn(&shelf, &[]);
    let client = daemon.client();
    let code = |error: ClientError| match error {
        ClientError::Refused { code, message } => (format!("{code:?}"), message),
        ClientError::NameTaken { message, taken } => {
            assert_eq!((taken.kind.as_str(), taken.name.as_str()), ("ring", "pong"));
            ("Exists".to_owned(), message)
        }
        other => panic!("{other}"),
    };
    let options = shelf.options();
    let holder = Holder::spawn(&shelf);
    let bad_name = client.create("a/b", &schema(), &options).map(drop).unwrap_err();
    let exists = client.create("pong", &schema(), &options).map(drop).unwrap_err();
    let big = options.clone().lanes(100_000);
    let limit = client.create("new", &schema(), &big).map(drop).unwrap_err();
    for (error, expected, part) in [
        (client.attach("pnog").map(drop).unwrap_err(), "NotFound", "`pong`"),
        (client.stats("pnog").map(drop).unwrap_err(), "NotFound", "`pong`"),
        (client.remove("zzz", None, false).map(drop).unwrap_err(), "NotFound", "`zzz`"),
        (client.remove("twin", None, false).map(drop).unwrap_err(), "BadArgument", "kind"),
        (client.remove("held", None, false).map(drop).unwrap_err(), "InUse", "held"),
        (bad_name, "BadArgument", "`a/b`"),
        (exists, "Exists", "`pong`"),
        (limit, "BadArgument", "100000"),
    ] {
        let (code, message) = code(error);
        assert_eq!(code, expected, "{message}");
        assert!(message.contains(part), "{message}");
    }
    client.remove("held", None, true).unwrap();
    drop(holder);
}
