//! Sequences: which starts every selector draws, and what a sequence holds, against a list made of
//! the rows.

use std::collections::{BTreeMap, BTreeSet};

use backcast_core::{
    Batch, Boundary, ColumnWindow, ColumnWindows, FormError, GoalStrategy, Hindsight,
    LearnedOptions, PriorityError, PriorityOptions, RowIndex, SampleError, SamplerOptions,
    SegmentError, Selector, Sequence, TableOptions,
};

use super::scene::{Listed, Scene, drawn_from_queue, selectors};
use super::{Actor, End};

/// Sequences of every boundary, of one transition and of many, with and without overlap.
fn sequences() -> impl Iterator<Item = (Sequence, Boundary)> {
    let boundaries = [Boundary::Mask, Boundary::Reject, Boundary::Clamp];
    let shapes = [(8, 4), (5, 5), (3, 2), (1, 1), (6, 1), (11, 7)];
    boundaries.into_iter().flat_map(move |boundary| {
        shapes.map(|(length, stride)| (Sequence::new(length).stride(stride), boundary))
    })
}

fn options((sequence, boundary): (Sequence, Boundary)) -> SamplerOptions {
    SamplerOptions::seeded(7).sequence(sequence).boundary(boundary)
}

/// Returns the transitions from a row on, at most `length`, and whether the episode ends with the
/// last of them for good.
fn run(lane: &Listed, at: usize, length: usize) -> (usize, bool) {
    let episode = lane.rows[at].1;
    let goes_on = |at: &usize| lane.is_transition(*at) && lane.rows[*at].1 == episode;
    let count = (at..at + length).take_while(goes_on).count();
    (count, count > 0 && lane.is_last(at + count - 1))
}

pub(super) fn is_start(
    lane: &Listed,
    at: usize,
    (sequence, boundary): (Sequence, Boundary),
) -> bool {
    let (count, ends) = run(lane, at, sequence.length as usize);
    let (t, whole) = (lane.rows[at].2, count == sequence.length as usize);
    let on_stride = t.is_multiple_of(sequence.stride);
    match boundary {
        Boundary::Mask => on_stride && (whole || ends),
        Boundary::Reject => on_stride && whole,
        Boundary::Clamp => (whole && (on_stride || ends)) || (t == 0 && ends),
    }
}

fn starts(scene: &Scene, of: (Sequence, Boundary)) -> BTreeSet<i64> {
    scene.index_of(|lane, at| is_start(lane, at, of))
}

/// Compares every place of a batch with the rows of the ring.
fn check(batch: &Batch, scene: &Scene, length: usize) {
    let lanes = scene.listed();
    let (obs, next) =
        (batch.column::<u64>("obs").unwrap(), batch.column::<u64>("next_obs").unwrap());
    let mask = batch.column::<bool>("mask").unwrap();
    let ends = ["terminated", "truncated"].map(|key| batch.column::<bool>(key).unwrap());
    assert_eq!(obs.shape(), [batch.len(), length]);
    for (item, index) in batch.index().into_iter().enumerate() {
        let lane = &lanes[index.lane() as usize];
        let at = lane.rows.iter().position(|row| row.0 == index.seq()).unwrap();
        let (count, _) = run(lane, at, length);
        for place in 0..length {
            let found = (mask[[item, place]], obs[[item, place]], next[[item, place]]);
            let flags = ends.each_ref().map(|ends| ends[[item, place]]);
            if place < count {
                let (row, after) = (lane.rows[at + place], lane.rows[at + place + 1]);
                assert_eq!(found, (true, row.4, after.4), "place {place} of {index}");
                assert_eq!(flags, [1, 2].map(|flag| row.3 & flag != 0));
            } else {
                // The place after the last transition is the final observation, as `obs` and
                // `next_obs` share their memory.
                let last = if place == count { lane.rows[at + count].4 } else { 0 };
                assert_eq!(found, (false, last, 0), "place {place} of {index}");
                assert_eq!(flags, [false; 2]);
            }
        }
    }
}

