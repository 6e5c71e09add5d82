//! The daemon is killed at random moments, repeatedly, while writers write, learners draw and a
//! client requests rings. Only the client notices, every row is on disk or counted, each successor
//! finds everything by itself, and nothing is left behind.

use std::error::Error;
use std::ops::ControlFlow;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::{BoundedChild, Lines, WATCHDOG};
use backcast_core::{
    Base, Exist, Ring, RingError, RingOptions, SegmentError, collect_garbage, list_objects,
};
use backcast_daemon::{Client, ClientError};
use backcast_persist::{LoadOptions, Store};
use backcast_tests::storm::{audit, schema};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const WRITERS: u32 = 4;
const LEARNERS: u64 = 2;
const LANE_CAPACITY: u64 = 1024 - 16;

/// A child process that does not outlive the test.
struct Victim {
    child: Child,
    /// The daemon sees it close when the test is gone.
    _stdin: Option<ChildStdin>,
}

impl Victim {
    fn start(binary: &str, args: &[&str]) -> Self {
        let child = Command::new(binary).args(args).spawn().expect("the binary starts");
        Self { child, _stdin: None }
    }

    /// Starts a daemon. Returns it once it is ready, and the time that took.
    fn daemon(place: &str, store: &str) -> (Self, Duration) {
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_storm_daemon"))
            .args([place, store])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        Lines::of(child.stdout.take().expect("piped")).wait_for("ready");
        let stdin = child.stdin.take();
        (Self { child, _stdin: stdin }, began.elapsed())
    }

    fn assert_alive(&mut self, what: &str) {
        if let Some(status) = self.child.try_wait().expect("a child can be looked at") {
            panic!("{what} ended by itself, {status}");
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("SIGKILL can be sent");
        let status = self.child.wait_bounded().expect("a killed child can be waited for");
        assert!(status.code().is_none(), "it was not killed: {status}");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

/// Outcomes of the client's requests.
#[derive(Debug, Default)]
struct Asked {
    answered: AtomicU64,
    /// The daemon died during the request.
    cut_off: AtomicU64,
    /// No daemon was running.
    not_there: AtomicU64,
}

/// Requests rings until `end` is set. Counts the outcomes that the daemon's death may cause; any
/// other is an error.
fn ask(base: &Base, memfd: bool, end: &AtomicBool, asked: &Asked) -> Result<(), String> {
    let schema = schema().map_err(|error| error.to_string())?;
    let options = RingOptions::with_capacity(64_u64).exist(Exist::Replace).memfd(memfd);
    let mut number = 0_u64;
    while !end.load(Relaxed) {
        number += 1;
        // Connects anew each time, as a program would that just started.
        let client = Client::of(base).timeout(WATCHDOG);
        let outcome = match number % 4 {
            0 => client.attach("storm").map(drop),
            1 => client.stats("storm").map(drop),
            2 => client.list().map(drop),
            _ => client.create("asked", &schema, &options).map(drop),
        };
        match outcome {
            Ok(()) => asked.answered.fetch_add(1, Relaxed),
            Err(ClientError::NotRunning { .. }) => asked.not_there.fetch_add(1, Relaxed),
            // The ring's only holder was killed, and the next daemon removed it first.
            Err(
                ClientError::Ring(RingError::Segment(
                    SegmentError::Unlinked { .. } | SegmentError::MemoryGone { .. },
                ))
                | ClientError::Gone { .. }
                | ClientError::Io { .. },
            ) => asked.cut_off.fetch_add(1, Relaxed),
            Err(error) => return Err(format!("{error} ({error:?})")),
        };
    }
    Ok(())
}

#[test]
fn a_daemon_that_is_killed_repeatedly_delays_no_program() -> Result<(), Box<dyn Error>> {
    storm(false)
}

/// Runs the storm on a ring in memfds, which its holders and the daemons hand on.
#[test]
#[cfg(target_os = "linux")]
fn nor_is_it_by_a_ring_in_memfds() -> Result<(), Box<dyn Error>> {
    storm(true)
}

fn storm(memfd: bool) -> Result<(), Box<dyn Error>> {
    let kills = backcast_budget::budget_or("BACKCAST_STORM_KILLS", 80);
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let disk = TempDir::new()?;
    let store_dir = disk.path().join("store");
    let store = Store::at(&store_dir);
    let store_place = store_dir.to_str().ok_or("a path that is no text")?;
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(WRITERS))
        .lanes(WRITERS)
        .memfd(memfd)
        .base(base.clone());
    let mut daemon = Victim::daemon(place, store_place).0;
    let ring = if memfd {
        Client::connect(&base)?.timeout(WATCHDOG).create("storm", &schema()?, &options)?.0
    } else {
        Ring::create("storm", &schema()?, options)?
    };
    let mut writers: Vec<Victim> = (0..WRITERS)
        .map(|life| {
            let life = (life + 1).to_string();
            Victim::start(env!("CARGO_BIN_EXE_storm_writer"), &[place, "storm", &life, "1"])
        })
        .collect();
    let mut learners: Vec<Victim> = (0..LEARNERS)
        .map(|seed| {
            let seed = seed.to_string();
            Victim::start(env!("CARGO_BIN_EXE_soak_learner"), &[place, "storm", &seed])
        })
        .collect();
    let mut dice = StdRng::seed_from_u64(23);
    let mut ready_again = Vec::new();
    let (end, asked) = (AtomicBool::new(false), Asked::default());
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        // Ends the client even if this panics.
        let ending = End(&end);
        let client = scope.spawn(|| ask(&base, memfd, &end, &asked));
        for kill in 0..kills {
            let (began, rows, saved) = (Instant::now(), heads(&ring), last_step(&store));
            // Most daemons die before they have saved anything, some just after.
            let lives_on = kill % 4 == 3;
            let delay = Duration::from_micros(dice.random_range(0..8_000));
            // Waits until rows were written, which shows that writers do not wait for the daemon.
            while began.elapsed() < delay
                || heads(&ring) == rows
                || (lives_on && last_step(&store) == saved)
            {
                for writer in &mut writers {
                    writer.assert_alive("a writer");
                }
                for learner in &mut learners {
                    learner.assert_alive("a learner");
                }
                assert!(began.elapsed() < WATCHDOG, "nothing is written any more");
                thread::yield_now();
            }
            daemon.kill();
            let (next, took) = Victim::daemon(place, store_place);
            daemon = next;
            ready_again.push(took);
        }
        drop(ending);
        client.join().expect("it ends")?;
        Ok(())
    })?;

