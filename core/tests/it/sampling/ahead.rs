//! Batches drawn ahead by a thread.

use backcast_core::{BatchesOptions, SampleError, SamplerOptions};

use crate::sampling::{Actor, End, floats, ring};

fn options() -> SamplerOptions {
    SamplerOptions::seeded(7).history(4).n_step(2).gamma(0.9)
}

#[test]
fn every_depth_gives_the_batches_that_sampling_gives() {
    let ring = ring(200);
    let mut actor = Actor::of(&ring);
    (0..30).for_each(|n| actor.episode(1 + n % 9, End::Truncated));
    let mut plain = ring.sampler(options()).unwrap();
    let expected: Vec<_> = (0..12).map(|_| plain.sample(32).unwrap()).collect();
    for depth in [0, 1, 2, 7, 100] {
        let sampler = ring.sampler(options()).unwrap();
        let mut batches = sampler.batches(32, BatchesOptions::prefetch(depth).limit(10)).unwrap();
        let drawn: Vec<_> = batches.by_ref().map(Result::unwrap).collect();
        assert_eq!(drawn.len(), 10);
        for (drawn, expected) in drawn.iter().zip(&expected) {
            assert_eq!(drawn.index(), expected.index());
            assert_eq!(floats(drawn, "n_reward"), floats(expected, "n_reward"));
        }
        assert!(batches.next().is_none(), "it stays at its end");
        let mut sampler = batches.into_sampler();
        assert_eq!(sampler.sample(32).unwrap().index(), expected[10].index(), "and goes on");
    }
}

#[test]
fn a_sampler_taken_back_early_goes_on_where_the_caller_was() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let mut plain = ring.sampler(options()).unwrap();
    let mut sampler = ring.sampler(options()).unwrap();
    for taken in [0, 1, 3] {
        let mut batches = sampler.batches(16, BatchesOptions::prefetch(4)).unwrap();
        for _ in 0..taken {
            let batch = batches.next().unwrap().unwrap();
            assert_eq!(batch.index(), plain.sample(16).unwrap().index());
        }
        sampler = batches.into_sampler();
        assert_eq!(sampler.sample(16).unwrap().index(), plain.sample(16).unwrap().index());
    }
    drop(sampler.batches(16, BatchesOptions::prefetch(4)).unwrap());
}

#[test]
fn an_error_is_returned_where_its_batch_belongs_and_the_batch_is_tried_again() {
    let ring = ring(200);
    let mut actor = Actor::of(&ring);
    for depth in [0, 2] {
        let sampler = ring.sampler(options()).unwrap();
        let mut batches = sampler.batches(16, BatchesOptions::prefetch(depth).limit(3)).unwrap();
        if ring.is_empty() {
            for _ in 0..3 {
                let refused = batches.next().unwrap().unwrap_err();
                assert!(matches!(refused, SampleError::Empty { rows: 0 }), "{refused}");
            }
            actor.episode(20, End::Truncated);
        }
        assert_eq!(batches.map(Result::unwrap).count(), 3);
    }
}

#[test]
fn memory_of_the_callers_is_filled_in_turn() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let mut plain = ring.sampler(options()).unwrap();
    for arenas in [1, 2, 4] {
        let mut sampler = ring.sampler(options()).unwrap();
        let memory: Vec<_> = (0..arenas).map(|_| sampler.gather(&[0; 16]).unwrap()).collect();
        let places: Vec<_> =
            memory.iter().map(|m| m.column::<f64>("obs").unwrap().as_ptr()).collect();
        let mut batches =
            sampler.batches_over(16, memory, BatchesOptions::prefetch(0).limit(20)).unwrap();
        let mut drawn = 0;
        while let Some(batch) = batches.next() {
            let batch = batch.unwrap();
            drawn += 1;
            assert!(places.contains(&batch.column::<f64>("obs").unwrap().as_ptr()));
            assert_eq!(batch.index(), plain.sample(16).unwrap().index());
            batches.refill(batch);
        }
        assert_eq!(drawn, 20);
        plain = ring.sampler(options()).unwrap();
    }
    let mut sampler = ring.sampler(options()).unwrap();
    let memory: Vec<_> = (0..2).map(|_| sampler.gather(&[0; 16]).unwrap()).collect();
    let mut batches = sampler.batches_over(16, memory, BatchesOptions::prefetch(0)).unwrap();
    let held: Vec<_> = (0..2).map(|_| batches.next().unwrap().unwrap()).collect();
    let refused = batches.next().unwrap().unwrap_err();
    assert!(matches!(refused, SampleError::NothingToFill { memory: 2 }), "{refused}");
    for batch in held {
        batches.refill(batch);
    }
    assert!(batches.next().unwrap().is_ok());
}

#[test]
fn all_memory_of_the_callers_but_one_is_drawn_ahead_whatever_the_prefetch() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let over = |arenas: usize, prefetch| {
        let mut sampler = ring.sampler(options()).unwrap();
        let memory: Vec<_> = (0..arenas).map(|_| sampler.gather(&[0]).unwrap()).collect();
        sampler.batches_over(1, memory, BatchesOptions::prefetch(prefetch))
    };
    for arenas in [1, 2, 5] {
        for prefetch in [0, 1, 2_000] {
            let shown = format!("{:?}", over(arenas, prefetch).unwrap());
            assert!(shown.contains(&format!("prefetch: {},", arenas - 1)), "{shown}");
        }
    }
    let refused = over(1_026, 0).unwrap_err();
    assert!(matches!(refused, SampleError::BadPrefetch { asked: 1_025, .. }), "{refused}");
}

#[test]
fn a_refused_iterator_returns_the_sampler() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let mut plain = ring.sampler(options()).unwrap();
    let mut sampler = Box::new(ring.sampler(options()).unwrap());
    let too_deep = BatchesOptions::prefetch(usize::MAX);
    for (batch, options) in [(16, too_deep), (0, BatchesOptions::prefetch(2))] {
        sampler = sampler.try_batches(batch, options).unwrap_err().0;
        assert_eq!(sampler.sample(16).unwrap().index(), plain.sample(16).unwrap().index());
    }
    let none = Vec::<backcast_core::Batch>::new();
    sampler = sampler.try_batches_over(16, none, BatchesOptions::prefetch(0)).unwrap_err().0;
    assert_eq!(sampler.sample(16).unwrap().index(), plain.sample(16).unwrap().index());
}

#[test]
fn impossible_depths_and_sizes_are_refused_before_a_thread_starts() {
    let ring = ring(200);
    let refuse = |batch, depth| {
        let sampler = ring.sampler(options()).unwrap();
        sampler.batches(batch, BatchesOptions::prefetch(depth)).map(|_| ()).unwrap_err()
    };
    let deep = refuse(16, 1025);
    assert!(matches!(deep, SampleError::BadPrefetch { asked: 1_025, limit: 1_024 }), "{deep}");
    let none = refuse(0, 1);
    assert!(matches!(none, SampleError::BadBatchSize { asked: 0, .. }), "{none}");
    let sampler = ring.sampler(options()).unwrap();
    let none =
        sampler.batches_over(16, Vec::<backcast_core::Batch>::new(), BatchesOptions::prefetch(0));
    let none = none.unwrap_err();
    assert!(matches!(none, SampleError::NothingToFill { memory: 0 }), "{none}");
}
