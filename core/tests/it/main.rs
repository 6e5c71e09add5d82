//! Rings, samplers and tables as their users see them.
//!
//! One binary, which is linked once, without the daemon and the readers of files.

mod claims;
mod drop_rows;
mod handles;
mod large_batch;
mod learner_process;
mod learners;
mod model;
mod next_obs;
mod other_schema;
mod restore;
mod rollouts;
mod sampling;
mod selectors;

use backcast_core::{Ring, SampleError, SamplerOptions, SamplerState};

/// Returns the state of a sampler that draws windows on a stride, as samplers had it before there
/// were sequences.
fn strided(
    ring: &Ring,
    spec: impl Into<SamplerOptions>,
    stride: u32,
) -> Result<SamplerState, SampleError> {
    Ok(SamplerState { stride, ..ring.sampler(spec)?.state() })
}
