//! Priorities that other learners set between the steps of a draw, and its importance weights.

use super::*;
use crate::priority::WeightNorm;
use crate::{RowIndex, SamplerOptions, WholeEpisodes};

/// Priority of each row.
type Priority = fn(u64) -> f64;

/// Leaf of the priority 1.
const ONE: f64 = 16_777_216.0;

/// Returns a priority of a row, which differs from those of its neighbours.
fn first(row: u64) -> f64 {
    1.0 + real(row * 7 % 11)
}

/// Returns the priority that another learner sets.
fn second(row: u64) -> f64 {
    0.25 + real(row * 5 % 13) / 4.0
}

/// Returns a priority that is above those of all rows before.
fn third(row: u64) -> f64 {
    20.0 + real(row * 3 % 17)
}

/// Checks that weights are the ratios of the least leaf to those of the items.
#[expect(clippy::cast_possible_truncation, reason = "weights are rounded so")]
fn check_weights(batch: &Batch, leaves: &[f64], least: f64) {
    let weights = batch.column::<f32>("weight").unwrap();
    assert_eq!(weights.len(), leaves.len());
    for ((item, leaf), weight) in leaves.iter().enumerate().zip(&weights) {
        let expected = (least / leaf) as f32;
        assert!((weight - expected).abs() < 1e-6, "item {item}: {weight}, not {expected}");
    }
}

