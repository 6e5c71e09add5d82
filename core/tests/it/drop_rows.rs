//! Dropped rows: hidden from every reader at once, while writers go on.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use backcast_core::{
    AutoresetMode, Base, Boundary, DType, DropError, PriorityOptions, RateLimiter, Ring,
    RingOptions, SamplerOptions, Schema, Selector, StepColumns, TableOptions, Writer,
    WriterOptions,
};
use proptest::prelude::*;

fn schema() -> Schema {
    Schema::builder().column("obs", DType::U64, &[]).build().unwrap()
}

fn ring(capacity: u64, lanes: u32) -> Ring {
    Ring::heap(&schema(), RingOptions::with_capacity(capacity).lanes(lanes)).unwrap()
}

fn writer(ring: &Ring) -> Writer {
    let options = WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::NextStep);
    ring.writer(options).unwrap()
}

/// Appends one row to each lane. In next-step mode the row after an end is FINAL.
fn append(writer: &mut Writer, obs: u64, ends: bool) {
    let lanes = writer.lanes().len();
    let obs = vec![obs; lanes];
    let schema = writer.ring().schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
    writer.append(&columns.step(&vec![ends; lanes], &vec![false; lanes]).unwrap()).unwrap();
}

/// Appends episodes of `length` transitions.
fn play(writer: &mut Writer, episodes: u64, length: u64) {
    for _ in 0..episodes {
        for t in 0..=length {
            append(writer, t, t + 1 == length);
        }
    }
}

fn drawn(ring: &Ring, options: SamplerOptions, items: usize) -> Vec<(u32, u64)> {
    let batch = ring.sampler(options).unwrap().sample(items).unwrap();
    let index = batch.index().into_iter();
    index.map(|index| (index.lane(), index.seq())).collect()
}

#[test]
fn a_cleared_ring_is_empty_for_all_handles_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(200).lanes(2).base(base.clone());
    let mine = Ring::create("pong", &schema(), options).unwrap();
    let other = Ring::attach_in(&base, "pong").unwrap();
    let mut writer = writer(&mine);
    play(&mut writer, 3, 10);
    let lease = mine.lease(0, 5..9).unwrap();
    let (full, mut sampler) = (other.len(), other.sampler(SamplerOptions::seeded(1)).unwrap());
    sampler.sample(8).unwrap();
    assert_eq!((full, other.clear().unwrap(), mine.len()), (60, 60, 0));
    assert_eq!(mine.lane_span(1), Some(33..33));
    assert!(mine.rows(0, 0..1).is_err() && mine.lease(0, 5..9).is_err());
    assert!(sampler.sample(8).is_err(), "no transition is left");
    assert_eq!(lease.len(), 4, "a lease that exists keeps its rows");
    assert_eq!(other.clear().unwrap(), 0);
    play(&mut writer, 1, 4);
    assert_eq!((mine.len(), other.lane_span(0)), (8, Some(33..38)));
    let batch = sampler.sample(64).unwrap();
    assert!(batch.index().iter().all(|index| index.seq() >= 33));
    drop(lease);
    let third = Ring::attach_in(&base, "pong").unwrap();
    assert_eq!(third.lane_span(0), Some(33..38), "a process that attaches later sees it too");
}

#[test]
fn a_resized_ring_keeps_its_marks() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(100).base(base);
    let ring = Ring::create("pong", &schema(), options).unwrap();
    let mut writer = writer(&ring);
    play(&mut writer, 2, 5);
    ring.drop_episode(0, None, false).unwrap();
    drop(writer);
    ring.resize(20_000, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((ring.lane_span(0), ring.len()), (Some(6..12), 5));
}

#[test]
fn a_window_does_not_reach_below_the_mark() {
    let ring = ring(1_000, 1);
    let mut writer = writer(&ring);
    for obs in 0..50 {
        append(&mut writer, obs, false);
    }
    let mut sampler = ring.sampler(SamplerOptions::seeded(3).history(8)).unwrap();
    sampler.sample(16).unwrap();
    ring.clear().unwrap();
    for obs in 50..60 {
        append(&mut writer, obs, false);
    }
    let batch = sampler.sample(256).unwrap();
    let obs = batch.column::<u64>("obs").unwrap();
    let mask = batch.column::<bool>("mask").unwrap();
    for (item, index) in batch.index().iter().enumerate() {
        let seq = index.seq();
        for back in 0..8_u64 {
            let at = usize::try_from(7 - back).unwrap();
            let inside = seq >= 50 + back;
            assert_eq!(mask[[item, at]], inside, "row {seq}, {back} before it");
            let expected = if inside { seq - back } else { 0 };
            assert_eq!(obs[[item, at]], expected);
        }
    }
}

