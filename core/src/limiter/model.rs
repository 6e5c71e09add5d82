//! A model of writers, samplers and a ring under a rate limiter, which takes its decisions from the
//! shipped functions. It walks every state that a small ring can reach, and random states of large
//! ones. In each of them one side must be able to continue, once a ceiling that holds the writers
//! is removed. A ceiling must hold every append, and no draw. Each mutant of the rule must fail.

mod ring;
mod walks;

use std::collections::{HashSet, VecDeque};

use self::ring::{ModelLane, Writer};
use super::ceiling::Ceiling;
use super::limits::{LimiterCounts, RateLimiter};
use super::size::RingSize;

/// A single change of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// An append is admitted only if all its transitions are allowed.
    WholeAppends,
    /// A batch is counted only if all its items are allowed.
    WholeBatches,
    /// Writers compare `min_size` with counts, samplers with the transitions that the ring has.
    TwoSizes,
    /// A ceiling holds draws too.
    CeilingOfDraws,
    /// Appends that `min_size` asks for pass a ceiling.
    FirstPassCeiling,
}

/// One setting of the model.
#[derive(Clone, Debug)]
struct Setting {
    mutant: Mutant,
    /// Limits that are in force in turn.
    limits: Vec<RateLimiter>,
    lanes: usize,
    /// Rows that a lane keeps.
    rows: usize,
    writers: usize,
    /// Batch of each sampler.
    batches: Vec<u64>,
    /// Transitions up to a ceiling, when it is set.
    ceilings: Vec<u64>,
}

/// A state. Counts are relative to [`BASE`] inserts, since only differences matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    inserts: u64,
    samples: u64,
    /// Samples of the transitions that were dropped, which no draw gives back.
    least_samples: u64,
    dropped_at: u64,
    lanes: Vec<ModelLane>,
    writers: Vec<Writer>,
    /// Items that each sampler has counted for its next batch.
    held: Vec<u64>,
    /// Number of the limits in force.
    limits: usize,
    /// Count of inserts at which writers stop.
    ceiling: Option<u64>,
}

/// Maximum number of states of a setting.
const MOST: usize = 1_000_000;
/// Count of inserts to which states are shifted. States of an odd count get one more.
const BASE: u64 = 64;

impl Setting {
    fn most(&self) -> u64 {
        (self.lanes * (self.rows - 1)) as u64
    }

    /// Returns a lead that is above each band by more than failed draws can give back.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small bands")]
    fn far_lead(&self) -> u64 {
        let ends = self.limits.iter().map(|limits| limits.error_band().1 as u64);
        ends.max().unwrap_or(0) + self.batches.iter().sum::<u64>() + 4
    }

    fn start(&self) -> State {
        State {
            inserts: BASE,
            samples: samples_at(BASE, &self.limits[0]),
            least_samples: samples_at(BASE, &self.limits[0]),
            dropped_at: BASE,
            lanes: vec![ModelLane::default(); self.lanes],
            writers: vec![Writer::Idle; self.writers],
            held: vec![0; self.batches.len()],
            limits: 0,
            ceiling: None,
        }
    }

    /// Returns the counts with the deletes of the size test, or without any if the transitions are
    /// not counted.
    fn sized(&self, state: &State, is_counted: bool) -> LimiterCounts {
        let State { inserts, samples, dropped_at, .. } = *state;
        let counts = LimiterCounts { inserts, samples, deletes: 0 };
        if !is_counted {
            return counts;
        }
        let size = RingSize { drawable: state.drawable(), most: self.most(), dropped_at };
        size.counted(&self.limits[state.limits], counts)
    }

    /// Returns whether a writer that appends `n` transitions is admitted.
    fn admits(&self, state: &State, n: u64) -> bool {
        let is_first = || state.drawable() < self.limits[state.limits].min_size_to_sample();
        let passes = self.mutant == Mutant::FirstPassCeiling && is_first();
        let is_held = Ceiling::at(state.ceiling).holds(state.inserts) && !passes;
        !is_held && self.limits_admit(state, n)
    }

