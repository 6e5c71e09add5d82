//! Writers lap small lanes while learners draw windows. Every window that a sampler accepts, and
//! every leased row, is exactly what its index names.
//!
//! Every batch is checked in full. Two controls make the test meaningful: the samplers must have
//! rejected windows, and readers without validation, beside the same writers, must see wrong rows.
//! `BACKCAST_HUNT_WINDOWS=100000000 cargo test --release -p backcast-tests --test torn_hunt --
//! --nocapture` is the long version.

use std::error::Error;
use std::num::NonZero;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::BoundedChild;
use backcast_core::{
    AutoresetMode, Base, LanePolicy, LeaseError, Ring, RingOptions, WriterOptions,
};
use backcast_core::{SampleError, Sampler};
use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Lane, RingStore};
use backcast_tests::certified::{check, is_row, leased_row, options, schema, write};
use backcast_tests::victim::Stop;
use tempfile::TempDir;

const LANES: u32 = 4;
const WRITERS: u32 = 2;
const BATCH: usize = 64;
/// Time without a new row after which the writers count as dead.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Column numbers in the file. The first column holds the row headers: three words, `seq` first.
const MARKS: usize = 0;
const OBS: usize = 1;
const WORDS: usize = 2;
const REWARD: usize = 3;

/// Returns the number of windows to be accepted in each of the two hunts.
fn goal() -> u64 {
    backcast_budget::budget_or("BACKCAST_HUNT_WINDOWS", 300_000).div_ceil(2)
}

/// Counts of a hunt.
#[derive(Debug, Default)]
struct Counts {
    windows: AtomicU64,
    rows: AtomicU64,
    /// Windows rejected because a writer overwrote them.
    lapped: AtomicU64,
    outrun: AtomicU64,
    leases: AtomicU64,
    leased_rows: AtomicU64,
}

impl Counts {
    /// Returns whether enough windows were accepted, some were rejected, and with `leases` some
    /// rows were leased.
    fn is_enough(&self, goal: u64, leases: bool) -> bool {
        self.windows.load(Relaxed) >= goal
            && self.lapped.load(Relaxed) > 0
            && (!leases || self.leases.load(Relaxed) > 0)
    }
}

/// Draws and checks batches until all learners together have accepted enough windows.
fn learn(ring: &Ring, seed: u64, goal: u64, leases: bool, counts: &Counts, stop: &AtomicBool) {
    let _stop = Stop(stop);
    let mut sampler = ring.sampler(options(seed)).expect("the lanes are longer than the windows");
    let mut batch = sampler.blank(BATCH).expect("memory");
    let (mut lapped, mut before, mut since) = (0, 0, Instant::now());
    for round in seed.. {
        if stop.load(Relaxed) || counts.is_enough(goal, leases) {
            return;
        }
        draw(&mut sampler, &mut batch, counts);
        counts.lapped.fetch_add(sampler.lapped() - lapped, Relaxed);
        lapped = sampler.lapped();
        if round % 64 != 0 {
            continue;
        }
        if leases {
            lease(ring, round / 64, counts);
        }
        let rows = ring.rows_published();
        if rows > before {
            (before, since) = (rows, Instant::now());
        }
        assert!(since.elapsed() < WATCHDOG, "no rows come any more");
    }
}

fn draw(sampler: &mut Sampler, batch: &mut backcast_core::Batch, counts: &Counts) {
    match sampler.sample_over(batch) {
        Ok(()) => {
            let rows = check(batch).unwrap_or_else(|why| panic!("{why}"));
            counts.windows.fetch_add(BATCH as u64, Relaxed);
            counts.rows.fetch_add(rows, Relaxed);
        }
        Err(SampleError::Empty { .. }) => thread::yield_now(),
        Err(SampleError::Outrun { .. }) => drop(counts.outrun.fetch_add(1, Relaxed)),
        Err(error) => panic!("{error}"),
    }
}

/// Leases a few of a lane's oldest rows, which the writer needs next, and reads them twice.
fn lease(ring: &Ring, round: u64, counts: &Counts) {
    let lane = u32::try_from(round % u64::from(LANES)).expect("a lane");
    let span = ring.lane_span(lane).expect("a lane");
    let start = span.start + round / 7 % 20;
    let lease = match ring.lease(lane, start..(start + 16).min(span.end)) {
        Ok(lease) => lease,
        // Overwritten, not published yet, or a writer was faster.
        Err(
            LeaseError::NotReadable { .. } | LeaseError::BadLength { .. } | LeaseError::Pins(_),
        ) => {
            return;
        }
        Err(error) => panic!("{error}"),
    };
    for _ in 0..2 {
        for row in 0..lease.len() {
            let seq = start + row as u64;
            assert!(is_row(lane, seq, leased_row(&lease, row)), "lane {lane}, row {seq}: changed");
        }
    }
    counts.leases.fetch_add(1, Relaxed);
    counts.leased_rows.fetch_add(lease.len() as u64, Relaxed);
}

/// Runs learners on a ring, each with a handle from `handle`.
fn hunt(handle: impl Fn() -> Ring + Sync, leases: bool, stop: &AtomicBool) -> Counts {
    let (counts, goal) = (Counts::default(), goal());
    let learners = thread::available_parallelism().map_or(1, NonZero::get).div_ceil(2) as u64;
    thread::scope(|scope| {
        for seed in 1..=learners {
            let (handle, counts) = (&handle, &counts);
            scope.spawn(move || learn(&handle(), seed, goal, leases, counts, stop));
        }
    });
    counts
}

