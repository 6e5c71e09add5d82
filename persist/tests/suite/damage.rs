//! Damage of any byte of any file is found and named, and never loaded as other rows.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use backcast_core::{Exist, PriorityOptions};
use backcast_persist::{
    Damage, DamageKind, LoadError, LoadOptions, SaveOptions, Store, StoreError,
};
use serde_json::{Value, json};

use crate::rings::{Content, Place, append, content, heap, schema, writer};

/// Returns a store with `pong@a` and `pong@b`, and their rows. `pong@b` has priorities.
fn stocked() -> (Place, Store, [Content; 2]) {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 40));
    let mut writer = writer(&ring);
    let contents = [("a", 9), ("b", 4)].map(|(label, steps)| {
        append(&mut writer, &schema, 1, steps, steps);
        if label == "b" {
            let mut priorities = ring.priorities(&PriorityOptions::alpha(1.0)).unwrap();
            assert_eq!(priorities.update(&[1, 3], &[2.0, 7.0]).unwrap(), 0);
        }
        store.save(&ring, label, SaveOptions::default().name("pong")).unwrap();
        content(&ring)
    });
    (place, store, contents)
}

fn load(place: &Place, store: &Store, spec: &str) -> Result<Content, LoadError> {
    let options = LoadOptions::default().name("loaded").exist(Exist::Replace).huge_pages(false);
    store.load(spec, options.base(place.base())).map(|ring| content(&ring))
}

fn verify(store: &Store) -> Result<Vec<Damage>, LoadError> {
    store.verify("pong", |_| ControlFlow::Continue(())).map(|report| report.damages)
}

/// Calls `check` with every `step`-th byte of the file flipped, with the file cut there, and at
/// last with a byte too many and with the file removed.
fn spoil(path: &Path, step: usize, mut check: impl FnMut(&str)) {
    let good = fs::read(path).unwrap();
    for at in (0..good.len()).step_by(step) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(path, &bad).unwrap();
        check(&format!("{}: byte {at} flipped", path.display()));
        fs::write(path, &good[..at]).unwrap();
        check(&format!("{}: cut at {at}", path.display()));
    }
    fs::write(path, [&good[..], b"x"].concat()).unwrap();
    check(&format!("{}: a byte too long", path.display()));
    fs::remove_file(path).unwrap();
    check(&format!("{}: removed", path.display()));
    fs::write(path, good).unwrap();
}

#[test]
fn every_byte_of_a_chunk_counts() {
    let (place, store, [_, is]) = stocked();
    assert_eq!(verify(&store).unwrap(), []);
    let mut refused = 0_u32;
    for path in store.snapshot("pong@b").unwrap().files {
        let mut left = true;
        spoil(&path, 1, |context| {
            let damages = verify(&store).expect(context);
            assert!(!damages.is_empty(), "{context}: not found");
            assert!(damages.iter().all(|damage| damage.file == path), "{context}: {damages:?}");
            match load(&place, &store, "pong@b") {
                Err(LoadError::Damaged { snapshot, damage }) => {
                    assert_eq!((snapshot.as_str(), &damage.file), ("pong@b", &path), "{context}");
                    refused += 1;
                }
                Err(error) => panic!("{context}: {error}"),
                // A byte around the rows, which a load does not need.
                Ok(loaded) => assert_eq!(loaded, is, "{context}"),
            }
            left &= path.exists();
        });
        assert!(!left, "the file was removed once");
    }
    assert!(refused > 2_000, "{refused}");
    assert_eq!(verify(&store).unwrap(), []);
}

#[test]
fn damage_of_a_column_is_named_with_its_rows() {
    let (_place, store, _) = stocked();
    let path = &store.snapshot("pong@a").unwrap().files[0];
    let mut bytes = fs::read(path).unwrap();
    // The `seq` column begins 64 bytes into the body, after `lane`: 0, 1, 2, …
    let seq: Vec<u8> = (0..9_u64).flat_map(u64::to_le_bytes).collect();
    let at = bytes.windows(seq.len()).position(|window| window == seq).unwrap();
    bytes[at] ^= 1;
    fs::write(path, &bytes).unwrap();
    let damage = verify(&store).unwrap().remove(0);
    let DamageKind::Changed { bytes, .. } = &damage.kind else { panic!("{damage}") };
    assert_eq!(bytes.start, at as u64);
    let text = damage.to_string();
    for value in ["`seq`", "0..9", "lane 0"] {
        assert!(text.contains(value), "{text} lacks {value}");
    }
}

#[test]
fn a_damaged_manifest_is_named_and_the_other_one_counts() {
    let (place, store, [a, b]) = stocked();
    for (slot, newer) in [("manifest-0", false), ("manifest-1", true)] {
        let path = store.path().join("pong").join(slot);
        spoil(&path, 3, |context| {
            let listing = store.snapshots("pong").expect(context);
            let labels: Vec<_> = listing.snapshots.iter().map(|s| s.label.as_str()).collect();
            assert_eq!(labels, if newer { &["a"][..] } else { &["a", "b"] }, "{context}");
            if path.exists() {
                assert_eq!(listing.damages.len(), 1, "{context}");
                assert_eq!(listing.damages[0].file, path, "{context}");
                assert_eq!(verify(&store).expect(context), listing.damages, "{context}");
            }
            if context.contains('5') {
                assert_eq!(load(&place, &store, "pong@a").expect(context), a);
                assert_eq!(
                    load(&place, &store, "pong").expect(context),
                    if newer { a.clone() } else { b.clone() }
                );
            }
        });
    }
}

