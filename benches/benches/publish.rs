//! Publishing, compared with `memcpy` of the same columns: three sizes of records, one lane to 64,
//! rings of 1 MiB to 2 GiB.

use std::hint::black_box;

use backcast_benches::record::{Copies, LARGE, MEDIUM, Record, Rows, SMALL};
use backcast_benches::{base, criterion};
use backcast_core::{AutoresetMode, Ring, RingOptions, RowIndex, Step, Writer, WriterOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Bytes of most rings here: more than the last cache level holds.
const BYTES: u64 = 160 << 20;

fn against_memcpy(c: &mut Criterion, group: &str, record: Record, bytes: u64, lanes: u32) {
    let (_dir, base) = base();
    let rows = bytes / record.bytes() as u64;
    let options = RingOptions::with_capacity(rows).lanes(lanes).base(base.clone());
    let ring = Ring::create("publish", &record.schema(), options).expect("room for the ring");
    let mut writer = ring
        .writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep))
        .expect("free lanes");
    let rows = record.rows(lanes as usize);
    let columns = rows.columns();
    let never = vec![false; lanes as usize];
    let schema = record.schema();
    let step = Step {
        schema: &schema,
        columns: &columns,
        terminated: &never,
        truncated: &never,
        next_obs: None,
        final_obs: None,
    };
    // Fills the ring once, so that all pages are mapped.
    for _ in 0..ring.slots() {
        writer.append(step).expect("a step of the schema");
    }
    let mut copies = Copies::like(&base, "publish").expect("the ring is there");

    let mut group = c.benchmark_group(group);
    group.throughput(Throughput::Elements(lanes.into()));
    group.bench_function("backcast", |b| b.iter(|| writer.append(black_box(&step)).is_ok()));
    group.bench_function("memcpy of its columns", |b| b.iter(|| copies.append()));
    if lanes == 1 {
        group.bench_function("backcast, in place", |b| b.iter(|| in_place(&mut writer, &rows)));
    }
    group.finish();
    assert_eq!(ring.stats().rows_published, writer.rows_written());
}

/// Publishes the same row through a reserved row, column by column.
fn in_place(writer: &mut Writer, rows: &Rows) -> Option<RowIndex> {
    let mut row = writer.reserve().ok()?;
    row.column("obs").ok()?.write(black_box(&rows.obs)).ok()?;
    row.column("action").ok()?.write(black_box(&rows.action)).ok()?;
    row.column("reward").ok()?.write(black_box(&rows.reward)).ok()?;
    row.commit(false, false).ok()
}

fn sizes(c: &mut Criterion) {
    for record in [SMALL, MEDIUM, LARGE] {
        let group = format!("publish one row of {} B", record.bytes());
        against_memcpy(c, &group, record, BYTES, 1);
    }
}

fn lanes(c: &mut Criterion) {
    for lanes in [8, 64] {
        let group = format!("publish one row of 396 B into each of {lanes} lanes");
        against_memcpy(c, &group, MEDIUM, BYTES, lanes);
    }
}

fn capacities(c: &mut Criterion) {
    for (name, bytes) in [("1 MiB", 1 << 20), ("2 GiB", 2 << 30)] {
        let group = format!("publish one row of 396 B into a ring of {name}");
        against_memcpy(c, &group, MEDIUM, bytes, 1);
    }
}

criterion_group!(name = benches; config = criterion(); targets = sizes, lanes, capacities);
criterion_main!(benches);
