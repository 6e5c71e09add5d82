//! Publishing a record, compared with iceoryx2 and with `memcpy` of its columns.
//!
//! iceoryx2 puts each sample into its subscribers' queues. Here one subscriber never takes any, so
//! the oldest sample is replaced, as Backcast overwrites the oldest row. The queue's few samples
//! stay in the cache, as do the rows of a ring of 1 MiB, but not those of 160 MiB.

use std::hint::black_box;

use backcast_benches::record::{Copies, LARGE, Record, SMALL};
use backcast_benches::{base, criterion};
use backcast_core::{Ring, RingOptions, Step, WriterOptions};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use iceoryx2::prelude::*;

/// Samples that wait for the subscriber.
const QUEUE: usize = 16;

fn ours(group: &mut BenchmarkGroup<'_, WallTime>, record: Record, mebibytes: u64) {
    let (_dir, base) = base();
    let rows = (mebibytes << 20) / record.bytes() as u64;
    let options = RingOptions::with_capacity(rows).base(base.clone());
    let ring = Ring::create("publish", &record.schema(), options).expect("room for the ring");
    let mut writer = ring.writer(WriterOptions::lanes(1)).expect("a free lane");
    let rows = record.rows(1);
    let columns = rows.columns();
    let schema = record.schema();
    let step = Step {
        schema: &schema,
        columns: &columns,
        terminated: &[false],
        truncated: &[false],
        next_obs: None,
        final_obs: None,
    };
    // Fills the ring once, so that all pages are mapped.
    for _ in 0..ring.slots() {
        writer.append(&step).expect("a step of the schema");
    }
    let mut copies = Copies::like(&base, "publish").expect("the ring is there");
    let contender = format!("backcast, ring of {mebibytes} MiB");
    group.bench_function(contender, |b| b.iter(|| writer.append(black_box(&step)).is_ok()));
    let contender = format!("memcpy of its columns, {mebibytes} MiB");
    group.bench_function(contender, |b| b.iter(|| copies.append()));
}

fn theirs<const BYTES: usize>(group: &mut BenchmarkGroup<'_, WallTime>, subscribers: usize) {
    let node = NodeBuilder::new().create::<ipc::Service>().expect("a node");
    let name = format!("backcast-bench-{}", std::process::id());
    let service = node
        .service_builder(&name.as_str().try_into().expect("a short name"))
        .publish_subscribe::<[u8; BYTES]>()
        .subscriber_max_buffer_size(QUEUE)
        .history_size(0)
        .enable_safe_overflow(true)
        .create()
        .expect("a new service");
    let subscribers: Vec<_> = (0..subscribers)
        .map(|_| service.subscriber_builder().create().expect("a subscriber"))
        .collect();
    let publisher = service.publisher_builder().create().expect("a publisher");
    let row = [1_u8; BYTES];
    let contender = match subscribers.len() {
        0 => "iceoryx2, nobody subscribes".to_owned(),
        count => format!("iceoryx2, {count} subscriber"),
    };
    group.bench_function(contender, |b| {
        b.iter(|| {
            let mut sample = publisher.loan_uninit().expect("a free sample");
            sample.payload_mut().write(*black_box(&row));
            // SAFETY: all of the payload was written above.
            unsafe { sample.assume_init() }.send().expect("a queue that overwrites")
        });
    });
    for subscriber in subscribers {
        let sample = subscriber.receive().expect("a subscriber").expect("what was published");
        assert_eq!(*sample, row);
    }
}

fn publish<const BYTES: usize>(c: &mut Criterion, record: Record) {
    assert_eq!(BYTES, record.bytes());
    let mut group = c.benchmark_group(format!("publish {BYTES} B, against iceoryx2"));
    ours(&mut group, record, 1);
    ours(&mut group, record, 160);
    theirs::<BYTES>(&mut group, 1);
    theirs::<BYTES>(&mut group, 0);
    group.finish();
}

fn sizes(c: &mut Criterion) {
    publish::<64>(c, SMALL);
    publish::<700>(c, LARGE);
}

criterion_group!(name = benches; config = criterion(); targets = sizes);
criterion_main!(benches);
