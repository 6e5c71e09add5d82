//! docs/snapshot-format.md against the written files.

use std::collections::BTreeSet;
use std::fs;

use backcast_core::{
    DType, LearnedOptions, Params, ParamsArray, ParamsOptions, PriorityOptions, RateLimiter, Ring,
    RingOptions, TableOptions,
};
use backcast_persist::SaveOptions;
use serde_json::Value;

use crate::rings::{Place, append, heap, schema, writer};

const DOC: &str = include_str!("../../../docs/snapshot-format.md");

/// Returns the first cells of the rows of the tables that follow a heading.
fn cells_after(heading: &str) -> Vec<String> {
    let after = DOC.split_once(heading).expect("the heading").1;
    let section = after.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(cell, _)| cell.to_owned()).collect()
}

/// Parts of a manifest without rows of their own in the page: the user's state, and the chunks of
/// tables and parameters, which are like those of rings.
const LEFT_OUT: [&str; 4] = [
    "snapshots.state",
    "snapshots.tables.chunks",
    "snapshots.learned.chunks",
    "snapshots.params.chunks",
];

/// Collects every key with the path of keys above it, except keys of the parts that are left out.
fn keys(value: &Value, above: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
                if !LEFT_OUT.contains(&path.as_str()) {
                    keys(value, &path, found);
                }
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, above, found)),
        _ => {}
    }
}

#[test]
fn the_page_has_every_key_of_a_manifest_and_no_other() {
    let (place, schema) = (Place::new(), schema());
    let limiter = RateLimiter::ratio(8.0, 10, 1_000.0);
    let ring = Ring::heap(&schema, RingOptions::with_capacity(100).limiter(limiter)).unwrap();
    let store = place.store();
    append(&mut writer(&ring), &schema, 1, 30, 3);
    ring.priorities(&PriorityOptions::alpha(0.6)).unwrap().update(&[3], &[2.0]).unwrap();
    ring.table(&TableOptions::consume("queue")).unwrap();
    let array = ParamsArray::new("w", DType::F32, &[3]).unwrap();
    let policy = ParamsOptions::default().base(place.base());
    let policy = Params::create("policy", vec![array], policy).unwrap();
    ring.learned(&LearnedOptions::new("online").column("value", DType::F32)).unwrap();
    store.save(&ring, "a", SaveOptions::default().name("pong").params([&policy])).unwrap();
    let options = backcast_persist::FollowOptions::default();
    let mut following = backcast_persist::Following::new(&store, "pong", &ring, options).unwrap();
    following.step(&|| false).unwrap();
    let bytes = fs::read(store.path().join("pong/manifest-1")).unwrap();
    let (line, json) = bytes.split_at(bytes.iter().position(|b| *b == b'\n').unwrap() + 1);
    let mut found = BTreeSet::new();
    keys(&serde_json::from_slice(json).unwrap(), "", &mut found);
    let documented: BTreeSet<String> = cells_after("## Manifests").into_iter().collect();
    assert_eq!(documented, found);
    // Check that the line is built as the page describes.
    let line = std::str::from_utf8(line).unwrap().trim_end();
    let (signed, sum) = line.rsplit_once(' ').unwrap();
    assert_eq!(signed, format!("backcast-manifest 1 {}", json.len()));
    assert!(DOC.contains("\nbackcast-manifest 1 "));
    let again = blake3::hash(&[format!("{signed} ").as_bytes(), json].concat());
    assert_eq!(again.to_hex().as_str(), sum);
    let names = ["store.lck", "readers.lck", "manifest-0", "manifest-1", "chunks"];
    for entry in fs::read_dir(store.path().join("pong")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name.as_str()) && DOC.contains(&name), "{name}");
    }
}

#[test]
fn the_page_has_the_columns_and_sizes_of_a_chunk() {
    let (place, schema) = (Place::new(), schema());
    let (store, ring) = (place.store(), heap(&schema, 1, 100_000));
    append(&mut writer(&ring), &schema, 1, 3_000, 3);
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let file = fs::File::open(&store.snapshot("pong").unwrap().files[0]).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let fields = reader.schema();
    let built_in: Vec<_> = fields.fields().iter().take(5).map(|f| f.name().clone()).collect();
    assert_eq!(cells_after("## Chunks"), built_in);
    let types = fields.fields().iter().take(5).map(|f| f.data_type().to_string().to_lowercase());
    for (name, dtype) in built_in.iter().zip(types) {
        assert!(DOC.contains(&format!("| `{name}` | {dtype} |")), "{name} {dtype}");
    }
    assert_eq!(DType::U32.size() + 2 * DType::U64.size() + 2 * DType::U32.size(), 28);
    for size in ["4 MiB", "64 MiB", "multiple of 64 bytes"] {
        assert!(DOC.contains(size), "{size}");
    }
}

#[test]
fn batches_and_files_end_where_the_page_says() {
    let place = Place::new();
    let schema = backcast_core::Schema::builder().column("obs", DType::U8, &[100_000]);
    let schema = schema.build().unwrap();
    let (store, ring) = (place.store(), heap(&schema, 1, 1_000));
    append(&mut writer(&ring), &schema, 1, 700, 3);
    store.save(&ring, "a", SaveOptions::default().name("pong")).unwrap();
    let bytes = fs::read(store.path().join("pong/manifest-0")).unwrap();
    let at = bytes.iter().position(|b| *b == b'\n').unwrap();
    let manifest: Value = serde_json::from_slice(&bytes[at..]).unwrap();
    let chunks = manifest["rings"][0]["chunks"].as_array().unwrap();
    assert_eq!(chunks.len(), 2, "70 MB in files of 64 MiB");
    let bytes = chunks[0]["bytes"].as_u64().unwrap();
    assert!((64 << 20..68 << 20).contains(&bytes), "{bytes}");
    let first = &chunks[0]["batches"][0];
    assert_eq!(first["rows"], (4 << 20) / (100_000 + 28));
    for batch in chunks[0]["batches"].as_array().unwrap() {
        assert_eq!(batch["frame_at"].as_u64().unwrap() % 64, 0);
        assert_eq!(batch["body_at"].as_u64().unwrap() % 64, 0);
    }
}
