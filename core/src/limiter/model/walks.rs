//! Random walks of the model in the ranges that rings have.

use super::super::limits::{LimiterCounts, RateLimiter};

/// Rule that a walk follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Shipped,
    /// Appends and batches wait until they are allowed whole.
    Whole,
}

/// A writer of some lanes and a sampler, each at its next call.
#[derive(Clone, Copy, Debug)]
struct Walk {
    limits: RateLimiter,
    rule: Rule,
    counts: LimiterCounts,
    lanes: u64,
    batch: u64,
    held: u64,
}

impl Walk {
    /// Appends if the writer is admitted. Episodes of all lanes end together.
    fn append(&mut self, ends: bool) -> bool {
        let n = if ends { 2 * self.lanes } else { self.lanes };
        let before_last = self.counts.inserts + n - 1;
        let whole = LimiterCounts { inserts: before_last, ..self.counts };
        let may = match self.rule {
            Rule::Shipped => self.limits.can_insert(self.counts, n),
            Rule::Whole => self.limits.can_insert(whole, 1),
        };
        self.counts.inserts += if may { n } else { 0 };
        may
    }

    /// Counts the items of the current batch that the limits allow, and returns whether there were
    /// any. Under [`Rule::Whole`] it counts all missing items or none.
    fn draw(&mut self) -> bool {
        let LimiterCounts { inserts, samples, deletes } = self.counts;
        let left = self.batch - self.held;
        let taken = left.min(self.limits.most_samples(inserts, deletes).saturating_sub(samples));
        if taken == 0 || (taken < left && self.rule == Rule::Whole) {
            return false;
        }
        self.counts.samples += taken;
        self.held = (self.held + taken) % self.batch;
        true
    }

    /// Returns whether each side goes on until `calls` batches are drawn.
    fn goes_on(mut self, calls: u64, dice: &mut Dice) -> bool {
        let until = calls * self.batch;
        while self.counts.samples < until {
            let appends_first = dice.next().is_multiple_of(2);
            let ends = dice.next().is_multiple_of(50);
            let moved = (appends_first && self.append(ends)) || self.draw();
            if !moved && !self.append(ends) {
                return false;
            }
            self.assert_within_band();
        }
        true
    }

    /// Asserts that the lead stays within the band, except for one append and for the first
    /// `min_size` inserts.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn assert_within_band(&self) {
        let (ratio, size) = (self.limits.samples_per_insert(), self.limits.min_size_to_sample());
        let (least, most) = self.limits.error_band();
        let lead = self.counts.inserts as f64 * ratio - self.counts.samples as f64;
        let over = (2 * self.lanes - 1) as f64 * ratio;
        assert!(lead <= most.max(size as f64 * ratio) + over + 1e-6, "{self:?}");
        assert!(lead >= least - 1e-6 || self.counts.samples == 0, "{self:?}");
    }
}

/// Random numbers.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }
}

/// Returns how many of the settings hang, and their number.
fn hanging(rule: Rule) -> (usize, usize) {
    let ratios = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0];
    let lanes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let batches = [100, 128, 256, 512, 1_000, 1_024, 2_047];
    let (mut hanging, mut settings) = (0, 0);
    let mut dice = Dice(1);
    for ratio in ratios {
        let error = RateLimiter::default_error_buffer(ratio);
        let limits = RateLimiter::ratio(ratio, 1_000, error);
        limits.check(1_000_000).unwrap();
        for (lanes, batch) in lanes.into_iter().flat_map(|n| batches.map(|batch| (n, batch))) {
            let counts = LimiterCounts::default();
            let walk = Walk { limits, rule, counts, lanes, batch, held: 0 };
            hanging += usize::from(!walk.goes_on(400, &mut dice));
            settings += 1;
        }
    }
    (hanging, settings)
}

#[test]
fn no_ordinary_setting_hangs() {
    assert_eq!(hanging(Rule::Shipped), (0, 770));
    let (hanging, settings) = hanging(Rule::Whole);
    println!("{hanging} of {settings} settings hang if appends and batches wait to be whole");
    assert!(hanging > 100, "the walks prove nothing: {hanging}");
}

/// Draws bands that are accepted, and appends and batches of any size, also beyond the band.
#[test]
fn no_accepted_setting_hangs() {
    let mut dice = Dice(7);
    let mut walks = 0;
    while walks < 3_000 {
        let ratios = [0.1, 0.25, 0.3, 1.0, 1.7, 3.0, 8.0, 31.5];
        let ratio = ratios[usize::try_from(dice.next() % 8).unwrap()];
        let mut below = |most: u64| f64::from(u32::try_from(dice.next() % most).unwrap());
        let (low, width) = (below(40) - 20.0, below(400) / 4.0);
        let size = 1 + dice.next() % 200;
        let limits = RateLimiter::band(ratio, size, low, low + width);
        if limits.check(1_000).is_err() {
            continue;
        }
        walks += 1;
        let (lanes, batch) = (1 + dice.next() % 64, 1 + dice.next() % 512);
        let counts = LimiterCounts::default();
        let walk = Walk { limits, rule: Rule::Shipped, counts, lanes, batch, held: 0 };
        assert!(walk.goes_on(20, &mut dice), "{walk:?}");
    }
}
