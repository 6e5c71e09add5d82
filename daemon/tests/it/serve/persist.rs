//! Rings that the daemon persists: every new daemon follows them, `stat` reports them, and the last
//! row is counted.

use backcast_budget::WATCHDOG;
use backcast_core::{
    AutoresetMode, Base, Exist, LanePolicy, Ring, StepColumns, Writer, WriterOptions,
};
use backcast_persist::{LoadOptions, PersistMode, Store};
use rustix::process::Signal;
use serde_json::Value;

use super::running::{Running, until};
use crate::shelf::{Shelf, schema};

fn append(writer: &mut Writer, rows: u64) {
    let schema = writer.schema().clone();
    for row in 0..rows {
        #[expect(clippy::cast_precision_loss, reason = "any number will do")]
        let (obs, action) = ([row as f32; 6], [1_i32]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[row % 9 == 8], &[false]).unwrap()).unwrap();
    }
}

/// Returns the persistence state in `stat`, which asks no daemon.
fn persist(shelf: &Shelf) -> Value {
    let ran = shelf.run(&["--json", "stat", "pong"]).expect(0);
    serde_json::from_str::<Value>(&ran.out).unwrap()["persist"].clone()
}

fn on_disk(shelf: &Shelf) -> u64 {
    persist(shelf)["persisted_rows"].as_u64().unwrap()
}

/// Loads the live snapshot `pong@live` as the ring `loaded`.
fn load(shelf: &Shelf, base: &Base) -> Ring {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).base(base.clone());
    Store::at(shelf.store()).load("pong@live", options).unwrap()
}

fn same(a: &Ring, b: &Ring) {
    for lane in 0..a.lanes() {
        let span = a.lane_span(lane).unwrap();
        assert_eq!(b.lane_span(lane), Some(span.clone()));
        let (a, b) = (a.rows(lane, span.clone()).unwrap(), b.rows(lane, span).unwrap());
        for column in a.columns() {
            assert_eq!(a.bytes(column.name()), b.bytes(column.name()), "{}", column.name());
        }
    }
}

#[test]
fn a_ring_goes_to_disk_under_one_daemon_after_the_other() {
    let shelf = Shelf::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let args = ["--interval", "50ms", "--persist-flush", "20ms", "--metrics", "127.0.0.1:0"];
    let daemon = Running::spawn(&shelf, &args);
    let options = shelf.options().persistent(true);
    let made =
        daemon.client().create_persisted("pong", &schema(), &options, PersistMode::Continuous);
    let (ring, _) = made.unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    let mut daemon = Some(daemon);
    for round in 1..=3_u64 {
        append(&mut writer, 50);
        until("all is on disk", || on_disk(&shelf) == ring.rows_published());
        let said = persist(&shelf);
        assert_eq!(said["mode"], "continuous", "{said}");
        assert_eq!((&said["behind_rows"], &said["lapped_rows"]), (&0.into(), &0.into()), "{said}");
        assert_eq!((&said["errors"], &said["error"]), (&0.into(), &Value::Null), "{said}");
        assert!(said["store"].as_str().unwrap().ends_with("store"), "{said}");
        same(&ring, &load(&shelf, &Base::at(elsewhere.path())));
        daemon.take().unwrap().end(Signal::KILL);
        // No daemon follows it meanwhile.
        append(&mut writer, 10);
        let behind = persist(&shelf)["behind_rows"].as_u64().unwrap();
        assert!((10..=20).contains(&behind), "{round}: {behind}");
        // The daemon's options do not name the mode: it was stored with the ring.
        daemon = Some(Running::spawn(&shelf, &args));
    }
    until("the next daemon goes on", || on_disk(&shelf) == ring.rows_published());
    // After an orderly end everything is on disk, for every flush time.
    daemon.take().unwrap().end(Signal::TERM);
    let slow = Running::spawn(&shelf, &["--interval", "50ms", "--persist-flush", "1h"]);
    append(&mut writer, 30);
    let ended = slow.end(Signal::TERM);
    assert!(ended.err.contains("followed to its end"), "{}", ended.err);
    same(&ring, &load(&shelf, &Base::at(elsewhere.path())));
}

