//! The draws of Backcast's sampler in the style of a C program, for the baseline that draws rows
//! itself.

use backcast_core::Ring;

/// Multipliers of a round of Philox 4x32-10.
const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key in a round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Uniform draws over the transitions of a ring with equally full lanes.
#[derive(Debug)]
pub struct Draws {
    key: [u32; 2],
    /// The first readable row of each lane.
    firsts: Vec<u64>,
    /// Rows of a lane that have a successor.
    candidates: u64,
}

impl Draws {
    /// Returns the draws of a sampler with this seed.
    ///
    /// # Panics
    /// If lanes are not equally full.
    #[must_use]
    pub fn of(ring: &Ring, seed: u64) -> Self {
        let spans: Vec<_> = (0..ring.lanes()).filter_map(|lane| ring.lane_span(lane)).collect();
        let candidates = spans.first().map_or(0, |span| span.end - span.start - 1);
        assert!(spans.iter().all(|span| span.end - span.start - 1 == candidates));
        let firsts = spans.into_iter().map(|span| span.start).collect();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let key = [seed as u32, (seed >> 32) as u32];
        Self { key, firsts, candidates }
    }

    /// Returns the rows that two neighbouring items draw; `None` for a rejected draw.
    #[inline]
    pub fn pair(&self, batch: u64, neighbours: u32, attempt: u32) -> [Option<i64>; 2] {
        let [a, b, c, d] = self.bits(batch, neighbours, attempt).map(u64::from);
        [a << 32 | b, c << 32 | d].map(|bits| self.index(bits))
    }

    /// Returns the row that an item draws in a later attempt.
    #[cold]
    #[must_use]
    pub fn again(&self, batch: u64, item: u32, attempt: u32) -> Option<i64> {
        self.pair(batch, item / 2, attempt)[item as usize % 2]
    }

    #[inline]
    fn bits(&self, batch: u64, neighbours: u32, attempt: u32) -> [u32; 4] {
        #[expect(clippy::cast_possible_truncation, reason = "halves are meant")]
        let halves = |x: u64| [(x >> 32) as u32, x as u32];
        let ([batch_high, batch_low], [mut k0, mut k1]) = (halves(batch), self.key);
        let mut c = [batch_low, batch_high, neighbours, attempt];
        for _ in 0..10 {
            let [high0, low0] = halves(MULTIPLIERS[0] * u64::from(c[0]));
            let [high1, low1] = halves(MULTIPLIERS[1] * u64::from(c[2]));
            c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0];
            (k0, k1) = (k0.wrapping_add(WEYL[0]), k1.wrapping_add(WEYL[1]));
        }
        c
    }

    /// Scales random bits to a row (Lemire 2019).
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "halves are meant")]
    fn index(&self, bits: u64) -> Option<i64> {
        let total = self.candidates * self.firsts.len() as u64;
        let product = u128::from(bits) * u128::from(total);
        let (drawn, rest) = ((product >> 64) as u64, product as u64);
        if rest < total && rest < total.wrapping_neg() % total {
            return None;
        }
        let (lane, older) = (drawn / self.candidates, drawn % self.candidates);
        let first = self.firsts.get(lane as usize)?;
        Some((lane << 48 | (first + older)).cast_signed())
    }
}
