//! The life of a snapshot: saved, shared, loaded, removed, refused.

use std::ops::ControlFlow;

use backcast_core::{Exist, Ring, RingOptions, SamplerOptions, WriterError, WriterOptions};
use backcast_persist::{LoadError, LoadOptions, SaveError, SaveOptions, Store, StoreError};
use serde_json::json;

use crate::rings::{Place, append, content, heap, rows, schema, writer};

/// Small batches and files, so that few rows need many.
fn small<'a>() -> SaveOptions<'a> {
    SaveOptions::default().name("pong").sizes(700, 3_000)
}

fn load(place: &Place, store: &Store, spec: &str) -> Ring {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).base(place.base());
    store.load(spec, options).expect("it loads")
}

#[test]
fn a_loaded_ring_has_the_same_rows_and_draws_the_same_batches() {
    let (place, schema) = (Place::new(), schema());
    let store = place.store();
    for (label, steps) in [("none", 0), ("one", 1), ("some", 40), ("wrapped", 500)] {
        let ring = heap(&schema, 3, 300);
        append(&mut writer(&ring), &schema, 3, steps, 7);
        let report = store.save(&ring, label, small()).unwrap();
        assert_eq!(report.rows_lapped, 0);
        let again = load(&place, &store, &format!("pong@{label}"));
        assert_eq!(content(&again), content(&ring), "{label}");
        assert_eq!(again.len(), ring.len());
        assert_eq!((again.lanes(), again.lane_capacity()), (ring.lanes(), ring.lane_capacity()));
        if ring.is_empty() {
            continue;
        }
        let draw = |ring: &Ring| {
            let mut sampler = ring.sampler(SamplerOptions::seeded(5).history(3)).unwrap();
            let batch = sampler.sample(64).unwrap();
            let rewards = batch.column::<f64>("reward").unwrap().iter().copied().collect();
            let index = batch.column::<i64>("index").unwrap().iter().copied().collect();
            (rewards, index)
        };
        let (rewards, index): (Vec<f64>, Vec<i64>) = draw(&again);
        assert_eq!((rewards.iter().map(|r| r.to_bits()).collect::<Vec<_>>(), index), {
            let (rewards, index) = draw(&ring);
            (rewards.iter().map(|r: &f64| r.to_bits()).collect::<Vec<_>>(), index)
        });
    }
}

#[test]
fn a_writer_goes_on_after_the_newest_row_and_the_next_snapshot_has_both() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 100));
    append(&mut writer(&ring), &schema, 2, 30, 1);
    store.save(&ring, "a", small()).unwrap();
    let again = load(&place, &store, "pong");
    let head = again.lane_span(0).unwrap().end;
    append(&mut writer(&again), &schema, 2, 10, 2);
    assert!(again.lane_span(0).unwrap().end >= head + 10);
    store.save(&again, "b", small()).unwrap();
    let after = content(&again);
    let third = load(&place, &store, "pong@b");
    assert_eq!(content(&third), after);
}

#[test]
fn a_second_save_writes_what_is_new_and_shares_the_rest() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 4_000));
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 2, 900, 1);
    let first = store.save(&ring, "a", small()).unwrap();
    let before = content(&ring);
    append(&mut writer, &schema, 2, 9, 2);
    let second = store.save(&ring, "b", small()).unwrap();
    let heads: u64 = (0..2).map(|lane| ring.lane_span(lane).unwrap().end).sum();
    assert_eq!((first.rows, second.rows), (first.rows_written, heads));
    assert_eq!(second.rows_written, heads - first.rows);
    assert!(second.bytes_written * 10 < first.bytes_written, "{second:?}");
    let third = store.save(&ring, "c", small()).unwrap();
    assert_eq!((third.rows_written, third.files_written, third.bytes_written), (0, 0, 0));
    assert_eq!(content(&load(&place, &store, "pong@a")), before);
    for label in ["pong@b", "pong@c"] {
        assert_eq!(content(&load(&place, &store, label)), content(&ring));
    }
    assert!(store.verify("pong", |_| ControlFlow::Continue(())).unwrap().is_whole());
}