#[test]
fn a_writer_waits_for_the_disk_and_for_no_dead_daemon() {
    let shelf = Shelf::new();
    // The store cannot be written: no row gets to disk, and the writer stops after one lap.
    let store = shelf.file("full", "no directory");
    let args = ["--interval", "50ms", "--persist-flush", "20ms", "--persist-store", &store];
    let daemon = Running::spawn(&shelf, &args);
    let wait = std::time::Duration::from_secs(60);
    let options = shelf.options().lanes(1).lane_policy(LanePolicy::Block(wait));
    let made = daemon.client().create_persisted("pong", &schema(), &options, PersistMode::Block);
    let (ring, _) = made.unwrap();
    until("it is followed", || !ring.stats().pins.is_empty());
    let pins = ring.stats().pins;
    assert_eq!((pins[0].pid, pins[0].lane, pins[0].start), (daemon.pid().into(), 0, 0));
    let rows = 2 * ring.slots();
    let (begun, waited) = std::sync::mpsc::channel();
    let writing = std::thread::spawn({
        let ring = ring.clone();
        move || {
            let mut writer =
                ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
            begun.send(()).unwrap();
            append(&mut writer, rows);
            writer.rows_dropped()
        }
    });
    waited.recv_timeout(WATCHDOG).unwrap();
    until("the writer waits", || ring.stats().release_awaited);
    assert!(ring.rows_published() <= ring.slots(), "row 0 is not on disk");
    daemon.end(Signal::KILL);
    assert_eq!(writing.join().unwrap(), 0, "it went on at once");
    assert!(ring.rows_published() >= rows);
}

#[test]
fn settings_of_a_file_say_which_rings_and_a_signal_has_them_read_again() {
    let shelf = Shelf::new();
    let store = shelf.path().join("other-store");
    let off = format!("interval = \"50ms\"\n[persist]\nstore = {store:?}\nflush = \"20ms\"\n");
    let file = shelf.file("serve.toml", &off);
    let daemon = Running::spawn(&shelf, &["--config", &file]);
    let ring = Ring::create("pong", &schema(), shelf.options().persistent(true)).unwrap();
    append(
        &mut ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap(),
        0,
    );
    assert_eq!(persist(&shelf), Value::Null);
    shelf.file("serve.toml", &format!("{off}[persist.ring.pong]\nmode = \"continuous\"\n"));
    daemon.signal(Signal::HUP);
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 5);
    until("it is followed", || persist(&shelf)["persisted_rows"] == 5);
    assert_eq!(Store::at(&store).names().unwrap(), ["pong"]);
    shelf.file("serve.toml", &off);
    daemon.signal(Signal::HUP);
    until("it is not followed any more", || persist(&shelf) == Value::Null);
}

#[test]
fn the_last_rows_of_a_removed_ring_are_on_disk() {
    let shelf = Shelf::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let args = ["--interval", "50ms", "--persist-flush", "1h", "--persist-mode", "continuous"];
    let daemon = Running::spawn(&shelf, &args);
    let (ring, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 40);
    let copy = Ring::create("copy", &schema(), shelf.options().base(Base::at(elsewhere.path())));
    let copy = copy.unwrap();
    append(
        &mut copy.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap(),
        40,
    );
    // The ring's last holder leaves, and the ring is soon created again.
    drop((writer, ring));
    let store = Store::at(shelf.store());
    until("its rows are on disk", || {
        store.snapshot("pong@live").is_ok_and(|snapshot| snapshot.rows == copy.rows_published())
    });
    let loaded = load(&shelf, &Base::at(elsewhere.path()));
    assert_eq!(loaded.lane_span(0), copy.lane_span(0));
    let (again, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    append(
        &mut again.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap(),
        7,
    );
    drop(again);
    until("the new ring's rows are on disk", || {
        store.snapshot("pong@live").is_ok_and(|snapshot| snapshot.rows < copy.rows_published())
    });
    assert_eq!(store.snapshot("pong@before").unwrap().rows, copy.rows_published());
}

#[test]
fn a_store_that_cannot_be_written_is_said_and_the_ring_runs_on() {
    let shelf = Shelf::new();
    let store = shelf.file("full", "no directory");
    let args = ["--interval", "50ms", "--persist-flush", "20ms", "--persist-store", &store];
    let daemon = Running::spawn(&shelf, &args);
    let made = shelf.run(&[
        "create",
        "pong",
        "--column",
        "obs:f4:6:obs",
        "--column",
        "action:i4",
        "--capacity",
        "1000",
        "--persist",
        "continuous",
    ]);
    made.expect(0);
    let ring = Ring::attach_in(&shelf.base(), "pong").unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 20);
    until("it is said", || persist(&shelf)["error"].is_string());
    let said = persist(&shelf);
    assert!(said["error"].as_str().unwrap().contains("full"), "{said}");
    assert!(said["errors"].as_u64().unwrap() > 0 && said["behind_rows"] == ring.rows_published());
    let shown = shelf.run(&["stat", "pong"]).expect(0).out;
    assert!(shown.contains("persist error"), "{shown}");
    append(&mut writer, 20);
    std::fs::remove_file(&store).unwrap();
    until("it is made good", || {
        let said = persist(&shelf);
        said["error"].is_null() && said["persisted_rows"] == ring.rows_published()
    });
    assert_eq!(persist(&shelf)["lapped_rows"], 0);
    let ended = daemon.end(Signal::TERM);
    for part in ["cannot bring rows to disk", "rows go to disk again"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
}
