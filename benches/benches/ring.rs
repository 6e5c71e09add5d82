//! Publishing and sampling against `memcpy` of the same bytes, in one run.

use std::hint::black_box;

use backcast_benches::{OBS, filled, schema};
use backcast_core::{Base, Ring, RingOptions, SamplerOptions, Step, WriterOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Rows of the ring that is published into: more than the last cache level holds.
const ROWS: u64 = 400_000;

fn base() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let base = Base::at(dir.path());
    (dir, base)
}

fn publish(c: &mut Criterion) {
    let (_dir, base) = base();
    let options = RingOptions::with_capacity(ROWS).base(base);
    let ring = Ring::create("publish", &schema(), options).expect("room for the ring");
    let mut writer = ring.writer(WriterOptions::lanes(1)).expect("a free lane");
    let (obs, action, reward) = ([0.5_f32; OBS], [0.25_f32; 8], [1_f32]);
    let columns: [&[u8]; 3] =
        [bytemuck::cast_slice(&obs), bytemuck::cast_slice(&action), bytemuck::cast_slice(&reward)];
    let step =
        Step { columns: &columns, terminated: &[false], truncated: &[false], final_obs: None };

    let mut group = c.benchmark_group("publish one row of 396 B");
    group.throughput(Throughput::Elements(1));
    group.bench_function("backcast", |b| b.iter(|| writer.append(black_box(&step)).is_ok()));
    // The same columns, built-in ones included, into rows of a private ring.
    let rows = usize::try_from(ROWS).expect("fits");
    let widths = [8, 8, 4, 4, OBS * 4, 32, 4];
    let mut copies: Vec<Vec<u8>> = widths.iter().map(|w| vec![1_u8; w * rows]).collect();
    let source = [0_u8; OBS * 4];
    let mut at = 0;
    group.bench_function("memcpy of its seven columns", |b| {
        b.iter(|| {
            for (column, width) in copies.iter_mut().zip(widths) {
                let row = &mut column[at * width..(at + 1) * width];
                row.copy_from_slice(black_box(&source[..width]));
            }
            at = (at + 1) % rows;
        });
    });
    group.finish();
    assert_eq!(ring.stats().rows_published, writer.rows_written());
}

fn sample(c: &mut Criterion) {
    const BATCH: usize = 256;
    let (_dir, base) = base();
    let ring = filled(&base, "sample", 1_000_000, 4);
    let mut group = c.benchmark_group("sample 256 transitions of 732 B out of a million");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut sampler = ring.sampler(SamplerOptions::seeded(7)).expect("a valid window");
    let plan = sampler.plan(BATCH).expect("a valid batch");
    let mut memory: Vec<Vec<u8>> = plan.arenas().iter().map(|a| vec![0; a.bytes()]).collect();
    group.bench_function("backcast, into the caller's memory", |b| {
        b.iter(|| {
            let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
            sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        });
    });
    assert_eq!(sampler.lapped(), 0, "nobody writes");

    // The same bytes from private columns at random rows: observation and successor together.
    let rows = 1_000_000_usize;
    let widths = [OBS * 4, 32, 4];
    let columns: Vec<Vec<u8>> = widths.iter().map(|w| vec![1_u8; w * rows]).collect();
    let mut out: Vec<Vec<u8>> = [2 * OBS * 4, 32, 4].map(|w| vec![0; w * BATCH]).into();
    let mut state = 7_u64;
    group.bench_function("memcpy gather of the same bytes", |b| {
        b.iter(|| {
            for i in 0..BATCH {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let row = usize::try_from(state >> 33).expect("31 bits") % (rows - 1);
                for ((column, out), (from, len)) in
                    columns.iter().zip(&mut out).zip([(OBS * 4, 2 * OBS * 4), (32, 32), (4, 4)])
                {
                    let source = &column[row * from..row * from + len];
                    out[i * len..(i + 1) * len].copy_from_slice(black_box(source));
                }
            }
        });
    });
    group.finish();
}

fn windows(c: &mut Criterion) {
    const BATCH: usize = 256;
    let (_dir, base) = base();
    let ring = filled(&base, "windows", 1_000_000, 4);
    let mut group = c.benchmark_group("sample 256 windows of 20 + 5 transitions out of a million");
    group.throughput(Throughput::Elements(BATCH as u64));
    let options = SamplerOptions::seeded(7).history(20).future(5);
    let mut sampler = ring.sampler(options).expect("a valid window");
    let plan = sampler.plan(BATCH).expect("a valid batch");
    let mut memory: Vec<Vec<u8>> = plan.arenas().iter().map(|a| vec![0; a.bytes()]).collect();
    group.bench_function("backcast, with masks and next_obs", |b| {
        b.iter(|| {
            let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
            sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        });
    });
    let rows = 1_000_000_usize;
    let widths = [(OBS * 4, 26), (32, 25), (4, 25)];
    let columns: Vec<Vec<u8>> = widths.iter().map(|(w, _)| vec![1_u8; w * rows]).collect();
    let mut out: Vec<Vec<u8>> = widths.iter().map(|(w, n)| vec![0; w * n * BATCH]).collect();
    let mut state = 7_u64;
    group.bench_function("memcpy gather of the same bytes", |b| {
        b.iter(|| {
            for i in 0..BATCH {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let row = usize::try_from(state >> 33).expect("31 bits") % (rows - 26);
                for ((column, out), (width, n)) in columns.iter().zip(&mut out).zip(widths) {
                    let len = width * n;
                    let source = &column[row * width..row * width + len];
                    out[i * len..(i + 1) * len].copy_from_slice(black_box(source));
                }
            }
        });
    });
    group.finish();
}

criterion_group!(benches, publish, sample, windows);
criterion_main!(benches);
