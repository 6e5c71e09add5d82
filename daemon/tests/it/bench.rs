//! `backcast bench` reports plausible figures and removes its ring, even if one of its processes is
//! killed.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::shelf::{Ran, Shelf};
use backcast_budget::BoundedChild;
use backcast_core::{Ring, collect_garbage, list_objects};
use rustix::process::{Pid, Signal, kill_process};

const WATCHDOG: Duration = Duration::from_secs(60);

#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < WATCHDOG, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// Starts a bench that runs until it is stopped.
fn endless(shelf: &Shelf) -> Child {
    let mut command = shelf.command();
    command.args(["bench", "--seconds", "600"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

/// Returns the process id of the writer, once it writes.
fn writer_of(shelf: &Shelf, bench: &Child) -> u32 {
    until("the writer", || {
        let mut names = list_objects(&shelf.base()).ok()?.into_iter().map(|object| object.name);
        let ring = Ring::attach_in(&shelf.base(), &names.next_back()?).ok()?;
        let lane = ring.stats().lane_stats.into_iter().next()?;
        // It has written a whole lap, after that of the bench itself.
        let writes = lane.head > 2 * ring.slots();
        let pid = lane.pid.and_then(|pid| u32::try_from(pid).ok())?;
        (lane.held && writes && pid != bench.id()).then_some(pid)
    })
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

fn nothing_is_left(shelf: &Shelf) {
    until("the ring to go", || list_objects(&shelf.base()).ok().filter(Vec::is_empty));
}

#[test]
fn every_row_has_figures_and_the_ring_is_gone() {
    let shelf = Shelf::new();
    let [report] =
        &shelf.json(&["bench", "--seconds", "0.05", "--row-bytes", "100", "--lanes", "3"])[..]
    else {
        panic!("one line");
    };
    let rows = report["measured"].as_array().unwrap();
    let what: Vec<&str> = rows.iter().filter_map(|row| row["what"].as_str()).collect();
    assert_eq!(
        what,
        [
            "publish",
            "sample",
            "windows of 20+5",
            "publish beside a learner",
            "sample beside a writer"
        ]
    );
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("rate_per_s") > 0.0, "{row}");
        let ratio = number("against_rate_per_s") / number("rate_per_s");
        assert!((ratio - number("ratio")).abs() < 1e-6 * ratio, "{row}");
        assert!(number("bytes_per_s") > number("rate_per_s"), "{row}");
    }
    assert_eq!((rows[0]["batch"].as_u64(), rows[1]["batch"].as_u64()), (Some(3), Some(256)));
    nothing_is_left(&shelf);
    let table = shelf.run(&["bench", "--seconds", "0.02"]).expect(0).out;
    assert!(table.contains("memcpy of its columns") && table.contains("/s"), "{table}");
    nothing_is_left(&shelf);
}

#[test]
fn large_rows_are_drawn_in_smaller_batches() {
    let shelf = Shelf::new();
    let args = ["bench", "--seconds", "0.01", "--row-bytes", "1048576"];
    let report = &shelf.json(&args)[0];
    assert_eq!(report["measured"][2]["batch"], 1);
}

#[test]
fn ctrl_c_ends_both_processes_and_the_ring() {
    let shelf = Shelf::new();
    for ending in [Signal::INT, Signal::TERM] {
        let mut bench = endless(&shelf);
        let writer = writer_of(&shelf, &bench);
        signal(bench.id(), ending);
        let ran: Ran = bench.output_bounded().unwrap().into();
        assert_eq!(ran.status, 128 + ending.as_raw(), "{}", ran.err);
        assert!(!std::path::Path::new(&format!("/proc/{writer}")).exists(), "it was waited for");
        nothing_is_left(&shelf);
    }
}

#[test]
fn a_writer_that_is_killed_is_a_problem_and_takes_the_ring_along() {
    let shelf = Shelf::new();
    let mut bench = endless(&shelf);
    signal(writer_of(&shelf, &bench), Signal::KILL);
    let ran = Ran::from(bench.output_bounded().unwrap()).expect(1);
    assert!(ran.err.contains("signal: 9"), "{}", ran.err);
    assert!(ran.out.is_empty());
    nothing_is_left(&shelf);
}

#[test]
fn a_bench_that_is_killed_leaves_a_writer_that_ends_and_tidies_up() {
    let shelf = Shelf::new();
    let mut bench = endless(&shelf);
    writer_of(&shelf, &bench);
    bench.kill().unwrap();
    bench.wait_bounded().unwrap();
    // The writer may see the pipe end before the kernel has released the locks of the killed bench.
    // Then it is not the last holder and does not remove the ring; `collect_garbage` does.
    until("the ring to go", || {
        collect_garbage(&shelf.base()).ok()?;
        list_objects(&shelf.base()).ok().filter(Vec::is_empty)
    });
}

#[test]
fn a_writer_that_is_not_started_writes_nothing() {
    let shelf = Shelf::stocked();
    shelf.run(&["bench", "--writer", "zebra"]).expect(3);
    let ran = shelf.run(&["bench", "--writer", "pong"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "another ring is none of its own");
    let before = Ring::attach_in(&shelf.base(), "pong").unwrap().stats().rows_published;
    assert_eq!(before, 0);
}
