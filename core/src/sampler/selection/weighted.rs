//! Draws with replacement whose weights depend on the lane or on the age of a row.

use std::f64::consts::LN_2;
use std::ops::Range;

use crate::error::SampleError;
use crate::sampler::eligibility::{Eligibility, LaneRange, MAX_REJECTIONS, number};
use crate::sampler::rng::CounterRng;
use crate::sampler::selector::Selector;

/// Bits of the uniform numbers.
const BITS: u32 = 53;
/// Bit set in the attempt of the random number that chooses a lane, which makes it independent of
/// the one that chooses a row, and of those of hindsight, which have the highest bit.
const OF_LANE: u32 = 1 << 30;

/// Rows of a batch that are drawn by the weight of their lane or their age.
#[derive(Debug)]
pub(in crate::sampler) struct WeightedRows {
    selector: Selector,
    items: usize,
    rows: Vec<Option<(usize, u64)>>,
}

/// Place of a draw in the stream of random numbers.
#[derive(Clone, Copy)]
struct Place<'a> {
    rng: &'a CounterRng,
    batch: u64,
    item: u32,
    attempt: u32,
}

impl Place<'_> {
    /// Returns a uniform number in `0..1`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    fn unit(self, kind: u32) -> f64 {
        let below = self.rng.below(1 << BITS, self.batch, self.item, self.attempt | kind);
        // A power of two is never rejected.
        below.unwrap_or(0) as f64 / (1_u64 << BITS) as f64
    }

    /// Returns a uniform number below `bound`, or `None` if this attempt is rejected.
    fn below(self, bound: u64) -> Option<u64> {
        self.rng.below(bound, self.batch, self.item, self.attempt).filter(|_| bound > 0)
    }
}

impl WeightedRows {
    pub(super) fn new(selector: Selector) -> Self {
        Self { selector, items: 0, rows: Vec::new() }
    }

    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Draws a row for every item. Returns `false` if the ring has no row that can be drawn. Fails
    /// if all rows that can be drawn are in lanes of weight 0.
    pub(super) fn begin(
        &mut self,
        rng: &CounterRng,
        (batch, items): (u64, usize),
        eligibility: &Eligibility,
    ) -> Result<bool, SampleError> {
        self.items = items;
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.extend((0..items).map(|item| self.candidate(rng, eligibility, (batch, item), 0)));
        self.rows = rows;
        let ranges = eligibility.ranges();
        let has_rows = |lane| ranges.get(lane).is_some_and(|of| !of.candidates().is_empty());
        match self.without_weight(ranges.lanes(), has_rows) {
            None => Ok(true),
            Some(filled) if filled.is_empty() => Ok(false),
            Some(filled) => Err(self.empty_lanes(ranges.lanes(), filled)),
        }
    }

    /// Returns the error of an attempt that draws among the index of starts, if all of them lie in
    /// lanes without a weight.
    pub(super) fn why_empty(&self, attempt: u32, eligibility: &Eligibility) -> Option<SampleError> {
        if attempt < MAX_REJECTIONS {
            return None;
        }
        let lanes = eligibility.ranges().lanes();
        let filled = self.without_weight(lanes, |lane| eligibility.starts().count_in(lane) > 0)?;
        (!filled.is_empty()).then(|| self.empty_lanes(lanes, filled))
    }

    /// Returns the lanes that are filled, if none of them has a weight.
    fn without_weight(
        &self,
        lanes: usize,
        is_filled: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let filled: Vec<usize> = (0..lanes).filter(|lane| is_filled(*lane)).collect();
        filled.iter().all(|lane| self.weight(*lane) <= 0.0).then_some(filled)
    }

