//! Loads a CSV file of any bytes: it gives a usable panel, or a refusal that names a place.

#![no_main]

use backcast_fuzz::{load_panel, mutate_panel};
use backcast_tests::fuzz::csv_files::case;
use backcast_tests::fuzz::panel_files::csv;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| load_panel(data, csv));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_panel(data, size, max_size, seed, case)
});
