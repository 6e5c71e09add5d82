use super::*;
use crate::{
    AppendError, AutoresetMode, Base, DType, LanePolicy, LimiterError, RateLimiter, RingOptions,
    SamplerOptions, Schema, StepColumns, Writer, WriterOptions,
};

const FOREVER: Option<Duration> = None;
const NOT_AT_ALL: Option<Duration> = Some(Duration::ZERO);

fn on(_: ResizeProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::U64, &[3])
        .column("reward", DType::F32, &[])
        .column("flag", DType::Bool, &[])
        .build()
        .unwrap()
}

fn segment_error(refused: Result<Resized, ResizeError>) -> SegmentError {
    match refused.unwrap_err() {
        ResizeError::Ring(RingError::Segment(error)) => error,
        other => panic!("{other}"),
    }
}

fn place() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    (dir, base)
}

fn ring(base: &Base, capacity: u64, lanes: u32, policy: LanePolicy) -> Ring {
    let options = RingOptions::with_capacity(capacity).lanes(lanes).base(base.clone());
    Ring::create("grows", &schema(), options.lane_policy(policy)).unwrap()
}

fn writer_of(ring: &Ring, lanes: u32) -> Writer {
    ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep)).unwrap()
}

/// Appends `steps` steps to each lane. Row `seq` of lane `l` has `obs` of `seq * 8 + l`.
fn append(writer: &mut Writer, steps: u64) {
    let lanes = writer.lanes().to_vec();
    for _ in 0..steps {
        let spans: Vec<u64> =
            lanes.iter().map(|lane| writer.ring().lane_span(*lane).unwrap().end).collect();
        let value = |(lane, seq): (&u32, &u64)| seq * 8 + u64::from(*lane);
        let values: Vec<u64> = lanes.iter().zip(&spans).map(value).collect();
        let obs: Vec<u64> = values.iter().flat_map(|v| [*v; 3]).collect();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let reward: Vec<f32> = values.iter().map(|v| *v as f32).collect();
        let flag: Vec<bool> = values.iter().map(|v| v % 3 == 0).collect();
        let schema = writer.schema().clone();
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("reward", &reward).unwrap();
        let columns = columns.with("flag", &flag).unwrap();
        let goes_on = vec![false; lanes.len()];
        let ends: Vec<bool> = spans.iter().map(|seq| seq % 11 == 10).collect();
        writer.append(&columns.step(&ends, &goes_on).unwrap()).unwrap();
    }
}

fn check_rows(ring: &Ring, lane: u32) {
    let span = ring.lane_span(lane).unwrap();
    let rows = ring.rows(lane, span.clone()).unwrap();
    for (i, seq) in span.enumerate() {
        assert_eq!(rows.column::<u64>("seq").unwrap()[i], seq);
        let is_final = rows.column::<u32>("flags").unwrap()[i] & crate::FINAL != 0;
        let value = seq * 8 + u64::from(lane);
        assert_eq!(rows.column::<u64>("obs").unwrap()[i * 3..][..3], [value; 3], "{seq}");
        assert_eq!(rows.column::<bool>("flag").unwrap()[i], !is_final && value % 3 == 0);
    }
}

