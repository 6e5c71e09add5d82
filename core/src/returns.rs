//! Returns over windows of consecutive transitions: discounted, lambda-returns, and generalised
//! advantage estimates; V-trace and Retrace are in [`off_policy`]. Pure functions over slices.

mod off_policy;

pub use self::off_policy::{VTraceOptions, retrace, vtrace};
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

/// Returns discounted returns, `[B, T]`: the discounted sum of the rewards up to the end of the
/// episode or the window, and of the value after the last of them unless that transition
/// terminated. They are [`lambda_returns`] with a lambda of 1.
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
/// Differs from the paper at truncated transitions, which the paper does not treat: they bootstrap
/// from the value of the final observation, and their trace ends.
pub fn gae<T: Real>(
    steps: ReturnSteps<'_, T>,
    values: &[T],
    discount: Discount<'_, T>,
    lambda: f64,
) -> Result<(Vec<T>, Vec<T>), ReturnsError> {
    check(&steps, Some(("values", values)), discount, lambda)?;
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
    values: Option<(&'static str, &[T])>,
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
        values.map_or(("values", None), |(what, values)| (what, Some(values.len()))),
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
mod tests;