#[test]
fn every_selector_draws_every_start_and_nothing_else() {
    for of in sequences() {
        // Lanes with few rows, and lanes that have lapped.
        for (capacity, acts) in [(900, 400), (150, 900)] {
            let mut scene = Scene::new(capacity, acts as u64);
            scene.act(acts);
            let starts = starts(&scene, of);
            assert!(starts.len() > 2, "{of:?}");
            for selector in selectors() {
                let name = selector.to_string();
                if of.1 == Boundary::Clamp && selector.priorities().is_some() {
                    continue;
                }
                // The settings of a table include its stride, so its name does too.
                let table = format!("of-{}", of.0.stride);
                let selector = match selector {
                    Selector::Priority(by) => Selector::Priority(by.table(&table)),
                    Selector::MaxPriority(by) => Selector::MaxPriority(by.table(&table)),
                    Selector::MinPriority(by) => Selector::MinPriority(by.table(&table)),
                    other => other,
                };
                let mut sampler = scene.ring.sampler(options(of).selector(selector)).unwrap();
                let of_all = matches!(&*name, "fifo" | "lifo" | "epoch")
                    || matches!(&*name, "max_priority" | "min_priority");
                let size = if of_all { starts.len() } else { 200 * starts.len() };
                let batch = sampler.sample(size).unwrap();
                let mut counts = BTreeMap::<i64, f64>::new();
                for index in batch.index() {
                    *counts.entry(index.0).or_default() += 1.0;
                }
                let found: BTreeSet<i64> = counts.keys().copied().collect();
                assert_eq!(found, starts, "{name}, {of:?}, {acts} acts");
                // A binomial of mean 200: 7 standard deviations.
                if matches!(&*name, "uniform" | "priority") {
                    let far = counts.iter().find(|(_, count)| (**count - 200.0).abs() > 100.0);
                    assert_eq!(far, None, "{name}, {of:?}");
                }
                check(&batch, &scene, of.0.length as usize);
            }
        }
    }
}

#[test]
fn every_step_of_an_ended_episode_lies_in_some_sequence() {
    for of in sequences().filter(|(_, boundary)| *boundary != Boundary::Reject) {
        let mut scene = Scene::new(900, 5);
        scene.act(500);
        let starts = starts(&scene, of);
        for lane in &scene.listed() {
            let last = (0..lane.rows.len()).rev().find(|at| lane.is_last(*at)).unwrap();
            for at in (0..=last).filter(|at| lane.is_transition(*at)) {
                let from = (at + 1).saturating_sub(of.0.length as usize)..=at;
                let mut from = from.filter(|start| lane.rows[*start].1 == lane.rows[at].1);
                let covered = from.any(|start| starts.contains(&lane.index(start)));
                assert!(covered, "row {at}, {of:?}");
            }
        }
    }
}

/// Rows to come decide which of the newest transitions are starts. A queue must not lose such rows.
#[test]
fn a_queue_hands_out_every_start_once_however_early_it_is_asked() {
    for of in sequences() {
        let mut scene = Scene::new(30_000, 11);
        let spec = options(of).selector(Selector::Table(TableOptions::consume("queue")));
        let sampler = scene.ring.sampler(spec).unwrap();
        let (found, early) = drawn_from_queue(&mut scene, sampler);
        let starts: Vec<i64> = starts(&scene, of).into_iter().collect();
        // With "reject" no end of an episode makes a start, so that all can be drawn early.
        let late = usize::from(of.1 != Boundary::Reject);
        let expected = 1..=starts.len() - late;
        assert!(expected.contains(&early), "{of:?}: {early} were drawn early");
        assert_eq!(found, starts, "{of:?}");
    }
}