#[test]
fn a_removed_snapshot_frees_what_no_other_needs() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 1_000));
    let mut writer = writer(&ring);
    let mut contents = Vec::new();
    for (seed, label) in (1..).zip(["a", "b", "c"]) {
        append(&mut writer, &schema, 1, 300, seed);
        store.save(&ring, label, small()).unwrap();
        contents.push(content(&ring));
    }
    // All rows of `a` are in `b` too.
    assert_eq!(store.remove("pong@a").unwrap().bytes_freed, 0);
    assert_eq!(content(&load(&place, &store, "pong@b")), contents[1]);
    let labels = |store: &Store| -> Vec<String> {
        store.snapshots("pong").unwrap().snapshots.into_iter().map(|s| s.label).collect()
    };
    assert_eq!(labels(&store), ["b", "c"]);
    let all = store.remove("pong").unwrap();
    assert_eq!(all.removed, ["pong@b", "pong@c"]);
    assert!(all.bytes_freed > 900 * 40);
    let left = std::fs::read_dir(store.path().join("pong/chunks")).unwrap().count();
    assert_eq!(left, 0);
    assert!(labels(&store).is_empty());
    store.save(&ring, "a", small()).unwrap();
    assert_eq!(content(&load(&place, &store, "pong@a")), contents[2]);
}

#[test]
fn a_replaced_label_keeps_no_more_than_the_newest_needs() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 100));
    let mut writer = writer(&ring);
    let mut most = 0;
    for seed in 1..20 {
        append(&mut writer, &schema, 1, 60, seed);
        store.save(&ring, "latest", small().replace(true)).unwrap();
        most = most.max(std::fs::read_dir(store.path().join("pong/chunks")).unwrap().count());
        assert_eq!(content(&load(&place, &store, "pong@latest")), content(&ring));
    }
    assert!(most < 25, "{most} files for 100 rows");
    assert_eq!(store.snapshots("pong").unwrap().snapshots.len(), 1);
}

#[test]
fn the_state_comes_back_as_it_was_given() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 10));
    let state =
        json!({"sampler": {"seed": u64::MAX, "batches": 12}, "steps": 3.5, "name": "naïve"});
    store.save(&ring, "a", small().state(state.clone())).unwrap();
    assert_eq!(store.snapshot("pong@a").unwrap().state, state);
    let large = json!("x".repeat(17 << 20));
    let refused = store.save(&ring, "b", small().state(large)).unwrap_err();
    assert!(
        matches!(refused, SaveError::StateTooLarge { .. })
            && refused.to_string().contains("16777216")
    );
    // Saves a state at the limit of the depth, and refuses one above it.
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    store.save(&ring, "c", small().state(nested(100))).unwrap();
    assert_eq!(store.snapshot("pong@c").unwrap().state, nested(100));
    let refused = store.save(&ring, "d", small().state(nested(101))).unwrap_err();
    assert!(matches!(refused, SaveError::StateTooDeep { depth: 101, limit: 100 }), "{refused}");
    let (loaded, found) = store
        .load_with_state("pong@a", LoadOptions::default().name("x").base(place.base()))
        .unwrap();
    assert_eq!((found.state, loaded.name()), (state, Some("x")));
}

#[test]
fn a_file_in_a_store_is_nothing_that_was_saved() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 10));
    store.save(&ring, "a", small()).unwrap();
    std::fs::write(store.path().join("README"), "by hand").unwrap();
    assert_eq!(store.names().unwrap(), ["README", "pong"]);
    assert!(store.snapshots("README").unwrap().snapshots.is_empty());
    assert!(matches!(store.snapshot("README"), Err(StoreError::NotFound { .. })));
    let refused = store.save(&ring, "a", small().name("README")).unwrap_err();
    assert!(matches!(refused, SaveError::Store(StoreError::Io { .. })), "{refused}");
}

