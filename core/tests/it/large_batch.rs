//! Batches that no machine can hold are refused without an abort.

use backcast_core::{DType, MAX_BATCH, Ring, RingOptions, SampleError, SamplerOptions, Schema};

#[test]
fn a_batch_larger_than_memory_is_refused_with_its_size() {
    let schema = Schema::builder().column("obs", DType::F64, &[1 << 13]).build().unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(1_000)).unwrap();
    let options = SamplerOptions::seeded(7).history(400).future(400);
    let mut sampler = ring.sampler(options).unwrap();
    let error = sampler.sample(MAX_BATCH).unwrap_err();
    // 801 rows of 64 KiB for each of sixteen million draws: hundreds of tebibytes.
    let SampleError::TooLarge { batch, bytes } = error else { panic!("{error}") };
    assert_eq!(batch, MAX_BATCH);
    assert!(bytes > (801 << 16) * (1 << 24), "{bytes}");
}
