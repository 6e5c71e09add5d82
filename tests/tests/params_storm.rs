//! Publishers and readers of parameters are killed at random moments, over and over: no reader
//! finds a torn or an older version, and each successor continues after the last whole one. As a
//! control, copies that are not validated must be torn.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backcast_core::{Base, Params, ParamsOptions};
use backcast_layout::ParamsStore;
use backcast_tests::versions::{WORDS, are_whole, is_whole, like};
use backcast_tests::victim::Victim;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

fn tmpfs() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory of our own")
}

fn start(dir: &TempDir, role: &str, life: u64) -> Victim {
    let args = ["weights".to_owned(), role.to_owned(), life.to_string()];
    Victim::start(env!("CARGO_BIN_EXE_storm_params"), dir.path(), &args)
}

fn make(dir: &TempDir, words: usize, options: ParamsOptions) -> Result<Params, Box<dyn Error>> {
    Ok(Params::create("weights", like(words)?, options.base(Base::at(dir.path())))?)
}

#[test]
fn a_kill_of_a_publisher_or_a_reader_tears_no_version() -> Result<(), Box<dyn Error>> {
    let kills = backcast_budget::budget_or("BACKCAST_STORM_KILLS", 150);
    let dir = tmpfs();
    let mut params = make(&dir, WORDS, ParamsOptions::default())?;
    let mut arrays = params.arrays();
    let mut dice = StdRng::seed_from_u64(11);
    let (mut interrupted, mut last) = (0, 0);
    for round in 0..kills.div_ceil(3) {
        let mut victims = ["publish", "pull", "view"].map(|role| start(&dir, role, round + 1));
        let wanted = last + dice.random_range(1..40);
        let [publisher, others @ ..] = &mut victims;
        publisher.spin_until(|| params.version() >= wanted);
        // A random delay, so that the moment of the kill does not follow from a store.
        let (begin, pause) = (Instant::now(), Duration::from_micros(dice.random_range(0..300)));
        publisher.spin_until(|| begin.elapsed() >= pause);
        let first = dice.random_range(0..2);
        let order = if first == 0 { [0, 1] } else { [1, 0] };
        for victim in order {
            let status = others[victim].ended();
            assert!(status.is_none(), "a reader ended by itself: {status:?}");
            others[victim].kill();
        }
        if round % 2 == 1 {
            // While the publisher writes, fewer versions than slots are readable. The kill follows
            // at once: a copy takes microseconds.
            publisher.spin_until(|| params.version() > 3 && params.versions().len() < 3);
        }
        assert!(publisher.kill().code().is_none(), "the publisher ended by itself");
        let newest = params.version();
        assert!(newest >= wanted, "version {newest} after {wanted}");
        // Fewer versions are readable while one is half written.
        interrupted += u64::from(params.versions().len() < 3);
        assert_eq!(params.pull(&mut arrays)?, Some(newest));
        assert!(are_whole(&arrays, newest)?, "version {newest} is torn");
        last = newest;
    }
    let stats = params.stats();
    println!("params storm: {kills} kills, {interrupted} in mid-write, {:?}", stats.counters);
    assert_eq!(stats.counters.generation, kills.div_ceil(3));
    // A storm that never hits a copy proves nothing.
    assert!(kills < 60 || interrupted > 0, "no kill hit a copy");
    drop(params);
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0, "files are left over");
    Ok(())
}

#[test]
fn copies_are_whole_beside_a_publisher_at_full_speed_and_torn_without_validation()
-> Result<(), Box<dyn Error>> {
    beside_a_publisher(WORDS, backcast_budget::budget_or("BACKCAST_PARAMS_COPIES", 20_000))
}

#[test]
fn copies_of_four_megabytes_are_whole_too() -> Result<(), Box<dyn Error>> {
    let copies = backcast_budget::budget_or("BACKCAST_LARGE_PARAMS_COPIES", 200);
    beside_a_publisher((4 << 20) / size_of::<u64>(), copies)
}

/// Copies versions beside a publisher at full speed, with and without validation.
fn beside_a_publisher(words: usize, copies: u64) -> Result<(), Box<dyn Error>> {
    let dir = tmpfs();
    let mut params = make(&dir, words, ParamsOptions::default().spare_slots(1))?;
    let mut publisher = start(&dir, "publish", 1);
    publisher.spin_until(|| params.version() > 3);
    // Without validation.
    let store = Arc::new(ParamsStore::attach(&Base::at(dir.path()), "weights")?);
    let (mut head, mut body, mut check) = ([0_u64; 2], vec![0_u64; words], [0_u64; 1]);
    let place = store.newer(0)?.expect("a version is published");
    let mut stored = store.copy(place, 0, bytemuck::cast_slice_mut(&mut head));
    // In the middle of the copy the publisher writes all slots once more.
    let stats = params.stats();
    let slots = u64::from(stats.versions_kept + stats.spare_slots);
    publisher.spin_until(|| params.version() >= place.version + slots);
    stored &= store.copy(place, 1, bytemuck::cast_slice_mut(&mut body));
    stored &= store.copy(place, 2, bytemuck::cast_slice_mut(&mut check));
    assert!(stored);
    assert!(!is_whole(&head, &body, &check, place.version), "the check proves nothing");
    let mut arrays = params.arrays();
    let (mut pulled, mut last) = (0, 0);
    while pulled < copies {
        publisher.spin_until(|| true);
        let Some(version) = params.pull(&mut arrays)? else { continue };
        assert!(version > last && are_whole(&arrays, version)?, "{version} after {last}");
        (pulled, last) = (pulled + 1, version);
    }
    let counters = params.stats().counters;
    println!("{pulled} pulls, none torn; without validation one was; {counters:?}");
    assert_eq!(counters.refused, 0, "the publisher was refused because of a pull");
    publisher.kill();
    Ok(())
}
