//! Batches that the caller takes before it uses them.

use std::time::Duration;

use crate::limiter::limits::RateLimiter;
use crate::{
    BatchesOptions, DType, Ring, RingOptions, SamplerOptions, Schema, Selector, StepColumns,
    TableOptions, WriterOptions,
};

const ITEMS: usize = 4;

fn ring() -> Ring {
    let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
    let options = RingOptions::with_capacity(200).limiter(RateLimiter::min_size(1));
    let ring = Ring::heap(&schema, options).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for t in 0..150_u16 {
        let obs = [f32::from(t)];
        let step = StepColumns::of(&schema).with("obs", &obs).unwrap();
        writer.append(&step.step(&[false], &[false]).unwrap()).unwrap();
    }
    drop(writer);
    ring
}

#[test]
fn unused_batches_are_drawn_again_and_neither_counted_nor_claimed() {
    let selectors = [
        None,
        Some(Selector::Table(TableOptions::epoch("pass"))),
        Some(Selector::Table(TableOptions::consume("queue"))),
    ];
    for selector in selectors {
        let options = || match selector.clone() {
            None => SamplerOptions::seeded(3),
            Some(selector) => SamplerOptions::seeded(3).selector(selector),
        };
        for (prefetch, limit, unused) in [(0, 9, 2), (3, 9, 2), (3, 5, 3), (3, 5, 9), (1, 5, 0)] {
            let case = format!("{selector:?}, {prefetch} ahead of {limit}, {unused} unused");
            let (ring, twin) = (ring(), ring());
            let mut expected = twin.sampler(options()).unwrap();
            let expected: Vec<_> =
                (0..7).map(|_| expected.sample(ITEMS).unwrap().index()).collect();
            let sampler = ring.sampler(options()).unwrap();
            let options = BatchesOptions::prefetch(prefetch).limit(limit).unused(4);
            let mut batches = sampler.batches(ITEMS, options).unwrap();
            for index in &expected[..5] {
                assert_eq!(batches.next().unwrap().unwrap().index(), *index, "{case}");
            }
            batches.set_unused(unused);
            let left = unused.min(4);
            assert_eq!((batches.unused(), batches.state().batches), (left, 5 - left), "{case}");
            let mut sampler = batches.into_sampler();
            assert_eq!(sampler.next_batch(), 5 - left, "{case}");
            let drawn = || ring.limiter().unwrap().counts().samples;
            assert_eq!(drawn(), (5 - left) * ITEMS as u64, "{case}");
            for of in ring.stats().claim_tables {
                assert_eq!(of.table.drawn, (5 - left) * ITEMS as u64, "{case}");
            }
            for index in &expected[usize::try_from(5 - left).unwrap()..] {
                assert_eq!(sampler.sample(ITEMS).unwrap().index(), *index, "{case}");
            }
        }
    }
}

#[test]
fn a_dropped_iterator_gives_unused_claims_back() {
    let ring = ring();
    let queue = || {
        let table = Selector::Table(TableOptions::consume("queue"));
        ring.sampler(SamplerOptions::seeded(1).selector(table)).unwrap()
    };
    let mut batches = queue().batches(ITEMS, BatchesOptions::prefetch(2).unused(2)).unwrap();
    for _ in 0..3 {
        assert!(batches.next_within(Duration::from_secs(60)).is_ready());
    }
    batches.set_unused(2);
    drop(batches);
    assert_eq!(queue().sample(ITEMS).unwrap().index(), [4, 5, 6, 7]);
}

#[test]
fn any_number_of_batches_may_be_unused() {
    for prefetch in [0, 2] {
        let table = Selector::Table(TableOptions::consume("queue"));
        let sampler = ring().sampler(SamplerOptions::seeded(1).selector(table)).unwrap();
        let options = BatchesOptions::prefetch(prefetch).unused(usize::MAX);
        let mut batches = sampler.batches(ITEMS, options).unwrap();
        let first = batches.next().unwrap().unwrap().index();
        batches.next().unwrap().unwrap();
        batches.set_unused(u64::MAX);
        assert_eq!((batches.unused(), batches.state().batches), (2, 0));
        assert_eq!(batches.into_sampler().sample(ITEMS).unwrap().index(), first);
    }
}

#[test]
fn a_batch_that_is_taken_back_is_not_unused_any_more() {
    let sampler = ring().sampler(SamplerOptions::seeded(1)).unwrap();
    let mut batches = sampler.batches(ITEMS, BatchesOptions::prefetch(2).unused(2)).unwrap();
    assert_eq!((batches.set_unused(2), batches.unused()), ((), 0), "none was returned");
    for _ in 0..3 {
        batches.next().unwrap().unwrap();
    }
    batches.set_unused(2);
    assert!(batches.take_back(2));
    assert_eq!((batches.unused(), batches.next_batch(), batches.state().batches), (1, 2, 1));
    assert_eq!(batches.into_sampler().next_batch(), 1);
}
