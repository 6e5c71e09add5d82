//! A writer process is killed at random moments, repeatedly, while a reader samples: no row is
//! torn, no published row is lost, and every successor gets the lanes.
//!
//! Random moments also hit points that the author of the append did not think of. The parent spins
//! on shared memory and the clock, then sends SIGKILL. The counters printed at the end show how
//! often it hit the middle of a row; the test fails if it never did.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backcast_core::{Base, Batch, Ring, RingOptions, SampleError, SamplerOptions};
use backcast_layout::RingStore;
use backcast_layout::protocol::{Words, still_whole};
use backcast_tests::storm::{
    LIFE_COLUMN, PIXELS, PIXELS_COLUMN, Seen, audit, first_pixel, is_whole, schema,
};
use backcast_tests::victim::{Stop, Victim};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const KILLS: u64 = 1_000;
const LANES: u32 = 3;
/// The fewest slots that mapped columns allow, less the reserve chunk: laps are frequent.
const LANE_CAPACITY: u64 = 1024 - 16;

fn start(dir: &TempDir, name: &str, life: u64, lanes: u32) -> Victim {
    let args = [name.to_owned(), life.to_string(), lanes.to_string()];
    Victim::start(env!("CARGO_BIN_EXE_storm_writer"), dir.path(), &args)
}

/// Counts of the storm.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    /// Kills before the writer had published a row.
    kills_before_first_row: u64,
    /// Lanes that a successor took over.
    adoptions: u64,
    /// Lanes whose writer died with rows reserved and not published.
    died_announced: u64,
    /// Lanes whose first unpublished row was partly written.
    died_mid_row: u64,
    /// Lanes whose first unpublished row was completely written.
    died_before_publish: u64,
    rows_audited: u64,
}

/// Counts of the reader beside the storm.
#[derive(Debug, Default)]
struct Sampled {
    windows: u64,
    rows: u64,
    torn: u64,
    lapped: u64,
    outrun: u64,
}

fn tmpfs() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory of our own")
}

fn make_ring(dir: &TempDir, name: &str, lanes: u32) -> Result<(Ring, RingStore), Box<dyn Error>> {
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(lanes)).lanes(lanes);
    let ring = Ring::create(name, &schema()?, options.base(base.clone()))?;
    Ok((ring, RingStore::attach(&base, name)?))
}

fn heads(store: &RingStore) -> u64 {
    store.lanes().iter().map(|lane| lane.load_head(Relaxed)).sum()
}

#[test]
fn a_writer_killed_at_random_leaves_whole_rows_and_free_lanes() -> Result<(), Box<dyn Error>> {
    let kills = backcast_budget::budget_or("BACKCAST_STORM_KILLS", KILLS);
    let dir = tmpfs();
    let (ring, store) = make_ring(&dir, "storm", LANES)?;
    let stop = AtomicBool::new(false);
    let (counts, sampled) = thread::scope(|scope| {
        let reader = scope.spawn(|| sample_until(&ring, &stop));
        let counts = {
            let _stop = Stop(&stop);
            storm(&dir, &ring, &store, kills)
        };
        (counts, reader.join().expect("the reader does not panic"))
    });
    println!("storm: {counts:?}\nreader: {sampled:?}");
    assert_eq!(sampled.torn, 0, "torn rows were returned");
    assert_eq!(counts.kills, kills);
    assert!(counts.adoptions > 0 && counts.rows_audited > 0);
    // A storm that never hits the critical moments proves nothing. A shortened one may miss some.
    if kills >= KILLS {
        assert!(counts.died_announced > 0 && counts.died_mid_row > 0, "{counts:?}");
        assert!(counts.died_before_publish > 0, "{counts:?}");
        assert!(sampled.windows > 0 && sampled.lapped > 0, "{sampled:?}");
    }
    Ok(())
}

