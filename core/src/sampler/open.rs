//! How a ring opens a sampler.

use super::{Sampler, SamplerSpec};
use crate::error::SampleError;
use crate::ring::Ring;

impl Ring {
    /// Returns a sampler of the ring's transitions: of [`SamplerOptions`], of those with
    /// [windows by column], or of the [state] of another sampler, where that one would go on.
    ///
    /// [`SamplerOptions`]: crate::SamplerOptions
    /// [windows by column]: crate::SamplerOptions::columns
    /// [state]: crate::SamplerState
    pub fn sampler(&self, options: impl Into<SamplerSpec>) -> Result<Sampler, SampleError> {
        Sampler::new(self, options.into())
    }
}
