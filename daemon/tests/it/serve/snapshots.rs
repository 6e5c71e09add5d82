//! Saving, loading and evicting through the daemon.

use backcast_core::{Exist, ObjectKind, Ring, StepColumns, WriterOptions, list_objects};
use backcast_daemon::{ClientError, Code};
use backcast_persist::PersistMode;

use super::running::{Running, until};
use crate::shelf::{Shelf, schema};

/// Returns every row of a ring: the bytes of each column, by lane.
fn content(ring: &Ring) -> Vec<Vec<Vec<u8>>> {
    let of_lane = |lane| {
        let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
        let columns = rows.columns().iter();
        columns.map(|column| rows.bytes(column.name()).unwrap().to_vec()).collect()
    };
    (0..ring.lanes()).map(of_lane).collect()
}

fn append(ring: &Ring, rows: u8, number: f32) {
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for action in 0..i32::from(rows) {
        let (obs, action) = ([number; 6], [action]);
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}

fn code(error: ClientError) -> Code {
    match error {
        ClientError::Refused { code, .. } => code,
        ClientError::NameTaken { .. } => Code::Exists,
        ClientError::OverBudget { .. } => Code::OverBudget,
        error => panic!("{error}"),
    }
}

#[test]
fn a_client_saves_a_ring_lists_what_was_saved_and_loads_it() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--budget", "64MiB"]);
    let client = daemon.client();
    let (ring, _) = client.create("pong", &schema(), &shelf.options()).unwrap();
    append(&ring, 30, 1.0);
    let saved = client.save("pong", None, false).unwrap();
    assert_eq!((saved.name.as_str(), saved.rows, saved.written_rows), ("pong@s1", 30, 30));
    append(&ring, 5, 2.0);
    let more = client.save("pong", Some("epoch-1"), false).unwrap();
    assert_eq!((more.rows, more.written_rows), (35, 5));
    assert_eq!(code(client.save("pong", Some("epoch-1"), false).unwrap_err()), Code::Exists);
    assert_eq!(code(client.save("pong", Some("live"), false).unwrap_err()), Code::BadArgument);
    assert_eq!(code(client.save("gone", None, false).unwrap_err()), Code::NotFound);
    client.save("pong", Some("epoch-1"), true).unwrap();
    let names = |name| -> Vec<String> {
        client.snapshots(name).unwrap().into_iter().map(|snapshot| snapshot.name).collect()
    };
    assert_eq!(names(Some("pong")), ["pong@s1", "pong@epoch-1"]);
    assert_eq!((names(None).len(), names(Some("other")).len()), (2, 0));
    let (again, granted) = client.load("pong@epoch-1", Some("again"), Exist::Error, false).unwrap();
    assert_eq!(content(&again), content(&ring));
    assert!(granted.made && granted.name == "again");
    assert_eq!(code(client.load("pong", None, Exist::Error, false).unwrap_err()), Code::Exists);
    assert_eq!(code(client.load("pong@x", None, Exist::Error, false).unwrap_err()), Code::NotFound);
    assert_eq!(
        code(client.load("pong", None, Exist::Attach, false).unwrap_err()),
        Code::BadArgument
    );
    let (replaced, _) = client.load("pong@s1", Some("again"), Exist::Replace, false).unwrap();
    assert_eq!(replaced.rows_published(), 30);
    drop(daemon);
    let small = Running::spawn(&shelf, &["--budget", "4KiB"]);
    let refused = small.client().load("pong@s1", Some("third"), Exist::Error, false).unwrap_err();
    assert_eq!(code(refused), Code::OverBudget);
}

