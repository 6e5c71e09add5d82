//! Readers that hold leases take older, newer and equal ones beside a writer at full speed, and are
//! stopped and continued at random moments. No row changes while it is leased or retained.
//!
//! A stop between the check of the rows and their pin lets the writer reserve them meanwhile. The
//! readers are `storm_orders` processes, which count these cases. `make storm` runs the long form.

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::BoundedChild;
use backcast_core::{Base, LanePolicy, Ring, RingOptions};
use backcast_layout::RingStore;
use backcast_layout::protocol::{Pins, Words};
use backcast_tests::certified::schema;
use backcast_tests::orders::Orders;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

const LANES: u32 = 2;
/// The fewest slots that mapped columns allow, less the reserve chunk.
const LANE_CAPACITY: u64 = 1024 - 16;
const READERS: u64 = 3;
/// Time after which the short form ends, once every case has occurred.
const SHORT: Duration = Duration::from_secs(8);
/// Time for which a reader stays stopped after the writer has passed its pin.
const MOMENT: Duration = Duration::from_millis(20);
/// Time after which the storm fails if some case has not occurred.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A child process that does not outlive the test.
struct Process(Child);

impl Process {
    fn start(binary: &str, dir: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(binary);
        let child = command.arg(dir).args(args).stdout(Stdio::piped()).spawn();
        Self(child.expect("the binary starts"))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn assert_alive(&mut self) {
        if let Some(status) = self.0.try_wait().expect("a child can be looked at") {
            panic!("a process ended by itself, {status}");
        }
    }

    /// Sends SIGSTOP and returns once the kernel has stopped the process.
    fn stop(&mut self) {
        kill_process(self.pid(), Signal::STOP).expect("SIGSTOP can be sent");
        let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), states).expect("a child can be waited for");
        self.assert_alive();
    }

    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).expect("SIGCONT can be sent");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// A reader and its counts.
struct Reader {
    process: Process,
    orders: Arc<Mutex<Orders>>,
}

impl Reader {
    fn start(dir: &Path, seed: u64) -> Self {
        let args = ["orders", &seed.to_string()];
        let mut process = Process::start(env!("CARGO_BIN_EXE_storm_orders"), dir, &args);
        let lines = BufReader::new(process.0.stdout.take().expect("a pipe")).lines();
        let orders = Arc::new(Mutex::new(Orders::default()));
        let counted = Arc::clone(&orders);
        // The thread ends with the pipe, and the pipe with the process.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let now = Orders::parse(&line).expect("a line of numbers");
                *counted.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        });
        Self { process, orders }
    }

    fn orders(&self) -> Orders {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts of the storm.
#[derive(Debug, Default)]
struct Counts {
    stops: u64,
    /// Stops of a reader that held rows.
    stopped_holding: u64,
    /// Stops between the pin and its second check, after the writer has passed: the pinned row is
    /// overwritten.
    stopped_before_refusal: u64,
    rows_written: u64,
    /// Appends that waited for a lease.
    stalls: u64,
    dropped: u64,
}

/// Counts the pins of a stopped reader. Returns `true` if some pin is not granted yet and the
/// writer has passed it, so that the reader's other leases depend on the writer's treatment of it.
fn look_at_pins(store: &RingStore, pid: Pid, counts: &mut Counts) -> bool {
    let pid = u64::from(pid.as_raw_nonzero().get().unsigned_abs());
    let theirs = |slot: &u32| store.reader(*slot).is_some_and(|record| record.pid == pid);
    let (mut holds, mut is_late) = (false, false);
    for slot in (0..store.spec().reader_slots).filter(theirs) {
        for (lane, memory) in (0..LANES).zip(store.lanes().iter()) {
            let Some(start) = store.pins(lane).load(slot, Relaxed).checked_sub(1) else { continue };
            holds = true;
            // A writer never overwrites a row whose pin is granted.
            is_late |= memory.load_head(Relaxed) > start + memory.slots();
        }
    }
    counts.stopped_holding += u64::from(holds);
    counts.stopped_before_refusal += u64::from(is_late);
    is_late
}

#[test]
fn leases_in_any_order_of_readers_that_are_stopped_anywhere_never_change()
-> Result<(), Box<dyn Error>> {
    let stops = backcast_budget::budget_or("BACKCAST_STORM_STOPS", 20_000);
    let limit = if env::var_os("BACKCAST_STORM_STOPS").is_some() { Duration::MAX } else { SHORT };
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    // The writer waits for every lease: a dropped row would make a GAP, which certified rows do not
    // model.
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(LANES))
        .lanes(LANES)
        .lane_policy(LanePolicy::Block(Duration::from_secs(600)));
    let ring = Ring::create("orders", &schema()?, options.base(base.clone()))?;
    let store = RingStore::attach(&base, "orders")?;
    let args = ["orders", &LANES.to_string()];
    let mut writer = Process::start(env!("CARGO_BIN_EXE_hunt_writer"), dir.path(), &args);
    let mut readers: Vec<Reader> =
        (1..=READERS).map(|seed| Reader::start(dir.path(), seed)).collect();
    let (mut dice, mut counts) = (StdRng::seed_from_u64(23), Counts::default());
    let all =
        |readers: &[Reader]| readers.iter().fold(Orders::default(), |sum, r| sum.plus(r.orders()));
    let (start, mut rows, mut since) = (Instant::now(), 0, Instant::now());
    let mut met = Orders::default();
    while !met.all_hit() || (counts.stops < stops && start.elapsed() < limit) {
        let which = dice.random_range(0..readers.len());
        let reader = &mut readers[which].process;
        reader.stop();
        counts.stops += 1;
        let (is_late, stopped) = (look_at_pins(&store, reader.pid(), &mut counts), Instant::now());
        // A waiting writer checks again within some milliseconds.
        while is_late && stopped.elapsed() < MOMENT {
            thread::yield_now();
        }
        for _ in 0..dice.random_range(0..24) {
            thread::yield_now();
        }
        reader.go_on();
        for _ in 0..dice.random_range(0..8) {
            thread::yield_now();
        }
        met = all(&readers);
        if counts.stops % 64 == 0 {
            writer.assert_alive();
            if ring.rows_published() > rows {
                (rows, since) = (ring.rows_published(), Instant::now());
            }
            assert!(since.elapsed() < WATCHDOG, "no rows come any more: {met:?}, {counts:?}");
        }
        let tried = start.elapsed() < WATCHDOG || met.all_hit();
        assert!(tried, "not everything was met: {met:?}, {counts:?}");
    }
    let orders = all(&readers);
    for reader in &mut readers {
        reader.process.assert_alive();
    }
    let stats = ring.stats();
    counts.rows_written = ring.rows_published();
    counts.stalls = stats.lane_stats.iter().map(|lane| lane.stalls).sum();
    counts.dropped = stats.lane_stats.iter().map(|lane| lane.dropped).sum();
    println!("storm of orders: {orders:?}, {counts:?}");
    // A storm that never hits the critical moments proves nothing.
    assert!(counts.stopped_holding > 0 && counts.stalls > 0, "{counts:?}");
    assert_eq!(counts.dropped, 0, "a lease was waited for in full: {counts:?}");
    Ok(())
}