/// Draws with the index of whole windows and by priority must find the same beginning.
#[test]
fn no_selector_or_boundary_reaches_below_a_mark_within_an_episode() {
    let whole = |options: SamplerOptions| options.history(8).boundary(Boundary::Reject);
    let weights = || Selector::Priority(PriorityOptions::alpha(0.6));
    let specs = [
        whole(SamplerOptions::seeded(1)).selector(Selector::Uniform),
        whole(SamplerOptions::seeded(2)).selector(weights()),
        SamplerOptions::seeded(3).history(8).selector(weights()),
        whole(SamplerOptions::seeded(4)).selector(Selector::Fifo),
    ];
    for (number, spec) in (0..).zip(specs) {
        let ring = ring(1_000, 1);
        let mut writer = writer(&ring);
        for obs in 0..50 {
            append(&mut writer, obs, false);
        }
        let mut sampler = ring.sampler(spec).unwrap();
        sampler.sample(16).unwrap();
        ring.clear().unwrap();
        for obs in 50..70 {
            append(&mut writer, obs, false);
        }
        let batch = sampler.sample(8).unwrap();
        let obs = batch.column::<u64>("obs").unwrap();
        assert!(obs.iter().all(|obs| *obs == 0 || *obs >= 50), "sampler {number}: {obs}");
        assert!(batch.index().iter().all(|index| index.seq() >= 50));
    }
}

/// Another process may write any number into `ring.low`.
#[test]
fn any_mark_hides_rows_at_most_and_breaks_no_reader() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(200).base(base.clone());
    let ring = Ring::create("pong", &schema(), options).unwrap();
    let other = Ring::attach_in(&base, "pong").unwrap();
    let low = OpenOptions::new().write(true).open(ring.path().unwrap().join("ring.low")).unwrap();
    let set = |mark: u64| low.write_all_at(&mark.to_le_bytes(), 128).unwrap();
    let mut writer = writer(&ring);
    let weights = Selector::Priority(PriorityOptions::alpha(0.6));
    let weighted = SamplerOptions::seeded(1).selector(weights);
    let mut samplers =
        [ring.sampler(weighted).unwrap(), ring.sampler(SamplerOptions::seeded(2)).unwrap()];
    let mut head: u64 = 0;
    for beyond in [u64::MAX, 1 << 48, 1_000, 1] {
        play(&mut writer, 4, 5);
        head += 24;
        let mark = head.saturating_add(beyond);
        set(mark);
        // It replaced a correct mark, and counts as 0.
        let there = head / 24 * 20;
        assert_eq!((ring.lane_span(0), ring.len()), (Some(0..head), there), "mark {mark}");
        assert_eq!(ring.first_kept(0), Some(0), "mark {mark}");
        assert!(samplers.iter_mut().all(|sampler| sampler.sample(4).is_ok()), "mark {mark}");
        // `clear` replaces the mark, for this and other handles.
        assert_eq!(
            (other.clear().unwrap(), ring.first_kept(0)),
            (there, Some(head)),
            "mark {mark}"
        );
        assert_eq!((ring.lane_span(0), other.len()), (Some(head..head), 0), "mark {mark}");
    }
    // A mark above the head is one that the lane may reach.
    set(head + 2);
    play(&mut writer, 1, 5);
    assert_eq!((ring.lane_span(0), ring.len()), (Some(head + 2..head + 6), 3));
    set(6);
    assert_eq!((ring.lane_span(0), ring.len()), (Some(6..head + 6), 80));
    for sampler in &mut samplers {
        let index = sampler.sample(64).unwrap().index();
        let all = 6..head + 6;
        assert!(index.iter().all(|index| all.contains(&index.seq())), "{index:?}");
    }
}

