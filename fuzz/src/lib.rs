//! Code shared by the targets. Each target is a few lines over the mutators and checks of
//! `backcast-tests`, which also runs them without coverage in every `cargo test`.
//!
//! `make fuzz-lib` runs every target. With `cargo-fuzz` installed, `cargo fuzz run attach` works
//! too. No corpus is stored: a custom mutator makes healthy files to begin with.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use backcast_tests::fuzz::bytes;
use backcast_tests::fuzz::dice::Dice;
use backcast_tests::fuzz::panel_files::{Case, Load, judge, options};
use backcast_tests::fuzz::rings::tmpfs;
use libfuzzer_sys::fuzzer_mutate;
use rand::RngExt;
use tempfile::TempDir;

/// Bytes of an input that choose operations; the rest is content.
pub const CHOICES: usize = 16;

/// Splits an input into choices and content.
#[must_use]
pub fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    data.split_at_checked(CHOICES)
}

/// Writes random choices and then content. Returns the length of the input.
pub fn put(data: &mut [u8], content: &[u8], max_size: usize, dice: &mut Dice) -> usize {
    let room = data.len().min(max_size);
    if room < CHOICES {
        return fuzzer_mutate(data, 0, max_size);
    }
    let len = content.len().min(room - CHOICES);
    data[..CHOICES].copy_from_slice(&dice.random::<[u8; CHOICES]>());
    data[CHOICES..CHOICES + len].copy_from_slice(&content[..len]);
    CHOICES + len
}

/// Loads a price file. The first bytes of the input choose the options, the rest is the file.
///
/// # Panics
/// If a refusal does not name a place, or a loaded panel is not usable.
pub fn load_panel(data: &[u8], load: Load) {
    static PLACE: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let dir = tmpfs();
        let file = dir.path().join("prices");
        (dir, file)
    });
    let Some((choices, content)) = split(data) else { return };
    let file = &PLACE.1;
    fs::write(file, content).expect("a file of ours");
    let options = options(&mut Dice::of_bytes(choices));
    if let Err(problem) = judge(load, file, &options) {
        panic!("{problem}");
    }
}

/// Starts with files from `make`, then alternates between libFuzzer's mutations and those of the
/// tests.
pub fn mutate_panel(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    make: fn(&mut Dice) -> Case,
) -> usize {
    let mut dice = Dice::seeded(seed.into());
    if size <= CHOICES || dice.random_ratio(1, 16) {
        let case = make(&mut dice);
        return put(data, &case.bytes, max_size, &mut dice);
    }
    if dice.random() {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut content = data[CHOICES..size].to_vec();
    if content.is_empty() {
        return fuzzer_mutate(data, size, max_size);
    }
    let other = make(&mut dice).bytes;
    let focus = 0..content.len();
    bytes::mutate(&mut content, &other, focus, &mut dice);
    let room = data.len().min(max_size) - CHOICES;
    let len = content.len().min(room);
    data[CHOICES..CHOICES + len].copy_from_slice(&content[..len]);
    CHOICES + len
}