#[test]
fn a_snapshot_in_shared_memory_is_one_for_all_and_goes_with_its_last_holder() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 200));
    append(&mut writer(&ring), &schema, 2, 150, 3);
    store.save(&ring, "a", small()).unwrap();
    let attach = || store.attach_snapshot("pong", LoadOptions::default().base(place.base()));
    let one = attach().unwrap();
    let two = attach().unwrap();
    assert_eq!(one.uuid(), two.uuid(), "the same memory");
    assert_eq!(one.name(), Some("pong@a"));
    assert_eq!(content(&one), content(&ring));
    let by_name = Ring::attach_in(&place.base(), "pong@a").unwrap();
    assert_eq!(by_name.uuid(), one.uuid());
    let refused = one.writer(WriterOptions::lanes(1)).unwrap_err();
    assert!(matches!(refused, WriterError::Snapshot { .. }), "{refused}");
    // Another snapshot of that name is not mistaken for this one.
    store.remove("pong@a").unwrap();
    append(&mut writer(&ring), &schema, 2, 5, 4);
    store.save(&ring, "a", small()).unwrap();
    assert!(matches!(attach(), Err(LoadError::OtherSnapshot { .. })));
    // A snapshot with the same number of rows is not either.
    let other = heap(&schema, 2, 200);
    append(&mut writer(&other), &schema, 2, 150, 7);
    assert_eq!(other.lane_span(0), one.lane_span(0));
    store.save(&other, "a", small().replace(true)).unwrap();
    assert!(matches!(attach(), Err(LoadError::OtherSnapshot { .. })));
    drop((one, two, by_name));
    assert_eq!(backcast_core::list_objects(&place.base()).unwrap().len(), 0);
    assert_eq!(content(&attach().unwrap()), content(&other));
}

#[test]
fn a_ring_that_is_replaced_stays_until_the_new_one_is_whole() {
    let (place, schema) = (Place::new(), schema());
    let store = place.store();
    let options = || RingOptions::with_capacity(100).lanes(1).base(place.base());
    let ring = Ring::create("pong", &schema, options()).unwrap();
    append(&mut writer(&ring), &schema, 1, 50, 3);
    store.save(&ring, "a", SaveOptions::default()).unwrap();
    let load = |exist| store.load("pong@a", LoadOptions::default().exist(exist).base(place.base()));
    let refused = load(Exist::Error).unwrap_err();
    assert!(refused.to_string().contains("pong"), "{refused}");
    let chunk = store.snapshot("pong@a").unwrap().files[0].clone();
    let good = std::fs::read(&chunk).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(&chunk, &bad).unwrap();
    assert!(matches!(load(Exist::Replace), Err(LoadError::Damaged { .. })));
    assert_eq!(Ring::attach_in(&place.base(), "pong").unwrap().uuid(), ring.uuid());
    std::fs::write(&chunk, &good).unwrap();
    let again = load(Exist::Replace).unwrap();
    assert_ne!(again.uuid(), ring.uuid());
    assert_eq!(content(&again), content(&ring));
}

#[test]
fn a_cancelled_save_or_load_leaves_nothing() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 2_000));
    append(&mut writer(&ring), &schema, 2, 900, 3);
    let mut calls = 0;
    let stop = small().on_progress(|progress| {
        calls += 1;
        assert!(progress.rows <= progress.total_rows && progress.total_rows == 1_800);
        if calls == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(store.save(&ring, "a", stop), Err(SaveError::Cancelled)));
    assert_eq!(std::fs::read_dir(store.path().join("pong/chunks")).unwrap().count(), 0);
    assert!(store.snapshots("pong").unwrap().snapshots.is_empty());
    let mut seen = Vec::new();
    let watched = small().on_progress(|progress| {
        seen.push(*progress);
        ControlFlow::Continue(())
    });
    let saved = store.save(&ring, "a", watched).unwrap();
    let last = seen.last().unwrap();
    assert_eq!((last.rows, last.total_rows), (saved.rows, saved.rows));
    assert!(seen.is_sorted_by_key(|progress| progress.rows));
    let options = LoadOptions::default().name("x").base(place.base());
    let stopped = store.load("pong", options.on_progress(|_| ControlFlow::Break(())));
    assert!(matches!(stopped, Err(LoadError::Cancelled)));
    assert_eq!(backcast_core::list_objects(&place.base()).unwrap().len(), 0);
    let stopped = store.verify("pong", |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(LoadError::Cancelled)));
}

