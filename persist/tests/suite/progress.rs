//! Progress of saves and checks, and what they report, against the rows and files there are.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use backcast_files::Progress;
use backcast_persist::{SaveOptions, Store};

use crate::rings::{Place, append, heap, schema, writer};

/// Bytes of a row: `lane`, `t` and `flags`, `seq` and `episode`, and the columns of the schema, in
/// which each column of flags takes a byte.
const ROW_BYTES: u64 = 3 * 4 + 2 * 8 + 6 + 1 + 4 + 2 + 1 + 8;
/// Rows of a batch of 900 bytes.
const BATCH_ROWS: u64 = 900 / ROW_BYTES;

/// Returns the rows of each batch that holds these rows of a lane.
fn batches(mut left: u64) -> Vec<u64> {
    let mut batches = Vec::new();
    while left > 0 {
        batches.push(left.min(BATCH_ROWS));
        left -= left.min(BATCH_ROWS);
    }
    batches
}

/// Returns the sum of all rows up to each batch.
fn sums(batches: &[u64]) -> Vec<u64> {
    let mut rows = 0;
    let add = |batch: &u64| {
        rows += batch;
        rows
    };
    batches.iter().map(add).collect()
}

/// Returns the chunk files of `pong`, with their bytes.
fn files(store: &Store) -> BTreeMap<PathBuf, u64> {
    let listed = fs::read_dir(store.path().join("pong/chunks"));
    let entries = listed.into_iter().flatten().map(Result::unwrap);
    entries.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect()
}

#[test]
fn progress_counts_the_rows_and_bytes_of_every_batch() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 800));
    let mut writer = writer(&ring);
    let (mut saved, mut all) = ([0_u64; 2], Vec::new());
    for (label, steps) in [("a", 120), ("b", 40)] {
        append(&mut writer, &schema, 2, steps, steps);
        let heads = [0, 1].map(|lane| ring.lane_span(lane).unwrap().end);
        let new = heads.iter().zip(saved).flat_map(|(head, saved)| batches(head - saved));
        let new: Vec<u64> = new.collect();
        let total_rows: u64 = new.iter().sum();
        let total_bytes = total_rows * ROW_BYTES;
        let expected = sums(&new).into_iter().map(|rows| {
            let bytes = rows * ROW_BYTES;
            Progress { rows, bytes, total_rows, total_bytes }
        });
        let before = files(&store);
        let mut found = Vec::new();
        let options = SaveOptions::default().name("pong").sizes(900, 20_000).on_progress(|done| {
            found.push(*done);
            ControlFlow::Continue(())
        });
        let report = store.save(&ring, label, options).unwrap();
        // A wait for a lock shows a total of 0.
        found.retain(|done| done.total_rows > 0);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{label}");
        assert_eq!((report.rows, report.rows_written), (heads.iter().sum::<u64>(), total_rows));
        assert_eq!((report.rows_lapped, report.bytes_freed), (0, 0));
        let after = files(&store);
        let written = after.iter().filter(|(path, _)| !before.contains_key(*path));
        let sizes: Vec<u64> = written.map(|(_, bytes)| *bytes).collect();
        assert_eq!(report.files_written, sizes.len() as u64);
        assert_eq!(report.bytes_written, sizes.iter().sum::<u64>());
        (saved, all) = (heads, [all, new].concat());
    }
    let mut found = Vec::new();
    let checked = store.verify("pong", |done| {
        found.push(*done);
        ControlFlow::Continue(())
    });
    let report = checked.unwrap();
    found.retain(|done| done.total_rows > 0);
    let sizes: Vec<u64> = files(&store).into_values().collect();
    let bytes: u64 = sizes.iter().sum();
    assert!(report.is_whole());
    assert_eq!(report.snapshots, ["pong@a", "pong@b"]);
    assert_eq!((report.files, report.bytes), (sizes.len() as u64, bytes));
    assert!(found.iter().map(|done| done.rows).eq(sums(&all)), "{found:?}");
    let total_rows: u64 = all.iter().sum();
    let whole = Progress { rows: total_rows, bytes, total_rows, total_bytes: bytes };
    assert_eq!(found.last(), Some(&whole));
    let steps: Vec<u64> = found.iter().map(|done| done.bytes).collect();
    assert!(steps[0] > 0 && steps.is_sorted_by(|one, next| one < next), "{steps:?}");
    assert!(found.iter().all(|done| done.total_bytes == bytes), "{found:?}");
    assert!(sizes.len() < all.len(), "a file has several batches");
}
