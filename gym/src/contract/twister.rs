//! The Mersenne Twister, for runs that are compared with environments built on C++'s library.
//!
//! Matsumoto and Nishimura, *Mersenne Twister* (1998), with the initialisation of 2002, which C++
//! standardises as `std::mt19937`. Distributions follow GNU's C++ library. Integers below a bound
//! use Lemire's method on 32 bits; reals in `[0, 1)` take two words, the low one first.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// State of the generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Twister {
    state: [u32; WORDS],
    next: usize,
}

impl Twister {
    pub(crate) fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for at in 1..WORDS {
            let before = state[at - 1];
            #[expect(clippy::cast_possible_truncation, reason = "at most 623")]
            let index = at as u32;
            state[at] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(index);
        }
        Self { state, next: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.turn();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9D2C_5680;
        word ^= (word << 15) & 0xEFC6_0000;
        word ^ (word >> 18)
    }

    fn turn(&mut self) {
        for at in 0..WORDS {
            let joined =
                (self.state[at] & 0x8000_0000) | (self.state[(at + 1) % WORDS] & 0x7FFF_FFFF);
            let twist = if joined & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[at] = self.state[(at + MIDDLE) % WORDS] ^ (joined >> 1) ^ twist;
        }
        self.next = 0;
    }

    /// Draws uniformly from `0..bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u64::from(self.word()) * u64::from(bound);
            #[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
            let (high, low) = ((product >> 32) as u32, product as u32);
            if low >= threshold {
                return high;
            }
        }
    }

    /// Draws uniformly from `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        const TWO_32: f64 = 4_294_967_296.0;
        let low = f64::from(self.word());
        let sum = low + f64::from(self.word()) * TWO_32;
        (sum / (TWO_32 * TWO_32)).min(1.0_f64.next_down())
    }
}

#[cfg(test)]
mod tests {
    use super::Twister;

    #[test]
    fn the_generator_is_mt19937() {
        // The C++ standard gives draw 10,000 of the default seed.
        let mut twister = Twister::new(5489);
        assert_eq!(twister.word(), 3_499_211_612);
        assert_eq!((1..10_000).map(|_| twister.word()).last(), Some(4_123_659_995));
    }
}