#[test]
fn only_the_oldest_whole_episode_is_dropped() {
    let ring = ring(1_000, 2);
    let mut writer = writer(&ring);
    play(&mut writer, 4, 6);
    append(&mut writer, 0, false);
    let not_oldest = ring.drop_episode(0, Some(2), false).unwrap_err();
    assert!(matches!(not_oldest, DropError::NotOldest { lane: 0, episode: 2, oldest: 0 }));
    let unknown = ring.drop_episode(0, Some(9), true).unwrap_err();
    assert!(matches!(unknown, DropError::NoSuchEpisode { kept: Some((0, 4)), .. }), "{unknown}");
    let unfinished = ring.drop_episode(0, Some(4), true).unwrap_err();
    assert!(matches!(unfinished, DropError::Unfinished { newest: 28, .. }), "{unfinished}");
    let no_lane = ring.drop_episode(7, None, false).unwrap_err();
    assert!(matches!(no_lane, DropError::NoSuchLane { lane: 7, lanes: 2 }), "{no_lane}");
    assert_eq!(ring.len(), 48, "a refusal drops nothing");
    assert_eq!(ring.drop_episode(0, None, false).unwrap(), 6);
    assert_eq!((ring.lane_span(0), ring.lane_span(1)), (Some(7..29), Some(0..29)));
    assert_eq!(ring.drop_episode(0, Some(2), true).unwrap(), 12);
    let gone = ring.drop_episode(0, Some(2), true).unwrap_err();
    assert!(matches!(gone, DropError::NoSuchEpisode { kept: Some((3, 4)), .. }), "{gone}");
    ring.clear().unwrap();
    let empty = ring.drop_episode(0, None, false).unwrap_err();
    assert!(matches!(empty, DropError::NoSuchEpisode { kept: None, .. }), "{empty}");
}

#[test]
fn tables_drop_the_rows_at_their_next_draw() {
    let ring = ring(1_000, 1);
    let mut writer = writer(&ring);
    play(&mut writer, 2, 20);
    let prioritised =
        || SamplerOptions::seeded(5).selector(Selector::Priority(PriorityOptions::alpha(0.6)));
    let mut by_priority = ring.sampler(prioritised()).unwrap();
    by_priority.sample(8).unwrap();
    let epoch = || {
        let table = TableOptions::epoch("once").shuffled(false);
        SamplerOptions::seeded(6).selector(Selector::Table(table))
    };
    let mut once = ring.sampler(epoch()).unwrap();
    once.sample(4).unwrap();
    ring.clear().unwrap();
    assert!(by_priority.sample(8).is_err(), "all leaves belong to dropped rows");
    play(&mut writer, 1, 6);
    for sampler in [&mut by_priority, &mut once] {
        for _ in 0..20 {
            let batch = sampler.sample(6).unwrap();
            assert!(batch.index().iter().all(|index| index.seq() >= 42));
        }
    }
    assert_eq!(drawn(&ring, SamplerOptions::seeded(7).selector(Selector::Fifo), 1), [(0, 42)]);
}

#[test]
fn a_limiter_counts_dropped_transitions_as_deleted() {
    let options = RingOptions::with_capacity(1_000).limiter(RateLimiter::min_size(10));
    let ring = Ring::heap(&schema(), options).unwrap();
    let mut writer = writer(&ring);
    for obs in 0..15 {
        append(&mut writer, obs, false);
    }
    let counts = || ring.limiter().unwrap().counts();
    assert_eq!((ring.len(), counts().inserts, counts().deletes), (14, 14, 0));
    ring.clear().unwrap();
    assert_eq!((counts().inserts, counts().deletes), (14, 14));
    // The newest row's transition is inserted with the next append, and cannot be drawn.
    for obs in 15..25 {
        append(&mut writer, obs, false);
    }
    assert_eq!((ring.len(), counts().inserts), (9, 24));
    let may_sample = || ring.stats().limiter.unwrap().may_sample;
    assert_eq!(may_sample(), Some(0), "the size is that of the ring, not of the counts");
    append(&mut writer, 25, false);
    assert_eq!(may_sample(), None);
    ring.sampler(SamplerOptions::seeded(1)).unwrap().sample(1).unwrap();
}

