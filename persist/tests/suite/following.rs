//! Following a ring: every row is written to disk once, or counted; the next follower continues.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use backcast_core::{Exist, LanePolicy, LeaseError, Ring, RingOptions};
use backcast_persist::{
    FollowOptions, Follower, Following, Keep, LoadOptions, PersistMode, SaveError, SaveOptions,
    Store,
};

use crate::rings::{Place, append, content, heap, rows, schema, writer};

/// Returns options with small batches and files, under which no step is due by itself.
fn options(mode: PersistMode) -> FollowOptions {
    let flush = Duration::from_secs(3600);
    FollowOptions { mode, flush, batch_bytes: 700, file_bytes: 3_000, ..FollowOptions::default() }
}

fn follow(store: &Store, ring: &Ring, options: FollowOptions) -> Following {
    Following::new(store, "pong", ring, options).unwrap()
}

fn load(place: &Place, store: &Store, spec: &str) -> Ring {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).base(place.base());
    store.load(spec, options).expect("it loads")
}

fn step(following: &mut Following) {
    following.step(&|| false).unwrap();
}

/// Checks that every published row is persisted, lapped, behind, or was gone before the ring was
/// followed.
fn check_sum(following: &Following) {
    let published = following.ring().rows_published();
    let (persisted, lapped) = (following.rows_persisted(), following.rows_lapped());
    let (behind, before) = (following.rows_behind(), following.rows_before());
    assert_eq!(published, before + persisted + lapped + behind);
}

#[test]
fn followed_rings_load_as_they_were_at_every_step() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 3, 300));
    let mut writer = writer(&ring);
    let mut following = follow(&store, &ring, options(PersistMode::Continuous));
    for round in 1..=60 {
        append(&mut writer, &schema, 3, round % 7, round);
        let behind = following.inspect().rows_behind;
        step(&mut following);
        assert_eq!(following.inspect().rows_behind, 0);
        check_sum(&following);
        assert_eq!(following.rows_lapped(), 0, "round {round}, {behind} behind");
        if round % 5 == 0 {
            assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring), "{round}");
        }
    }
    assert_eq!(following.rows_persisted(), ring.rows_published());
    assert!(store.verify("pong", |_| ControlFlow::Continue(())).unwrap().is_whole());
    let labels: Vec<_> = store.snapshots("pong").unwrap().snapshots;
    assert_eq!(labels.len(), 1, "one snapshot, however many steps");
}

#[test]
fn another_process_goes_on_where_the_manifest_ends() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 200));
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 2, 20, 1);
    let mut first = follow(&store, &ring, options(PersistMode::Continuous));
    step(&mut first);
    append(&mut writer, &schema, 2, 20, 2);
    let (persisted, written) = (first.rows_persisted(), first.written().0);
    assert!(written > 0);
    // Dropping a follower writes nothing, like a kill.
    drop(first);
    let mut second = follow(&store, &ring, options(PersistMode::Continuous));
    assert_eq!(second.rows_persisted(), persisted);
    assert_eq!(second.inspect().rows_behind, ring.rows_published() - persisted);
    step(&mut second);
    assert_eq!(second.rows_persisted(), ring.rows_published());
    assert_eq!(content(&load(&place, &store, "pong")), content(&ring));
}

#[test]
fn lapped_rows_are_counted_to_the_last_one() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 100));
    let mut writer = writer(&ring);
    let mut following = follow(&store, &ring, options(PersistMode::Continuous));
    append(&mut writer, &schema, 2, 30, 1);
    step(&mut following);
    let (mut lapped, mut persisted) = (0, following.rows_persisted());
    for round in 0..6 {
        let before: Vec<u64> = (0..2).map(|lane| ring.lane_span(lane).unwrap().end).collect();
        append(&mut writer, &schema, 2, 40 + 60 * round, round + 2);
        let spans: Vec<Range<u64>> = (0..2).map(|lane| ring.lane_span(lane).unwrap()).collect();
        for (span, before) in spans.iter().zip(before) {
            lapped += span.start.saturating_sub(before);
            persisted += span.end - span.start.max(before);
        }
        step(&mut following);
        check_sum(&following);
        assert_eq!((following.rows_lapped(), following.rows_persisted()), (lapped, persisted));
        assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
    }
    assert!(lapped > 100, "{lapped}");
}