#[test]
fn unused_rings_are_evicted_and_restored() {
    let shelf = Shelf::new();
    let options = shelf.options().persistent(true);
    let bytes = Ring::planned_bytes(&schema(), &options).unwrap();
    let budget = (2 * bytes + bytes / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--budget", &budget, "--when-full", "evict"]);
    let client = daemon.client();
    let there = || -> Vec<String> {
        let objects = list_objects(&shelf.base()).unwrap();
        assert!(objects.iter().map(|info| info.bytes).sum::<u64>() <= 2 * bytes + bytes / 2);
        objects.into_iter().filter(|o| o.kind == ObjectKind::Ring).map(|o| o.name).collect()
    };
    let mut contents = Vec::new();
    for (name, number) in [("a", 1.0), ("b", 2.0)] {
        let made = client.create_persisted(name, &schema(), &options, PersistMode::Off);
        let (ring, _) = made.unwrap();
        append(&ring, 20, number);
        contents.push(content(&ring));
    }
    // `a` is used after `b`.
    append(&client.attach("a").unwrap(), 1, 3.0);
    let (held, _) = client.create("c", &schema(), &options).unwrap();
    assert_eq!(there(), ["a", "c"]);
    let taken = client.create("b", &schema(), &options).map(drop).unwrap_err();
    assert_eq!(code(taken), Code::Exists, "it is there, though not in memory");
    let back = client.attach("b").unwrap();
    assert_eq!(there(), ["b", "c"], "`a` had to go");
    assert_eq!(content(&back), contents[1]);
    assert!(back.path().is_some_and(|dir| dir.join("persist").exists()), "its mode came too");
    assert!(client.snapshots(Some("b")).unwrap().is_empty(), "it is in memory now");
    // Neither can be evicted: both are held.
    assert_eq!(code(client.attach("a").unwrap_err()), Code::OverBudget);
    drop(held);
    let (a, granted) =
        client.create("a", &schema(), &options.clone().exist(Exist::Attach)).unwrap();
    assert_eq!((granted.made, a.rows_published()), (false, 21));
    assert_eq!(there(), ["a", "b"]);
    let big = options.capacity(1_000_000_u64);
    assert_eq!(
        code(client.create("big", &schema(), &big).map(drop).unwrap_err()),
        Code::OverBudget
    );
    assert_eq!(there(), ["a", "b"], "nobody goes for what would not fit");
    drop((a, back));
    let (_, granted) =
        client.create("c", &schema(), &shelf.options().exist(Exist::Replace)).unwrap();
    assert!(granted.made);
    assert!(client.snapshots(Some("c")).unwrap().is_empty(), "it was replaced");
}

#[test]
fn a_ring_that_was_evicted_is_listed_with_and_without_the_daemon() {
    let shelf = Shelf::new();
    let options = shelf.options().persistent(true);
    let bytes = Ring::planned_bytes(&schema(), &options).unwrap();
    let budget = (bytes + bytes / 2).to_string();
    // This store is not the command's default.
    let elsewhere = shelf.path().join("elsewhere");
    let store = elsewhere.to_str().unwrap();
    let args = ["--budget", &budget, "--when-full", "evict", "--persist-store", store];
    let daemon = Running::spawn(&shelf, &args);
    let client = daemon.client();
    let (ring, _) = client.create("a", &schema(), &options).unwrap();
    append(&ring, 20, 1.0);
    drop(ring);
    drop(client.create("b", &schema(), &options).unwrap());
    let find = |listed: &[serde_json::Value], name: &str| {
        let of_name: Vec<_> = listed.iter().filter(|info| info["name"] == name).cloned().collect();
        assert!(of_name.len() <= 1, "{of_name:?}");
        of_name.into_iter().next()
    };
    let a = find(&shelf.json(&["ls"]), "a").unwrap();
    assert!(a["kind"] == "ring" && a["state"] == "evicted" && a["rows"] == 20, "{a}");
    assert!(a["size_bytes"].as_u64().unwrap() > 0 && a["lane_count"] == 2 && a["error"].is_null());
    assert_eq!(a["path"], elsewhere.join("a").to_str().unwrap());
    let shown = client.list().unwrap();
    let shown: Vec<_> =
        shown.iter().map(|info| (info.name.as_str(), info.state.as_str())).collect();
    assert_eq!(shown, [("b", "idle"), ("a", "evicted")]);
    let said = shelf.run(&["ls"]).expect(0);
    assert!(said.err.contains("1 evicted") && said.err.contains("@evicted"), "{}", said.err);
    // A look-up by name reports where the ring is, and how to load it.
    for line in ["stat a", "stat a --kind ring", "top a", "export a a.parquet", "save a", "rm a"] {
        let refused = shelf.run(&line.split(' ').collect::<Vec<_>>()).expect(3).err;
        let load = format!("`backcast load a@evicted --store {store}`");
        for text in ["ring `a`", "evicted", store, "attach(\"a\", daemon=", &load, "stat a@evicted"]
        {
            assert!(refused.contains(text), "{line}: `{text}` is missing: {refused}");
        }
    }
    assert!(!shelf.run(&["stat", "a", "--kind", "panel"]).expect(3).err.contains("evicted"));
    assert!(client.stats("a").unwrap_err().to_string().contains("a@evicted"));
    // Without a daemon, the ring is listed only if its store is named.
    daemon.end(rustix::process::Signal::KILL);
    assert_eq!(find(&shelf.json(&["ls"]), "a"), None);
    let there = shelf.json(&["ls", "--store", store]);
    assert_eq!(find(&there, "a").unwrap()["state"], "evicted");
    // A ring in memory is not listed as evicted, even if its snapshot exists.
    drop(Ring::create("a", &schema(), options).unwrap());
    let there = shelf.json(&["ls", "--store", store]);
    assert_eq!(find(&there, "a").unwrap()["state"], "idle");
    assert_eq!(find(&there, "a@evicted").unwrap()["state"], "saved");
}

#[test]
fn the_daemon_saves_a_ring_on_request() {
    let shelf = Shelf::new();
    let elsewhere = shelf.path().join("elsewhere");
    let daemon = Running::spawn(&shelf, &["--persist-store", elsewhere.to_str().unwrap()]);
    let (ring, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    append(&ring, 20, 1.0);
    let save = |args: &[&str]| shelf.json(&[&["save", "pong"], args].concat()).remove(0);
    let saved = save(&["--daemon"]);
    assert!(saved["action"] == "saved" && saved["name"] == "pong@s1", "{saved}");
    assert!(saved["rows"] == 20 && saved["written_rows"] == 20, "{saved}");
    assert_eq!(save(&["mine", "--daemon"])["name"], "pong@mine");
    assert_eq!(save(&["mine", "--replace", "--daemon"])["written_rows"], 0);
    assert_eq!(daemon.client().snapshots(Some("pong")).unwrap().len(), 2);
    assert!(!shelf.store().exists(), "the store is the daemon's");
    let taken = shelf.run(&["save", "pong", "mine", "--daemon"]).expect(1);
    assert!(taken.err.contains("pong@mine"), "{}", taken.err);
    shelf.run(&["save", "pnog", "--daemon"]).expect(3);
    drop(daemon);
    let alone = shelf.run(&["save", "pong", "--daemon"]).expect(1);
    assert!(alone.err.contains("backcast serve"), "{}", alone.err);
}

#[test]
fn many_who_ask_at_once_get_their_rings_back_whole() {
    let shelf = Shelf::new();
    let options = shelf.options().persistent(true);
    let bytes = Ring::planned_bytes(&schema(), &options).unwrap();
    let budget = (2 * bytes + bytes / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--budget", &budget, "--when-full", "evict"]);
    let names = ["a", "b", "c", "d"];
    for (name, number) in names.into_iter().zip([1.0, 2.0, 3.0, 4.0]) {
        let (ring, _) = daemon.client().create(name, &schema(), &options).unwrap();
        append(&ring, 20, number);
    }
    std::thread::scope(|scope| {
        for (name, number) in names.into_iter().zip([1.0_f32, 2.0, 3.0, 4.0]) {
            let client = daemon.client();
            scope.spawn(move || {
                for _ in 0..10 {
                    let mut ring = None;
                    // Two rings at a time are held; a third client tries again.
                    until("it comes back", || match client.attach(name) {
                        Ok(attached) => {
                            ring = Some(attached);
                            true
                        }
                        Err(error) => {
                            assert_eq!(code(error), Code::OverBudget);
                            false
                        }
                    });
                    let ring = ring.unwrap();
                    let rows = ring.rows(0, 0..20).unwrap();
                    let obs = rows.column::<f32>("obs").unwrap();
                    assert!(obs.iter().all(|obs| obs.to_bits() == number.to_bits()));
                }
            });
        }
    });
}
