//! Manifests with a right checksum and impossible contents are refused by what is wrong.

use std::fs;

use backcast_core::{PriorityOptions, Ring};
use backcast_persist::{LoadOptions, SaveOptions};
use serde_json::{Value, json};

use crate::rings::{Place, append, heap, schema, writer};

/// Returns a manifest with its first line.
fn signed(manifest: &Value) -> String {
    let text = manifest.to_string();
    let head = format!("backcast-manifest 1 {} ", text.len());
    let sum = blake3::hash(format!("{head}{text}").as_bytes()).to_hex();
    format!("{head}{sum}\n{text}")
}

/// Change of a manifest, by the name of what it changes.
type Change = (&'static str, fn(&mut Value), &'static str);

fn chunk(manifest: &mut Value) -> &mut Value {
    &mut manifest["rings"][0]["chunks"][0]
}

fn batch(manifest: &mut Value, at: usize) -> &mut Value {
    &mut chunk(manifest)["batches"][at]
}

fn snapshot(manifest: &mut Value) -> &mut Value {
    &mut manifest["snapshots"][0]
}

fn add(value: &mut Value, more: u64) {
    *value = json!(value.as_u64().unwrap() + more);
}

/// Repeats the first item of a list.
fn twice(list: &mut Value) {
    let first = list[0].clone();
    list.as_array_mut().unwrap().push(first);
}

const CHANGES: [Change; 33] = [
    ("nothing", |_| (), ""),
    ("name", |m| m["name"] = json!("other"), "its name is `other`"),
    ("identity", |m| m["rings"][0]["uuid"] = json!("f00"), "not a UUID"),
    ("letters", |m| m["rings"][0]["uuid"] = json!("g".repeat(32)), "not a UUID"),
    ("two rings", |m| twice(&mut m["rings"]), "it is listed twice"),
    ("no lanes", |m| m["rings"][0]["lanes"] = json!(0), "it has 0 lanes"),
    ("many lanes", |m| m["rings"][0]["lanes"] = json!(4_097), "it has 4097 lanes"),
    ("no rows", |m| m["rings"][0]["lane_capacity"] = json!(0), "lanes of 0 rows"),
    (
        "many rows",
        |m| m["rings"][0]["lane_capacity"] = json!((1_u64 << 48) + 1),
        "its lanes keep 281474976710657 rows",
    ),
    ("path", |m| chunk(m)["file"] = json!("../00.arrow"), "is not the name of a chunk"),
    ("ending", |m| chunk(m)["file"] = json!("00.arrows"), "is not the name of a chunk"),
    ("no stem", |m| chunk(m)["file"] = json!(".arrow"), "is not the name of a chunk"),
    (
        "long stem",
        |m| chunk(m)["file"] = json!(format!("{}.arrow", "a".repeat(65))),
        "is not the name of a chunk",
    ),
    ("letter", |m| chunk(m)["file"] = json!("0g.arrow"), "is not the name of a chunk"),
    ("two chunks", |m| twice(&mut m["rings"][0]["chunks"]), "or is listed twice"),
    ("no batch", |m| chunk(m)["batches"] = json!([]), "it has no batch"),
    ("lane", |m| batch(m, 1)["lane"] = json!(2), "rows of lane 2"),
    ("empty batch", |m| batch(m, 0)["rows"] = json!(0), "0 rows of lane 0"),
    ("late batch", |m| batch(m, 1)["first"] = json!(1_u64 << 48), "rows of lane 1"),
    ("no end", |m| batch(m, 1)["first"] = json!(u64::MAX), "rows of lane 1"),
    (
        "checksums",
        |m| drop(batch(m, 0)["column_crc32"].as_array_mut().unwrap().pop()),
        "checksums of",
    ),
    ("frame behind body", |m| batch(m, 0)["frame_at"] = json!(1_u64 << 40), "does not fit"),
    ("body at the end", |m| add(&mut batch(m, 1)["body_at"], 1 << 20), "does not fit"),
    ("gap", |m| add(&mut batch(m, 1)["frame_at"], 64), "does not fit"),
    ("short file", |m| chunk(m)["bytes"] = json!(64), "does not fit"),
    (
        "rows twice",
        |m| {
            let first = batch(m, 0)["first"].clone();
            batch(m, 1)["lane"] = json!(0);
            batch(m, 1)["first"] = first;
        },
        "rows of lane 0 are listed twice",
    ),
    ("label", |m| snapshot(m)["label"] = json!("../a"), "its label is not valid"),
    ("two labels", |m| twice(&mut m["snapshots"]), "it is listed twice"),
    ("ring", |m| snapshot(m)["ring"] = json!("0".repeat(32)), "its ring is missing"),
    ("lanes", |m| snapshot(m)["lanes"] = json!([[0, 1]]), "it has 1 lanes"),
    ("unsaved rows", |m| add(&mut snapshot(m)["lanes"][1][1], 1), "of lane 1 are not saved"),
    ("backward", |m| snapshot(m)["lanes"][0] = json!([5, 4]), "rows 5..4 of lane 0"),
    ("two tables", |m| twice(&mut snapshot(m)["tables"]), "or is listed twice"),
];

#[test]
fn impossible_contents_are_named_and_no_ring_is_left() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 2, 40));
    append(&mut writer(&ring), &schema, 2, 12, 3);
    let mut priorities = ring.priorities(&PriorityOptions::alpha(1.0)).unwrap();
    assert_eq!(priorities.update(&[1, 3], &[2.0, 7.0]).unwrap(), 0);
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let slots = ["manifest-0", "manifest-1"].map(|slot| store.path().join("pong").join(slot));
    // The only one: of two, a damaged one leaves the other.
    let path = slots.into_iter().find(|slot| slot.exists()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let manifest: Value = serde_json::from_str(good.split_once('\n').unwrap().1).unwrap();
    for (name, change, reason) in CHANGES {
        let mut changed = manifest.clone();
        change(&mut changed);
        fs::write(&path, signed(&changed)).unwrap();
        let options = LoadOptions::default().name("bad").base(place.base());
        let found = store.load("pong@a", options);
        if reason.is_empty() {
            found.unwrap().unlink().unwrap();
            continue;
        }
        assert_ne!(changed, manifest, "{name}");
        let text = found.map(drop).unwrap_err().to_string();
        assert!(text.contains(reason), "{name}: {text}");
        assert!(Ring::attach_in(&place.base(), "bad").is_err(), "{name}: a ring was left");
    }
}
