//! Returns over windows of consecutive transitions: discounted, lambda-returns, and generalised
//! advantage estimates. Pure functions over slices.

use crate::element::Element;
use crate::error::ReturnsError;

/// Element type of rewards and values: `f32` or `f64`. Sums are computed in `f64`.
pub trait Real: Element + Copy + Into<f64> {
    /// Rounds a number to this type.
    fn rounded(value: f64) -> Self;
}

impl Real for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the rewards' own type")]
    fn rounded(value: f64) -> Self {
        value as f32
    }
}

impl Real for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
}

/// Transitions of `B` windows of `T` each, `[B, T]` in C order, oldest first. All slices have
/// `B * T` elements.
///
/// `next_values[b, t]` is the value of the observation *after* transition `t`: of the final
/// observation where the episode ended. So a transition that was truncated bootstraps from it, and
/// one that terminated does not. Values of places that bootstrap from nothing are not read.
#[derive(Clone, Copy, Debug)]
pub struct ReturnSteps<'a, T> {
    /// Transitions of a window, `T`.
    pub steps: usize,
    /// Reward of each transition.
    pub rewards: &'a [T],
    /// Value of the observation after each transition; `None` counts as 0 everywhere.
    pub next_values: Option<&'a [T]>,
    /// Whether the transition terminated the episode.
    pub terminated: &'a [bool],
    /// Whether the transition was cut off: no later one of its window continues it.
    pub truncated: &'a [bool],
    /// Places that hold a transition; `None`: all of them.
    pub mask: Option<&'a [bool]>,
}

/// Discount per transition.
#[derive(Clone, Copy, Debug)]
pub enum Discount<'a, T> {
    /// One number, within `0..=1`.
    Constant(f64),
    /// A discount of each transition, `[B, T]`, as the column `discount` holds them.
    Steps(&'a [T]),
}

/// Returns lambda-returns, `[B, T]`; places that hold no transition are 0.
///
/// With `d` the discount of transition `t`, `c = 0` if it terminated and 1 otherwise, and
/// `V' = next_values[t]`:
///
/// `G[t] = r[t] + d c ((1 - lambda) V' + lambda G[t+1])`
///
/// The trace ends at a transition that terminated, was truncated, or has no successor in its
/// window. There `G[t] = r[t] + d c V'` (Sutton & Barto, "Reinforcement Learning", 2nd edition,
/// 2018, section 12.1 and equation 12.18). `lambda` is 0 for one-step targets and 1 for the
/// discounted return of the rest of the window. O(B * T).
///
/// ```
/// use backcast_core::{Discount, ReturnSteps, lambda_returns};
/// let steps = ReturnSteps {
///     steps: 3,
///     rewards: &[1.0_f64, 1.0, 1.0],
///     next_values: Some(&[0.0, 0.0, 8.0]),
///     terminated: &[false; 3],
///     truncated: &[false; 3],
///     mask: None,
/// };
/// assert_eq!(lambda_returns(steps, Discount::Constant(0.5), 1.0)?, [2.75, 3.5, 5.0]);
/// # Ok::<(), backcast_core::ReturnsError>(())
/// ```
pub fn lambda_returns<T: Real>(
    steps: ReturnSteps<'_, T>,
    discount: Discount<'_, T>,
    lambda: f64,
) -> Result<Vec<T>, ReturnsError> {
    check(&steps, None, discount, lambda)?;
    let mut out = vec![T::rounded(0.0); steps.rewards.len()];
    steps.backwards(discount, |at, transition, after| {
        let Transition { reward, discount, next_value, .. } = transition;
        let rest = after.map_or(next_value, |g| (1.0 - lambda) * next_value + lambda * g);
        let sum = reward + discount * rest;
        out[at] = T::rounded(sum);
        sum
    });
    Ok(out)
}

/// Returns discounted returns, `[B, T]`: the rewards up to the end of the episode or the window,
/// and the value after the last of them. They are [`lambda_returns`] with a lambda of 1.
pub fn discounted_returns<T: Real>(
    steps: ReturnSteps<'_, T>,
    discount: Discount<'_, T>,
) -> Result<Vec<T>, ReturnsError> {
    lambda_returns(steps, discount, 1.0)
}

/// Returns the advantages and the returns `advantage + value` of generalised advantage estimation,
/// both `[B, T]`; places that hold no transition are 0.
///
/// With the terms of [`lambda_returns`] and `V = values[t]`, the value of the observation of
/// transition `t`:
///
/// `A[t] = r[t] + d c V' - V + d lambda A[t+1]`
///
/// without the last term where the trace ends (Schulman et al., "High-dimensional continuous
/// control using generalized advantage estimation", ICLR 2016, equation 16). O(B * T).
///
/// Differs from the paper at truncated transitions, which it does not treat: they bootstrap from
/// the value of the final observation, and their trace ends.
pub fn gae<T: Real>(
    steps: ReturnSteps<'_, T>,
    values: &[T],
    discount: Discount<'_, T>,
    lambda: f64,
) -> Result<(Vec<T>, Vec<T>), ReturnsError> {
    check(&steps, Some(values), discount, lambda)?;
    let zeros = vec![T::rounded(0.0); steps.rewards.len()];
    let (mut advantages, mut returns) = (zeros.clone(), zeros);
    steps.backwards(discount, |at, transition, after| {
        let Transition { reward, discount, next_value } = transition;
        let value: f64 = values[at].into();
        let rest = after.map_or(0.0, |advantage| discount * lambda * advantage);
        let advantage = reward + discount * next_value - value + rest;
        advantages[at] = T::rounded(advantage);
        returns[at] = T::rounded(advantage + value);
        advantage
    });
    Ok((advantages, returns))
}