fn storm(dir: &TempDir, ring: &Ring, store: &RingStore, kills: u64) -> Counts {
    let mut dice = StdRng::seed_from_u64(1);
    let mut counts = Counts::default();
    let mut audited: Vec<Vec<Seen>> = vec![Vec::new(); LANES as usize];
    for life in 1..=kills {
        let before = ring.stats().lane_stats;
        let rows_before = heads(store);
        let start = Instant::now();
        let mut writer = self::start(dir, "storm", life, LANES);
        let delay = Duration::from_micros(dice.random_range(50..3_000));
        match life % 8 {
            // A time after the start: while it attaches, claims, or appends its first rows.
            0 => writer.spin_until(|| start.elapsed() >= delay),
            // After some rows.
            1..=3 => {
                let rows = dice.random_range(1..2_000);
                writer.spin_until(|| heads(store) >= rows_before + rows);
            }
            // A time after the first row.
            _ => {
                writer.spin_until(|| heads(store) > rows_before);
                let first = Instant::now();
                writer.spin_until(|| first.elapsed() >= delay);
            }
        }
        let observed = heads(store);
        let status = writer.kill();
        assert!(!status.success() && status.code().is_none(), "it was not killed: {status}");
        counts.kills += 1;
        counts.kills_before_first_row += u64::from(heads(store) == rows_before);
        assert!(heads(store) >= observed, "published rows are gone");
        let after = ring.stats().lane_stats;
        for (lane, (before, after)) in (0..).zip(before.iter().zip(&after)) {
            assert!(!after.held, "life {life}: the kernel frees the lanes of the dead");
            assert!(after.head >= before.head && after.reserved >= before.reserved);
            assert!(after.reserved >= after.head && after.reserved <= after.head + 16);
            let claims = after.generation - before.generation;
            let adopted = life % 8 == 0 || claims == 1;
            assert!(adopted && claims <= 1, "life {life} claimed lane {lane} {claims} times");
            counts.adoptions += claims * u64::from(before.generation > 0);
            look_past_head(store, lane, life, &mut counts);
            let Some(seen) = audited.get_mut(lane as usize) else { continue };
            counts.rows_audited += audit_lane(ring, lane, seen);
        }
    }
    counts
}

/// Counts what the dead writer left in the slots that it had reserved and not published.
fn look_past_head(store: &RingStore, lane: u32, life: u64, counts: &mut Counts) {
    let Some(memory) = store.lane(lane) else { return };
    let (head, reserved) = (memory.load_head(Relaxed), memory.load_reserved(Relaxed));
    if head == reserved {
        return;
    }
    counts.died_announced += 1;
    let mut pixels = vec![0_u64; PIXELS];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut pixels);
    memory.copy_out(PIXELS_COLUMN, head % memory.slots(), 1, bytes);
    let first = first_pixel(lane, head, life);
    let new = pixels.iter().zip(0..).filter(|(pixel, k)| **pixel == first.wrapping_add(*k)).count();
    counts.died_mid_row += u64::from(0 < new && new < PIXELS);
    counts.died_before_publish += u64::from(new == PIXELS);
}

/// Checks every readable row, and that the rows seen after the last kill have not changed.
fn audit_lane(ring: &Ring, lane: u32, seen: &mut Vec<Seen>) -> u64 {
    let span = ring.lane_span(lane).expect("the ring has the lane");
    let rows = ring.rows(lane, span).expect("nobody writes now");
    let now = audit(&rows).unwrap_or_else(|why| panic!("{why}"));
    if let (Some(first), Some(last)) = (now.first(), now.last()) {
        let old: Vec<&Seen> = seen.iter().filter(|row| row.seq >= first.seq).collect();
        assert!(old.iter().zip(&now).all(|(old, now)| *old == now), "a published row changed");
        assert!(seen.last().is_none_or(|old| old.seq <= last.seq), "published rows are gone");
    }
    let audited = now.len() as u64;
    *seen = now;
    audited
}

