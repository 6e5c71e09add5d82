//! A ring is resized repeatedly while it is written and sampled, and writers and resizers are
//! killed at random moments. No published row is lost or torn, and every interrupted resize is
//! continued by the next.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backcast_core::{Base, Ring, RingOptions, SampleError, SamplerOptions};
use backcast_layout::RingStore;
use backcast_tests::storm::{PIXELS, Seen, audit, is_whole, schema};
use backcast_tests::victim::{Stop, Victim, WATCHDOG};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const LANES: u32 = 3;
/// Resizes of one ring, which grows with each.
const RESIZES: u64 = 12;
/// The fewest slots that mapped columns allow, less the reserve chunk: laps are frequent.
const LANE_CAPACITY: u64 = 1024 - 16;
/// Rows that a writer reserves at a time.
const ANNOUNCED: u64 = 16;

/// Moment of a kill, and its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Never,
    /// A random time after the resize began.
    AnyTime {
        writer: bool,
        resizer: bool,
    },
    /// When the writers are notified.
    Told {
        writer: bool,
        resizer: bool,
    },
    /// The writer before the resize begins, and the resizer while it relocates the lanes itself.
    NobodyWrites,
}

const MOMENTS: [Moment; 8] = [
    Moment::Never,
    Moment::AnyTime { writer: true, resizer: false },
    Moment::AnyTime { writer: false, resizer: true },
    Moment::AnyTime { writer: true, resizer: true },
    Moment::Told { writer: true, resizer: false },
    Moment::Told { writer: false, resizer: true },
    Moment::Told { writer: true, resizer: true },
    Moment::NobodyWrites,
];

impl Moment {
    fn kills_writer(self) -> bool {
        matches!(self, Self::AnyTime { writer: true, .. } | Self::Told { writer: true, .. })
    }

    fn kills_resizer(self) -> bool {
        use Moment::{AnyTime, NobodyWrites, Told};
        matches!(self, AnyTime { resizer: true, .. } | Told { resizer: true, .. } | NobodyWrites)
    }
}

fn start_writer(dir: &TempDir, life: u64) -> Victim {
    let args = ["grows".to_owned(), life.to_string(), LANES.to_string()];
    Victim::start(env!("CARGO_BIN_EXE_storm_writer"), dir.path(), &args)
}

fn start_resizer(dir: &TempDir, capacity: u64) -> Victim {
    let args = ["grows".to_owned(), capacity.to_string()];
    Victim::start(env!("CARGO_BIN_EXE_storm_resizer"), dir.path(), &args)
}

/// Kills a process. Returns `false` if it had ended by itself.
fn killed(victim: &mut Victim) -> bool {
    victim.kill().code().is_none()
}

/// Counts of the storm.
#[derive(Debug, Default)]
struct Counts {
    resizes: u64,
    writers_killed: u64,
    /// Resizers killed before they notified writers, so that their files are garbage.
    resizers_killed_early: u64,
    /// Resizers killed with lanes still to be relocated.
    resizers_killed_late: u64,
    /// Writers killed while some lanes were relocated and others not.
    killed_between: u64,
    rows_audited: u64,
    windows: u64,
    torn: u64,
}

/// Returns the capacity of each lane, and the one in `ring.ctl`.
fn moves(ring: &Ring) -> (Vec<u64>, u64) {
    let of_lanes = (0..LANES).map(|lane| ring.lane_capacity_of(lane).unwrap()).collect();
    let again = Ring::attach_in(&base(ring), "grows").expect("it is there");
    let stats = again.stats();
    (of_lanes, stats.bytes_asked / stats.row_bytes / u64::from(LANES))
}

fn base(ring: &Ring) -> Base {
    Base::at(ring.path().and_then(|path| path.parent()).and_then(|path| path.parent()).unwrap())
}

/// Rings that are resized while processes are killed.
const RINGS: u64 = 12;

#[test]
fn a_ring_that_is_resized_under_fire_loses_no_row() -> Result<(), Box<dyn Error>> {
    let rings = backcast_budget::budget_or("BACKCAST_STORM_RINGS", RINGS);
    let mut counts = Counts::default();
    let mut dice = StdRng::seed_from_u64(3);
    for _ in 0..rings {
        one_ring(&mut dice, &mut counts)?;
    }
    println!("resize storm: {counts:?}");
    assert_eq!(counts.torn, 0, "torn rows were returned");
    assert!(counts.writers_killed > 0 && counts.windows > 0 && counts.rows_audited > 0);
    // A shortened storm may miss some of the critical moments.
    if rings >= RINGS {
        assert!(counts.resizers_killed_early > 0, "no resizer died before it told: {counts:?}");
        assert!(counts.resizers_killed_late > 0, "no resizer died after it told: {counts:?}");
        assert!(counts.killed_between > 0, "no writer died between lanes: {counts:?}");
    }
    Ok(())
}

fn one_ring(dice: &mut StdRng, counts: &mut Counts) -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(LANES)).lanes(LANES);
    let ring = Ring::create("grows", &schema()?, options.base(Base::at(dir.path())))?;
    let stop = AtomicBool::new(false);
    let (windows, torn) = thread::scope(|scope| {
        let reader = scope.spawn(|| sample_until(&ring, &stop));
        {
            let _stop = Stop(&stop);
            storm(&dir, &ring, dice, counts);
        }
        reader.join().expect("the reader does not panic")
    });
    (counts.windows, counts.torn) = (counts.windows + windows, counts.torn + torn);
    Ok(())
}

