//! Chunk files are Arrow files: the Arrow library finds the same rows in them. The tests in Python
//! check the same with `pyarrow`.

use std::collections::BTreeMap;
use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float64Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use backcast_core::{DType, Ring, Schema};
use backcast_persist::{SaveOptions, Store};

use crate::rings::{Place, append, heap, schema, writer};

/// Saves a ring of two lanes in several batches and files.
fn saved(schema: &Schema) -> (Place, Store, Ring) {
    let place = Place::new();
    let (store, ring) = (place.store(), heap(schema, 2, 400));
    append(&mut writer(&ring), schema, 2, 150, 3);
    store.save(&ring, "a", SaveOptions::default().name("pong").sizes(2_000, 9_000)).unwrap();
    (place, store, ring)
}

fn batches(store: &Store) -> Vec<RecordBatch> {
    let files = store.snapshot("pong@a").unwrap().files;
    assert!(files.len() > 1, "several files");
    let read = |file| FileReader::try_new(File::open(file).unwrap(), None).unwrap();
    files.iter().flat_map(read).map(Result::unwrap).collect()
}

#[test]
fn the_arrow_library_reads_the_rows_of_the_ring() {
    let (_place, store, ring) = saved(&schema());
    let mut heads = BTreeMap::new();
    for batch in batches(&store) {
        let number = |name: &str| batch.column_by_name(name).unwrap().clone();
        let lane = number("lane").as_primitive::<UInt32Type>().value(0);
        let lanes = number("lane");
        assert!(lanes.as_primitive::<UInt32Type>().values().iter().all(|l| *l == lane));
        let seq = number("seq").as_primitive::<UInt64Type>().values().to_vec();
        let head = heads.entry(lane).or_insert(0);
        assert!(seq.iter().copied().eq(*head..*head + seq.len() as u64), "ascending, no gap");
        let rows = ring.rows(lane, *head..*head + seq.len() as u64).unwrap();
        *head += seq.len() as u64;
        let same =
            |name: &str, bytes: &[u8]| assert_eq!(rows.bytes(name).unwrap(), bytes, "{name}");
        same(
            "episode",
            bytemuck::cast_slice(number("episode").as_primitive::<UInt64Type>().values()),
        );
        same("t", bytemuck::cast_slice(number("t").as_primitive::<UInt32Type>().values()));
        same("flags", bytemuck::cast_slice(number("flags").as_primitive::<UInt32Type>().values()));
        same("action", bytemuck::cast_slice(number("action").as_primitive::<Int32Type>().values()));
        same("half", bytemuck::cast_slice(number("half").as_primitive::<Float16Type>().values()));
        same(
            "reward",
            bytemuck::cast_slice(number("reward").as_primitive::<Float64Type>().values()),
        );
        let bools = |array: &dyn Array| -> Vec<u8> {
            array.as_boolean().values().iter().map(u8::from).collect()
        };
        same("safe", &bools(&number("safe")));
        let near = number("obs/near");
        same("obs/near", &bools(near.as_fixed_size_list().values()));
        let pixels = number("obs/pixels");
        let pixels = pixels.as_fixed_size_list().values().clone();
        same("obs/pixels", bytemuck::cast_slice(pixels.as_primitive::<UInt8Type>().values()));
        assert!(batch.columns().iter().all(|column| column.null_count() == 0));
    }
    let spans: Vec<_> = heads.values().copied().collect();
    assert_eq!(spans, [0, 1].map(|lane| ring.lane_span(lane).unwrap().end));
}

#[test]
fn every_element_type_and_shape_is_read() {
    let schema = DType::ALL.iter().fold(Schema::builder(), |schema, dtype| {
        schema.column(&format!("{dtype}"), *dtype, &[]).column(
            &format!("{dtype}s"),
            *dtype,
            &[2, 3],
        )
    });
    let schema = schema.build().unwrap();
    let (_place, store, _ring) = saved(&schema);
    for batch in batches(&store) {
        for dtype in DType::ALL {
            let scalar = batch.column_by_name(dtype.code()).unwrap();
            let tensor = batch.column_by_name(&format!("{dtype}s")).unwrap();
            assert_eq!(scalar.data_type(), tensor.as_fixed_size_list().values().data_type());
            let field = batch.schema();
            let field = field.field_with_name(&format!("{dtype}s")).unwrap();
            let (name, about) = ("ARROW:extension:name", "ARROW:extension:metadata");
            assert_eq!(
                field.metadata().get(name).map(String::as_str),
                Some("arrow.fixed_shape_tensor")
            );
            assert_eq!(field.metadata().get(about).map(String::as_str), Some(r#"{"shape":[2,3]}"#));
        }
    }
}

#[test]
fn a_file_begins_with_its_magic_and_the_stream_of_its_batches() {
    let (_place, store, _ring) = saved(&schema());
    for file in store.snapshot("pong@a").unwrap().files {
        let bytes = std::fs::read(&file).unwrap();
        let stream = bytes.strip_prefix(b"ARROW1\0\0").unwrap();
        let streamed = StreamReader::try_new(stream, None).unwrap();
        let streamed: Vec<RecordBatch> = streamed.map(Result::unwrap).collect();
        let read = FileReader::try_new(File::open(file).unwrap(), None).unwrap();
        assert_eq!(streamed, read.map(Result::unwrap).collect::<Vec<_>>());
        assert!(!streamed.is_empty());
    }
}
