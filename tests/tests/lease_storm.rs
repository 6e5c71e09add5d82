//! Processes that hold leases or wait are killed at random moments, repeatedly, while a writer
//! process laps the lanes. No leased row changes, no death stops the writer or costs a row, and the
//! dead leave nothing behind.

use std::error::Error;
use std::process::{Child, Command};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::BoundedChild;
use backcast_core::{Base, LanePolicy, Ring, RingOptions};
use backcast_layout::RingStore;
use backcast_layout::protocol::{Notifier, Pins, Words};
use backcast_tests::storm::schema;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const LANES: u32 = 2;
const LANE_CAPACITY: u64 = 1024 - 16;
/// Holders alive at the same time.
const HOLDERS: usize = 2;
/// Time after which a step of the storm counts as hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A child process that does not outlive the test.
struct Victim(Child);

impl Victim {
    fn start(binary: &str, args: &[&str]) -> Self {
        Self(Command::new(binary).args(args).spawn().expect("the binary starts"))
    }

    fn assert_alive(&mut self, what: &str) {
        if let Some(status) = self.0.try_wait().expect("a child can be looked at") {
            panic!("{what} ended by itself, {status}");
        }
    }

    fn kill(&mut self) {
        self.0.kill().expect("SIGKILL can be sent");
        let status = self.0.wait_bounded().expect("a killed child can be waited for");
        assert!(status.code().is_none(), "it was not killed: {status}");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Counts of the storm.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    /// Slots whose holder died with a pin in place.
    died_holding: u64,
    /// Kills of a sleeper, whose notifier still claims that it sleeps.
    died_listening: u64,
    rows_written: u64,
    stalls: u64,
}

fn heads(store: &RingStore) -> u64 {
    store.lanes().iter().map(|lane| lane.load_head(Relaxed)).sum()
}

/// Yields until `done`. Panics if a process ends by itself, or after the time limit.
fn spin_until(writer: &mut Victim, holders: &mut [Victim], mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        writer.assert_alive("the writer");
        for holder in holders.iter_mut() {
            holder.assert_alive("a holder");
        }
        assert!(start.elapsed() < WATCHDOG, "the writer makes no progress");
        thread::yield_now();
    }
}

#[test]
fn killed_holders_and_sleepers_change_no_row_and_stop_no_writer() -> Result<(), Box<dyn Error>> {
    let kills = backcast_budget::budget_or("BACKCAST_STORM_KILLS", 300);
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(LANES))
        .lanes(LANES)
        // Longer than the watchdog, so that waiting for a dead holder fails the test.
        .lane_policy(LanePolicy::Block(Duration::from_secs(600)))
        .base(base.clone());
    let ring = Ring::create("leases", &schema()?, options)?;
    let store = RingStore::attach(&base, "leases")?;
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let lanes = LANES.to_string();
    let mut writer =
        Victim::start(env!("CARGO_BIN_EXE_storm_writer"), &[place, "leases", "1", &lanes]);
    let holder = |seed: u64| {
        let seed = seed.to_string();
        Victim::start(env!("CARGO_BIN_EXE_storm_leaser"), &[place, "leases", &seed])
    };
    let mut holders: Vec<Victim> = (0..HOLDERS as u64).map(holder).collect();
    let mut dice = StdRng::seed_from_u64(17);
    let mut counts = Counts::default();
    let pinned = |slot: u32| (0..LANES).any(|lane| store.pins(lane).load(slot, Relaxed) != 0);
    while counts.kills < kills {
        let victim = dice.random_range(0..HOLDERS);
        let start = Instant::now();
        let delay = Duration::from_micros(dice.random_range(500..4_000));
        let look_for_pin = dice.random_ratio(1, 2);
        spin_until(&mut writer, &mut holders, || {
            let pins = (0..store.spec().reader_slots).any(pinned);
            start.elapsed() >= delay && (pins || !look_for_pin)
        });
        holders[victim].kill();
        counts.kills += 1;
        let dead = (0..store.spec().reader_slots).filter(|slot| !store.reader_held(*slot));
        counts.died_holding += dead.filter(|slot| pinned(*slot)).count() as u64;
        counts.died_listening += u64::from(store.published().load_listening(Relaxed));
        holders[victim] = holder(dice.random());
        // One lap more, past all rows that the dead process had leased.
        let goal = heads(&store) + 2 * u64::from(LANES) * ring.slots();
        if counts.kills % 8 == 0 {
            spin_until(&mut writer, &mut holders, || heads(&store) >= goal);
        }
    }
    for holder in &mut holders {
        holder.kill();
    }
    let goal = heads(&store) + 2 * u64::from(LANES) * ring.slots();
    spin_until(&mut writer, &mut [], || heads(&store) >= goal);
    counts.rows_written = heads(&store);
    let stats = ring.stats();
    counts.stalls = stats.lane_stats.iter().map(|lane| lane.stalls).sum();
    println!("lease storm: {counts:?}");
    let dropped: u64 = stats.lane_stats.iter().map(|lane| lane.dropped).sum();
    assert_eq!(dropped, 0, "a dead holder cost rows");
    assert!(stats.readers.is_empty() && stats.pins.is_empty(), "{:?}", stats.readers);
    // A storm that never hits the critical moments proves nothing. A shortened one may miss some.
    let has_hit = counts.died_holding > 0 && counts.died_listening > 0 && counts.stalls > 0;
    assert!(kills < 100 || has_hit, "{counts:?}");
    writer.kill();
    Ok(())
}
