//! How a ring opens a sampler.

use super::{Sampler, SamplerOptions};
use crate::error::SampleError;
use crate::ring::Ring;

impl Ring {
    /// Draws from the ring.
    pub fn sampler(&self, options: SamplerOptions) -> Result<Sampler, SampleError> {
        Sampler::new(self, options)
    }
}