#[test]
fn files_that_only_the_older_manifest_names_stay_with_it() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 40));
    let mut writer = writer(&ring);
    let generation = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let json: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
        json["generation"].as_u64()
    };
    let mut before: Option<Content> = None;
    for steps in [30, 50, 90, 70] {
        append(&mut writer, &schema, 1, steps, steps);
        let options = SaveOptions::default().name("pong").sizes(900, 2_000).replace(true);
        store.save(&ring, "latest", options).unwrap();
        if let Some(before) = &before {
            // No file of the newer snapshot has a row of the older one.
            let slots = ["manifest-0", "manifest-1"];
            let slots = slots.map(|slot| store.path().join("pong").join(slot));
            let newer = slots.iter().max_by_key(|path| generation(path)).unwrap();
            let good = fs::read(newer).unwrap();
            fs::write(newer, &good[..good.len() / 2]).unwrap();
            assert_eq!(load(&place, &store, "pong@latest").unwrap(), *before, "{steps}");
            fs::write(newer, good).unwrap();
        }
        before = Some(content(&ring));
    }
}

#[test]
fn with_both_manifests_damaged_nothing_is_loaded_nor_written_over() {
    let (place, store, _) = stocked();
    let paths = ["manifest-0", "manifest-1"].map(|slot| store.path().join("pong").join(slot));
    for path in &paths {
        fs::write(path, b"backcast-manifest").unwrap();
    }
    let errors = [
        store.snapshots("pong").unwrap_err(),
        match load(&place, &store, "pong") {
            Err(LoadError::Store(error)) => error,
            other => panic!("{other:?}"),
        },
        store.remove("pong@a").unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::NoManifest { .. }), "{error}");
        for path in &paths {
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
    let saved = store.save(&heap(&schema(), 1, 10), "x", SaveOptions::default().name("pong"));
    assert!(saved.unwrap_err().to_string().contains("manifest-1"));
    assert_eq!(fs::read(&paths[0]).unwrap(), b"backcast-manifest");
}

#[test]
fn a_save_after_a_damaged_manifest_reports_it_and_deletes_nothing() {
    let (place, store, [a, _]) = stocked();
    let newer = store.path().join("pong/manifest-1");
    let chunks = || fs::read_dir(store.path().join("pong/chunks")).unwrap().count();
    let before = chunks();
    let mut bytes = fs::read(&newer).unwrap();
    bytes[100] ^= 4;
    fs::write(&newer, bytes).unwrap();
    let ring = heap(&schema(), 1, 10);
    let saved = store.save(&ring, "c", SaveOptions::default().name("pong")).unwrap();
    assert_eq!(saved.damage.map(|damage| damage.file), Some(newer));
    assert!(chunks() >= before, "files that only the damaged manifest named are still there");
    assert_eq!(load(&place, &store, "pong@a").unwrap(), a);
}

type Change = fn(&mut Value);

/// Changes the JSON of a manifest, and its checksum to match.
fn forge(path: &PathBuf, change: impl FnOnce(&mut Value)) {
    let bytes = fs::read(path).unwrap();
    let at = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    let mut value: Value = serde_json::from_slice(&bytes[at..]).unwrap();
    change(&mut value);
    seal(path, &serde_json::to_string(&value).unwrap(), 1);
}

fn seal(path: &PathBuf, json: &str, version: u64) {
    let line = format!("backcast-manifest {version} {} ", json.len());
    let hash = blake3::hash(format!("{line}{json}").as_bytes()).to_hex();
    fs::write(path, format!("{line}{hash}\n{json}")).unwrap();
}