#[test]
fn late_starts_count_when_their_episode_ends_and_not_before() {
    let sequence = Sequence::new(80).stride(40);
    let drawn = |sampler: &mut backcast_core::Sampler| {
        let sizes = (1..20).rev();
        sizes
            .into_iter()
            .find_map(|size| sampler.sample(size).ok())
            .map(|batch| RowIndex::numbers(&batch.index()).to_vec())
    };
    let ring = crate::sampling::ring(2_000);
    let mut actor = Actor::of(&ring);
    let [mut mask, mut reject, mut clamp] = [Boundary::Mask, Boundary::Reject, Boundary::Clamp]
        .map(|boundary| {
            let options = SamplerOptions::seeded(1).sequence(sequence).boundary(boundary);
            ring.sampler(options.selector(Selector::Fifo)).unwrap()
        });
    actor.episode(130, End::Open);
    for sampler in [&mut mask, &mut reject, &mut clamp] {
        assert_eq!(drawn(sampler), Some(vec![0, 40]), "of 129 transitions with a successor");
    }
    actor.episode(20, End::Terminated);
    assert_eq!(drawn(&mut mask), Some(vec![0, 40, 80, 120]));
    assert_eq!(drawn(&mut reject), Some(vec![0, 40]));
    assert_eq!(drawn(&mut clamp), Some(vec![0, 40, 70]), "the last 80 of 150");
    // A short episode; its first row is 151, after the final observation.
    actor.episode(7, End::Truncated);
    assert_eq!(drawn(&mut mask), Some(vec![0, 40, 80, 120, 151]));
    assert_eq!(drawn(&mut reject), Some(vec![0, 40]));
    assert_eq!(drawn(&mut clamp), Some(vec![0, 40, 70, 151]));
    // Steps 0 to 4 and no successor of the last: cut by the next writer.
    actor.episode(5, End::Open);
    drop(actor);
    assert_eq!(drawn(&mut clamp), Some(vec![0, 40, 70, 151]));
    Actor::of(&ring).episode(1, End::Open);
    assert_eq!(drawn(&mut mask), Some(vec![0, 40, 80, 120, 151, 159]));
    assert_eq!(drawn(&mut clamp), Some(vec![0, 40, 70, 151, 159]));
}

/// The priorities of all transitions that are no start would draw in vain: they keep the largest
/// one, and those of the starts become small.
#[test]
fn only_starts_have_priorities() {
    let mut scene = Scene::new(900, 3);
    scene.act(600);
    scene.end_all();
    let of = (Sequence::new(8).stride(4), Boundary::Mask);
    let by = PriorityOptions::alpha(1.0).eps(0.0);
    let mut sampler = scene.ring.sampler(options(of).priority(by.clone())).unwrap();
    let starts: Vec<i64> = starts(&scene, of).into_iter().collect();
    assert_eq!(sampler.update_priorities(&starts, &vec![1e-5; starts.len()]).unwrap(), 0);
    let mut counts = BTreeMap::<i64, u32>::new();
    for _ in 0..20 {
        let batch = sampler.sample(starts.len()).unwrap();
        assert!(batch.column::<f32>("weight").unwrap().iter().all(|weight| *weight >= 1.0));
        batch.index().into_iter().for_each(|index| *counts.entry(index.0).or_default() += 1);
    }
    assert!(counts.keys().eq(&starts), "{} of {}", counts.len(), starts.len());
    // Another transition has no priority, which an update says.
    let others = scene.index_of(|lane, at| {
        lane.is_transition(at) && !lane.rows[at].2.is_multiple_of(of.0.stride)
    });
    let others: Vec<i64> = others.into_iter().collect();
    let dropped = sampler.update_priorities(&others, &vec![5.0; others.len()]).unwrap();
    assert_eq!(dropped, others.len() as u64);
    // A table is of one stride, for samplers and for other handles.
    let other = Sequence::new(8).stride(2);
    let refused = scene.ring.sampler(options((other, Boundary::Mask)).priority(by.clone()));
    let every = scene.ring.sampler(SamplerOptions::seeded(1).priority(by.clone()));
    for (refused, strides) in [(refused, ["4", "2"]), (every, ["4", "every"])] {
        let refused = refused.unwrap_err();
        let what = match &refused {
            SampleError::Priority(PriorityError::Segment(SegmentError::TableDiffers {
                what,
                ..
            })) => what,
            other => panic!("{other}"),
        };
        assert!(strides.iter().all(|stride| what.contains(stride)), "{what} lacks {strides:?}");
    }
    assert!(matches!(scene.ring.priorities(&by), Err(PriorityError::Segment(_))));
    let mut handle = scene.ring.priorities(&by.stride(4)).unwrap();
    assert_eq!(handle.update(&starts, &vec![2.0; starts.len()]).unwrap(), 0);
}