    fn empty_lanes(&self, lanes: usize, filled: Vec<usize>) -> SampleError {
        let weighted = (0..lanes).filter(|lane| self.weight(*lane) > 0.0).collect();
        SampleError::EmptyLanes { weighted, filled }
    }

    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        self.rows.get(item).copied().flatten()
    }

    /// Draws a row for an item. The first attempts draw among all rows, and later ones among those
    /// that the index of starts has.
    pub(super) fn candidate(
        &self,
        rng: &CounterRng,
        eligibility: &Eligibility,
        (batch, item): (u64, usize),
        attempt: u32,
    ) -> Option<(usize, u64)> {
        let place = Place { rng, batch, item: number(item), attempt };
        if let Selector::Recency { half_life } = self.selector {
            return by_age(place, eligibility, LN_2 / half_life);
        }
        let turn = batch.wrapping_mul(self.items as u64).wrapping_add(item as u64);
        let ranges = eligibility.ranges();
        // The lane stays that of the first attempt, so that lanes with few transitions among their
        // rows are not drawn less often.
        let rows = |lane: usize| ranges.get(lane).map_or(0..0, LaneRange::candidates);
        let count = |lane: usize| rows(lane).end - rows(lane).start;
        let lane = self.lane(Place { attempt: 0, ..place }, turn, ranges.lanes(), count)?;
        if attempt < MAX_REJECTIONS {
            let n = place.below(count(lane))?;
            return Some((lane, rows(lane).start + n));
        }
        let starts = eligibility.starts();
        let lane = if starts.count_in(lane) > 0 {
            lane
        } else {
            let place = Place { attempt: MAX_REJECTIONS, ..place };
            self.lane(place, turn, ranges.lanes(), |lane| starts.count_in(lane))?
        };
        Some((lane, starts.nth_in(lane, place.below(starts.count_in(lane))?)?))
    }

    /// Chooses a lane among those that have rows and a weight: by weight, or in turn.
    fn lane(
        &self,
        place: Place<'_>,
        turn: u64,
        lanes: usize,
        count: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let filled = || (0..lanes).filter(|lane| count(*lane) > 0 && self.weight(*lane) > 0.0);
        if self.selector == Selector::LaneStrata {
            let turn = turn.checked_rem(filled().count() as u64)?;
            return filled().nth(usize::try_from(turn).ok()?);
        }
        let total: f64 = filled().map(|lane| self.weight(lane)).sum();
        let mut left = place.unit(OF_LANE) * total;
        let mut last = None;
        for lane in filled() {
            last = Some(lane);
            left -= self.weight(lane);
            if left < 0.0 {
                break;
            }
        }
        last
    }

    fn weight(&self, lane: usize) -> f64 {
        match &self.selector {
            Selector::LaneWeights(weights) => weights.get(lane).copied().unwrap_or(0.0),
            _ => 1.0,
        }
    }
}

/// Draws a row in proportion to `exp(-decay * age)`.
fn by_age(place: Place<'_>, eligibility: &Eligibility, decay: f64) -> Option<(usize, u64)> {
    let ranges = || eligibility.ranges().candidates().enumerate();
    if place.attempt < MAX_REJECTIONS {
        return pick(place, decay, ranges().map(|(lane, rows)| (lane, 0, rows)));
    }
    let newest: Vec<u64> = ranges().map(|(_, rows)| rows.end).collect();
    let age = |lane: usize, rows: &Range<u64>| {
        newest.get(lane).map_or(0, |newest| newest.saturating_sub(rows.end))
    };
    let starts = eligibility.starts();
    // Ages count from the newest start, so that weights of old rows do not vanish.
    let least = starts.intervals().map(|(lane, rows)| age(lane, rows)).min()?;
    let aged = |(lane, rows): (usize, &Range<u64>)| (lane, age(lane, rows) - least, rows.clone());
    pick(place, decay, starts.intervals().map(aged))
}

/// Draws among ranges of rows, each with the age of its newest row.
#[expect(clippy::cast_precision_loss, reason = "rows of a lane")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an age of the range")]
fn pick(
    place: Place<'_>,
    decay: f64,
    ranges: impl Iterator<Item = (usize, u64, Range<u64>)> + Clone,
) -> Option<(usize, u64)> {
    let len = |rows: &Range<u64>| rows.end.saturating_sub(rows.start) as f64;
    // A geometric series without its factor, which is the same for all ranges.
    let mass =
        |age: u64, rows: &Range<u64>| -(-decay * age as f64).exp() * (-decay * len(rows)).exp_m1();
    let total: f64 = ranges.clone().map(|(_, age, rows)| mass(age, &rows)).sum();
    let mut left = place.unit(OF_LANE) * total;
    let mut last = None;
    for (lane, age, rows) in ranges {
        if rows.is_empty() {
            continue;
        }
        left -= mass(age, &rows);
        last = Some((lane, rows));
        if left < 0.0 {
            break;
        }
    }
    let (lane, rows) = last?;
    // The inverse of the distribution of ages within the range.
    let unit = place.unit(0);
    let back = -(unit * (-decay * len(&rows)).exp_m1()).ln_1p() / decay;
    let back = (back.max(0.0) as u64).min(rows.end - rows.start - 1);
    Some((lane, rows.end - 1 - back))
}
