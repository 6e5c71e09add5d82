//! A peer writes to the files of a ring, as the first half of the input chooses, while the ring is
//! used as the second half chooses. The results must be numbers or typed errors.

#![no_main]

use std::sync::{LazyLock, Mutex};

use backcast_core::{Base, Ring, Sampler, SamplerOptions};
use backcast_tests::fuzz::Tally;
use backcast_tests::fuzz::dice::Dice;
use backcast_tests::fuzz::noise::Noise;
use backcast_tests::fuzz::rings::{make_ring, schema, tmpfs};
use backcast_tests::fuzz::use_ring::use_once;
use libfuzzer_sys::fuzz_target;
use rand::RngExt;
use tempfile::TempDir;

struct Place {
    _dir: TempDir,
    ring: Ring,
    sampler: Mutex<Sampler>,
    noise: Noise,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let dir = tmpfs();
    let base = Base::at(dir.path());
    let ring = make_ring(&base, "victim", &schema().expect("a schema")).expect("a ring");
    let options = SamplerOptions::seeded(5).history(6).future(3);
    let sampler = Mutex::new(ring.sampler(options).expect("the windows fit"));
    let noise = Noise::against(&ring, &base, "victim").expect("the files of the ring");
    Place { _dir: dir, ring, sampler, noise }
});

fuzz_target!(|data: &[u8]| {
    let (theirs, ours) = data.split_at(data.len() / 2);
    let mut dice = Dice::of_bytes(ours);
    let mut sampler = PLACE.sampler.lock().expect("a panic ends the process");
    PLACE.noise.beside(Dice::of_bytes(theirs), || {
        for _ in 0..8 {
            let turn = dice.random_range(0..16);
            use_once(turn, &PLACE.ring, &mut sampler, &mut dice, &mut Tally::new());
        }
    });
});