#[test]
fn savers_wait_for_each_other_and_readers_do_not_wait() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 2_000));
    append(&mut writer(&ring), &schema, 1, 900, 3);
    store.save(&ring, "a", small()).unwrap();
    append(&mut writer(&ring), &schema, 1, 900, 4);
    let mut tried = false;
    let during = small().on_progress(|_| {
        if !std::mem::replace(&mut tried, true) {
            // In the middle of a save.
            let wait = small().wait(std::time::Duration::from_millis(20));
            let busy = store.save(&ring, "c", wait).unwrap_err();
            assert!(matches!(busy, SaveError::Store(StoreError::Busy { .. })), "{busy}");
            assert_eq!(load(&place, &store, "pong@a").rows(0, 0..1).unwrap().len(), 1);
            assert_eq!(store.snapshots("pong").unwrap().snapshots.len(), 1);
        }
        ControlFlow::Continue(())
    });
    store.save(&ring, "b", during).unwrap();
    assert!(tried);
    // A removal during a load removes no file that the load needs.
    let mut tried = false;
    let options = LoadOptions::default().name("x").base(place.base()).on_progress(|_| {
        if !std::mem::replace(&mut tried, true) {
            assert_eq!(store.remove("pong").unwrap().bytes_freed, 0);
        }
        ControlFlow::Continue(())
    });
    let loaded = store.load("pong@b", options).unwrap();
    assert!(tried);
    assert_eq!(content(&loaded), content(&ring));
    // The next change cleans up.
    store.save(&heap(&schema, 1, 10), "d", small()).unwrap();
    store.remove("pong").unwrap();
    assert_eq!(std::fs::read_dir(store.path().join("pong/chunks")).unwrap().count(), 0);
}

#[test]
fn missing_and_impossible_objects_are_reported_with_a_remedy() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 100));
    assert!(matches!(store.save(&ring, "a", SaveOptions::default()), Err(SaveError::NoName)));
    store.save(&ring, "epoch-1", small()).unwrap();
    let load = |spec: &str| {
        let error = store.load(spec, LoadOptions::default().base(place.base()));
        error.unwrap_err().to_string()
    };
    for (text, parts) in [
        (load("pnog"), ["`pnog`", "`pong`"]),
        (load("pong@epoch-2"), ["`pong@epoch-2`", "`pong@epoch-1`"]),
        (load("zzz"), ["`zzz`", "backcast ls"]),
        (load("a/b"), ["`a/b`", "A-Z a-z 0-9 _ - ."]),
        (load("pong@"), ["``", "`pong@epoch-10`"]),
        (store.save(&ring, "epoch-1", small()).unwrap_err().to_string(), ["pong@epoch-1", "rm"]),
        (store.save(&ring, "a b", small()).unwrap_err().to_string(), ["`a b`", "100"]),
        (store.remove("pong@x").unwrap_err().to_string(), ["`pong@x`", "backcast ls"]),
    ] {
        for part in parts {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    assert!(store.snapshots("nothing").unwrap().snapshots.is_empty());
    assert!(!store.path().join("nothing").exists(), "looking makes no directory");
    assert_eq!(store.names().unwrap(), ["pong"]);
}

#[test]
fn rings_of_one_name_keep_their_snapshots_apart() {
    let (place, schema) = (Place::new(), schema());
    let store = place.store();
    let mut contents = Vec::new();
    for (seed, label) in (1..).zip(["a", "b"]) {
        let ring = heap(&schema, 1, 100);
        append(&mut writer(&ring), &schema, 1, 30 + seed, seed);
        store.save(&ring, label, small()).unwrap();
        contents.push(content(&ring));
    }
    let other = backcast_core::Schema::builder()
        .column("lane", backcast_core::DType::U8, &[])
        .build()
        .unwrap();
    let ring = heap(&other, 2, 50);
    append(&mut writer(&ring), &other, 2, 70, 9);
    store.save(&ring, "c", small()).unwrap();
    contents.push(content(&ring));
    for (label, content_then) in ["pong@a", "pong@b", "pong@c"].iter().zip(&contents) {
        assert_eq!(content(&load(&place, &store, label)), *content_then, "{label}");
    }
    let (range, _) = rows(&ring, 0, ring.lane_span(0).unwrap());
    assert_eq!(store.snapshot("pong").unwrap().lanes[0], range);
}
