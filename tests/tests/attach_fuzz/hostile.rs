//! A hostile peer writes random words to a lane's counters, and random bytes to its columns and the
//! readers' file, while others sample, read, inspect and claim lanes.

use std::error::Error;

use backcast_core::{Base, Ring, SamplerOptions};
use backcast_tests::fuzz::Tally;
use backcast_tests::fuzz::dice::Dice;
use backcast_tests::fuzz::noise::Noise;
use backcast_tests::fuzz::rings::{make_ring, schema, tmpfs};
use backcast_tests::fuzz::use_ring::use_once;
use backcast_tests::limits::watch;

/// Rounds of all calls. With fewer ones some outcomes do not occur.
const ROUNDS: u64 = 2_000;

#[test]
fn a_peer_that_writes_noise_causes_wrong_numbers_and_typed_errors_only()
-> Result<(), Box<dyn Error>> {
    let dir = tmpfs();
    let base = Base::at(dir.path());
    let ring = make_ring(&base, "victim", &schema()?)?;
    let noise = Noise::against(&ring, &base, "victim")?;
    let (tally, writes) = noise.beside(Dice::seeded(4), || work(&ring, ROUNDS));
    println!("hostile peer: {writes} writes, {tally:#?}");
    assert_eq!(missing(&tally), None, "never occurred");
    Ok(())
}

/// Returns an outcome that must occur for the test to be meaningful and has not occurred yet.
fn missing(tally: &Tally) -> Option<&'static str> {
    let expected = [
        "sample: works",
        "sample: Empty",
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
    let mut dice = Dice::seeded(3);
    let options = SamplerOptions::seeded(5).history(6).future(3);
    let mut sampler = ring.sampler(options).expect("the windows fit");
    for round in 0..100 * rounds {
        // Some races are rare on a busy machine, so rounds continue until each has occurred.
        if round >= rounds && missing(&tally).is_none() {
            break;
        }
        progress.send(format!("round {round} with a hostile peer")).expect("the watch is there");
        use_once(round, ring, &mut sampler, &mut dice, &mut tally);
    }
    tally
}