#[test]
fn an_inconsistent_manifest_is_refused_despite_a_valid_checksum() {
    let (_place, store, _) = stocked();
    let path = store.path().join("pong/manifest-1");
    let good = fs::read(&path).unwrap();
    fs::remove_file(store.path().join("pong/manifest-0")).unwrap();
    let lies: [(&str, Change); 20] = [
        ("other name", |m| m["name"] = json!("breakout")),
        ("no lanes", |m| m["rings"][0]["lanes"] = json!(0)),
        ("many lanes", |m| m["rings"][0]["lanes"] = json!(5_000)),
        ("large lanes", |m| m["rings"][0]["lane_capacity"] = json!(u64::MAX)),
        ("no columns", |m| m["rings"][0]["columns"] = json!([])),
        ("odd dtype", |m| m["rings"][0]["columns"][0]["dtype"] = json!("f16")),
        ("wide column", |m| m["rings"][0]["columns"][0]["shape"] = json!([4_000_000_000_u32, 9])),
        ("odd role", |m| m["rings"][0]["columns"][0]["role"] = json!("reward")),
        ("odd policy", |m| m["rings"][0]["lane_policy"] = json!("maybe")),
        ("no identity", |m| m["rings"][0]["uuid"] = json!("../x")),
        ("a file elsewhere", |m| m["rings"][0]["chunks"][0]["file"] = json!("../../x.arrow")),
        ("an absolute file", |m| m["rings"][0]["chunks"][0]["file"] = json!("/etc/passwd")),
        ("many rows", |m| m["rings"][0]["chunks"][0]["batches"][0]["rows"] = json!(1_u64 << 60)),
        ("no rows", |m| m["rings"][0]["chunks"][0]["batches"][0]["rows"] = json!(0)),
        ("far away", |m| m["rings"][0]["chunks"][0]["batches"][0]["body_at"] = json!(u64::MAX)),
        ("few sums", |m| m["rings"][0]["chunks"][0]["batches"][0]["column_crc32"] = json!([1])),
        ("backwards", |m| m["snapshots"][0]["lanes"] = json!([[9, 3]])),
        ("not saved", |m| m["snapshots"][0]["lanes"] = json!([[0, 39]])),
        ("twice", |m| m["snapshots"][1]["label"] = json!("a")),
        ("unknown key", |m| m["more"] = json!(1)),
    ];
    for (id, change) in lies {
        fs::write(&path, &good).unwrap();
        forge(&path, change);
        let refused = store.snapshots("pong").expect_err(id);
        assert!(matches!(refused, StoreError::NoManifest { .. }), "{id}: {refused}");
    }
    // Deep nesting must not overflow the stack.
    seal(&path, &"[".repeat(100_000), 1);
    assert!(matches!(store.snapshots("pong"), Err(StoreError::NoManifest { .. })));
    seal(&path, "{}", 2);
    let newer = store.snapshots("pong").unwrap_err();
    assert!(matches!(newer, StoreError::OtherVersion { found: 2, known: 1, .. }), "{newer}");
}

#[test]
fn hostile_strings_of_a_manifest_come_out_printable() {
    let (_place, store, _) = stocked();
    let path = store.path().join("pong/manifest-1");
    let good = fs::read(&path).unwrap();
    fs::remove_file(store.path().join("pong/manifest-0")).unwrap();
    let strings: [(&str, &str); 11] = [
        ("name", "/name"),
        ("uuid", "/rings/0/uuid"),
        ("policy", "/rings/0/lane_policy"),
        ("column", "/rings/0/columns/0/name"),
        ("dtype", "/rings/0/columns/0/dtype"),
        ("role", "/rings/0/columns/0/role"),
        ("file", "/rings/0/chunks/0/file"),
        ("label", "/snapshots/0/label"),
        ("ring", "/snapshots/0/ring"),
        ("not a number", "/rings/0/lanes"),
        ("not a list", "/snapshots"),
    ];
    for (id, pointer) in strings {
        // Escape sequences of terminals, with one and with two bytes, a line break, and a bell.
        for hostile in ["\u{1b}[2J\u{7}", "\u{9b}31m", "a\nerror: b\r", "\u{0}"] {
            fs::write(&path, &good).unwrap();
            forge(&path, |m| *m.pointer_mut(pointer).expect(id) = json!(hostile));
            let text = store.snapshots("pong").expect_err(id).to_string();
            assert!(!text.contains(char::is_control), "{id}: {text:?}");
        }
    }
    fs::write(&path, &good).unwrap();
    forge(&path, |m| m["\u{1b}[2J"] = json!(1));
    let text = store.snapshots("pong").unwrap_err().to_string();
    assert!(text.contains("\u{fffd}[2J") && !text.contains(char::is_control), "{text:?}");
}

#[test]
fn rows_whose_checksum_was_repaired_but_not_their_order_are_refused() {
    let (place, store, _) = stocked();
    let path = store.path().join("pong/manifest-1");
    let chunk = store.snapshot("pong@a").unwrap().files[0].clone();
    let mut bytes = fs::read(&chunk).unwrap();
    let seq: Vec<u8> = (0..9_u64).flat_map(u64::to_le_bytes).collect();
    let at = bytes.windows(seq.len()).position(|window| window == seq).unwrap();
    bytes[at + 8] = 7;
    fs::write(&chunk, &bytes).unwrap();
    let crc = crc32fast::hash(&bytes[at..at + 128]);
    forge(&path, |m| m["rings"][0]["chunks"][0]["batches"][0]["column_crc32"][1] = json!(crc));
    let refused = load(&place, &store, "pong@a").unwrap_err();
    let LoadError::Damaged { damage, .. } = &refused else { panic!("{refused}") };
    assert_eq!((&damage.file, &damage.kind), (&chunk, &DamageKind::Rows { lane: 0, rows: 0..9 }));
    assert_eq!(
        backcast_core::list_objects(&place.base()).unwrap().len(),
        0,
        "nothing is left of it"
    );
}