#[test]
fn a_larger_ring_has_all_rows_and_goes_on() {
    let (_dir, base) = place();
    for (steps, capacity) in [(0, 4_000), (5, 4_000), (999, 1_002), (5_000, 20_000)] {
        let ring = ring(&base, 1_000, 2, LanePolicy::default());
        let mut writer = writer_of(&ring, 1);
        append(&mut writer, steps);
        let mut sampler = (steps > 5).then(|| {
            let mut sampler = ring.sampler(SamplerOptions::seeded(1).history(3)).unwrap();
            sampler.sample(32).unwrap();
            sampler
        });
        let before = ring.lane_span(0).unwrap();
        // The writer has not appended since: its lane waits, the other one is relocated.
        let resized = ring.resize(capacity, NOT_AT_ALL, &mut on).unwrap();
        assert_eq!(resized.lanes_waiting, [0]);
        assert_eq!(resized.lane_capacity, capacity / 2);
        assert_eq!(ring.lane_span(0).unwrap(), before);
        assert_eq!((ring.lane_capacity(), ring.stats().capacity), (500, 1_000));
        // The next row of the writer relocates its lane.
        append(&mut writer, 1);
        assert_eq!(ring.lane_capacity(), capacity / 2);
        append(&mut writer, 39);
        let after = ring.lane_span(0).unwrap();
        assert_eq!(after.end, before.end + 40);
        let oldest = before.start.max(after.end.saturating_sub(capacity / 2));
        assert!(after.start <= oldest, "{before:?} {after:?}");
        assert_eq!(ring.lane_capacity(), capacity / 2);
        assert!(ring.finish_resize().unwrap().is_empty());
        check_rows(&ring, 0);
        append(&mut writer, 3 * capacity / 2);
        check_rows(&ring, 0);
        assert_eq!(ring.lane_span(0).unwrap().count() as u64, capacity / 2);
        if let Some(sampler) = &mut sampler {
            let batch = sampler.sample(64).unwrap();
            let span = ring.lane_span(0).unwrap();
            let index = batch.index();
            let drawn = index.iter().map(|index| index.seq());
            assert!(drawn.clone().all(|seq| span.contains(&seq)), "{span:?}");
            assert!(drawn.max() > Some(before.end), "newer rows are drawn too");
        }
        drop(sampler);
        let again = Ring::attach_in(&base, "grows").unwrap();
        check_rows(&again, 0);
        assert_eq!(again.capacity(), capacity);
        let mut other = writer_of(&again, 1);
        assert_eq!(other.lanes(), [1]);
        append(&mut other, 50);
        check_rows(&ring, 1);
        let stats = ring.stats();
        assert_eq!(stats.bytes_asked, capacity * stats.row_bytes);
    }
}

#[test]
fn rows_that_a_resize_brings_back_are_drawn_as_by_a_new_sampler() {
    let (_dir, base) = place();
    let ring = ring(&base, 400, 1, LanePolicy::default());
    let mut writer = writer_of(&ring, 1);
    // Few windows lie within one episode, so the sampler draws with its start index.
    append(&mut writer, 700);
    let options = SamplerOptions::seeded(1).history(8).future(2).boundary(crate::Boundary::Reject);
    let mut old = ring.sampler(options).unwrap();
    old.sample(2_000).unwrap();
    let before = ring.lane_span(0).unwrap();
    ring.resize(4_000, NOT_AT_ALL, &mut on).unwrap();
    append(&mut writer, 1);
    let after = ring.lane_span(0).unwrap();
    assert!(after.start < before.start, "rows are back: {before:?} {after:?}");
    let mut new = ring.sampler(old.state()).unwrap();
    for _ in 0..4 {
        assert_eq!(old.sample(2_000).unwrap().index(), new.sample(2_000).unwrap().index());
    }
    let index = old.sample(2_000).unwrap().index();
    let oldest = index.iter().map(|index| index.seq()).min().unwrap();
    assert!(oldest < before.start, "{oldest}");
}

/// Dropped and overwritten transitions count as deleted. The overwritten ones come back.
#[test]
fn rows_that_a_resize_brings_back_count_for_the_size_that_a_limiter_asks_for() {
    let (_dir, base) = place();
    let limits = RateLimiter::band(1.0, 500, 0.0, 300.0);
    let options = RingOptions::with_capacity(800).lanes(2).base(base.clone());
    let ring = Ring::create("grows", &schema(), options.limiter(limits)).unwrap();
    let mut writers = [(); 2].map(|()| writer_of(&ring, 1));
    ring.limiter().unwrap().set_enabled(false).unwrap();
    append(&mut writers[0], 700);
    append(&mut writers[1], 30);
    ring.drop_episode(1, None, false).unwrap();
    ring.limiter().unwrap().set_enabled(true).unwrap();
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.set_timeout(NOT_AT_ALL);
    append(&mut writers[0], 1);
    assert!(ring.len() < 500 && sampler.sample(1).is_err(), "writers go on, draws wait");
    ring.resize(8_000, NOT_AT_ALL, &mut on).unwrap();
    // The append that relocates the lane is checked before.
    append(&mut writers[0], 1);
    assert!(ring.len() >= 500, "rows are back");
    let schema = schema();
    let columns = StepColumns::of(&schema).with("obs", &[0_u64; 3]).unwrap();
    let columns = columns.with("reward", &[0.0_f32]).unwrap();
    let step = columns.with("flag", &[false]).unwrap().step(&[false], &[false]).unwrap();
    assert!(matches!(writers[0].try_append(&step), Err(AppendError::WouldWait)));
    sampler.sample(200).unwrap();
    writers[0].try_append(&step).unwrap();
}

