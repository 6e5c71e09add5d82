//! Leases: the cost of pinning rows and releasing them, compared with copying them.

use std::hint::black_box;

use backcast_benches::record::MEDIUM;
use backcast_benches::{base, criterion, fill};
use backcast_core::{LanePolicy, Ring, RingOptions, Step, WriterOptions};
use criterion::{Criterion, criterion_group, criterion_main};

const ROWS: u64 = 256;

fn ring(base: &backcast_core::Base, policy: LanePolicy) -> Ring {
    let options = RingOptions::with_capacity(400_000).lane_policy(policy).base(base.clone());
    let ring = Ring::create("lease", &MEDIUM.schema(), options).expect("room for the ring");
    fill(&ring, MEDIUM);
    ring
}

fn take_and_drop(c: &mut Criterion) {
    let (_dir, base) = base();
    let ring = ring(&base, LanePolicy::default());
    let span = ring.lane_span(0).expect("the ring has a lane");
    let begin = span.start + (span.end - span.start) / 2;
    let mut group = c.benchmark_group("read 256 rows of 396 B of a lane");
    group.bench_function("backcast, lease taken and dropped", |b| {
        b.iter(|| ring.lease(0, black_box(begin..begin + ROWS)).is_ok_and(|l| l.len() == 256));
    });
    // The first lease of a handle claims a reader slot, which the last one gives back.
    let first = ring.lease(0, begin..begin + ROWS).expect("old rows");
    group.bench_function("backcast, lease taken and dropped while another is held", |b| {
        b.iter(|| ring.lease(0, black_box(begin..begin + ROWS)).is_ok_and(|l| l.len() == 256));
    });
    drop(first);
    group.bench_function("backcast, validated copy", |b| {
        b.iter(|| ring.rows(0, black_box(begin..begin + ROWS)).is_ok_and(|r| r.len() == 256));
    });
    group.finish();
}

/// Copies one observation of each of 256 windows, through one lease and through a lease for each.
fn strided_windows(c: &mut Criterion) {
    const HISTORY: usize = 20;
    let (_dir, base) = base();
    let ring = ring(&base, LanePolicy::default());
    let span = ring.lane_span(0).expect("the ring has a lane");
    let rows = (span.end - span.start) / 8;
    let obs = |columns: &[backcast_core::Column]| {
        columns.iter().position(|column| column.name() == "obs").expect("a column of the schema")
    };
    let mut word = vec![0; MEDIUM.obs * 4];
    let mut group = c.benchmark_group("look into 256 windows of 20 rows of a lane");
    group.bench_function("backcast, one lease", |b| {
        b.iter(|| {
            let lease = ring.lease(0, span.start + rows..span.start + 2 * rows).expect("old rows");
            let column = obs(lease.columns());
            let step = lease.len() / 256;
            (0..256).all(|i| lease.copy_row(column, i * step, black_box(&mut word)))
        });
    });
    group.bench_function("backcast, 256 leases", |b| {
        b.iter(|| {
            (0..256).all(|i| {
                let start = span.start + rows + i * (rows / 256);
                let lease = ring.lease(0, start..start + HISTORY as u64).expect("old rows");
                lease.copy_row(obs(lease.columns()), 0, black_box(&mut word))
            })
        });
    });
    group.finish();
}

/// Measures the cost, for each published row, of being able to grant leases.
fn publish(c: &mut Criterion) {
    let mut group = c.benchmark_group("publish one row of 396 B, with and without leases");
    for (name, policy) in [
        ("backcast, lane policy overwrite", LanePolicy::Overwrite),
        ("backcast, lane policy block", LanePolicy::default()),
    ] {
        let (_dir, base) = base();
        let ring = ring(&base, policy);
        let mut writer = ring.writer(WriterOptions::lanes(1)).expect("a free lane");
        let rows = MEDIUM.rows(1);
        let columns = rows.columns();
        let schema = ring.schema().clone();
        let step = Step {
            schema: &schema,
            columns: &columns,
            terminated: &[false],
            truncated: &[false],
            next_obs: None,
            final_obs: None,
        };
        group.bench_function(name, |b| b.iter(|| writer.append(black_box(&step)).is_ok()));
    }
    group.finish();
}

criterion_group!(
    name = benches; config = criterion(); targets = take_and_drop, strided_windows, publish
);
criterion_main!(benches);
