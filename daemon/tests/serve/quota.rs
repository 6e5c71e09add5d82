//! A quota for each process that asks the daemon, exact over its restarts and over requests at once.

use backcast_core::{Exist, Ring};
use backcast_daemon::{ClientError, OverQuota};
use rustix::process::Signal;

use crate::budget::used;
use crate::rings::{LONG, ROWS, bytes, options};
use crate::running::{Running, until};
use crate::shelf::{Shelf, schema};

#[track_caller]
fn refused<T>(result: Result<T, ClientError>) -> OverQuota {
    match result.map(drop).unwrap_err() {
        ClientError::OverQuota { numbers, message } => {
            assert!(message.contains("--quota"), "{message}");
            numbers
        }
        error => panic!("{error}"),
    }
}

#[test]
fn each_process_has_its_own_quota_whoever_else_asks() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let quota = 2 * one + one / 2;
    let args = ["--budget", &(10 * one).to_string(), "--quota", &quota.to_string()];
    let daemon = Running::spawn(&shelf, &args);
    assert_eq!(daemon.ready["quota_bytes"], quota);
    let client = daemon.client();
    assert_eq!(client.ping().unwrap().quota_bytes, Some(quota));
    for name in ["a", "b"] {
        drop(client.create(name, &schema(), &options(&shelf)).unwrap());
    }
    assert_eq!(used(&shelf), 2 * one, "who asked takes no room");
    let numbers = refused(client.create("c", &schema(), &options(&shelf)));
    assert_eq!(
        (numbers.quota_bytes, numbers.held_bytes, numbers.asked_bytes),
        (quota, 2 * one, one)
    );
    assert_eq!(numbers.pid, Some(std::process::id()));
    assert_eq!(numbers.largest, [("a".to_owned(), one), ("b".to_owned(), one)]);
    assert_eq!(used(&shelf), 2 * one);
    // Another process has its own, and what it made counts for nobody when it has ended.
    let create = ["create", "c", "--daemon", "--column", "obs:f4:2x3", "--column", "action:i4"];
    shelf.run(&[&create[..], &["--capacity", "20000"]].concat()).expect(0);
    let asked_by = |name: &str| shelf.json(&["stat", name]).remove(0)["asked_by_pid"].take();
    assert_eq!((asked_by("a"), asked_by("c")), (std::process::id().into(), ().into()));
    // To join it asks for nothing, and a ring made without the daemon is nobody's either.
    drop(client.attach("c").unwrap());
    let join = options(&shelf).exist(Exist::Attach);
    assert!(!client.create("c", &schema(), &join).unwrap().1.made);
    drop(Ring::create("direct", &schema(), options(&shelf)).unwrap());
    assert!(asked_by("direct").is_null());
    // The next daemon knows as much.
    daemon.end(Signal::KILL);
    let daemon = Running::spawn(&shelf, &args);
    let client = daemon.client();
    refused(client.create("d", &schema(), &options(&shelf)));
    // In its own place a ring may stand, in another's not.
    let replace = options(&shelf).exist(Exist::Replace);
    drop(client.create("a", &schema(), &replace).unwrap());
    refused(client.create("c", &schema(), &replace));
    assert!(asked_by("c").is_null(), "it is as it was");
    client.remove("b", None, false).unwrap();
    drop(client.create("d", &schema(), &options(&shelf)).unwrap());
}

/// A limit is what may be had, to the last byte: of budget and quota, for what is made, loaded or grows.
#[test]
fn what_fits_to_the_byte_is_granted_and_a_byte_less_is_refused() {
    let shelf = Shelf::new();
    let (one, two) = (bytes(&shelf, ROWS), bytes(&shelf, 2 * ROWS));
    let large = (8 * two).to_string();
    for (limit, short, id) in [
        (["--quota", "--budget"], 0, "a quota that fits"),
        (["--quota", "--budget"], 1, "a quota of a byte less"),
        (["--budget", "--quota"], 0, "a budget that fits"),
        (["--budget", "--quota"], 1, "a budget of a byte less"),
    ] {
        let exact = (2 * one - short).to_string();
        let daemon = Running::spawn(&shelf, &[limit[0], &exact, limit[1], &large]);
        let client = daemon.client();
        drop(client.create("a", &schema(), &options(&shelf)).expect(id));
        let made = client.create("b", &schema(), &options(&shelf)).map(drop);
        assert_eq!(made.is_ok(), short == 0, "{id}: {made:?}");
        assert_eq!(used(&shelf), if short == 0 { 2 * one } else { one }, "{id}");
        client.save("a", Some("kept"), true).expect(id);
        client.remove("a", None, false).expect(id);
        // Beside `b`, if that was made, and gone again with its handle.
        let loaded = client.load("a@kept", Some("c"), Exist::Error, false).map(drop);
        assert!(loaded.is_ok(), "{id}: {loaded:?}");
        if short == 0 {
            client.remove("b", None, false).expect(id);
        }
    }
    // A ring that grows may have all of its quota.
    for short in [0, 1] {
        let exact = (two - short).to_string();
        let daemon = Running::spawn(&shelf, &["--quota", &exact, "--budget", &large]);
        let client = daemon.client();
        drop(client.create("a", &schema(), &options(&shelf)).unwrap());
        let grown = client.resize("a", 2 * ROWS, LONG).map(|grown| grown.allocated_bytes);
        match short {
            0 => assert_eq!(grown.unwrap(), two),
            _ => drop(refused(grown)),
        }
        client.remove("a", None, false).unwrap();
    }
}