/// Numbers of one transition.
struct Transition {
    reward: f64,
    /// 0 if the transition terminated.
    discount: f64,
    /// 0 if the transition terminated: the value at that place is not read.
    next_value: f64,
}

impl<T: Real> ReturnSteps<'_, T> {
    /// Calls `each` for every transition, the last one of a window first, with its place and the
    /// result of the transition that continues it. All slices have been [checked](check).
    fn backwards(
        &self,
        discount: Discount<'_, T>,
        mut each: impl FnMut(usize, Transition, Option<f64>) -> f64,
    ) {
        let present = |at: usize| self.mask.is_none_or(|mask| mask[at]);
        for first in (0..self.rewards.len()).step_by(self.steps) {
            let mut after = None;
            for at in (first..first + self.steps).rev() {
                if !present(at) {
                    after = None;
                    continue;
                }
                let terminated = self.terminated[at];
                if terminated || self.truncated[at] {
                    after = None;
                }
                let mut transition =
                    Transition { reward: self.rewards[at].into(), discount: 0.0, next_value: 0.0 };
                if !terminated {
                    transition.discount = match discount {
                        Discount::Constant(gamma) => gamma,
                        Discount::Steps(discounts) => discounts[at].into(),
                    };
                    transition.next_value =
                        self.next_values.map_or(0.0, |values| values[at].into());
                }
                after = Some(each(at, transition, after));
            }
        }
    }
}

