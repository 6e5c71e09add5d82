//! Learned columns come back with their rows.

use std::fs;
use std::ops::ControlFlow;

use backcast_core::{DType, Exist, LearnedOptions, Ring, RowIndex, SamplerOptions};
use backcast_files::Progress;
use backcast_persist::{LoadOptions, SaveOptions, Store};

use crate::rings::{Place, append, heap, schema, writer};

fn load(place: &Place, store: &Store, spec: &str) -> Ring {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).huge_pages(false);
    store.load(spec, options.base(place.base())).unwrap()
}

fn options() -> LearnedOptions {
    let options = LearnedOptions::new("online").column("value", DType::F32);
    options.column("lane", DType::U8).column("good", DType::Bool)
}

/// Sets values of every third row, and every fifth one's flag.
fn set(ring: &Ring) {
    let learned = ring.learned(&options()).unwrap();
    for lane in 0..ring.lanes() {
        let rows = ring.lane_span(lane).unwrap().filter(|row| row.is_multiple_of(3));
        let index: Vec<i64> = rows.map(|row| RowIndex::new(lane, row).0).collect();
        let small = |index: &i64| f32::from(u16::try_from(index % 1_000).unwrap());
        let values: Vec<f32> = index.iter().map(small).collect();
        learned.update("value", &index, &values).unwrap();
        let lane = u8::try_from(lane).unwrap();
        learned.update("lane", &index, &vec![lane; index.len()]).unwrap();
        let fifth: Vec<i64> = index.iter().copied().filter(|index| index % 5 == 0).collect();
        learned.update("good", &fifth, &vec![true; fifth.len()]).unwrap();
    }
}

/// Returns every value of every row, and which were set.
fn all(ring: &Ring) -> Vec<(Vec<u8>, Vec<bool>)> {
    let learned = ring.learned(&options()).unwrap();
    let rows = |lane| ring.lane_span(lane).unwrap().map(move |row| RowIndex::new(lane, row).0);
    let index: Vec<i64> = (0..ring.lanes()).flat_map(rows).collect();
    ["value", "lane", "good"].map(|name| learned.value_bytes(name, &index).unwrap()).to_vec()
}

#[test]
fn rows_that_are_overwritten_during_a_save_keep_their_values() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    let mut writer = writer(&ring);
    append(&mut writer, &schema, 1, 400, 3);
    set(&ring);
    let expected = all(&ring);
    let overwrites = |done: &Progress| {
        if done.rows == done.total_rows {
            append(&mut writer, &schema, 1, 200, 4);
            set(&ring);
        }
        ControlFlow::Continue(())
    };
    let saving = SaveOptions::default().name("pong").on_progress(overwrites);
    assert_eq!(store.save(&ring, "a", saving).unwrap().rows_lapped, 0);
    assert_eq!(all(&load(&place, &store, "pong")), expected);
    assert_ne!(all(&ring), expected, "rows were overwritten");
}

#[test]
fn a_loaded_ring_has_the_values_of_the_saved_one() {
    for (lanes, steps) in [(1, 30), (3, 100), (2, 400)] {
        let (place, schema) = (Place::new(), schema());
        let (store, ring) = (place.store(), heap(&schema, lanes, 300));
        append(&mut writer(&ring), &schema, lanes, steps, 3);
        set(&ring);
        store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
        let expected = all(&ring);
        assert!(expected.iter().all(|(_, set)| set.iter().any(|set| *set)));
        let read_only = LoadOptions::default().base(place.base()).huge_pages(false);
        let attached = store.attach_snapshot("pong@a", read_only).unwrap();
        for again in [load(&place, &store, "pong@a"), attached] {
            assert_eq!(again.learned_options("online").unwrap(), options());
            assert_eq!(all(&again), expected);
            let spec = SamplerOptions::seeded(1).learned(options());
            let batches =
                [&ring, &again].map(|ring| ring.sampler(spec.clone()).unwrap().sample(64));
            let [one, two] = batches.map(|batch| batch.unwrap());
            assert_eq!(one.column::<f32>("value").unwrap(), two.column::<f32>("value").unwrap());
        }
        assert!(store.verify("pong", |_| std::ops::ControlFlow::Continue(())).unwrap().is_whole());
    }
}

#[test]
fn files_of_learned_columns_are_checked_and_removed_with_their_snapshot() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 40, 3);
    set(&ring);
    let chunks = || fs::read_dir(store.path().join("pong/chunks")).unwrap().count();
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    assert_eq!(chunks(), 2);
    for _ in 0..2 {
        store.save(&ring, "a", SaveOptions::default().name("pong").replace(true)).unwrap();
    }
    assert!(chunks() <= 3, "the table of the snapshot before the last is gone");
    let [found] = &store.snapshots("pong").unwrap().snapshots[..] else { panic!("one snapshot") };
    let file = found
        .files
        .iter()
        .find(|file| fs::read(file).unwrap().windows(9).any(|bytes| bytes == b"value_set"));
    let file = file.unwrap();
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
    let damages = store.verify("pong@a", |_| std::ops::ControlFlow::Continue(())).unwrap().damages;
    assert_eq!(damages.len(), 1, "{damages:?}");
}