#[test]
fn rows_of_an_earlier_save_are_neither_written_again_nor_lost() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 50));
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 1, 40, 1);
    let save = || SaveOptions::default().name("pong").sizes(700, 3_000);
    store.save(&ring, "mine", save()).unwrap();
    let mut following = follow(&store, &ring, options(PersistMode::Continuous));
    let published = ring.rows_published();
    append(&mut writer, &schema, 1, 5, 2);
    // Rows that only a file still has.
    store.save(&ring, "more", save()).unwrap();
    append(&mut writer, &schema, 1, 70, 3);
    step(&mut following);
    check_sum(&following);
    assert!(ring.lane_span(0).unwrap().start > published);
    assert_eq!(
        following.rows_lapped(),
        ring.lane_span(0).unwrap().start - { store.snapshot("pong@more").unwrap().lanes[0].end }
    );
    assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
    let error = store.save(&ring, "live", save()).unwrap_err();
    assert!(matches!(&error, SaveError::LabelReserved { label } if label == "live"), "{error}");
}

#[test]
fn a_writer_that_comes_up_to_a_row_that_is_not_on_disk_does_not_lap_it() {
    let (place, schema) = (Place::new(), schema());
    let store = place.store();
    let options_of = RingOptions::with_capacity(100).lane_policy(LanePolicy::DropNew);
    let ring = Ring::heap(&schema, options_of).unwrap();
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 1, 250, 1);
    let begin = ring.lane_span(0).unwrap().start;
    let mut following = follow(&store, &ring, options(PersistMode::Block));
    append(&mut writer, &schema, 1, 1_000, 2);
    let dropped = writer.rows_dropped();
    assert!(dropped > 500, "{dropped}");
    assert!(ring.rows_published() <= begin + ring.slots());
    for round in 0..5 {
        step(&mut following);
        check_sum(&following);
        append(&mut writer, &schema, 1, 300, 3 + round);
    }
    step(&mut following);
    assert_eq!((following.rows_lapped(), following.rows_before()), (0, begin));
    assert_eq!(following.rows_persisted(), ring.rows_published() - begin);
    assert!(ring.rows_published() > begin + 5 * ring.slots());
    drop(following);
    let (published, dropped) = (ring.rows_published(), writer.rows_dropped());
    append(&mut writer, &schema, 1, 1_000, 9);
    assert!(ring.rows_published() >= published + 1_000, "nothing is kept when it is gone");
    assert_eq!(writer.rows_dropped(), dropped);
    let overwriting = RingOptions::with_capacity(100).lane_policy(LanePolicy::Overwrite);
    let ring = Ring::heap(&schema, overwriting).unwrap();
    let error = Following::new(&store, "other", &ring, options(PersistMode::Block)).unwrap_err();
    assert!(matches!(error, SaveError::Guard(LeaseError::Overwrite)), "{error}");
}

#[test]
fn small_files_become_large_ones_and_rows_stay_what_they_were() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 4_000));
    let mut writer = writer(&ring);
    let options = FollowOptions {
        batch_bytes: 20_000,
        file_bytes: 200_000,
        ..options(PersistMode::Continuous)
    };
    let mut following = follow(&store, &ring, options);
    let mut most = 0;
    for round in 0..300 {
        append(&mut writer, &schema, 2, 3, round);
        step(&mut following);
        let files = store.snapshot("pong").unwrap().files.len();
        most = most.max(files);
    }
    assert!((8..40).contains(&most), "{most} files of 300 steps");
    assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
    assert!(store.verify("pong", |_| ControlFlow::Continue(())).unwrap().is_whole());
    // And no other file is left, except those that the older manifest names.
    let there: BTreeSet<_> = std::fs::read_dir(store.path().join("pong/chunks"))
        .unwrap()
        .collect::<Vec<_>>()
        .into_iter()
        .map(|e| e.unwrap().path())
        .collect();
    assert!(there.len() < most + 16, "{} files", there.len());
}