    /// Returns whether the limits alone admit a writer that appends `n` transitions.
    fn limits_admit(&self, state: &State, n: u64) -> bool {
        let limits = &self.limits[state.limits];
        let ways: &[bool] = if self.mutant == Mutant::TwoSizes { &[false] } else { &[false, true] };
        ways.iter().any(|is_counted| {
            let is_counted = *is_counted;
            let sized = self.sized(state, is_counted);
            let last = n.saturating_sub(1);
            let all = LimiterCounts { inserts: sized.inserts + last, ..sized };
            match self.mutant {
                Mutant::WholeAppends => limits.can_insert(all, n),
                _ => limits.can_insert(sized, n),
            }
        })
    }

    /// Returns how many items of `left` a sampler may count.
    fn allowed(&self, state: &State, left: u64) -> u64 {
        let is_held = Ceiling::at(state.ceiling).holds(state.inserts);
        if self.mutant == Mutant::CeilingOfDraws && is_held {
            return 0;
        }
        let sized = self.sized(state, true);
        let most = self.limits[state.limits].most_samples(sized.inserts, sized.deletes);
        let room = most.saturating_sub(state.samples).min(left);
        if self.mutant == Mutant::WholeBatches && room < left { 0 } else { room }
    }

    /// Returns whether the rule holds in a state.
    fn is_right(&self, state: &State) -> bool {
        let wanted = |number| state.wanted(number, self.writers, false);
        let held = state.ceiling.is_some_and(|ceiling| state.inserts >= ceiling);
        let idle = state.writers.iter().enumerate().filter(|(_, of)| **of == Writer::Idle);
        let mut admitted = idle.filter(|(n, _)| wanted(*n) > 0 && self.admits(state, wanted(*n)));
        self.is_live(state) && !(held && admitted.next().is_some())
    }

    /// Returns whether some writer or some sampler can continue, the writers without a ceiling.
    fn is_live(&self, state: &State) -> bool {
        let writers = state.writers.iter().enumerate();
        let mut appends = writers.map(|(number, writer)| match writer {
            Writer::Published(_) => true,
            Writer::Idle => self.limits_admit(state, state.wanted(number, self.writers, false)),
        });
        let samplers = state.held.iter().zip(&self.batches);
        let mut draws = samplers.map(|(held, batch)| {
            held == batch && state.drawable() > 0
                || held < batch && self.allowed(state, batch - held) > 0
        });
        appends.any(|may| may) || draws.any(|may| may)
    }

    /// Returns all states that can follow.
    fn next(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        let mut add = |change: &mut dyn FnMut(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            next.normalise(self);
            all.push(next);
        };
        for number in 0..self.writers {
            match state.writers[number] {
                Writer::Published(n) => {
                    add(&mut |next| {
                        next.inserts += n;
                        next.writers[number] = Writer::Idle;
                    });
                    // The writer is killed before it counts.
                    add(&mut |next| next.kill_writer(number, self.writers));
                }
                Writer::Idle => {
                    for ends in [false, true] {
                        let n = state.wanted(number, self.writers, ends);
                        if n == 0 || self.admits(state, n) {
                            add(&mut |next| next.publish(number, self, ends));
                        }
                    }
                    add(&mut |next| next.kill_writer(number, self.writers));
                }
            }
        }
        for (number, batch) in self.batches.iter().enumerate() {
            let held = state.held[number];
            let more = if held < *batch { self.allowed(state, batch - held) } else { 0 };
            if more > 0 {
                add(&mut |next| {
                    next.samples += more;
                    next.held[number] += more;
                });
            }
            if held == *batch && state.drawable() > 0 {
                add(&mut |next| next.held[number] = 0);
            }
            if held > 0 {
                // A cancelled or failed draw gives back its items, a killed sampler leaves them.
                add(&mut |next| {
                    next.samples = (next.samples - held).max(next.least_samples);
                    next.held[number] = 0;
                });
                add(&mut |next| next.held[number] = 0);
            }
        }
        add(&mut |next| next.clear(self));
        // The process that clears the ring is killed before it counts.
        add(&mut |next| next.lanes.iter_mut().for_each(ModelLane::drop_all));
        for lane in 0..self.lanes {
            add(&mut |next| {
                next.lanes[lane].drop_oldest();
                next.count_dropped(self);
            });
        }
        add(&mut |next| next.limits = (next.limits + 1) % self.limits.len());
        if !self.ceilings.is_empty() {
            add(&mut |next| next.ceiling = None);
        }
        for room in &self.ceilings {
            add(&mut |next| next.ceiling = Some(next.inserts + room));
        }
        all
    }

