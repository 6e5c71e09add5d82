//! Tables of claims come back with their rows.

use std::fs;
use std::time::Duration;

use backcast_core::{
    Exist, Ring, SampleError, Sampler, SamplerOptions, SegmentError, Selector, TableError,
    TableOptions,
};
use backcast_persist::{LoadOptions, SaveOptions, Store};

use crate::rings::{Place, append, heap, schema, writer};

fn load(place: &Place, store: &Store, spec: &str) -> Ring {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).huge_pages(false);
    store.load(spec, options.base(place.base())).unwrap()
}

fn sampler(ring: &Ring, options: &TableOptions) -> Sampler {
    let selector = Selector::Table(options.clone());
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(selector)).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

/// Draws single transitions until none can be claimed, at most `most`.
fn drain(ring: &Ring, options: &TableOptions, most: usize) -> Vec<i64> {
    let mut sampler = sampler(ring, options);
    let mut drawn = Vec::new();
    while drawn.len() < most {
        match sampler.sample(1) {
            Ok(batch) => drawn.extend(batch.index().into_iter().map(i64::from)),
            Err(SampleError::TimedOut { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    drawn
}

fn tables() -> [TableOptions; 3] {
    [
        TableOptions::consume("queue"),
        TableOptions::consume("thrice").max_times_sampled(3).shuffled(true).seed(4),
        TableOptions::epoch("epoch").seed(9),
    ]
}

#[test]
fn a_loaded_ring_hands_out_what_the_saved_one_would() {
    for (lanes, steps, batch) in [(1, 30, 1), (3, 100, 7), (2, 200, 100), (2, 200, 3)] {
        let (place, schema) = (Place::new(), schema());
        let (store, ring) = (place.store(), heap(&schema, lanes, 300));
        let mut writer = writer(&ring);
        append(&mut writer, &schema, lanes, steps, 3);
        for table in &tables() {
            let mut sampler = sampler(&ring, table);
            for _ in 0..5 {
                let drawn = sampler.sample(batch);
                assert!(matches!(drawn, Ok(_) | Err(SampleError::TimedOut { .. })));
            }
        }
        append(&mut writer, &schema, lanes, 9, 4);
        let infos = tables().map(|table| ring.table(&table).unwrap().info());
        store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
        let expected = tables().map(|table| drain(&ring, &table, 2_000));
        let read_only = LoadOptions::default().base(place.base()).huge_pages(false);
        let attached = store.attach_snapshot("pong@a", read_only).unwrap();
        for again in [load(&place, &store, "pong@a"), attached] {
            for ((table, info), expected) in tables().iter().zip(&infos).zip(&expected) {
                assert_eq!(&again.table(table).unwrap().info(), info);
                assert_eq!(&drain(&again, table, 2_000), expected, "{table:?}");
            }
        }
        // Writers go on, and their rows are new.
        let again = load(&place, &store, "pong@a");
        let queue = &tables()[0];
        let old = drain(&again, queue, 2_000);
        append(&mut self::writer(&again), &schema, lanes, 50, 6);
        let new = drain(&again, queue, 2_000);
        assert!(!new.is_empty() && new.iter().all(|index| !old.contains(index)));
    }
}

#[test]
fn other_settings_than_the_saved_ones_are_refused() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 50, 3);
    ring.table(&tables()[1]).unwrap();
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let loaded = load(&place, &store, "pong");
    let other = loaded.table(&TableOptions::consume("thrice").shuffled(true).seed(4)).unwrap_err();
    let TableError::Segment(SegmentError::TableDiffers { table, what }) = &other else {
        panic!("{other}")
    };
    assert_eq!(table, "thrice");
    for value in ["max_times_sampled", "3", "1"] {
        assert!(what.contains(value), "{what} lacks {value}");
    }
}

/// A manifest without the key is one of a ring without tables of claims, as older ones are.
#[test]
fn a_manifest_without_claims_and_one_with_impossible_ones() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 300));
    append(&mut writer(&ring), &schema, 1, 50, 3);
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let manifest = |name: &str| {
        let slots = ["manifest-0", "manifest-1"].map(|slot| store.path().join(name).join(slot));
        let path = slots.into_iter().find(|slot| slot.exists()).unwrap();
        (fs::read_to_string(&path).unwrap(), path)
    };
    assert!(!manifest("pong").0.contains("claims"));
    assert_eq!(load(&place, &store, "pong@a").claim_states().unwrap().len(), 0);

    // A store with a single manifest: with two, a damaged one would leave the older.
    let queue = &tables()[0];
    sampler(&ring, queue).sample(5).unwrap();
    store.save(&ring, "b", SaveOptions::default().name("claimed")).unwrap();
    let (good, path) = manifest("claimed");
    let json = good.split_once('\n').unwrap().1;
    for (part, other, reason) in [
        ("\"name\":\"queue\"", "\"name\":\"../up\"", "table"),
        ("\"selector\":\"consume\"", "\"selector\":\"all\"", "selector"),
        ("\"claimed\":5", "\"claimed\":5000", "claimed"),
        ("\"times\":1", "\"times\":0", "round"),
        ("\"round\":0,\"lanes\":[[0,", "\"round\":0,\"lanes\":[[1000000,", "pass"),
        ("\"round\":0,\"lanes\":[[0,", "\"round\":0,\"lanes\":[[0,1],[0,", "lanes"),
    ] {
        let changed = json.replacen(part, other, 1);
        assert_ne!(changed, json, "{part}");
        let signed = format!("backcast-manifest 1 {} ", changed.len());
        let sum = blake3::hash(format!("{signed}{changed}").as_bytes()).to_hex();
        fs::write(&path, format!("{signed}{sum}\n{changed}")).unwrap();
        let options = LoadOptions::default().name("bad").base(place.base());
        let found = store.load("claimed@b", options);
        let text = found.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(reason), "{part}: {text}");
        assert!(Ring::attach_in(&place.base(), "bad").is_err(), "{part}: a ring was left");
    }
    fs::write(&path, good).unwrap();
    assert_eq!(drain(&load(&place, &store, "claimed@b"), queue, 1), [5]);
}