fn storm(dir: &TempDir, ring: &Ring, dice: &mut StdRng, counts: &mut Counts) {
    let mut audited: Vec<Vec<Seen>> = vec![Vec::new(); LANES as usize];
    let (mut life, mut asked) = (1, LANE_CAPACITY);
    let mut writer = start_writer(dir, life);
    let store = RingStore::attach(&base(ring), "grows").expect("it is there");
    for _ in 0..RESIZES {
        asked += dice.random_range(1..400);
        let start = Instant::now();
        // Repeats the resize until it is complete.
        loop {
            assert!(start.elapsed() < WATCHDOG, "a resize is never done");
            let told_before = store.resizes();
            let when = *MOMENTS.choose(dice).expect("there are some");
            if when == Moment::NobodyWrites {
                kill_writer(ring, &mut writer, &mut audited, counts);
            }
            let mut resizer = start_resizer(dir, asked * u64::from(LANES));
            let delay = Duration::from_micros(dice.random_range(200..6_000));
            let begun = Instant::now();
            let reached = || match when {
                Moment::Never => false,
                Moment::AnyTime { .. } => begun.elapsed() >= delay,
                Moment::Told { .. } | Moment::NobodyWrites => store.resizes() > told_before,
            };
            while resizer.ended().is_none() && !reached() {
                assert!(begun.elapsed() < WATCHDOG, "a resize never ends");
                thread::yield_now();
            }
            // Kills one process, then perhaps the other, while only some lanes are relocated.
            if when.kills_writer() {
                kill_writer(ring, &mut writer, &mut audited, counts);
            }
            if when.kills_resizer() {
                let killed = killed(&mut resizer);
                let (lanes, told) = moves(ring);
                let late = killed && told == asked && lanes.iter().any(|is| *is < asked);
                counts.resizers_killed_late += u64::from(late);
                counts.resizers_killed_early += u64::from(killed && told < asked);
            }
            if when.kills_writer() || when == Moment::NobodyWrites {
                life += 1;
                writer = start_writer(dir, life);
            }
            let status = resizer.wait_bounded();
            if status.success() {
                break;
            }
            assert!(status.code().is_none(), "it failed: {status}");
            if moves(ring).0.iter().all(|is| *is == asked) {
                break;
            }
        }
        counts.resizes += 1;
        let (lanes, told) = moves(ring);
        assert!(told == asked && lanes.iter().all(|is| *is == asked), "{lanes:?} {told} {asked}");
    }
    kill_writer(ring, &mut writer, &mut audited, counts);
}

/// Kills the writer and checks the rows that it left.
fn kill_writer(ring: &Ring, writer: &mut Victim, audited: &mut [Vec<Seen>], counts: &mut Counts) {
    assert!(killed(writer), "the writer ended by itself");
    let (lanes, _) = moves(ring);
    counts.writers_killed += 1;
    counts.killed_between += u64::from(lanes.windows(2).any(|two| two[0] != two[1]));
    check(ring, audited, counts);
}

/// Checks every readable row, that rows seen before have not changed, and that lanes are as full as
/// they must be. No process may write meanwhile.
fn check(ring: &Ring, audited: &mut [Vec<Seen>], counts: &mut Counts) {
    for (lane, seen) in (0..).zip(audited) {
        let span = ring.lane_span(lane).expect("the ring has the lane");
        let rows = ring.rows(lane, span.clone()).expect("nobody writes now");
        let now = audit(&rows).unwrap_or_else(|why| panic!("{why}"));
        counts.rows_audited += now.len() as u64;
        if let (Some(old), Some(oldest)) = (seen.last(), seen.first()) {
            assert!(now.last().is_some_and(|last| last.seq >= old.seq), "published rows are gone");
            // A relocated lane has as many rows as the lane before it kept, and grows from there.
            // Rows that are reserved and not written cost old rows.
            let kept = span.end.saturating_sub(seen.len() as u64);
            let may_be_gone = oldest.seq.max(kept) + 2 * ANNOUNCED;
            assert!(span.start <= may_be_gone, "rows from {} on, not {may_be_gone}", span.start);
            let common = seen.iter().filter(|row| row.seq >= span.start);
            let again = now.iter().filter(|row| row.seq >= oldest.seq);
            assert!(common.zip(again).all(|(old, now)| old == now), "a published row changed");
        }
        *seen = now;
    }
}

/// Samples windows and checks every row in them. Returns the numbers of windows and of torn rows.
fn sample_until(ring: &Ring, stop: &AtomicBool) -> (u64, u64) {
    let options = SamplerOptions::seeded(11).history(2);
    let mut sampler = ring.sampler(options).expect("the lanes are longer than the windows");
    let (mut windows, mut torn) = (0, 0);
    while !stop.load(Relaxed) {
        let batch = match sampler.sample(32) {
            Ok(batch) => batch,
            Err(SampleError::Empty { .. }) => {
                thread::yield_now();
                continue;
            }
            Err(SampleError::Outrun { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let lives = batch.column::<u64>("obs/life").expect("life");
        let pixels = batch.column::<u64>("obs/pixels").expect("pixels");
        let checks = batch.column::<u64>("obs/check").expect("check");
        for (b, index) in batch.index().iter().copied().enumerate() {
            let place = (index.lane(), index.seq());
            let row = (0..PIXELS).map(|k| pixels[[b, 1, k]]);
            torn += u64::from(!is_whole(row, lives[[b, 1]], checks[[b, 1]], place));
        }
        windows += 32;
    }
    (windows, torn)
}
