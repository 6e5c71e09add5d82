//! Damage of files and memory, and checks of the outcome. Shared by tests with fixed cases and by
//! the coverage-guided targets in `fuzz/`.

pub mod bytes;
pub mod csv_files;
pub mod dice;
pub mod files;
pub mod noise;
pub mod outcome;
pub mod panel_files;
pub mod parquet_files;
pub mod rings;
pub mod use_ring;

use std::collections::BTreeMap;

/// Number of times that each outcome was seen.
pub type Tally = BTreeMap<String, u64>;
