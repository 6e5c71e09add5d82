//! Rows that are overwritten, dropped, published or moved between any two steps of a draw.

use std::time::Duration;

use super::*;
use crate::{
    Boundary, EpisodeLayout, RowIndex, SampleError, SamplerOptions, Selector, Sequence,
    TableOptions, WholeEpisodes,
};

/// A change of the ring, and its name.
type Change = (&'static str, fn(&mut Source));

/// Changes of a ring's rows.
const CHANGES: [Change; 4] = [
    ("all rows overwritten", Source::overwrite_all),
    ("half of the rows overwritten", Source::overwrite_half),
    ("all rows dropped", Source::clear),
    ("an episode published", |source| source.append(LENGTH)),
];

/// Length of sequences. The rest of an episode is shorter.
const SEQUENCE: u64 = 3;

/// Checks the windows of a batch of sequences.
fn check_sequences(batch: &Batch) {
    let [now, next] = ["obs/row", "next_obs/row"].map(|key| batch.column::<u64>(key).unwrap());
    let mask = batch.column::<bool>("mask").unwrap();
    for (item, first) in batch.index().into_iter().map(RowIndex::seq).enumerate() {
        let there = SEQUENCE.min(LENGTH - step(first));
        for (place, row) in (first..first + SEQUENCE).enumerate() {
            let is_there = row - first < there;
            assert_eq!(mask[[item, place]], is_there, "place {place} of row {first}");
            let found = [&now, &next].map(|of| [0, 1, 2, 3].map(|word| of[[item, place, word]]));
            assert!(!is_there || found == [obs(row), obs(row + 1)], "place {place} of row {first}");
        }
    }
}

/// Checks that the episodes of a batch are whole.
fn check_episodes(batch: &Batch, layout: EpisodeLayout) {
    let rows = batch.index().into_iter().map(RowIndex::seq);
    let now = batch.column::<u64>("obs/row").unwrap();
    let terminated = batch.column::<bool>("terminated").unwrap();
    match layout {
        EpisodeLayout::Padded => {
            let lengths = batch.column::<i64>("length").unwrap();
            for (item, first) in rows.enumerate() {
                assert_eq!((step(first), lengths[[item]]), (0, LENGTH.cast_signed()));
                for (place, row) in (first..first + LENGTH).enumerate() {
                    let found = [0, 1, 2, 3].map(|word| now[[item, place, word]]);
                    assert_eq!(found, obs(row), "place {place} of row {first}");
                    assert_eq!(terminated[[item, place]], step(row + 1) == LENGTH);
                }
            }
        }
        EpisodeLayout::Ragged => {
            let offsets = batch.column::<i64>("offsets").unwrap();
            let whole = |(item, at): (usize, &i64)| *at == (item as u64 * LENGTH).cast_signed();
            assert!(offsets.iter().enumerate().all(whole), "short episodes: {offsets}");
            for (at, row) in rows.enumerate() {
                assert_eq!(step(row), at as u64 % LENGTH, "transition {at}");
                let found = [0, 1, 2, 3].map(|word| now[[at, word]]);
                assert_eq!(found, obs(row), "transition {at}");
            }
        }
    }
}

/// Form of the batches that a case draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawn {
    Transitions,
    Sequences,
    Episodes(EpisodeLayout),
}

impl Drawn {
    /// Returns the items of a batch: of transitions more than fit a micro-batch, and most of those
    /// that the ring holds.
    fn items(self) -> usize {
        match self {
            Self::Transitions => 40,
            Self::Sequences => 8,
            Self::Episodes(_) => 3,
        }
    }

    fn check(self, batch: &Batch) {
        match self {
            Self::Transitions => drop(check(batch)),
            Self::Sequences => check_sequences(batch),
            Self::Episodes(layout) => check_episodes(batch, layout),
        }
    }
}

/// Returns options of every form, with selectors of each kind.
fn cases() -> Vec<(Drawn, SamplerOptions)> {
    let plain = SamplerOptions::seeded(5);
    let select = |selector| SamplerOptions::seeded(5).selector(selector);
    let sequence = Sequence::new(u32::try_from(SEQUENCE).unwrap());
    let sequences = plain.clone().sequence(sequence.stride(3));
    let (padded, ragged) = (EpisodeLayout::Padded, EpisodeLayout::Ragged);
    let queue = || Selector::Table(TableOptions::consume("queue"));
    let priority = || Selector::Priority(linear());
    let mut cases = vec![
        (Drawn::Transitions, plain.clone()),
        (Drawn::Transitions, plain.clone().n_step(3).gamma(0.9)),
        (Drawn::Transitions, select(priority())),
        (Drawn::Transitions, select(Selector::MaxPriority(linear()))),
        (Drawn::Transitions, select(Selector::MinPriority(linear()))),
        (Drawn::Transitions, select(Selector::Fifo)),
        (Drawn::Transitions, select(Selector::Lifo)),
        (Drawn::Transitions, select(Selector::Recency { half_life: 20.0 })),
        (Drawn::Transitions, select(Selector::LaneStrata)),
        (Drawn::Transitions, select(queue())),
        (Drawn::Transitions, select(Selector::Table(TableOptions::epoch("pass")))),
        (Drawn::Sequences, sequences.clone()),
        (Drawn::Sequences, sequences.clone().boundary(Boundary::Reject)),
        (Drawn::Sequences, sequences.clone().selector(priority())),
        (Drawn::Sequences, sequences.selector(queue())),
    ];
    let fixed = WholeEpisodes::padded().max_length(8);
    for (layout, of) in
        [(padded, fixed), (padded, WholeEpisodes::padded()), (ragged, WholeEpisodes::ragged())]
    {
        for selector in [Selector::Uniform, Selector::Fifo, queue(), priority()] {
            cases.push((Drawn::Episodes(layout), plain.clone().episodes(of).selector(selector)));
        }
    }
    cases
}

