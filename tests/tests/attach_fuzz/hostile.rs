//! A hostile peer: random words in a lane's counters, random bytes in its columns and in the
//! readers' file, while others sample, read, look and adopt.

use std::error::Error;
use std::fs::OpenOptions;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backcast_core::{Base, Ring, SamplerOptions};
use backcast_layout::{LaneHeader, RingStore};
use backcast_tests::limits::watch;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::damage::odd_number;
use crate::use_ring::{append, draw, read_rows, use_ring};
use crate::{Tally, cases, make_ring, schema, tmpfs};

/// Stops the peer when the test ends, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_peer_that_writes_noise_causes_wrong_numbers_and_typed_errors_only()
-> Result<(), Box<dyn Error>> {
    let dir = tmpfs();
    let base = Base::at(dir.path());
    let ring = make_ring(&base, "victim", &schema()?)?;
    let store = RingStore::attach(&base, "victim")?;
    let columns: Vec<(u64, u64)> =
        store.geometry().places.iter().map(|place| (place.offset, place.length)).collect();
    let path = ring.path().ok_or("a named ring")?.to_owned();
    let stop = AtomicBool::new(false);
    let (tally, writes) = thread::scope(|scope| {
        let peer = scope.spawn(|| write_noise(&path, &columns, &stop));
        let tally = {
            let _stop = Stop(&stop);
            work(&ring, cases(10_000) / 5)
        };
        (tally, peer.join().expect("the peer does not panic"))
    });
    println!("hostile peer: {writes} writes, {tally:#?}");
    assert_eq!(missing(&tally), None, "never occurred");
    Ok(())
}

/// What has to happen for the test to prove anything, and has not happened yet.
fn missing(tally: &Tally) -> Option<&'static str> {
    let expected = [
        "sample: works",
        "sample: Outrun",
        "rows: works",
        "rows: Lapped",
        "rows: NotReadable",
        "gather: works",
        "gather: Lapped",
        "writer: works",
        "writer: Damaged",
    ];
    expected.into_iter().find(|kind| !tally.contains_key(*kind))
}

fn work(ring: &Ring, rounds: u64) -> Tally {
    let progress = watch();
    let mut tally = Tally::new();
    let mut dice = StdRng::seed_from_u64(3);
    let options = SamplerOptions::seeded(5).history(6).future(3);
    let mut sampler = ring.sampler(options).expect("the windows fit");
    for round in 0..100 * rounds {
        // Some races are rare when the machine is busy: on until each was seen.
        if round >= rounds && missing(&tally).is_none() {
            break;
        }
        progress.send(format!("round {round} with a hostile peer")).expect("the watch is there");
        match round % 16 {
            0 => use_ring(ring, &mut dice, &mut tally),
            1..=3 => append(ring, &mut tally),
            4..=8 => read_rows(ring, &mut tally),
            _ => draw(&mut sampler, &mut dice, &mut tally),
        }
    }
    tally
}

/// Writes through plain files until told to stop. Mostly numbers that look right, so that more
/// than the first check is reached.
fn write_noise(dir: &Path, columns: &[(u64, u64)], stop: &AtomicBool) -> u64 {
    let open = |name| OpenOptions::new().write(true).open(dir.join(name)).expect("a file of ours");
    let (lanes, readers) = ([open("lane-0000.dat"), open("lane-0001.dat")], open("ring.rdr"));
    let mut dice = StdRng::seed_from_u64(4);
    let mut writes = 0;
    let mut noise = [0; 64];
    while !stop.load(Relaxed) {
        let lane = &lanes[dice.random_range(0..2_usize)];
        let (reserved, head) =
            (offset_of!(LaneHeader, reserved) as u64, offset_of!(LaneHeader, head) as u64);
        let counter = if dice.random() { reserved } else { head };
        let done = match dice.random_range(0..10) {
            0 => lane.write_all_at(&odd_number(&mut dice).to_le_bytes(), counter),
            1..=5 => {
                let rows = dice.random_range(20_u64..60);
                lane.write_all_at(&rows.to_le_bytes(), head)
                    .and_then(|()| lane.write_all_at(&(rows + rows % 9).to_le_bytes(), reserved))
            }
            6..=8 => {
                // Every column but the row numbers: their noise is refused at once.
                let (offset, length) = columns[dice.random_range(1..columns.len())];
                dice.fill_bytes(&mut noise);
                let at = offset + dice.random_range(0..length.min(2_000) - 64);
                lane.write_all_at(&noise, at)
            }
            _ => {
                dice.fill_bytes(&mut noise);
                let row = dice.random_range(0..2_000);
                if dice.random_ratio(1, 200) {
                    lane.write_all_at(&noise[..8], columns[0].0 + 8 * row)
                } else {
                    readers.write_all_at(&noise, 128 + row / 8)
                }
            }
        };
        done.expect("a file of ours can be written");
        writes += 1;
    }
    writes
}