fn least_of(leaves: &[f64]) -> f64 {
    leaves.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Returns a filled ring, and its rows that may have priorities, which are set.
fn filled() -> (Source, Range<u64>) {
    let source = Source::heap(options(60)).filled(400);
    let rows = source.prioritised_rows();
    prioritise(&source.ring, rows.clone(), first);
    (source, rows)
}

/// A weight belongs to the probability that a row was drawn with, so it is computed from the leaf
/// of its draw, and the least of the batch is the least of these.
#[test]
fn weights_are_those_of_the_priorities_that_the_rows_were_drawn_by() {
    let (source, rows) = filled();
    let cases: [(WeightNorm, Priority); 4] = [
        (WeightNorm::Batch, second),
        (WeightNorm::Table, second),
        (WeightNorm::Batch, third),
        (WeightNorm::Table, third),
    ];
    for (normalize, later) in cases {
        for point in [Point::Chosen, Point::Selected, Point::Copied, Point::Gathered] {
            prioritise(&source.ring, rows.clone(), first);
            let options = SamplerOptions::seeded(5).priority(linear().normalize(normalize));
            let mut sampler = source.ring.sampler(options).unwrap();
            let (ring, all) = (source.ring.clone(), rows.clone());
            let change = move || prioritise(&ring, all, later);
            let made = change_at(&mut sampler, point, change);
            let batch = sampler.sample(40).unwrap();
            assert!(made.is_made());
            let leaves: Vec<f64> = check(&batch).into_iter().map(first).collect();
            let of_table = rows.clone().filter(|row| step(*row) < LENGTH).map(later);
            let of_table = least_of(&of_table.collect::<Vec<_>>());
            // The table is asked for its least leaf when the weights are written.
            let of_table = |leaves: &[f64]| match normalize {
                WeightNorm::Batch => least_of(leaves),
                WeightNorm::Table => least_of(leaves).min(of_table),
            };
            check_weights(&batch, &leaves, of_table(&leaves));
            // Later batches are drawn by the new priorities.
            let batch = sampler.sample(40).unwrap();
            let leaves: Vec<f64> = check(&batch).into_iter().map(later).collect();
            check_weights(&batch, &leaves, of_table(&leaves));
        }
    }
}

/// Rows that are drawn in place of overwritten ones have other leaves.
#[test]
fn items_that_are_drawn_again_have_the_weights_of_their_new_rows() {
    for point in [Point::Chosen, Point::Selected, Point::Copied] {
        let (mut source, _) = filled();
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(SamplerOptions::seeded(5).priority(linear())).unwrap();
        let made = change_at(&mut sampler, point, move || {
            source.overwrite_all();
            prioritise(&source.ring, source.prioritised_rows(), second);
        });
        let batch = sampler.sample(40).unwrap();
        assert!(made.is_made() && sampler.lapped() > 0);
        let leaves: Vec<f64> = check(&batch).into_iter().map(second).collect();
        check_weights(&batch, &leaves, least_of(&leaves));
    }
}

/// Another learner enters rows that this one has not seen, and the ring moves. The gather begins
/// anew, finds the first draws readable, and must not weigh them by the leaves of later ones.
#[test]
fn a_gather_that_begins_anew_keeps_rows_and_leaves_together() {
    let (_dir, source) = Source::in_files(60);
    let mut source = source.filled(30);
    let (ring, rows) = (source.ring.clone(), source.prioritised_rows());
    prioritise(&ring, rows.clone(), first);
    let mut sampler = ring.sampler(SamplerOptions::seeded(5).priority(linear())).unwrap();
    let newer = |row: u64| 1_000.0 * first(row);
    let end = rows.end;
    let made = change_at(&mut sampler, Point::Read, move || {
        source.append(24);
        // Nearly all draws are of rows that are newer than those that the sampler has read.
        prioritise(&source.ring, end..source.prioritised_rows().end, newer);
        source.grow();
    });
    let batch = sampler.sample(40).unwrap();
    assert!(made.is_made());
    let leaf = |row| if row < end { first(row) } else { newer(row) };
    let leaves: Vec<f64> = check(&batch).into_iter().map(leaf).collect();
    assert!(leaves.iter().any(|leaf| *leaf >= 1_000.0), "the test proves nothing");
    check_weights(&batch, &leaves, least_of(&leaves));
}

/// Leaves of rows that were dropped are cleared when the next batch begins, also if the drop came
/// in the middle of a batch.
#[test]
fn no_leaf_of_a_dropped_row_outlives_the_batch_during_which_it_was_dropped() {
    for point in POINTS {
        let (mut source, _) = filled();
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(SamplerOptions::seeded(5).priority(linear())).unwrap();
        let made = change_at(&mut sampler, point, move || source.clear());
        check(&sampler.sample(20).unwrap());
        assert!(made.is_made());
        let readable = ring.lane_span(0).unwrap();
        let batch = sampler.sample(20).unwrap();
        assert!(check(&batch).iter().all(|row| readable.contains(row)), "{point:?}");
        check_weights(&batch, &[1.0; 20], 1.0);
        let audit = ring.priorities(&linear()).unwrap().audit_locked().unwrap();
        assert_eq!((audit.0, audit.2), (audit.1, 2 * LENGTH), "{point:?}");
    }
}

/// Rows that an index names have the weights of one state of the table.
#[test]
fn weights_of_named_rows_are_those_of_one_moment() {
    let (source, rows) = filled();
    for point in [Point::Chosen, Point::Copied, Point::Gathered] {
        prioritise(&source.ring, rows.clone(), first);
        let options = SamplerOptions::seeded(5).priority(linear());
        let mut sampler = source.ring.sampler(options).unwrap();
        let (ring, all) = (source.ring.clone(), rows.clone());
        let change = move || prioritise(&ring, all, second);
        let made = change_at(&mut sampler, point, change);
        let starts = rows.clone().filter(|row| step(*row) < LENGTH);
        let index: Vec<i64> = starts.map(u64::cast_signed).collect();
        let batch = sampler.gather(&index).unwrap();
        assert!(made.is_made());
        let leaves: Vec<f64> = check(&batch).into_iter().map(second).collect();
        check_weights(&batch, &leaves, least_of(&leaves));
    }
}

#[test]
fn a_read_of_the_table_during_which_it_changes_is_repeated() {
    let (source, rows) = filled();
    let mut priorities = source.ring.priorities(&linear()).unwrap();
    let starts: Vec<u64> = rows.clone().filter(|row| step(*row) < LENGTH).collect();
    let mut reads = 0;
    let leaves = priorities.consistent(|view| {
        let leaf = |row: &u64| view.leaf(view.leaf_of(0, *row));
        let (older, newer) = starts.split_at(starts.len() / 2);
        let mut leaves: Vec<u64> = older.iter().map(leaf).collect();
        if reads == 0 {
            prioritise(&source.ring, rows.clone(), second);
        }
        reads += 1;
        leaves.extend(newer.iter().map(leaf));
        leaves
    });
    let expected: Vec<f64> = starts.iter().map(|row| second(*row) * ONE).collect();
    let found: Vec<f64> = leaves.unwrap().into_iter().map(real).collect();
    assert_eq!((found, reads), (expected, 2));
}

/// A leaf passes from one row to a newer one. No read has the value of one row and the number of
/// the other.
#[test]
fn a_read_during_which_a_leaf_passes_to_a_newer_row_is_repeated() {
    let (mut source, rows) = filled();
    let mut priorities = source.ring.priorities(&linear()).unwrap();
    let mut is_passed = false;
    let read = priorities.consistent(|view| {
        let leaf = view.leaf_of(0, rows.start);
        let value = view.leaf(leaf);
        if !std::mem::replace(&mut is_passed, true) {
            source.overwrite_all();
            prioritise(&source.ring, source.prioritised_rows(), second);
        }
        (value, view.row_of(leaf).1)
    });
    let (value, row) = read.unwrap();
    assert!(row > rows.end, "row {row} is the older one");
    let expected = if step(row) < LENGTH { second(row) * ONE } else { 0.0 };
    assert_eq!(real(value).to_bits(), expected.to_bits());
}

#[test]
fn weights_of_episodes_are_those_of_the_draws_of_their_first_rows() {
    for point in [Point::Chosen, Point::Selected, Point::Copied, Point::Gathered] {
        for of in [WholeEpisodes::padded().max_length(8), WholeEpisodes::ragged()] {
            let mut source = Source::heap(options(60)).filled(400);
            let ring = source.ring.clone();
            let of_starts = linear().stride(PriorityOptions::EPISODE_STARTS);
            let set = move |source: &Source, priority: fn(u64) -> f64| {
                let starts = source.prioritised_rows().filter(|row| step(*row) == 0);
                let (index, priorities): (Vec<i64>, Vec<f64>) =
                    starts.map(|row| (row.cast_signed(), priority(row))).unzip();
                source.ring.priorities(&of_starts).unwrap().update(&index, &priorities).unwrap();
            };
            set(&source, first);
            let options = SamplerOptions::seeded(5).episodes(of).priority(linear());
            let mut sampler = ring.sampler(options).unwrap();
            let is_overwritten = point != Point::Gathered;
            let made = change_at(&mut sampler, point, move || {
                if is_overwritten {
                    source.overwrite_all();
                }
                set(&source, second);
            });
            let batch = sampler.sample(4).unwrap();
            assert!(made.is_made());
            let leaf = if is_overwritten { second } else { first };
            let rows = batch.index().into_iter().map(RowIndex::seq);
            let leaves: Vec<f64> = rows.filter(|row| step(*row) == 0).map(leaf).collect();
            check_weights(&batch, &leaves, least_of(&leaves));
        }
    }
}