#[test]
fn rows_older_than_the_ring_stay_as_long_as_they_are_to() {
    let (place, schema) = (Place::new(), schema());
    for (keep, history) in [
        (Keep::default(), false),
        (Keep { bytes: Some(u64::MAX), age: None }, true),
        (Keep { bytes: None, age: Some(Duration::from_secs(3600)) }, true),
        (Keep { bytes: Some(u64::MAX), age: Some(Duration::ZERO) }, false),
        (Keep { bytes: Some(10), age: Some(Duration::from_secs(3600)) }, false),
    ] {
        let store = Store::at(place.dir.path().join(format!("store-{keep:?}")));
        let ring = heap(&schema, 1, 50);
        let mut writer = writer(&ring);
        let mut following =
            follow(&store, &ring, FollowOptions { keep, ..options(PersistMode::Continuous) });
        for round in 0..40 {
            append(&mut writer, &schema, 1, 20, round);
            step(&mut following);
        }
        let chunks = std::fs::read_dir(store.path().join("pong/chunks")).unwrap();
        let mut on_disk = 0;
        for entry in chunks {
            let file = std::fs::File::open(entry.unwrap().path()).unwrap();
            let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            on_disk += reader.map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>();
        }
        let published = ring.rows_published();
        assert_eq!(following.rows_persisted(), published, "{keep:?}");
        assert_eq!(on_disk >= published, history, "{keep:?}: {on_disk} of {published}");
        assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
    }
}

#[test]
fn a_ring_made_anew_goes_on_and_the_one_before_stays_once() {
    let (place, schema) = (Place::new(), schema());
    let store = place.store();
    let mut contents = Vec::new();
    for seed in 0..3 {
        let ring = heap(&schema, 1, 50);
        append(&mut writer(&ring), &schema, 1, 30, seed);
        let mut following = follow(&store, &ring, options(PersistMode::Continuous));
        step(&mut following);
        check_sum(&following);
        contents.push(content(&ring));
    }
    assert_eq!(content(&load(&place, &store, "pong")), contents[2]);
    assert_eq!(content(&load(&place, &store, "pong@live")), contents[2]);
    assert_eq!(content(&load(&place, &store, "pong@before")), contents[1]);
}

#[test]
fn snapshots_are_taken_every_so_often_and_the_newest_few_stay() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 500));
    let mut writer = writer(&ring);
    let periodic =
        FollowOptions { every: Duration::ZERO, newest: 2, ..options(PersistMode::Periodic) };
    let mut following = follow(&store, &ring, periodic);
    assert!(!following.inspect().due, "nothing is published");
    store.save(&ring, "mine", SaveOptions::default().name("pong")).unwrap();
    for round in 0..5 {
        append(&mut writer, &schema, 1, 20, round);
        assert!(following.inspect().due);
        step(&mut following);
        assert!(!following.inspect().due, "nothing is new");
    }
    let labels = || -> Vec<String> {
        store.snapshots("pong").unwrap().snapshots.into_iter().map(|s| s.label).collect()
    };
    assert_eq!(labels(), ["mine", "auto-000004", "auto-000005"]);
    // Another process can tell when the next one is due.
    append(&mut writer, &schema, 1, 20, 9);
    let hourly = FollowOptions { every: Duration::from_secs(3600), ..periodic };
    assert!(!follow(&store, &ring, hourly).inspect().due);
    let mut next = follow(&store, &ring, periodic);
    assert!(next.inspect().due);
    step(&mut next);
    assert_eq!(labels(), ["mine", "auto-000005", "auto-000006"]);
    assert_eq!(content(&load(&place, &store, "pong")), content(&ring));
}

