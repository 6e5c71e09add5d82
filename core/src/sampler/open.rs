//! How a ring opens a sampler.

use super::Sampler;
use crate::error::SampleError;
use crate::ring::Ring;
use crate::sampler_options::SamplerOptions;

impl Ring {
    /// Draws from the ring.
    pub fn sampler(&self, options: SamplerOptions) -> Result<Sampler, SampleError> {
        Sampler::new(self, options)
    }
}
