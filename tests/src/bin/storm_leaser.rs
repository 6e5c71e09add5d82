//! The victim of the lease storm: waits for rows, leases some, reads them twice and releases them,
//! until it is killed. Ends by itself, with an error, only if a leased row changed.
//! `storm_leaser DIR NAME SEED`

use std::env;
use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use backcast_core::{Base, Lease, LeaseError, Ring};
use backcast_tests::storm::{PIXELS, is_whole, mix};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, seed] = args.as_slice() else {
        return Err("usage: storm_leaser DIR NAME SEED".into());
    };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    // The parent changes when the test dies.
    let test = rustix::process::getppid();
    let mut dice: u64 = seed.parse()?;
    while rustix::process::getppid() == test {
        dice = mix(dice);
        let rows = ring.rows_published();
        let limit = Some(Duration::from_secs(60));
        ring.wait_for_rows(rows + dice % 3, limit)?;
        let lane = u32::try_from((dice >> 8) % u64::from(ring.lanes()))?;
        lease_and_look(&ring, lane, dice >> 16)?;
    }
    Err("the test that started this process is gone".into())
}

fn lease_and_look(ring: &Ring, lane: u32, dice: u64) -> Result<(), Box<dyn Error>> {
    let span = ring.lane_span(lane).ok_or("a lane is missing")?;
    let length = 1 + dice % 64;
    if span.end < span.start + length {
        return Ok(());
    }
    // Leases old rows as often as new ones, since old rows block the writer immediately.
    let room = span.end - span.start - length;
    let start = span.start + if dice & 1 << 20 == 0 { (dice >> 24) % 40 } else { room };
    let start = start.min(span.end - length);
    match ring.lease(lane, start..start + length) {
        Ok(lease) => {
            for _ in 0..2 {
                look(&lease, lane, start..start + length)?;
            }
            Ok(())
        }
        Err(LeaseError::NotReadable { .. } | LeaseError::Pins(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn look(lease: &Lease, lane: u32, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
    let number = |name: &str| lease.columns().iter().position(|column| column.name() == name);
    let [Some(life), Some(pixels), Some(check)] =
        ["obs/life", "obs/pixels", "obs/check"].map(number)
    else {
        return Err("another schema".into());
    };
    let mut words = [[0; 8]; 2];
    let mut wide = vec![0; PIXELS * 8];
    for (row, seq) in rows.enumerate() {
        let [life_word, check_word] = &mut words;
        let read = lease.copy_row(life, row, life_word)
            && lease.copy_row(check, row, check_word)
            && lease.copy_row(pixels, row, &mut wide);
        let words = words.map(u64::from_ne_bytes);
        let pixels =
            wide.chunks_exact(8).filter_map(|b| Some(u64::from_ne_bytes(b.try_into().ok()?)));
        if !read || !is_whole(pixels, words[0], words[1], (lane, seq)) {
            return Err(format!("row {seq} of lane {lane} changed under its lease").into());
        }
    }
    Ok(())
}