#[test]
fn a_thread_follows_beside_a_writer_and_has_everything_on_disk_when_it_ends() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 400));
    let mut writer = writer(&ring);
    let flush = Duration::from_millis(20);
    let options = FollowOptions { flush, ..options(PersistMode::Continuous) };
    let follower = Follower::start(&store, "pong", &ring, options).unwrap();
    let since = Instant::now();
    for round in 0.. {
        append(&mut writer, &schema, 2, 5, round);
        let state = follower.state();
        assert_eq!((state.errors, &state.error), (0, &None));
        if state.steps >= 20 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{state:?}");
    }
    let state = follower.stop();
    let all = state.rows_before + state.rows_persisted + state.rows_lapped;
    assert_eq!(all, ring.rows_published());
    assert_eq!((state.rows_behind, state.behind_for), (0, Duration::ZERO));
    assert!(state.bytes_written > 0 && state.files_written >= state.steps);
    let live = load(&place, &store, "pong@live");
    for lane in 0..2 {
        let span = live.lane_span(lane).unwrap();
        assert_eq!(rows(&live, lane, span.clone()), rows(&ring, lane, span));
    }
}

#[test]
fn removed_snapshots_are_saved_again_before_the_thread_ends() {
    for other_snapshot in [false, true] {
        let (place, schema) = (Place::new(), schema());
        let (store, ring) = (place.store(), heap(&schema, 2, 400));
        let mut writer = writer(&ring);
        append(&mut writer, &schema, 2, 90, 1);
        if other_snapshot {
            store.save(&ring, "first", SaveOptions::default().name("pong")).unwrap();
            append(&mut writer, &schema, 2, 40, 2);
        }
        let flush = Duration::from_millis(1);
        let options = FollowOptions { flush, ..options(PersistMode::Continuous) };
        let follower = Follower::start(&store, "pong", &ring, options).unwrap();
        let since = Instant::now();
        while follower.state().steps == 0 || follower.state().rows_behind > 0 {
            assert!(since.elapsed() < Duration::from_secs(60), "{:?}", follower.state());
            std::thread::yield_now();
        }
        // The writer is gone: no row will wake the thread.
        store.remove("pong@live").unwrap();
        let state = follower.stop();
        assert_eq!((state.errors, state.rows_behind), (0, 0), "{state:?}");
        assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
        assert!(store.verify("pong", |_| ControlFlow::Continue(())).unwrap().is_whole());
    }
}

#[test]
fn a_full_store_is_said_and_made_good_when_there_is_room() {
    // The directory of the store is a file at first.
    let (place, schema) = (Place::new(), schema());
    let (path, ring) = (place.dir.path().join("disk"), heap(&schema, 1, 1_000));
    let store = Store::at(&path);
    std::fs::write(&path, "not a directory").unwrap();
    append(&mut writer(&ring), &schema, 1, 10, 1);
    let options = FollowOptions { flush: Duration::ZERO, ..options(PersistMode::Continuous) };
    let follower = Follower::start(&store, "pong", &ring, options).unwrap();
    let wait = |what: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !what() {
            assert!(since.elapsed() < Duration::from_secs(60), "{:?}", follower.state());
            std::thread::yield_now();
        }
    };
    wait(&|| follower.state().errors >= 2);
    let error = follower.state().error.expect("a reason");
    assert!(error.contains("disk"), "{error}");
    std::fs::remove_file(&path).unwrap();
    wait(&|| follower.state().error.is_none());
    let state = follower.stop();
    assert_eq!((state.rows_persisted, state.rows_lapped), (ring.rows_published(), 0));
}