#[test]
fn what_is_loaded_and_what_grows_counts_too() {
    let shelf = Shelf::new();
    let (one, three) = (bytes(&shelf, ROWS), bytes(&shelf, 3 * ROWS));
    let quota = (three + one / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--quota", &quota]);
    let client = daemon.client();
    let (ring, _) = client.create("a", &schema(), &options(&shelf)).unwrap();
    client.save("a", Some("kept"), false).unwrap();
    // While it grows the old memory is there too: that is the budget's business.
    assert_eq!(client.resize("a", 3 * ROWS, LONG).unwrap().allocated_bytes, three);
    let numbers = refused(client.resize("a", 4 * ROWS, LONG));
    assert_eq!((numbers.held_bytes, numbers.asked_bytes), (0, bytes(&shelf, 4 * ROWS)));
    assert_eq!((ring.capacity(), used(&shelf)), (3 * ROWS, three));
    refused(client.load("a@kept", Some("again"), Exist::Error, false));
    // Who makes a ring larger asked for it from then on.
    shelf.run(&["resize", "a", "--capacity", "61000"]).expect(0);
    let (again, _) = client.load("a@kept", Some("again"), Exist::Error, false).unwrap();
    assert_eq!(again.capacity(), ROWS);
    assert_eq!(client.stats("again").unwrap()["asked_by_pid"], std::process::id());
}

#[test]
fn a_ring_is_shrunk_to_the_quota_and_nobody_goes_for_what_exceeds_it() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let (quota, budget) = ((one + one / 2).to_string(), (8 * one).to_string());
    let args = ["--quota", &quota, "--budget", &budget];
    {
        let daemon = Running::spawn(&shelf, &[&args[..], &["--when-full", "shrink"]].concat());
        let client = daemon.client();
        let (ring, _) = client.create("a", &schema(), &options(&shelf)).unwrap();
        let (_, granted) = client.create("b", &schema(), &options(&shelf)).unwrap();
        assert!(granted.shrunk() && granted.allocated_bytes <= one / 2, "{granted:?}");
        assert_eq!(granted.asked_bytes, one);
        refused(client.create("c", &schema(), &options(&shelf)));
        client.remove("b", None, false).unwrap();
        let grown = client.resize("a", 9 * ROWS, LONG).unwrap();
        assert!(grown.shrunk && grown.allocated_bytes <= one + one / 2, "{grown:?}");
        assert_eq!(ring.capacity(), grown.capacity_rows);
        client.remove("a", None, true).unwrap();
    }
    let daemon = Running::spawn(&shelf, &[&args[..], &["--when-full", "evict"]].concat());
    let client = daemon.client();
    drop(client.create("idle", &schema(), &options(&shelf)).unwrap());
    refused(client.create("more", &schema(), &options(&shelf)));
    let there: Vec<String> = client.list().unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(there, ["idle"]);
}

#[test]
fn requests_at_once_of_one_process_get_what_its_quota_allows() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let config = shelf.file("backcast.toml", &format!("quota = {}\n", 3 * one + one / 2));
    let daemon = Running::spawn(&shelf, &["--config", &config]);
    let made = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12)
            .map(|i| {
                let (client, options) = (daemon.client(), options(&shelf));
                scope.spawn(move || client.create(&format!("r-{i}"), &schema(), &options).map(drop))
            })
            .collect();
        let results = asking.into_iter().map(|thread| thread.join().unwrap());
        results.filter(|made| made.as_ref().map_err(|_| ()).is_ok()).count()
    });
    assert_eq!((made, used(&shelf)), (3, 3 * one));
    std::fs::write(&config, "quota = \"1GiB\"\n").unwrap();
    daemon.signal(Signal::HUP);
    until("the new quota", || daemon.client().ping().unwrap().quota_bytes == Some(1 << 30));
    drop(daemon.client().create("more", &schema(), &options(&shelf)).unwrap());
}
