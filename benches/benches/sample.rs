//! Sampling, compared with gathers of the same bytes from private memory: transitions and windows,
//! one lane to 64, rings of 1 MiB to 2 GiB.

use std::hint::black_box;

use backcast_benches::c_gather::{Columns, FUTURE, HISTORY, Windows};
use backcast_benches::record::{MEDIUM, Record};
use backcast_benches::{base, criterion, filled};
use backcast_core::{Ring, Sampler, SamplerOptions};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

const BATCH: usize = 256;
const MILLION: u64 = 1_000_000;
const RECORD: Record = MEDIUM;

/// Draws into the caller's memory.
fn backcast(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut sampler: Sampler) {
    let plan = sampler.plan(BATCH).expect("a valid batch");
    let mut memory: Vec<Vec<u8>> = plan.arenas().iter().map(|a| vec![0; a.bytes()]).collect();
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
            sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        });
    });
    assert_eq!(sampler.lapped(), 0, "nobody writes");
}

/// Copies the same bytes from private columns at random rows with `memcpy`: observations of
/// `rows + 1` rows, and the other columns of `rows` rows.
fn memcpy(group: &mut BenchmarkGroup<'_, WallTime>, capacity: u64, rows: usize) {
    let capacity = usize::try_from(capacity).expect("fits");
    let widths = [(RECORD.obs * 4, rows + 1), (RECORD.action * 4, rows), (4, rows)];
    let columns: Vec<Vec<u8>> = widths.iter().map(|(w, _)| vec![1_u8; w * capacity]).collect();
    let mut out: Vec<Vec<u8>> = widths.iter().map(|(w, n)| vec![0; w * n * BATCH]).collect();
    let mut state = 7_u64;
    group.bench_function("memcpy gather of the same bytes", |b| {
        b.iter(|| {
            for i in 0..BATCH {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let row = usize::try_from(state >> 33).expect("31 bits") % (capacity - rows - 1);
                for ((column, out), (width, n)) in columns.iter().zip(&mut out).zip(widths) {
                    let len = width * n;
                    let source = &column[row * width..row * width + len];
                    out[i * len..(i + 1) * len].copy_from_slice(black_box(source));
                }
            }
        });
    });
}

fn transitions_of(ring: &Ring) -> Sampler {
    ring.sampler(SamplerOptions::seeded(7)).expect("a valid window")
}

fn transitions(c: &mut Criterion) {
    let (_dir, base) = base();
    let mut group = c.benchmark_group("sample 256 transitions of 732 B out of a million");
    let ring = filled(&base, "sample", RECORD, MILLION, 4);
    backcast(&mut group, "backcast, into the caller's memory", transitions_of(&ring));
    drop(ring);
    memcpy(&mut group, MILLION, 1);
    group.finish();
}

fn windows(c: &mut Criterion) {
    let (_dir, base) = base();
    let mut group = c.benchmark_group("sample 256 windows of 20 + 5 transitions out of a million");
    let ring = filled(&base, "windows", RECORD, MILLION, 4);
    let length = |len: usize| u32::try_from(len).expect("a short window");
    let options = SamplerOptions::seeded(7).history(length(HISTORY)).future(length(FUTURE));
    let sampler = ring.sampler(options).expect("a valid window");
    backcast(&mut group, "backcast, with masks and next_obs", sampler);
    drop(ring);
    memcpy(&mut group, MILLION, HISTORY + FUTURE);
    let mut columns = Columns::filled(usize::try_from(MILLION).expect("fits"));
    let mut out = Windows::new(BATCH);
    group.bench_function("C-like gather with the same checks", |b| {
        b.iter(|| assert!(columns.gather(black_box(&mut out)), "nobody writes"));
    });
    assert!(out.transitions() > BATCH * (HISTORY + FUTURE) / 2, "episodes are long");
    group.finish();
}

fn lanes(c: &mut Criterion) {
    let mut group = c.benchmark_group("sample 256 transitions out of a million, by lanes");
    for lanes in [1, 64] {
        let (_dir, base) = base();
        let ring = filled(&base, "lanes", RECORD, MILLION, lanes);
        backcast(&mut group, &format!("backcast, {lanes} lanes"), transitions_of(&ring));
    }
    group.finish();
}

fn capacities(c: &mut Criterion) {
    for (name, bytes) in [("1 MiB", 1_u64 << 20), ("32 MiB", 32 << 20), ("2 GiB", 2 << 30)] {
        let (_dir, base) = base();
        let rows = bytes / RECORD.bytes() as u64;
        let mut group = c.benchmark_group(format!("sample 256 transitions of a ring of {name}"));
        let ring = filled(&base, "sizes", RECORD, rows, 4);
        backcast(&mut group, "backcast, into the caller's memory", transitions_of(&ring));
        drop(ring);
        memcpy(&mut group, rows, 1);
        group.finish();
    }
}

criterion_group!(
    name = benches;
    config = criterion();
    targets = transitions, windows, lanes, capacities
);
criterion_main!(benches);
