//! Attaches a ring with corrupt files: damaged in the ways of the tests, as the input's bytes
//! choose, or overwritten with the input, with or without repaired checksums. Attaching must give a
//! typed error or a usable ring.

#![no_main]

use std::sync::LazyLock;

use backcast_core::Base;
use backcast_fuzz::{CHOICES, put, split};
use backcast_tests::fuzz::Tally;
use backcast_tests::fuzz::dice::Dice;
use backcast_tests::fuzz::rings::{Victim, tmpfs};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use rand::RngExt;
use tempfile::TempDir;

const FILES: [&str; 4] = ["ring.ctl", "ring.rdr", "ring.low", "lane-0000.dat"];

static VICTIM: LazyLock<(TempDir, Victim)> = LazyLock::new(|| {
    let dir = tmpfs();
    let victim = Victim::make(Base::at(dir.path())).expect("three rings");
    (dir, victim)
});

fuzz_target!(|data: &[u8]| {
    let Some((choices, content)) = split(data) else { return };
    let victim = &VICTIM.1;
    let mut dice = Dice::of_bytes(content);
    if choices[0] % 2 == 0 {
        victim.damage(&mut dice).expect("files of ours");
    } else {
        let file = FILES[usize::from(choices[1]) % FILES.len()];
        victim.overlay(file, content, choices[2] % 2 == 0).expect("files of ours");
    }
    victim.attach(&mut dice, &mut Tally::new());
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if size > CHOICES {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut dice = Dice::seeded(seed.into());
    let file = dice.random_range(0..FILES.len());
    let content = &VICTIM.1.healthy()[FILES[file]];
    let len = put(data, content, max_size, &mut dice);
    if let Some([_, number]) = data.first_chunk_mut() {
        *number = u8::try_from(file).expect("a few files");
    }
    len
});