#[test]
fn columns_of_a_sequence_show_all_of_it_or_its_first_value() {
    let mut scene = Scene::new(900, 3);
    scene.act(600);
    let columns = ColumnWindows::default().column("obs", ColumnWindow::First);
    let columns = columns.rest(ColumnWindow::Drawn);
    let of = (Sequence::new(6), Boundary::Mask);
    let mut sampler = scene.ring.sampler(options(of).columns(columns)).unwrap();
    let mut whole = scene.ring.sampler(options(of)).unwrap();
    let (batch, expected) = (sampler.sample(40).unwrap(), whole.sample(40).unwrap());
    let first = batch.column::<u64>("obs").unwrap();
    let all = expected.column::<u64>("obs").unwrap();
    assert_eq!(first.shape(), [40]);
    assert!((0..40).all(|item| first[[item]] == all[[item, 0]]));
    assert!(batch.column::<u64>("next_obs").is_err());
    assert_eq!(batch.column::<bool>("terminated").unwrap().shape(), [40, 6]);
    let learned = LearnedOptions::new("values").column("value", backcast_core::DType::F32);
    let batch = scene.ring.sampler(options(of).learned(learned)).unwrap().sample(40).unwrap();
    assert_eq!(batch.column::<f32>("value").unwrap().shape(), [40, 6]);
    // Rows by name have the same layout, wherever they lie.
    let again = whole.gather(&expected.index()).unwrap();
    assert_eq!(again.column::<u64>("obs").unwrap(), all);
}

#[test]
fn what_does_not_go_with_sequences_is_refused_with_a_remedy() {
    let mut scene = Scene::new(900, 3);
    let plain = SamplerOptions::seeded(1).sequence(Sequence::new(8));
    let by = PriorityOptions::alpha(0.5);
    let goals = Hindsight::new(GoalStrategy::Final);
    let by_column = ColumnWindows::default().column("obs", ColumnWindow::History(4));
    let form_error = |spec| match scene.ring.sampler(spec).unwrap_err() {
        SampleError::Form(error) => error,
        other => panic!("{other}"),
    };
    for spec in [
        plain.clone().history(4),
        plain.clone().columns(by_column),
        plain.clone().future(2),
        plain.clone().n_step(3).gamma(0.9),
        plain.clone().gamma(0.9),
        plain.clone().hindsight(goals),
    ] {
        let error = form_error(spec.clone());
        assert!(matches!(error, FormError::WithSequence { .. }), "{error} for {spec:?}");
    }
    let clamped = form_error(plain.clone().boundary(Boundary::Clamp).priority(by));
    assert_eq!(clamped, FormError::ClampedPriorities);
    for asked in [0, 300] {
        let error = form_error(plain.clone().sequence(Sequence::new(asked)));
        assert_eq!(error, FormError::BadLength { asked, limit: 299 });
    }
    let error = form_error(plain.clone().sequence(Sequence::new(8).stride(9)));
    assert_eq!(error, FormError::BadStride { asked: 9, length: 8 });
    let mut sampler = scene.ring.sampler(plain).unwrap();
    assert!(matches!(sampler.sample(3), Err(SampleError::Empty { .. })));
    for _ in 0..6 {
        scene.append(0, false);
    }
    let none = sampler.sample(3).unwrap_err();
    let SampleError::Form(FormError::NoSequence { length: 8, whole: false, longest: 5 }) = none
    else {
        panic!("{none}")
    };
}
