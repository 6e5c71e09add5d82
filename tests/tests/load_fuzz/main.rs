//! Mutated CSV and Parquet files: each loads, or is refused with a place or a damaged part. None
//! causes a panic, a hang or an allocation whose size the file dictates.
//!
//! `cargo test` runs a fixed number of cases. `make fuzz` runs cases for `BACKCAST_FUZZ_SECONDS`.
//! `BACKCAST_FUZZ_SEED` is the first case, by default taken from the clock if seconds are given,
//! else 0. `BACKCAST_FUZZ_CASES` is the number of cases.

use std::{
    collections::BTreeMap,
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use backcast_tests::fuzz::{
    csv_files,
    dice::Dice,
    outcome,
    panel_files::{Case, Load, csv, judge, parquet},
    parquet_files,
};
use backcast_tests::limits::{limit_memory, watch};
use tempfile::TempDir;

const DEFAULT_CASES: u64 = 4_000;

/// First case, number of cases and time limit.
struct Budget {
    first: u64,
    cases: u64,
    seconds: Option<u64>,
}

impl Budget {
    fn from_env() -> Self {
        let number = |name: &str| {
            env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
        };
        let seconds: Option<u64> = number("BACKCAST_FUZZ_SECONDS");
        let clock = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_micros()).unwrap_or(0)
        };
        let first = number("BACKCAST_FUZZ_SEED").or_else(|| seconds.map(|_| clock())).unwrap_or(0);
        let most =
            if seconds.is_some() { u64::MAX } else { backcast_budget::budget(DEFAULT_CASES) };
        Self { first, cases: number("BACKCAST_FUZZ_CASES").unwrap_or(most), seconds }
    }
}

fn fuzz(format: &str, make: fn(&mut Dice) -> Case, load: Load, expected: &[&str]) {
    let budget = Budget::from_env();
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory");
    let (file, note) = (dir.path().join(format!("prices.{format}")), dir.path().join("case.txt"));
    println!("{format}: first case {}; the running one is in {}", budget.first, file.display());
    limit_memory();
    let progress = watch();
    let begin = Instant::now();
    let mut tally = BTreeMap::<String, u64>::new();
    let mut cases = 0;
    while cases < budget.cases
        && budget.seconds.is_none_or(|seconds| begin.elapsed().as_secs() < seconds)
    {
        let seed = budget.first.wrapping_add(cases);
        let mut dice = Dice::seeded(seed);
        let case = make(&mut dice);
        let label = format!("{format} case {seed}: {}", case.mutations.join(", "));
        // Both files remain if the process is ended for exceeding its memory.
        fs::write(&file, &case.bytes).expect("a file of ours");
        fs::write(&note, &label).expect("a file of ours");
        progress.send(label.clone()).expect("a watchdog");
        let outcome = catch_unwind(AssertUnwindSafe(|| judge(load, &file, &case.options)));
        let outcome = outcome.unwrap_or_else(|_| panic!("{label}: panicked"));
        let kind = outcome.unwrap_or_else(|problem| panic!("{label}: {problem}"));
        assert!(!case.mutations.is_empty() || kind == outcome::LOADED, "{label}: {kind}");
        *tally.entry(kind).or_default() += 1;
        cases += 1;
    }
    let loaded = tally.get(outcome::LOADED).copied().unwrap_or(0);
    println!("{format}: {cases} cases, {loaded} loaded, {} refused:", cases - loaded);
    for (kind, count) in tally.iter().filter(|(kind, _)| *kind != outcome::LOADED) {
        println!("{count:>10}  {kind}");
    }
    // The first thousands of cases are known to show every outcome; with another seed it takes
    // more.
    if cases >= if budget.first == 0 { DEFAULT_CASES } else { 10 * DEFAULT_CASES } {
        for kind in expected {
            assert!(tally.contains_key(*kind), "{kind} never occurred");
        }
    }
}

#[test]
fn mutated_csv_files_load_or_say_what_is_wrong_and_where() {
    fuzz(
        "csv",
        csv_files::case,
        csv,
        &[
            "loaded",
            "BadDate",
            "BadNumber",
            "BadTicker",
            "DuplicateColumn",
            "DuplicateRow",
            "Format",
            "HighBelowLow",
            "MissingColumns",
            "NoRows",
            "NotUtf8",
            "PriceNotPositive",
            "PriceTooSmall",
            "Ragged",
            "UnknownMacroTicker",
            "UnknownRename",
        ],
    );
}

#[test]
fn mutated_parquet_files_load_or_say_what_is_wrong_and_where() {
    fuzz(
        "parquet",
        parquet_files::case,
        parquet,
        &[
            "loaded",
            "BadDate",
            "BadNumber",
            "BadTicker",
            "Codec",
            "ColumnType",
            "Damaged: Column",
            "Damaged: End",
            "Damaged: Footer",
            "DuplicateColumn",
            "DuplicateRow",
            "Format",
            "HighBelowLow",
            "MissingColumns",
            "NoRows",
            "PriceNotPositive",
            "PriceTooSmall",
            "UnknownMacroTicker",
            "UnknownRename",
        ],
    );
}
