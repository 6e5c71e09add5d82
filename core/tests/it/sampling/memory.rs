//! Memory of batches: reused, never shared, and refused if it does not fit.

use backcast_core::{Boundary, DType, Ring, RingOptions, SampleError, SamplerOptions, Schema};

use crate::sampling::{Actor, End, floats, ring};

#[test]
fn a_dropped_batch_leaves_its_memory_to_the_next_and_a_held_one_does_not() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).history(8)).unwrap();
    let place = |batch: &backcast_core::Batch| batch.column::<f64>("obs").unwrap().as_ptr();
    let first = sampler.sample(64).unwrap();
    let (at, held) = (place(&first), first.clone());
    assert_ne!(place(&held), at);
    drop(first);
    let second = sampler.sample(64).unwrap();
    assert_eq!(place(&second), at, "the same memory");
    assert_eq!(at.align_offset(64), 0, "on a cache line");
    let third = sampler.sample(64).unwrap();
    assert_ne!(place(&third), at, "the second is still held");
    let expected = ring.sampler(SamplerOptions::seeded(1).history(8)).unwrap().sample(64).unwrap();
    assert_eq!(floats(&held, "obs"), floats(&expected, "obs"), "a copy stays as it was");
    drop(sampler);
    assert_eq!(floats(&third, "obs").len(), 64 * 8, "batches outlive their sampler");
}

#[test]
fn copies_of_a_column_are_contiguous_and_equal_to_its_view() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let options = SamplerOptions::seeded(1).history(8).future(2);
    let batch = ring.sampler(options).unwrap().sample(64).unwrap();
    for key in ["obs", "next_obs", "future/obs", "reward"] {
        let view = batch.column::<f64>(key).unwrap();
        let array = batch.array::<f64>(key).unwrap();
        let (elements, shape) = batch.elements::<f64>(key).unwrap();
        assert_eq!(array, view, "{key}");
        assert_eq!(array.as_slice(), Some(&elements[..]), "{key}");
        assert_eq!(shape, view.shape(), "{key}");
    }
    assert!(!batch.column::<f64>("next_obs").unwrap().is_standard_layout(), "it overlaps `obs`");
    assert!(batch.elements::<f32>("obs").is_err());
}

#[test]
fn a_batch_is_filled_again_by_any_sampler_with_the_same_windows() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let options = SamplerOptions::seeded(1).history(8);
    let mut batch = ring.sampler(options).unwrap().sample(64).unwrap();
    let clamp = SamplerOptions::seeded(2).history(8).boundary(Boundary::Clamp);
    ring.sampler(clamp.clone()).unwrap().sample_over(&mut batch).unwrap();
    let expected = ring.sampler(clamp).unwrap().sample(64).unwrap();
    assert_eq!(floats(&batch, "obs"), floats(&expected, "obs"), "filled as its own options say");
}

/// Returns the key that differs, its memory and what the sampler draws.
fn other_plan(refused: SampleError) -> [String; 3] {
    match refused {
        SampleError::OtherPlan { key, got, expected } => [key, got, expected],
        other => panic!("{other}"),
    }
}

#[test]
fn a_batch_of_other_windows_is_refused_with_the_key_that_differs() {
    let ring = ring(200);
    Actor::of(&ring).episode(150, End::Truncated);
    let options = SamplerOptions::seeded(1).history(8);
    let mut sampler = ring.sampler(options.clone()).unwrap();
    let mut refuse = |options: SamplerOptions| {
        let mut batch = ring.sampler(options).unwrap().sample(64).unwrap();
        let before = floats(&batch, "obs");
        let refused = sampler.sample_over(&mut batch).unwrap_err();
        assert_eq!(floats(&batch, "obs"), before, "untouched");
        other_plan(refused)
    };
    let [key, got, expected] = refuse(options.clone().history(7));
    assert_eq!(key, "obs");
    assert!(got.contains("f8 [64, 7]") && expected.contains("f8 [64, 8]"), "{got}, {expected}");
    let [key, got, expected] = refuse(options.clone().n_step(3).gamma(0.9));
    assert_eq!((&*key, &*got), ("n_reward", "f8 [64]"));
    assert!(!expected.contains("f8"), "{expected}");
    let [key, got, expected] = refuse(options.clone().copy(true));
    assert!(key == "obs" && expected.starts_with(&got) && got != expected, "{got}, {expected}");
    let schema = Schema::builder().column("obs", DType::F32, &[2]).build().unwrap();
    let other = Ring::heap(&schema, RingOptions::with_capacity(20)).unwrap();
    let plan = other.sampler(options).unwrap().plan(64).unwrap();
    let mut memory: Vec<Vec<u8>> = plan.arenas().iter().map(|a| vec![0; a.bytes()]).collect();
    let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
    let [key, got, _] = other_plan(sampler.sample_into(&plan, &mut arenas).unwrap_err());
    assert!(key == "obs" && got.starts_with("f4 [64, 8, 2]"), "{got}");
}
