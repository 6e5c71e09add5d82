//! Resizes through the daemon: within its budget, beside writers and beside other requests.

use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use backcast_budget::{BoundedChild, Stop};
use backcast_core::{Capacity, WriterOptions};
use backcast_daemon::{ClientError, Code};
use rustix::process::Signal;

use super::budget::{most_used, used};
use super::rings::{LONG, ROWS, append, bytes, options};
use super::running::{Running, until};
use crate::shelf::{Shelf, schema};

fn code(error: &ClientError) -> Code {
    match error {
        ClientError::Refused { code, .. } => *code,
        ClientError::OverBudget { .. } => Code::OverBudget,
        error => panic!("{error}"),
    }
}

#[test]
fn creators_and_resizers_at_once_never_exceed_the_budget() {
    const EACH: usize = 8;
    for round in 0..3 {
        let shelf = Shelf::new();
        let one = bytes(&shelf, ROWS);
        // Room for four more rings, or for two that become twice as large.
        let budget = one * (EACH as u64 + 4) + one / 2;
        let daemon = Running::spawn(&shelf, &["--budget", &budget.to_string()]);
        for i in 0..EACH {
            drop(daemon.client().create(&format!("old-{i}"), &schema(), &options(&shelf)).unwrap());
        }
        let done = AtomicBool::new(false);
        let run = |args: &str| -> Child {
            let mut command = shelf.command();
            command.args(args.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let (made, grown, most) = std::thread::scope(|scope| {
            let most = scope.spawn(|| most_used(&shelf, &done));
            let stop = Stop(&done);
            let columns = "--column obs:f4:2x3 --column action:i4";
            let children: Vec<(bool, Child)> = (0..EACH)
                .flat_map(|i| {
                    let create = format!("create new-{i} --daemon --capacity {ROWS} {columns}");
                    let resize = format!("resize old-{i} --capacity {}", 2 * ROWS);
                    [(true, run(&create)), (false, run(&resize))]
                })
                .collect();
            let (mut made, mut grown) = (0, 0);
            for (creates, mut child) in children {
                let output = child.output_bounded().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                match output.status.code() {
                    Some(0) if creates => made += 1,
                    Some(0) => grown += 1,
                    Some(1) => assert!(text.contains("--budget"), "{text}"),
                    status => panic!("{status:?}: {text}"),
                }
            }
            drop(stop);
            (made, grown, most.join().unwrap())
        });
        assert!(most <= budget, "{most} of {budget}");
        let two = bytes(&shelf, 2 * ROWS);
        assert_eq!(used(&shelf), one * (EACH as u64 - grown + made) + two * grown);
        assert!(made + grown > 0, "nobody got anything");
        println!("round {round}: {made} made, {grown} grown, at most {most} of {budget} bytes");
    }
}

#[test]
fn the_larger_memory_has_to_fit_beside_the_old() {
    let shelf = Shelf::new();
    let (one, two) = (bytes(&shelf, ROWS), bytes(&shelf, 2 * ROWS));
    let daemon = Running::spawn(&shelf, &["--budget", &(one + two - 1).to_string()]);
    let client = daemon.client();
    let (ring, _) = client.create("pong", &schema(), &options(&shelf)).unwrap();
    let files = || std::fs::read_dir(shelf.object("pong.ring")).unwrap().count();
    let before = files();
    let asked = ring.planned_resize_bytes(3 * ROWS).unwrap();
    let error = client.resize("pong", 3 * ROWS, LONG).unwrap_err();
    let ClientError::OverBudget { numbers, message } = error else { panic!("{error}") };
    assert_eq!((numbers.budget_bytes, numbers.used_bytes), (one + two - 1, one));
    assert_eq!((numbers.asked_bytes, numbers.largest), (asked, vec![("pong".to_owned(), one)]));
    for part in ["`pong`", "--budget"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!((files(), used(&shelf), ring.capacity()), (before, one, ROWS));
    let grown = client.resize("pong", 2 * ROWS, LONG).unwrap();
    assert_eq!((grown.capacity_rows, grown.allocated_bytes, grown.shrunk), (2 * ROWS, two, false));
    assert_eq!((ring.capacity(), used(&shelf), files()), (2 * ROWS, two, before));
    // Repeating the resize copies no rows.
    assert_eq!(client.resize("pong", 2 * ROWS, LONG).unwrap().copied_rows, 0);
    // A resize without the daemon is counted, but not refused.
    let resize = ["resize", "pong", "--capacity", "100_000"];
    let refused = shelf.run(&resize).expect(1);
    assert!(refused.err.contains("--budget"), "{}", refused.err);
    shelf.run(&[&resize[..], &["--direct"]].concat()).expect(0);
    let pong = client.ping().unwrap();
    assert!(pong.used_bytes > pong.budget_bytes, "{pong:?}");
    let error = client.create("next", &schema(), &options(&shelf)).map(drop).unwrap_err();
    assert_eq!(code(&error), Code::OverBudget);
    drop(daemon);
    shelf.run(&["resize", "pong", "--capacity", "110_000"]).expect(0);
}

#[test]
fn a_ring_grows_to_what_is_left_or_others_make_room_as_the_settings_say() {
    let shelf = Shelf::new();
    let (one, two) = (bytes(&shelf, ROWS), bytes(&shelf, 2 * ROWS));
    let budget = (one + two).to_string();
    {
        let daemon = Running::spawn(&shelf, &["--budget", &budget, "--when-full", "shrink"]);
        let client = daemon.client();
        let (ring, _) = client.create("pong", &schema(), &options(&shelf)).unwrap();
        let grown = client.resize("pong", 9 * ROWS, LONG).unwrap();
        assert!(grown.shrunk && grown.capacity_rows > ROWS, "{grown:?}");
        assert!(grown.allocated_bytes <= two && ring.capacity() == grown.capacity_rows);
        // The rest of the budget is smaller than the ring.
        let error = client.resize("pong", 9 * ROWS, LONG).unwrap_err();
        assert_eq!((code(&error), ring.capacity()), (Code::OverBudget, grown.capacity_rows));
        let warned = shelf.run(&["resize", "pong", "--capacity", "1GiB"]).expect(1);
        assert!(warned.err.contains("--budget"), "{}", warned.err);
    }
    shelf.run(&["rm", "pong"]).expect(0);
    let daemon = Running::spawn(&shelf, &["--budget", &budget, "--when-full", "evict"]);
    let client = daemon.client();
    let names = || -> Vec<String> {
        client.list().unwrap().into_iter().map(|object| object.name).collect()
    };
    for name in ["a", "b"] {
        let (ring, _) = client.create(name, &schema(), &options(&shelf)).unwrap();
        append(&mut ring.writer(WriterOptions::lanes(1)).unwrap(), 10);
    }
    assert_eq!(client.resize("b", 2 * ROWS, LONG).unwrap().capacity_rows, 2 * ROWS);
    assert_eq!(names(), ["b", "a"], "`a` had to go, and is shown last");
    assert_eq!(client.list().unwrap()[1].state, "evicted");
    // It comes back to grow, once there is room for it.
    client.remove("b", None, false).unwrap();
    assert_eq!(client.resize("a", 2 * ROWS, LONG).unwrap().capacity_rows, 2 * ROWS);
    let back = client.attach("a").unwrap();
    assert_eq!((names(), back.rows_published()), (vec!["a".to_owned()], 10));
}

#[test]
fn others_are_served_while_a_resize_waits_for_a_writer() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let daemon = Running::spawn(&shelf, &["--budget", &(one * 8).to_string()]);
    let client = daemon.client();
    let (ring, _) = client.create("pong", &schema(), &options(&shelf)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    append(&mut writer, 300);
    let other = daemon.client();
    std::thread::scope(|scope| {
        let resizing = scope.spawn(move || other.resize("pong", 2 * ROWS, LONG));
        until("the larger memory is there", || used(&shelf) > one);
        drop(client.create("meanwhile", &schema(), &options(&shelf)).unwrap());
        assert!(!resizing.is_finished(), "the writer has not appended");
        // Until the writer is notified, it has nothing to do.
        until("the lane has moved", || {
            append(&mut writer, 1);
            resizing.is_finished()
        });
        let grown = resizing.join().unwrap().unwrap();
        assert_eq!((grown.waiting_lanes, grown.capacity_rows), (vec![], 2 * ROWS));
    });
    let published = ring.rows_published();
    assert!(ring.capacity() == 2 * ROWS && published > 300);
    let grown = client.resize("pong", 3 * ROWS, Duration::ZERO).unwrap();
    assert_eq!(grown.waiting_lanes, [0], "nobody waited");
    let error = client.resize("pong", 4 * ROWS, Duration::ZERO).unwrap_err();
    assert!(code(&error) == Code::InUse && error.to_string().contains("lanes [0]"), "{error}");
    // Killed meanwhile: the lane is relocated when its writer continues.
    daemon.end(Signal::KILL);
    append(&mut writer, 40);
    assert_eq!((ring.capacity(), ring.rows_published()), (3 * ROWS, published + 40));
}

#[test]
fn impossible_resizes_are_refused_as_without_a_daemon() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let client = daemon.client();
    drop(client.create("pong", &schema(), &options(&shelf)).unwrap());
    for (name, capacity, wait, expected, says) in [
        ("pnog", Capacity::Rows(ROWS), LONG, Code::NotFound, "`pong`"),
        ("pong", Capacity::Rows(10), LONG, Code::BadArgument, "`pong`"),
        ("pong", Capacity::Bytes(10), LONG, Code::BadArgument, "10"),
        ("pong", Capacity::Rows(2 * ROWS), 61 * LONG, Code::BadArgument, "3600000"),
        ("a/b", Capacity::Rows(ROWS), LONG, Code::BadArgument, "a/b"),
    ] {
        let error = client.resize(name, capacity, wait).unwrap_err();
        assert_eq!(code(&error), expected, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    assert_eq!(used(&shelf), bytes(&shelf, ROWS));
}