    // Checks every row: no lane was taken over, no row was dropped, readable rows are whole and
    // without a gap, and the last daemon's counts are those of the lanes.
    writers.iter_mut().for_each(Victim::kill);
    learners.iter_mut().for_each(Victim::kill);
    let stats = ring.stats();
    let mut audited = 0;
    for lane in &stats.lane_stats {
        assert_eq!((lane.generation, lane.dropped, lane.stalls), (1, 0, 0), "{lane:?}");
        let span = ring.lane_span(lane.lane).ok_or("a lane is missing")?;
        audited += audit(&ring.rows(lane.lane, span)?)?.len();
    }
    let client = Client::connect(&base)?.timeout(WATCHDOG);
    let seen = client.stats("storm")?;
    assert_eq!(seen["rows_published"], stats.rows_published);
    assert_eq!(stats.rows_published, heads(&ring));
    let (persisted, lapped) = on_disk(&client, stats.rows_published)?;
    let restored = restore(&base, &store, &ring)?;

    // No other object exists, and none is left afterwards.
    client.gc()?;
    let left: Vec<String> = list_objects(&base)?.into_iter().map(|info| info.name).collect();
    assert_eq!(left, ["storm"]);
    daemon.kill();
    drop(ring);
    collect_garbage(&base)?;
    assert!(!base.path().exists(), "something is left in {}", base.path().display());

    let rows = stats.rows_published;
    println!(
        "{kills} daemons killed; ready again in {}; {rows} rows written, {audited} read again, \
         {persisted} brought to disk, {lapped} lapped, {restored} loaded; client: {asked:?}",
        percentiles(&mut ready_again),
    );
    assert!(asked.answered.load(Relaxed) > 0, "no request was answered: the storm proves nothing");
    // A shortened storm may miss all requests.
    let cut_off = asked.cut_off.load(Relaxed);
    assert!(kills < 50 || cut_off > 0, "no request was cut off: the storm proves nothing");
    Ok(())
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    format!("{:?} (median), {:?} (99%), {:?} at most", at(50), at(99), at(100))
}

/// Returns the time at which rows were last saved.
fn last_step(store: &Store) -> Option<u64> {
    store.snapshot("storm@live").ok().map(|snapshot| snapshot.saved_unix_ns)
}

/// Waits until the last daemon has saved everything. Returns the saved rows and those that were
/// lapped before; together with the rows from before the first daemon they are all published rows.
fn on_disk(client: &Client, published: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let began = Instant::now();
    loop {
        let seen = client.stats("storm")?;
        let count = |key: &str| seen["persist"][key].as_u64();
        let (Some(persisted), Some(lapped)) = (count("persisted_rows"), count("lapped_rows"))
        else {
            return Err(format!("it is not followed: {seen}").into());
        };
        if count("behind_rows") == Some(0) && persisted > 0 {
            let all = count("before_rows").unwrap_or_default() + persisted + lapped;
            assert_eq!(all, published, "{}", seen["persist"]);
            return Ok((persisted, lapped));
        }
        assert!(began.elapsed() < WATCHDOG, "rows stay behind: {}", seen["persist"]);
        thread::yield_now();
    }
}

/// Verifies every byte of the store, loads the ring from it and compares the rows.
fn restore(base: &Base, store: &Store, ring: &Ring) -> Result<u64, Box<dyn Error>> {
    let verified = store.verify("storm", |_| ControlFlow::Continue(()))?;
    assert!(verified.is_whole(), "{:?}", verified.damages);
    let options = LoadOptions::default().name("restored").base(base.clone());
    let again = store.load("storm@live", options)?;
    let mut rows = 0;
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).ok_or("a lane is missing")?;
        let there = again.lane_span(lane).ok_or("a lane is missing")?;
        assert!(there.end == span.end && there.start >= span.start, "{there:?} of {span:?}");
        let (a, b) = (ring.rows(lane, there.clone())?, again.rows(lane, there)?);
        for column in a.columns() {
            assert_eq!(a.bytes(column.name()), b.bytes(column.name()), "{}", column.name());
        }
        rows += audit(&b)?.len() as u64;
    }
    Ok(rows)
}

fn heads(ring: &Ring) -> u64 {
    (0..ring.lanes()).filter_map(|lane| ring.lane_span(lane)).map(|span| span.end).sum()
}

/// Ends the client when dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
