//! The byte budget is exact with any number of concurrent requests.

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use backcast_budget::{BoundedChild, Stop};
use backcast_core::{Capacity, Exist, Ring, list_objects};
use backcast_daemon::ClientError;

use super::rings::{ROWS, bytes, options};
use super::running::Running;
use crate::shelf::{Holder, Shelf, schema};

/// Number of processes that create rings concurrently.
const CREATORS: usize = 16;

pub(crate) fn used(shelf: &Shelf) -> u64 {
    list_objects(&shelf.base()).unwrap().iter().map(|info| info.bytes).sum()
}

/// Returns the largest sum of bytes of all objects until `done` is set. Two equal lists in a row
/// show the objects at one time; a single list may combine different times.
pub(crate) fn most_used(shelf: &Shelf, done: &AtomicBool) -> u64 {
    let mut most = 0;
    let mut before = Vec::new();
    while !done.load(Relaxed) {
        let now = list_objects(&shelf.base()).unwrap();
        if now == before {
            most = most.max(now.iter().map(|info| info.bytes).sum());
        }
        before = now;
    }
    most.max(used(shelf))
}

#[test]
fn sixteen_processes_at_once_never_exceed_the_budget() {
    for round in 0..3 {
        let shelf = Shelf::new();
        let one = bytes(&shelf, ROWS);
        let fit = 5;
        // Room for five and a half rings.
        let budget = one * fit + one / 2;
        let daemon = Running::spawn(&shelf, &["--budget", &budget.to_string()]);
        let done = AtomicBool::new(false);
        let (statuses, most): (Vec<(i32, String)>, u64) = std::thread::scope(|scope| {
            let most = scope.spawn(|| most_used(&shelf, &done));
            let stop = Stop(&done);
            let creators: Vec<Child> = (0..CREATORS)
                .map(|i| {
                    shelf
                        .command()
                        .args(["create", &format!("ring-{i}"), "--daemon", "--capacity", "20000"])
                        .args(["--column", "obs:f4:2x3", "--column", "action:i4"])
                        .stdout(Stdio::null())
                        .stderr(Stdio::piped())
                        .spawn()
                        .unwrap()
                })
                .collect();
            let ended = creators.into_iter().map(|mut child| {
                let output = child.output_bounded().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                (output.status.code().unwrap(), text)
            });
            let statuses = ended.collect();
            drop(stop);
            (statuses, most.join().unwrap())
        });
        let made = statuses.iter().filter(|(status, _)| *status == 0).count();
        assert_eq!(made as u64, fit, "round {round}: {statuses:?}");
        for (_, text) in statuses.iter().filter(|(status, _)| *status != 0) {
            assert!(text.contains("--budget") && text.contains("ring-"), "{text}");
        }
        assert!(most <= budget, "{most} of {budget}");
        assert_eq!(used(&shelf), one * fit);
        assert_eq!(daemon.client().ping().unwrap().used_bytes, one * fit);
        println!("round {round}: {made} of {CREATORS} made, at most {most} of {budget} bytes");
    }
}

#[test]
fn a_refusal_has_the_numbers_and_changes_nothing() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let daemon = Running::spawn(&shelf, &["--budget", &(one + one / 2).to_string()]);
    let client = daemon.client();
    drop(client.create("first", &schema(), &options(&shelf)).unwrap());
    let error = client.create("second", &schema(), &options(&shelf)).map(drop).unwrap_err();
    let ClientError::OverBudget { numbers, message } = error else { panic!("{error}") };
    assert_eq!((numbers.budget_bytes, numbers.used_bytes), (one + one / 2, one));
    assert_eq!(numbers.asked_bytes, one);
    assert_eq!(numbers.largest, [("first".to_owned(), one)]);
    assert!(message.contains("`second`") && message.contains("first"), "{message}");
    assert_eq!(used(&shelf), one);
    client.remove("first", None, false).unwrap();
    drop(client.create("second", &schema(), &options(&shelf)).unwrap());
}

#[test]
fn rings_beyond_the_budget_are_shrunk_to_the_rest_if_configured() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let budget = one + one / 2;
    let args = ["--budget", &budget.to_string(), "--when-full", "shrink"];
    let daemon = Running::spawn(&shelf, &args);
    let client = daemon.client();
    drop(client.create("first", &schema(), &options(&shelf)).unwrap());
    let (ring, granted) = client.create("second", &schema(), &options(&shelf)).unwrap();
    assert!(granted.shrunk() && granted.made, "{granted:?}");
    assert_eq!(granted.asked_bytes, one);
    assert!(granted.allocated_bytes <= one / 2 && granted.allocated_bytes > one / 4);
    assert_eq!(granted.capacity_rows, ring.capacity());
    assert!(used(&shelf) <= budget);
    // The rest of the budget is too small for a row.
    let error = client.create("third", &schema(), &options(&shelf)).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::OverBudget { .. }), "{error}");
    let create = ["create", "third", "--daemon", "--column", "obs:f4", "--capacity", "1GiB"];
    shelf.run(&create).expect(1);
    client.remove("first", None, false).unwrap();
    let warned = shelf.run(&create).expect(0);
    assert!(warned.err.contains("budget"), "{}", warned.err);
}

#[test]
fn existing_rings_count_and_orphans_are_removed_first() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    // Created without the daemon.
    drop(Ring::create("direct", &schema(), options(&shelf)).unwrap());
    let holder = Holder::spawn(&shelf);
    let orphan = used(&shelf) - one;
    let budget = (2 * one + orphan / 2).to_string();
    let daemon = Running::spawn(&shelf, &["--budget", &budget, "--interval", "3600s"]);
    let client = daemon.client();
    let error = client.create("next", &schema(), &options(&shelf)).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::OverBudget { .. }), "{error}");
    // The sweeper waits for an hour, so the request itself makes room.
    holder.kill();
    drop(client.create("next", &schema(), &options(&shelf)).unwrap());
}

#[test]
fn a_ring_can_be_joined_or_replaced_when_nothing_is_left() {
    let shelf = Shelf::new();
    let one = bytes(&shelf, ROWS);
    let daemon = Running::spawn(&shelf, &["--budget", &one.to_string()]);
    let client = daemon.client();
    let options = options(&shelf);
    drop(client.create("pong", &schema(), &options).unwrap());
    let attach = options.clone().exist(Exist::Attach);
    let (_, granted) = client.create("pong", &schema(), &attach).unwrap();
    assert!(!granted.made);
    let other = attach.clone().capacity(Capacity::Rows(5));
    let error = client.create("pong", &schema(), &other).map(drop).unwrap_err();
    assert!(error.to_string().contains("exist"), "{error}");
    // An idle ring makes room for the new one, a held ring does not.
    let replace = options.exist(Exist::Replace);
    let (held, granted) = client.create("pong", &schema(), &replace).unwrap();
    assert!(granted.made);
    let error = client.create("pong", &schema(), &replace).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::OverBudget { .. }), "{error}");
    drop(held);
}