/// On the heap a lane has 16 slots more than its capacity, so the writer is never far from any row.
#[test]
fn windows_drawn_beside_a_writer_thread_are_never_torn() -> Result<(), Box<dyn Error>> {
    let options = RingOptions::with_capacity(12 * u64::from(LANES)).lanes(LANES);
    let ring = Ring::heap(&schema()?, options.lane_policy(LanePolicy::Overwrite))?;
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = ring
                .writer(WriterOptions::lanes(LANES).autoreset(AutoresetMode::NextStep))
                .expect("free lanes");
            write(&ring, &mut writer, || !stop.load(Relaxed)).expect("rows that fit")
        });
        let counts = {
            let _stop = Stop(&stop);
            hunt(|| ring.clone(), false, &stop)
        };
        writer.join().expect("the writer does not panic");
        counts
    });
    println!("hunt beside a thread: {} laps, {counts:?}", laps(&ring));
    Ok(())
}

/// Runs learners with separate mappings beside writer processes.
#[test]
fn windows_and_leases_beside_writer_processes_are_never_torn() -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    // The fewest slots that mapped columns allow, less the reserve chunk. A writer waits for every
    // lease: a dropped row would make a GAP, which certified rows do not model.
    let options = RingOptions::with_capacity((1024 - 16) * u64::from(LANES)).lanes(LANES);
    let options = options.lane_policy(LanePolicy::Block(Duration::from_secs(600)));
    let ring = Ring::create("hunt", &schema()?, options.base(base.clone()))?;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| Writer::start(&dir)).collect();
    let attach = || Ring::attach_in(&base, "hunt").expect("the ring is there");
    let counts = hunt(attach, true, &AtomicBool::new(false));
    println!("hunt beside processes: {} laps, {counts:?}", laps(&ring));
    control(&RingStore::attach(&base, "hunt")?, &mut writers)
}

/// Returns the number of laps of the writers.
fn laps(ring: &Ring) -> u64 {
    ring.rows_published() / (ring.slots() * u64::from(ring.lanes()))
}

/// A process that does not outlive the test.
struct Writer(Child);

impl Writer {
    fn start(dir: &TempDir) -> Self {
        let lanes = (LANES / WRITERS).to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_hunt_writer"))
            .arg(dir.path())
            .args(["hunt", &lanes])
            .spawn();
        Self(child.expect("the writer's binary starts"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Counts of readers that copy rows without validation.
#[derive(Debug, Default)]
struct Control {
    looks: u64,
    /// Wrong rows among all copies.
    wrong: u64,
    /// Wrong rows whose sequence number, copied first, was right.
    torn: u64,
    accepted: u64,
    accepted_wrong: u64,
}

/// The negative control: some rows copied without validation are wrong, some of them torn with a
/// right sequence number, and every copy that validation accepts is right.
fn control(store: &RingStore, writers: &mut [Writer]) -> Result<(), Box<dyn Error>> {
    let mut counts = Control::default();
    let start = Instant::now();
    while counts.torn < 100 || counts.accepted < 100_000 {
        if counts.looks % 4096 == 0 {
            for writer in writers.iter_mut() {
                assert!(writer.0.try_wait()?.is_none(), "a writer ended by itself");
            }
            assert!(start.elapsed() < WATCHDOG, "the detector sees nothing: {counts:?}");
        }
        let lane = u32::try_from(counts.looks % u64::from(LANES))?;
        look(&*store.lane(lane).ok_or("a lane is missing")?, lane, &mut counts);
        counts.looks += 1;
    }
    println!("control: {counts:?}");
    assert_eq!(counts.accepted_wrong, 0, "{counts:?}");
    Ok(())
}

/// Copies the rows that a writer overwrites now or next, and some newer ones.
fn look(memory: &Lane, lane: u32, counts: &mut Control) {
    const ROWS: usize = 24;
    let Some(first) = memory.load_head(Relaxed).checked_sub(memory.slots()) else { return };
    let slot = first % memory.slots();
    let (mut marks, mut obs) = ([[0_u64; 3]; ROWS], [0_u64; ROWS]);
    let (mut words, mut rewards) = ([[0_u64; 2]; ROWS], [0_f32; ROWS]);
    memory.copy_out(MARKS, slot, ROWS as u64, bytemuck::cast_slice_mut(&mut marks));
    memory.copy_out(OBS, slot, ROWS as u64, bytemuck::cast_slice_mut(&mut obs));
    memory.copy_out(WORDS, slot, ROWS as u64, bytemuck::cast_slice_mut(&mut words));
    memory.copy_out(REWARD, slot, ROWS as u64, bytemuck::cast_slice_mut(&mut rewards));
    for (k, seq) in (0..ROWS).zip(first..) {
        let wrong = !is_row(lane, seq, (obs[k], words[k], rewards[k]));
        counts.wrong += u64::from(wrong);
        counts.torn += u64::from(wrong && marks[k][0] == seq);
        if still_whole(memory, seq) {
            counts.accepted += 1;
            counts.accepted_wrong += u64::from(wrong);
        }
    }
}