/// Checks lengths and factors.
fn check<T: Real>(
    steps: &ReturnSteps<'_, T>,
    values: Option<&[T]>,
    discount: Discount<'_, T>,
    lambda: f64,
) -> Result<(), ReturnsError> {
    let expected = steps.rewards.len();
    if steps.steps == 0 || !expected.is_multiple_of(steps.steps) {
        return Err(ReturnsError::BadSteps { rewards: expected, steps: steps.steps });
    }
    let (gamma, discounts) = match discount {
        Discount::Constant(gamma) => (gamma, None),
        Discount::Steps(discounts) => (1.0, Some(discounts.len())),
    };
    for (what, value) in [("gamma", gamma), ("lambda", lambda)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(ReturnsError::BadFactor { what, value });
        }
    }
    let lengths = [
        ("next_values", steps.next_values.map(<[T]>::len)),
        ("values", values.map(<[T]>::len)),
        ("terminated", Some(steps.terminated.len())),
        ("truncated", Some(steps.truncated.len())),
        ("mask", steps.mask.map(<[bool]>::len)),
        ("discounts", discounts),
    ];
    for (what, got) in lengths {
        if let Some(got) = got.filter(|got| *got != expected) {
            return Err(ReturnsError::BadLength { what, got, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A window as lists, and the definitions as sums over all later transitions.
    #[derive(Clone, Debug)]
    struct Slow {
        rewards: Vec<f64>,
        next_values: Vec<f64>,
        values: Vec<f64>,
        terminated: Vec<bool>,
        truncated: Vec<bool>,
        mask: Vec<bool>,
        discounts: Vec<f64>,
        lambda: f64,
    }

    impl Slow {
        /// Transitions from `t` to the end of its trace.
        fn trace(&self, t: usize) -> usize {
            let ends = |at: usize| self.terminated[at] || self.truncated[at];
            (t..self.rewards.len())
                .find(|at| ends(*at) || self.mask.get(at + 1) != Some(&true))
                .map_or(1, |last| last - t + 1)
        }

        /// The n-step return of `n` transitions from `t` on.
        fn n_step(&self, t: usize, n: usize) -> f64 {
            let (mut sum, mut discount) = (0.0, 1.0);
            for at in t..t + n {
                sum += discount * self.rewards[at];
                discount *= if self.terminated[at] { 0.0 } else { self.discounts[at] };
            }
            let last = t + n - 1;
            sum + if self.terminated[last] { 0.0 } else { discount * self.next_values[last] }
        }

        /// Sutton & Barto, equation 12.3: a mixture of all n-step returns.
        fn lambda_return(&self, t: usize) -> f64 {
            let len = self.trace(t);
            let power = |n: usize| self.lambda.powi(i32::try_from(n).unwrap());
            let shorter: f64 =
                (1..len).map(|n| (1.0 - self.lambda) * power(n - 1) * self.n_step(t, n)).sum();
            shorter + power(len - 1) * self.n_step(t, len)
        }

        /// Schulman et al., equation 16: a sum of discounted TD errors.
        fn advantage(&self, t: usize) -> f64 {
            let (mut sum, mut factor) = (0.0, 1.0);
            for at in t..t + self.trace(t) {
                let goes = if self.terminated[at] { 0.0 } else { self.discounts[at] };
                let next = if self.terminated[at] { 0.0 } else { self.next_values[at] };
                sum += factor * (self.rewards[at] + goes * next - self.values[at]);
                factor *= goes * self.lambda;
            }
            sum
        }
    }

    fn windows() -> impl Strategy<Value = Slow> {
        (1..9_usize, 0..9_usize, 0..9_usize).prop_flat_map(|(steps, from, to)| {
            let numbers = || prop::collection::vec(-2.0..2.0_f64, steps);
            let ends = || prop::collection::vec(prop::bool::weighted(0.2), steps);
            let discounts = prop::collection::vec(0.0..=1.0_f64, steps);
            let all = (numbers(), numbers(), numbers(), ends(), ends(), discounts, 0.0..=1.0_f64);
            all.prop_map(move |(rewards, next_values, values, terminated, truncated, d, lambda)| {
                let mask = (0..steps).map(|at| at >= from.min(steps - 1) && at <= from + to);
                Slow {
                    rewards,
                    // The place behind a terminated transition is not read.
                    next_values: next_values
                        .into_iter()
                        .zip(&terminated)
                        .map(|(value, ended)| if *ended { f64::NAN } else { value })
                        .collect(),
                    values,
                    terminated,
                    truncated,
                    mask: mask.collect(),
                    discounts: d,
                    lambda,
                }
            })
        })
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    proptest! {
        #[test]
        fn returns_are_those_of_their_definitions(slow in windows()) {
            let steps = ReturnSteps {
                steps: slow.rewards.len(),
                rewards: &slow.rewards,
                next_values: Some(&slow.next_values),
                terminated: &slow.terminated,
                truncated: &slow.truncated,
                mask: Some(&slow.mask),
            };
            let discount = Discount::Steps(&slow.discounts[..]);
            let found = lambda_returns(steps, discount, slow.lambda).unwrap();
            let (advantages, returns) = gae(steps, &slow.values, discount, slow.lambda).unwrap();
            let sums = discounted_returns(steps, discount).unwrap();
            for t in 0..slow.rewards.len() {
                if slow.mask[t] {
                    prop_assert!(near(found[t], slow.lambda_return(t)), "{t}: {found:?}");
                    prop_assert!(near(advantages[t], slow.advantage(t)), "{t}: {advantages:?}");
                    prop_assert!(near(returns[t], slow.advantage(t) + slow.values[t]));
                    prop_assert!(near(sums[t], slow.n_step(t, slow.trace(t))), "{t}: {sums:?}");
                } else {
                    let there = [found[t], advantages[t], returns[t], sums[t]];
                    prop_assert_eq!(there.map(f64::to_bits), [0; 4]);
                }
            }
        }
    }

    #[test]
    fn windows_do_not_touch_each_other_and_singles_are_rounded_once() {
        let rewards = [0.1_f32, 0.2, 0.3, 0.4];
        let none = [false; 4];
        let steps = ReturnSteps {
            steps: 2,
            rewards: &rewards,
            next_values: None,
            terminated: &none,
            truncated: &none,
            mask: None,
        };
        let found = discounted_returns(steps, Discount::Constant(0.5)).unwrap();
        let sum = |a: f32, b: f32| f32::rounded(f64::from(a) + 0.5 * f64::from(b));
        let expected = [sum(0.1, 0.2), 0.2, sum(0.3, 0.4), 0.4];
        assert_eq!(
            found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            expected.map(f32::to_bits)
        );
    }

    #[test]
    fn bad_lengths_and_factors_are_refused_with_their_numbers() {
        let (four, none) = ([0.0_f64; 4], [false; 4]);
        let good = ReturnSteps {
            steps: 2,
            rewards: &four,
            next_values: Some(&four),
            terminated: &none,
            truncated: &none,
            mask: Some(&none),
        };
        let constant = Discount::Constant(0.9);
        for (steps, discount, lambda, part) in [
            (ReturnSteps { steps: 0, ..good }, constant, 0.5, "windows of 0"),
            (ReturnSteps { steps: 3, ..good }, constant, 0.5, "4 rewards"),
            (
                ReturnSteps { next_values: Some(&four[1..]), ..good },
                constant,
                0.5,
                "next_values has 3",
            ),
            (ReturnSteps { terminated: &none[2..], ..good }, constant, 0.5, "terminated has 2"),
            (ReturnSteps { truncated: &[], ..good }, constant, 0.5, "truncated has 0"),
            (ReturnSteps { mask: Some(&none[3..]), ..good }, constant, 0.5, "mask has 1"),
            (good, Discount::Steps(&four[1..]), 0.5, "discounts has 3"),
            (good, Discount::Constant(1.5), 0.5, "gamma is 1.5"),
            (good, constant, f64::NAN, "lambda is NaN"),
        ] {
            let error = lambda_returns(steps, discount, lambda).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("; give"), "{error} lacks {part}");
        }
        let error = gae(good, &four[1..], constant, 0.5).unwrap_err().to_string();
        assert!(error.contains("values has 3"), "{error}");
    }
}