#[test]
fn a_ring_that_grows_is_waited_for_as_large_as_it_becomes() {
    let (_dir, base) = place();
    let ring = ring(&base, 200, 2, LanePolicy::default());
    let mut writers = [(); 2].map(|()| writer_of(&ring, 1));
    ring.resize(20_000, NOT_AT_ALL, &mut on).unwrap();
    append(&mut writers[0], 500);
    assert_eq!(ring.capacity(), 200, "one lane waits for its writer");
    let wait = |size| ring.wait_for(size, NOT_AT_ALL);
    assert!(wait(400).unwrap() >= 400);
    assert!(matches!(wait(19_998), Err(crate::WaitError::TimedOut { .. })));
    assert!(matches!(
        wait(19_999),
        Err(crate::WaitError::Never { capacity: 20_000, most: 19_998, .. })
    ));
}

#[test]
fn a_ring_whose_writers_have_not_followed_a_resize_is_waited_for_too() {
    let (_dir, base) = place();
    let ring = ring(&base, 200, 2, LanePolicy::default());
    let _writer = writer_of(&ring, 2);
    let resized = ring.resize(2_000, NOT_AT_ALL, &mut on).unwrap();
    assert_eq!(resized.lanes_waiting, [0, 1]);
    let other = Ring::attach_in(&base, "grows").unwrap();
    for ring in [&ring, &other] {
        let wait = |size| ring.wait_for(size, NOT_AT_ALL);
        assert!(matches!(wait(1_998), Err(crate::WaitError::TimedOut { .. })));
        assert!(matches!(
            wait(1_999),
            Err(crate::WaitError::Never { capacity: 2_000, most: 1_998, .. })
        ));
    }
}

#[test]
fn draws_do_not_depend_on_a_resize() {
    let (_dir, base) = place();
    let ring = ring(&base, 600, 3, LanePolicy::default());
    let mut writer = writer_of(&ring, 3);
    append(&mut writer, 150);
    for boundary in [crate::Boundary::Mask, crate::Boundary::Reject] {
        let options = SamplerOptions::seeded(9).history(4).future(2).boundary(boundary);
        let [mut before, mut after] = [(); 2].map(|()| ring.sampler(options.clone()).unwrap());
        let expected: Vec<_> = (0..6).map(|_| before.sample(100).unwrap().index()).collect();
        assert_eq!(after.sample(100).unwrap().index(), expected[0]);
        drop(writer);
        let capacity = ring.capacity() * 2;
        let resized = ring.resize(capacity, FOREVER, &mut on).unwrap();
        assert!(resized.lanes_waiting.is_empty(), "nobody writes");
        for expected in &expected[1..] {
            assert_eq!(&after.sample(100).unwrap().index(), expected);
        }
        writer = writer_of(&ring, 3);
    }
}

#[test]
fn leases_and_their_pins_outlive_a_resize() {
    let (_dir, base) = place();
    let ring = ring(&base, 1_000, 1, LanePolicy::Fail);
    let mut writer = writer_of(&ring, 1);
    append(&mut writer, 900);
    let lease = ring.lease(0, 800..900).unwrap();
    ring.resize(4_000, NOT_AT_ALL, &mut on).unwrap();
    append(&mut writer, 100);
    let newer = ring.lease(0, 880..960).unwrap();
    let mut row = [0; 24];
    for (lease, first) in [(&lease, 800), (&newer, 880)] {
        assert!(lease.copy_row(4, 5, &mut row));
        assert_eq!(row[..8], ((first + 5) * 8_u64).to_ne_bytes());
    }
    // The old lease freezes its rows in the new memory too.
    let slots = ring.slots();
    append(&mut writer, slots + 800 - 1_000);
    let schema = ring.schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &[0_u64; 3]).unwrap();
    let columns = columns.with("reward", &[0.0_f32]).unwrap();
    let columns = columns.with("flag", &[false]).unwrap();
    let step = columns.step(&[false], &[false]).unwrap();
    assert!(writer.append(&step).is_err(), "row 800 is leased");
    drop(lease);
    writer.append(&step).unwrap();
    drop(newer);
}