/// A transition of the newest row that no writer completes is neither inserted nor deleted.
#[test]
fn deletes_count_what_was_inserted_when_a_writer_is_gone() {
    let options = RingOptions::with_capacity(1_000).limiter(RateLimiter::min_size(10));
    let ring = Ring::heap(&schema(), options).unwrap();
    let counts = || {
        let counts = ring.limiter().unwrap().counts();
        (counts.inserts, counts.deletes)
    };
    let rows = |writer: &mut Writer, rows: u64| (0..rows).for_each(|t| append(writer, t, false));
    rows(&mut writer(&ring), 5);
    assert_eq!((ring.clear().unwrap(), counts()), (4, (4, 4)), "its lane is free");
    // An episode that was cut by a successor: of 4 rows, 3 transitions.
    rows(&mut writer(&ring), 4);
    let mut second = writer(&ring);
    rows(&mut second, 3);
    assert_eq!((ring.drop_episode(0, None, false).unwrap(), counts()), (3, (9, 7)));
    assert_eq!(ring.len(), 2);
    // A writer ends after `clear`, before it completes the transition.
    ring.clear().unwrap();
    drop(second);
    assert_eq!((ring.len(), counts()), (0, (9, 9)));
    let mut third = writer(&ring);
    rows(&mut third, 10);
    assert_eq!(ring.stats().limiter.unwrap().may_sample, Some(0));
    rows(&mut third, 1);
    assert_eq!((ring.len(), counts()), (10, (19, 9)));
    ring.sampler(SamplerOptions::seeded(1)).unwrap().sample(1).unwrap();
}

#[test]
fn marks_are_part_of_the_statistics() {
    let ring = ring(1_000, 2);
    let mut writer = writer(&ring);
    play(&mut writer, 3, 4);
    ring.drop_episode(1, None, false).unwrap();
    let marks =
        |ring: &Ring| ring.stats().lane_stats.iter().map(|l| l.first_kept).collect::<Vec<_>>();
    assert_eq!(marks(&ring), [0, 5]);
    ring.clear().unwrap();
    assert_eq!((marks(&ring), ring.first_kept(2)), (vec![15, 15], None));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Append { ends: bool },
    Clear,
    Drop { older: u64 },
    Draw,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => any::<bool>().prop_map(|ends| Op::Append { ends }),
        1 => Just(Op::Clear),
        2 => (0..3_u64).prop_map(|older| Op::Drop { older }),
        3 => Just(Op::Draw),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The model is a queue of rows: number, episode, and whether the row is FINAL.
    #[test]
    fn a_lane_holds_the_rows_of_a_queue(ops in prop::collection::vec(op(), 1..120)) {
        const ROWS: u64 = 24;
        let ring = ring(ROWS, 1);
        let mut writer = writer(&ring);
        let mut uniform = ring.sampler(SamplerOptions::seeded(1).history(3)).unwrap();
        let by_priority = Selector::Priority(PriorityOptions::alpha(0.6));
        let weights = SamplerOptions::seeded(2).selector(by_priority);
        let mut weighted = ring.sampler(weights).unwrap();
        let mut model: VecDeque<(u64, u64, bool)> = VecDeque::new();
        let (mut head, mut episode, mut ended) = (0, 0, false);
        for op in ops {
            match op {
                Op::Append { ends } => {
                    let is_final = ended;
                    append(&mut writer, head, ends && !is_final);
                    model.push_back((head, episode, is_final));
                    head += 1;
                    episode += u64::from(is_final);
                    ended = ends && !is_final;
                    while model.front().is_some_and(|row| row.0 + ROWS < head) {
                        model.pop_front();
                    }
                }
                Op::Clear => {
                    ring.clear().unwrap();
                    model.clear();
                }
                Op::Drop { older } => {
                    let Some(oldest) = model.front().map(|row| row.1) else { continue };
                    let wanted = oldest + older;
                    let whole = model.iter().any(|row| row.1 == wanted && row.2);
                    let done = ring.drop_episode(0, Some(wanted), true);
                    prop_assert_eq!(done.is_ok(), whole, "{:?}", done);
                    if whole {
                        model.retain(|row| row.1 > wanted);
                    }
                }
                Op::Draw => {}
            }
            let starts: Vec<u64> = model
                .iter()
                .filter(|row| !row.2 && row.0 + 1 < head)
                .map(|row| row.0)
                .collect();
            prop_assert_eq!(ring.len(), starts.len() as u64);
            prop_assert_eq!(ring.lane_span(0).unwrap().count(), model.len());
            if matches!(op, Op::Draw) {
                for sampler in [&mut uniform, &mut weighted] {
                    let batch = sampler.sample(8);
                    prop_assert_eq!(batch.is_ok(), !starts.is_empty());
                    let Ok(batch) = batch else { continue };
                    for index in batch.index() {
                        let seq = index.seq();
                        prop_assert!(starts.contains(&seq), "{} {:?}", seq, starts);
                    }
                }
            }
        }
    }
}