#[test]
fn whatever_changes_between_the_steps_of_a_draw_its_rows_are_whole() {
    for ((drawn, of), (name, change)) in
        cases().into_iter().flat_map(|case| CHANGES.map(|change| (case.clone(), change)))
    {
        for point in POINTS {
            let mut source = Source::heap(options(60)).filled(400);
            let ring = source.ring.clone();
            let mut sampler = ring.sampler(of.clone()).unwrap();
            sampler.set_timeout(Some(Duration::ZERO));
            let at = format!("{name} at {point:?}, {of:?}");
            let made = change_at(&mut sampler, point, move || change(&mut source));
            let items = drawn.items();
            match sampler.sample(items) {
                Ok(batch) => drawn.check(&batch),
                // A clear leaves too few transitions for selectors that draw each one once.
                Err(SampleError::TimedOut { .. } | SampleError::TooFew { .. })
                    if name == "all rows dropped" => {}
                Err(error) => panic!("{error}; {at}"),
            }
            assert!(made.is_made(), "the point is never reached: {at}");
            let counted = sampler.sampled();
            assert!([0, items as u64].contains(&counted), "{counted} items counted: {at}");
            if let Ok(batch) = sampler.sample(items) {
                drawn.check(&batch);
            }
        }
    }
}

#[test]
fn draws_whose_rows_are_all_overwritten_show_those_that_took_their_place() {
    for (drawn, of) in cases() {
        for point in [Point::Chosen, Point::Selected, Point::Copied] {
            let mut source = Source::heap(options(60)).filled(400);
            let ring = source.ring.clone();
            let mut sampler = ring.sampler(of.clone()).unwrap();
            sampler.set_timeout(Some(Duration::ZERO));
            let made = change_at(&mut sampler, point, move || source.overwrite_all());
            let at = format!("{point:?}, {of:?}");
            let batch =
                sampler.sample(drawn.items()).unwrap_or_else(|error| panic!("{error}: {at}"));
            assert!(made.is_made() && sampler.lapped() > 0, "{at}");
            // Other processes see the count in the slot of the reader.
            let slots: Vec<u64> = ring.readers().iter().map(|reader| reader.lapped).collect();
            assert_eq!(slots, [sampler.lapped()], "{at}");
            drawn.check(&batch);
            let readable = ring.lane_span(0).unwrap();
            let mut rows = batch.index().into_iter().map(RowIndex::seq);
            assert!(rows.all(|row| readable.contains(&row)), "{at}");
        }
    }
}

#[test]
fn a_ring_that_moves_between_the_steps_of_a_draw_changes_none_of_its_rows() {
    for (drawn, of) in cases() {
        for point in POINTS {
            let (_dir, source) = Source::in_files(60);
            let mut source = source.filled(400);
            source.writer = None;
            let ring = source.ring.clone();
            let mut sampler = ring.sampler(of.clone()).unwrap();
            let made = change_at(&mut sampler, point, move || source.grow());
            let batch = sampler.sample(drawn.items()).unwrap();
            assert!(made.is_made(), "{point:?}, {of:?}");
            assert_eq!(sampler.sampled(), drawn.items() as u64);
            drawn.check(&batch);
        }
    }
}

/// Between the plan of a batch and its copy, the ring moves to other memory.
#[test]
fn memory_that_was_planned_before_the_ring_moved_is_filled_from_where_it_is() {
    for (drawn, of) in cases() {
        let (_dir, source) = Source::in_files(60);
        let mut source = source.filled(400);
        let mut sampler = source.ring.sampler(of).unwrap();
        // Some batches of episodes have their memory allocated with the draw.
        let Ok(mut batch) = sampler.blank(drawn.items()) else { continue };
        source.grow();
        source.append(30);
        sampler.sample_over(&mut batch).unwrap();
        drawn.check(&batch);
    }
}