#[test]
fn impossible_sizes_are_refused_without_a_change() {
    let (_dir, base) = place();
    let ring = ring(&base, 1_000, 2, LanePolicy::default());
    let mut writer = writer_of(&ring, 2);
    append(&mut writer, 100);
    let files = || {
        let entries = std::fs::read_dir(ring.path().unwrap()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let refused = |capacity: Capacity, is_right: fn(&SegmentError) -> bool| {
        let error = segment_error(ring.resize(capacity, FOREVER, &mut on));
        assert!(is_right(&error), "{error:?}");
        assert_eq!(files(), before, "{error}");
    };
    refused(Capacity::Rows(998), |error| {
        matches!(error, SegmentError::NotLarger { asked: 499, is: 500, .. })
    });
    let same = ring.resize(1_000, FOREVER, &mut on).unwrap();
    assert_eq!((same.capacity, same.rows_copied, files()), (1_000, 0, before.clone()));
    for rows in [10, 0] {
        refused(Capacity::Rows(rows), |error| matches!(error, SegmentError::NotLarger { .. }));
    }
    refused(Capacity::Bytes(1 << 45), |error| matches!(error, SegmentError::NoSpace { .. }));
    let stopped = ring.resize(2_000, FOREVER, &mut |_| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(stopped, ResizeError::Cancelled), "{stopped}");
    assert_eq!(files(), before);
    let resized = ring.resize(2_000, NOT_AT_ALL, &mut on).unwrap();
    assert_eq!(resized.lanes_waiting, [0, 1]);
    let error = segment_error(ring.resize(3_000, NOT_AT_ALL, &mut on));
    let SegmentError::ResizeUnfinished { lanes, rows: 1_000, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*lanes, [0, 1]);
    drop(writer);
    // A second call with the same size finishes the lanes that are left.
    let resized = ring.resize(2_000, FOREVER, &mut on).unwrap();
    assert_eq!((resized.lanes_waiting, resized.rows_copied), (vec![], 0));
    assert_eq!(files(), before);
    let heap = Ring::heap(&schema(), RingOptions::with_capacity(10)).unwrap();
    let error = segment_error(heap.resize(20, FOREVER, &mut on));
    assert!(matches!(error, SegmentError::FixedSize { .. }), "{error}");
}

#[test]
fn the_progress_of_a_resize_counts_lanes_as_they_are_copied_and_moved() {
    let (_dir, base) = place();
    let ring = ring(&base, 1_000, 3, LanePolicy::default());
    let _writer = writer_of(&ring, 1);
    let mut seen = Vec::new();
    let mut watch = |progress: ResizeProgress| {
        seen.push((progress.lanes, progress.lanes_copied, progress.lanes_moved));
        if progress.lanes_copied < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let resized = ring.resize(2_000, FOREVER, &mut watch).unwrap();
    assert_eq!(resized.lanes_waiting, [0]);
    // The wait begins when the two lanes without a writer have moved.
    assert_eq!(seen, [(3, 0, 0), (3, 1, 0), (3, 2, 0), (3, 3, 2)]);
}

#[test]
fn limits_beyond_a_ring_that_is_being_resized_are_refused_until_its_writers_append() {
    let (_dir, base) = place();
    let options = RingOptions::with_capacity(1_000).lanes(2).base(base.clone());
    let options = options.limiter(RateLimiter::min_size(1));
    let ring = Ring::create("grows", &schema(), options).unwrap();
    let other = Ring::attach_in(&base, "grows").unwrap();
    let mut writer = writer_of(&ring, 2);
    append(&mut writer, 5);
    let resized = ring.resize(2_000, NOT_AT_ALL, &mut on).unwrap();
    assert_eq!(resized.lanes_waiting, [0, 1]);
    for ring in [&ring, &other] {
        let limiter = ring.limiter().unwrap();
        let before = limiter.limits().unwrap();
        let error = limiter.set(RateLimiter::min_size(1_500)).unwrap_err();
        let LimiterError::MinSizeBeforeResize { min_size, most, after, lanes } = &error else {
            panic!("{error}");
        };
        assert_eq!((*min_size, *most, *after, lanes.as_slice()), (1_500, 998, 1_998, &[0, 1][..]));
        assert!(error.to_string().contains("[0, 1]"), "{error}");
        // More than the resize brings never fits.
        let error = limiter.set(RateLimiter::min_size(1_999)).unwrap_err();
        assert!(matches!(error, LimiterError::MinSizeBeyondCapacity { .. }), "{error}");
        assert_eq!(limiter.limits().unwrap(), before);
    }
    let long = ring.limiter().unwrap().set(RateLimiter::queue(1_500)).unwrap_err();
    assert!(matches!(long, LimiterError::QueueBeyondCapacity { most: 998, .. }), "{long}");
    append(&mut writer, 1);
    // `other` has the old lanes mapped, and maps the new ones to check the limits.
    other.limiter().unwrap().set(RateLimiter::queue(1_500)).unwrap();
    other.limiter().unwrap().set(RateLimiter::min_size(1_500)).unwrap();
    ring.limiter().unwrap().set(RateLimiter::min_size(1_998)).unwrap();
}

#[test]
fn files_of_a_killed_resize_are_cleared_or_finished() {
    let (_dir, base) = place();
    let ring = ring(&base, 1_000, 2, LanePolicy::default());
    let mut writer = writer_of(&ring, 2);
    append(&mut writer, 100);
    let size = LaneSize { lane_capacity: 800, asked_rows: 1_600, asked_bytes: 0 };
    let left = |what: &str| {
        let names = std::fs::read_dir(ring.path().unwrap()).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        names.map(name).filter(|name| name.to_string_lossy().ends_with(what)).count()
    };
    let resizing = Relocation::begin(ring.store(), size, None).unwrap();
    resizing.copy(0).unwrap();
    assert_eq!(left(".next"), 3);
    assert!(ring.finish_resize().unwrap().is_empty(), "somebody is at it");
    assert_eq!(left(".next"), 3);
    let files = ring.path().unwrap().to_owned();
    let saved: Vec<_> = ["lane-0000.next", "lane-0001.next", "ring.ctl.next"]
        .into_iter()
        .map(|name| (name, std::fs::read(files.join(name)).unwrap()))
        .collect();
    drop(resizing);
    assert_eq!(left(".next"), 0);
    let put_back = || {
        use std::os::unix::fs::OpenOptionsExt;
        for (name, bytes) in &saved {
            let mut options = std::fs::File::options();
            let mut file =
                options.write(true).create(true).mode(0o600).open(files.join(name)).unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
        }
    };
    // A resizer killed before it notifies writers leaves its files but no lock.
    put_back();
    let observed = crate::Observed::open(&base, "grows").unwrap();
    assert!(observed.finish_resize().unwrap().is_empty());
    assert_eq!((left(".next"), ring.lane_capacity()), (0, 500));
    // A resizer killed after it notified writers: the lanes wait for their writer, and no row
    // is lost.
    put_back();
    std::fs::rename(files.join("ring.ctl.next"), files.join("ring.ctl")).unwrap();
    let again = Ring::attach_in(&base, "grows").unwrap();
    assert_eq!(again.finish_resize().unwrap(), [0, 1]);
    append(&mut writer, 40);
    assert!(again.finish_resize().unwrap().is_empty());
    assert_eq!((left(".next"), ring.lane_capacity(), again.lane_capacity()), (0, 800, 800));
    (0..2).for_each(|lane| check_rows(&again, lane));
}

#[test]
fn a_lane_whose_writer_died_before_the_new_file_had_its_name_is_not_taken_for_a_leftover() {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let (_dir, base) = place();
    for again in [false, true] {
        let ring = ring(&base, 1_000, 1, LanePolicy::default());
        append(&mut writer_of(&ring, 1), 300);
        let [lane, next] =
            ["lane-0000.dat", "lane-0000.next"].map(|name| ring.path().unwrap().join(name));
        let old = std::fs::read(&lane).unwrap();
        ring.resize(2_000, FOREVER, &mut on).unwrap();
        // State between the two renames: the old file, marked, under the name of the lane.
        std::fs::rename(&lane, &next).unwrap();
        let mut options = std::fs::File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(&lane).unwrap();
        file.write_all_at(&old, 0).unwrap();
        let moved = backcast_layout::protocol::RELOCATED.to_ne_bytes();
        let reserved = std::mem::offset_of!(backcast_layout::LaneHeader, reserved);
        file.write_all_at(&moved, reserved as u64).unwrap();
        if again {
            ring.resize(3_000, FOREVER, &mut on).unwrap();
        } else {
            assert!(ring.finish_resize().unwrap().is_empty());
        }
        let found = Ring::attach_in(&base, "grows").unwrap();
        assert_eq!(found.lane_span(0), Some(0..300));
        check_rows(&found, 0);
        assert!(!next.exists());
    }
}

#[test]
fn programs_that_make_the_ring_as_it_was_join_the_larger_one() {
    let (_dir, base) = place();
    let ring = ring(&base, 1_000, 2, LanePolicy::default());
    ring.resize(2_000, FOREVER, &mut on).unwrap();
    for (capacity, joins) in [(1_000, true), (2_000, true), (3_000, false)] {
        let options = RingOptions::with_capacity(capacity).lanes(2).base(base.clone());
        let joined = Ring::create("grows", &schema(), options.exist(crate::Exist::Attach)).is_ok();
        assert_eq!(joined, joins, "{capacity}");
    }
}