#[test]
fn rows_that_were_dropped_leave_the_copy_on_disk_without_a_new_row() {
    let (place, schema) = (Place::new(), schema());
    for mode in [PersistMode::Continuous, PersistMode::Block, PersistMode::Periodic] {
        let (store, name) = (place.store(), format!("dropped-{}", mode.as_str()));
        let options = FollowOptions { every: Duration::ZERO, newest: 3, ..options(mode) };
        let options = FollowOptions { flush: Duration::ZERO, ..options };
        let follow = |ring: &Ring| Following::new(&store, &name, ring, options).unwrap();
        let ring = heap(&schema, 2, 300);
        let mut writer = writer(&ring);
        let mut following = follow(&ring);
        assert!(!following.inspect().due, "an empty ring has nothing to save");
        append(&mut writer, &schema, 2, 40, 1);
        step(&mut following);
        let idle = following.inspect();
        assert!(!idle.is_behind() && !idle.due, "{mode:?}: {idle:?}");

        ring.drop_episode(0, None, false).unwrap();
        let dropped = following.inspect();
        assert!(dropped.drops_behind && dropped.due, "{mode:?}: {dropped:?}");
        assert_eq!(dropped.rows_behind, 0);
        assert_ne!(content(&load(&place, &store, &name)), content(&ring), "{mode:?}");
        step(&mut following);
        assert!(!following.inspect().is_behind(), "{mode:?}");
        assert_eq!(content(&load(&place, &store, &name)), content(&ring), "{mode:?}");

        // The next follower also removes rows that were dropped while none ran.
        drop(following);
        ring.clear().unwrap();
        let mut following = follow(&ring);
        assert!(following.inspect().due, "{mode:?}");
        step(&mut following);
        assert!(!following.inspect().is_behind(), "{mode:?}");
        let loaded = load(&place, &store, &name);
        assert_eq!((loaded.len(), content(&loaded)), (0, content(&ring)), "{mode:?}");
        append(&mut writer, &schema, 2, 3, 2);
        step(&mut following);
        assert_eq!(content(&load(&place, &store, &name)), content(&ring), "{mode:?}");
        if mode != PersistMode::Periodic {
            check_sum(&following);
        }
    }
}

#[test]
fn rows_dropped_before_they_were_copied_are_counted_as_lapped() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    let mut writer = writer(&ring);
    let mut following = follow(&store, &ring, options(PersistMode::Continuous));
    append(&mut writer, &schema, 1, 30, 1);
    step(&mut following);
    append(&mut writer, &schema, 1, 20, 2);
    let behind = following.inspect().rows_behind;
    ring.clear().unwrap();
    append(&mut writer, &schema, 1, 10, 3);
    step(&mut following);
    check_sum(&following);
    assert_eq!(following.rows_lapped(), behind);
    assert_eq!(content(&load(&place, &store, "pong@live")), content(&ring));
}

/// A follower's last step also removes dropped rows from the live snapshot.
#[test]
fn a_follower_that_stops_drops_the_rows_on_disk() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 30, 1);
    let start =
        || Follower::start(&store, "pong", &ring, options(PersistMode::Continuous)).unwrap();
    assert_eq!(start().stop().rows_behind, 0);
    let follower = start();
    ring.clear().unwrap();
    assert_eq!(follower.stop().error, None);
    assert_eq!(load(&place, &store, "pong@live").len(), 0);
}

#[test]
fn a_snapshot_of_a_cleared_ring_holds_the_rows_after_the_mark() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 300));
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 2, 40, 1);
    let save = || SaveOptions::default().name("pong").sizes(700, 3_000);
    store.save(&ring, "full", save()).unwrap();
    let full = content(&ring);
    ring.clear().unwrap();
    store.save(&ring, "empty", save()).unwrap();
    append(&mut writer, &schema, 2, 4, 2);
    let report = store.save(&ring, "after", save()).unwrap();
    assert_eq!((report.rows_lapped, report.rows), (0, 8));
    assert_eq!(content(&load(&place, &store, "pong@full")), full, "earlier snapshots stay");
    assert_eq!(load(&place, &store, "pong@empty").len(), 0);
    let loaded = load(&place, &store, "pong@after");
    assert_eq!(content(&loaded), content(&ring));
    assert_eq!(loaded.first_kept(0), Some(0), "a loaded ring begins at its first row");
    assert!(loaded.clear().unwrap() > 0 && loaded.is_empty());
}
