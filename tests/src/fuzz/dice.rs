//! Source of choices: a seed, or the bytes of a fuzzer.

use std::convert::Infallible;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng, TryRng};

/// A stream of choices. Choices made from bytes consume them in order, so that a fuzzer that
/// changes one byte changes one choice. Once all are used, choices follow from a hash of them.
#[derive(Debug)]
pub struct Dice {
    bytes: Vec<u8>,
    used: usize,
    rest: StdRng,
}

impl Dice {
    /// Returns the choices of a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { bytes: Vec::new(), used: 0, rest: StdRng::seed_from_u64(seed) }
    }

    /// Returns the choices of some bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let rest = StdRng::from_seed(*blake3::hash(bytes).as_bytes());
        Self { bytes: bytes.to_vec(), used: 0, rest }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        self.fill(&mut taken);
        taken
    }

    fn fill(&mut self, out: &mut [u8]) {
        let left = &self.bytes[self.used..];
        let (given, made) = out.split_at_mut(out.len().min(left.len()));
        given.copy_from_slice(&left[..given.len()]);
        self.used += given.len();
        self.rest.fill_bytes(made);
    }
}

impl TryRng for Dice {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.take()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.take()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.fill(out);
        Ok(())
    }
}