/// Samples windows and checks every row in them.
fn sample_until(ring: &Ring, stop: &AtomicBool) -> Sampled {
    const HISTORY: u32 = 4;
    let options = SamplerOptions::seeded(11).history(HISTORY).future(2);
    let mut sampler = ring.sampler(options).expect("the lanes are longer than the windows");
    let mut seen = Sampled::default();
    while !stop.load(Relaxed) {
        match sampler.sample(32) {
            Ok(batch) => check_windows(&batch, i64::from(HISTORY), &mut seen),
            Err(SampleError::Empty { .. }) => thread::yield_now(),
            Err(SampleError::Outrun { .. }) => seen.outrun += 1,
            Err(error) => panic!("{error}"),
        }
    }
    seen.lapped = sampler.lapped();
    seen
}

fn check_windows(batch: &Batch, history: i64, sampled: &mut Sampled) {
    let index = batch.index();
    let mask = batch.column::<bool>("mask").expect("mask");
    let future_mask = batch.column::<bool>("future_mask").expect("future_mask");
    let parts = [("", &mask, 1 - history), ("future/", &future_mask, 1)];
    for (prefix, mask, first) in parts {
        for (next, shift) in [("obs", 0), ("next_obs", 1)] {
            let key = |leaf| format!("{prefix}{next}/{leaf}");
            let lives = batch.column::<u64>(&key("life")).expect("life");
            let pixels = batch.column::<u64>(&key("pixels")).expect("pixels");
            let checks = batch.column::<u64>(&key("check")).expect("check");
            for (b, index) in index.iter().copied().enumerate() {
                let (lane, seq) = (index.lane(), index.seq().cast_signed());
                for (place, offset) in (0..mask.shape()[1]).zip(first + shift..) {
                    if !mask[[b, place]] {
                        continue;
                    }
                    let row = u64::try_from(seq + offset).expect("rows of an episode");
                    let pixels = (0..PIXELS).map(|k| pixels[[b, place, k]]);
                    let (life, check) = (lives[[b, place]], checks[[b, place]]);
                    sampled.torn += u64::from(!is_whole(pixels, life, check, (lane, row)));
                    sampled.rows += 1;
                }
            }
        }
    }
    sampled.windows += index.len() as u64;
}

/// The negative control: copies without validation are torn, so the detector works; validated
/// copies are not.
#[test]
fn a_reader_that_skips_validation_sees_torn_rows_and_one_that_validates_does_not()
-> Result<(), Box<dyn Error>> {
    let dir = tmpfs();
    let (_ring, store) = make_ring(&dir, "control", 1)?;
    let memory = store.lane(0).ok_or("lane 0")?;
    let (mut life, mut pixels) = ([0_u64], vec![0_u64; PIXELS]);
    let (mut torn, mut accepted, mut accepted_torn) = (0, 0, 0);
    let mut writer = start(&dir, "control", 1, 1);
    writer.spin_until(|| {
        let head = memory.load_head(Relaxed);
        let slots = memory.slots();
        // Reads the row to be overwritten next, or every other time a newer one, so that some
        // copies are accepted.
        let Some(oldest) = head.checked_sub(slots) else { return false };
        let seq = oldest + head % 2 * 40;
        let slot = seq % slots;
        memory.copy_out(LIFE_COLUMN, slot, 1, bytemuck::cast_slice_mut(&mut life));
        memory.copy_out(PIXELS_COLUMN, slot, 1, bytemuck::cast_slice_mut(&mut pixels));
        // Pixels are consecutive only within one row.
        let first = pixels[0];
        let whole = pixels.iter().zip(0..).all(|(pixel, k)| *pixel == first.wrapping_add(k));
        let is_row = whole && first == first_pixel(0, seq, life[0]);
        if still_whole(&*memory, seq) {
            accepted += 1;
            accepted_torn += u64::from(!is_row);
        }
        torn += u64::from(!whole);
        torn >= 100 && accepted >= 100
    });
    println!("control: {torn} torn without validation, {accepted} accepted, {accepted_torn} torn");
    assert_eq!(accepted_torn, 0);
    Ok(())
}