    /// Walks all reachable states. Returns their number, or the first one in which the rule does
    /// not hold.
    fn walk(&self, most: usize) -> Result<usize, Box<State>> {
        for limits in &self.limits {
            limits.check(self.most()).expect("limits that a ring accepts");
        }
        let start = self.start();
        let mut seen = HashSet::from([start.clone()]);
        let mut queue = VecDeque::from([start]);
        while let Some(state) = queue.pop_front() {
            if !self.is_right(&state) {
                return Err(Box::new(state));
            }
            for next in self.next(&state) {
                if seen.insert(next.clone()) {
                    queue.push_back(next);
                }
            }
            if seen.len() >= most {
                break;
            }
        }
        Ok(seen.len())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small counts and halves"
)]
fn samples_at(inserts: u64, limits: &RateLimiter) -> u64 {
    (inserts as f64 * limits.samples_per_insert()) as u64
}

/// Returns settings that are small enough to walk. Their bands are narrow, and some appends and
/// batches are larger than the band.
fn settings(mutant: Mutant) -> Vec<Setting> {
    let of = |limits: &[RateLimiter], lanes, rows, writers, batches: &[u64]| Setting {
        mutant,
        limits: limits.to_vec(),
        lanes,
        rows,
        writers,
        batches: batches.to_vec(),
        ceilings: Vec::new(),
    };
    let under =
        |setting: Setting, ceilings: &[u64]| Setting { ceilings: ceilings.to_vec(), ..setting };
    let queue = RateLimiter::queue;
    let band = RateLimiter::band;
    vec![
        of(&[queue(1)], 1, 3, 1, &[3]),
        of(&[queue(2)], 2, 3, 1, &[3]),
        of(&[queue(3)], 4, 2, 1, &[8]),
        of(&[queue(1)], 2, 2, 2, &[2, 2]),
        of(&[queue(1)], 3, 2, 3, &[1]),
        of(&[queue(2)], 1, 3, 1, &[1, 1, 2]),
        of(&[band(1.0, 3, 1.0, 4.0)], 2, 3, 1, &[5]),
        of(&[band(2.0, 2, 3.0, 6.0)], 2, 3, 1, &[5]),
        of(&[band(0.5, 2, 0.0, 1.5)], 2, 3, 1, &[3]),
        of(&[band(3.0, 2, 4.0, 8.0)], 2, 2, 1, &[8]),
        of(&[queue(2), band(1.0, 3, 1.0, 5.0)], 2, 3, 1, &[3]),
        under(of(&[queue(2)], 2, 3, 1, &[3]), &[0, 1, 4]),
        under(of(&[queue(1)], 2, 2, 2, &[2]), &[0, 2]),
        under(of(&[queue(2), band(1.0, 3, 1.0, 5.0)], 1, 4, 1, &[2]), &[1, 3]),
        under(of(&[band(2.0, 2, 3.0, 6.0)], 1, 3, 1, &[5]), &[0, 3]),
    ]
}

#[test]
fn in_every_state_of_a_small_ring_one_side_can_continue() {
    for setting in settings(Mutant::None) {
        let states = setting.walk(MOST).unwrap_or_else(|stuck| panic!("{setting:?} {stuck:?}"));
        println!("{states} states of {setting:?}");
        assert!((50..MOST).contains(&states), "{setting:?}");
    }
}

#[test]
fn each_mutant_of_the_rule_is_caught() {
    for mutant in [
        Mutant::WholeAppends,
        Mutant::WholeBatches,
        Mutant::TwoSizes,
        Mutant::CeilingOfDraws,
        Mutant::FirstPassCeiling,
    ] {
        let is_caught = settings(mutant).iter().any(|setting| setting.walk(MOST).is_err());
        assert!(is_caught, "{mutant:?}");
    }
}
