//! Damage for files and memory, and the judges of what becomes of it: shared by the tests that
//! always try the same cases and by the coverage-guided targets in `fuzz/`.

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

/// How often each outcome was seen.
pub type Tally = BTreeMap<String, u64>;
