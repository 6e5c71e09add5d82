//! Returns of a policy that learns from the steps of another one: V-trace and Retrace.

use super::{Discount, Real, ReturnSteps, Transition, check};
use crate::error::ReturnsError;

/// Options of [`vtrace`]. The default is lambda 1 and both limits 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTraceOptions {
    /// Share of later corrections, within `0..=1`.
    pub lambda: f64,
    /// Limit of the ratios that weigh a correction, above 0. Decides which policy is evaluated.
    pub rho_clip: f64,
    /// Limit of the ratios that weigh later corrections, above 0. Decides how fast values converge.
    pub c_clip: f64,
}

impl Default for VTraceOptions {
    fn default() -> Self {
        Self { lambda: 1.0, rho_clip: 1.0, c_clip: 1.0 }
    }
}

/// Returns the targets of values and the advantages of V-trace, both `[B, T]`; places that hold no
/// transition are 0.
///
/// With the terms of [`gae`](crate::gae) and `w = ratios[t]`, the probability of the action of
/// transition `t` under the policy that learns, divided by its probability under the one that
/// acted:
///
/// `X[t] = min(rho_clip, w) (r[t] + d c V' - V) + d lambda min(c_clip, w) X[t+1]`
///
/// without the last term where the trace ends. The target is `V + X[t]`. The advantage is
/// `min(rho_clip, w) (r[t] + d c U - V)`, where `U` is the target of transition `t + 1`, or `V'`
/// where the trace ends (Espeholt et al., "IMPALA: Scalable distributed deep-RL with importance
/// weighted actor-learner architectures", ICML 2018, section 4.1, equations 1 and 4). O(B * T).
///
/// Differs from the paper at truncated transitions, which it does not treat: they bootstrap from
/// the value of the final observation, and their trace ends.
///
/// ```
/// use backcast_core::{Discount, ReturnSteps, VTraceOptions, vtrace};
/// let steps = ReturnSteps {
///     steps: 2,
///     rewards: &[1.0_f64, 1.0],
///     next_values: Some(&[2.0, 4.0]),
///     terminated: &[false; 2],
///     truncated: &[false; 2],
///     mask: None,
/// };
/// let (values, ratios) = ([1.0, 2.0], [0.5, 3.0]);
/// let discount = Discount::Constant(0.5);
/// let (targets, advantages) =
///     vtrace(steps, &values, &ratios, discount, VTraceOptions::default())?;
/// assert_eq!((targets, advantages), (vec![1.75, 3.0], vec![0.75, 1.0]));
/// # Ok::<(), backcast_core::ReturnsError>(())
/// ```
pub fn vtrace<T: Real>(
    steps: ReturnSteps<'_, T>,
    values: &[T],
    ratios: &[T],
    discount: Discount<'_, T>,
    options: VTraceOptions,
) -> Result<(Vec<T>, Vec<T>), ReturnsError> {
    let VTraceOptions { lambda, rho_clip, c_clip } = options;
    check(&steps, Some(("values", values)), discount, lambda)?;
    check_ratios(&steps, ratios)?;
    for (what, value) in [("rho_clip", rho_clip), ("c_clip", c_clip)] {
        if value.is_nan() || value <= 0.0 {
            return Err(ReturnsError::BadClip { what, value });
        }
    }
    let zeros = vec![T::rounded(0.0); steps.rewards.len()];
    let (mut targets, mut advantages) = (zeros.clone(), zeros);
    steps.backwards(discount, |at, transition, after| {
        let Transition { reward, discount, next_value } = transition;
        let (value, ratio): (f64, f64) = (values[at].into(), ratios[at].into());
        let rho = ratio.min(rho_clip);
        let next_target = after.map_or(next_value, |correction| {
            let next: f64 = values[at + 1].into();
            next + correction
        });
        let later = after.map_or(0.0, |later| discount * lambda * ratio.min(c_clip) * later);
        let correction = rho * (reward + discount * next_value - value) + later;
        targets[at] = T::rounded(value + correction);
        advantages[at] = T::rounded(rho * (reward + discount * next_target - value));
        correction
    });
    Ok((targets, advantages))
}

/// Returns the targets of action values of Retrace, `[B, T]`; places that hold no transition are 0.
///
/// `action_values[t]` is the value of the action of transition `t`, `Q`. `next_values[t]` is the
/// mean value of the actions of the policy that learns after transition `t`, `V'`. With the other
/// terms of [`vtrace`]:
///
/// `G[t] = r[t] + d c (V' + lambda min(1, w[t+1]) (G[t+1] - Q[t+1]))`
///
/// and `r[t] + d c V'` where the trace ends (Munos et al., "Safe and efficient off-policy
/// reinforcement learning", `NeurIPS` 2016, equations 3 and 4). O(B * T).
pub fn retrace<T: Real>(
    steps: ReturnSteps<'_, T>,
    action_values: &[T],
    ratios: &[T],
    discount: Discount<'_, T>,
    lambda: f64,
) -> Result<Vec<T>, ReturnsError> {
    check(&steps, Some(("action_values", action_values)), discount, lambda)?;
    check_ratios(&steps, ratios)?;
    let mut targets = vec![T::rounded(0.0); steps.rewards.len()];
    steps.backwards(discount, |at, transition, after| {
        let Transition { reward, discount, next_value } = transition;
        let later = after.map_or(0.0, |error| {
            let ratio: f64 = ratios[at + 1].into();
            lambda * ratio.min(1.0) * error
        });
        let target = reward + discount * (next_value + later);
        targets[at] = T::rounded(target);
        let value: f64 = action_values[at].into();
        target - value
    });
    Ok(targets)
}

/// Checks that there is a ratio for each transition.
fn check_ratios<T: Real>(steps: &ReturnSteps<'_, T>, ratios: &[T]) -> Result<(), ReturnsError> {
    let (got, expected) = (ratios.len(), steps.rewards.len());
    if got != expected {
        return Err(ReturnsError::BadLength { what: "ratios", got, expected });
    }
    for (at, ratio) in ratios.iter().enumerate() {
        let value: f64 = (*ratio).into();
        let is_ratio = value.is_finite() && value >= 0.0;
        if !is_ratio && steps.mask.is_none_or(|mask| mask[at]) {
            return Err(ReturnsError::BadRatio { at, value });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// One window, and the definitions of the papers as sums over all later transitions.
    struct Window {
        rewards: Vec<f64>,
        values: Vec<f64>,
        next_values: Vec<f64>,
        ratios: Vec<f64>,
        terminated: Vec<bool>,
        truncated: Vec<bool>,
        mask: Vec<bool>,
        discounts: Vec<f64>,
    }

    impl Window {
        fn random(dice: &mut StdRng) -> Self {
            let len = dice.random_range(1..12);
            let from = dice.random_range(0..len);
            let to = dice.random_range(from..len);
            let mut numbers =
                |low: f64, high: f64| (0..len).map(|_| dice.random_range(low..high)).collect();
            let (rewards, values, ratios) =
                (numbers(-2.0, 2.0), numbers(-2.0, 2.0), numbers(0.0, 3.0));
            let (next_values, discounts) = (numbers(-2.0, 2.0), numbers(0.0, 1.0));
            let mut ends = |share| (0..len).map(|_| dice.random_bool(share)).collect::<Vec<_>>();
            let (terminated, truncated) = (ends(0.1), ends(0.1));
            let mask = (0..len).map(|at| (from..=to).contains(&at)).collect();
            Self { rewards, values, next_values, ratios, terminated, truncated, mask, discounts }
        }

        /// Places of the transitions from `at` to the end of its trace.
        fn trace(&self, at: usize) -> std::ops::Range<usize> {
            let ends = |at: usize| {
                self.terminated[at] || self.truncated[at] || self.mask.get(at + 1) != Some(&true)
            };
            at..(at..self.mask.len()).find(|at| ends(*at)).unwrap() + 1
        }

        fn discount(&self, at: usize) -> f64 {
            if self.terminated[at] { 0.0 } else { self.discounts[at] }
        }

        /// The sum of Espeholt et al., equation 1.
        fn vtrace(&self, at: usize, options: VTraceOptions) -> f64 {
            let (mut sum, mut factor) = (self.values[at], 1.0);
            for t in self.trace(at) {
                let error =
                    self.rewards[t] + self.discount(t) * self.next_values[t] - self.values[t];
                sum += factor * self.ratios[t].min(options.rho_clip) * error;
                let c = options.lambda * self.ratios[t].min(options.c_clip);
                factor *= self.discount(t) * c;
            }
            sum
        }

        /// The sum of Munos et al., equation 3.
        fn retrace(&self, at: usize, lambda: f64) -> f64 {
            let (mut sum, mut factor) = (self.values[at], 1.0);
            for t in self.trace(at) {
                if t > at {
                    factor *= self.discount(t - 1) * lambda * self.ratios[t].min(1.0);
                }
                let error =
                    self.rewards[t] + self.discount(t) * self.next_values[t] - self.values[t];
                sum += factor * error;
            }
            sum
        }

        fn steps(&self) -> ReturnSteps<'_, f64> {
            ReturnSteps {
                steps: self.rewards.len(),
                rewards: &self.rewards,
                next_values: Some(&self.next_values),
                terminated: &self.terminated,
                truncated: &self.truncated,
                mask: Some(&self.mask),
            }
        }
    }

    #[test]
    fn targets_are_the_sums_of_the_papers() {
        let mut dice = StdRng::seed_from_u64(3);
        for _ in 0..10_000 {
            let window = Window::random(&mut dice);
            let options = VTraceOptions {
                lambda: dice.random_range(0.0..1.0),
                rho_clip: dice.random_range(0.5..2.0),
                c_clip: dice.random_range(0.5..2.0),
            };
            let (values, ratios) = (&window.values, &window.ratios);
            let discount = Discount::Steps(&window.discounts[..]);
            let (targets, advantages) =
                vtrace(window.steps(), values, ratios, discount, options).unwrap();
            let action_targets =
                retrace(window.steps(), values, ratios, discount, options.lambda).unwrap();
            for at in 0..values.len() {
                if !window.mask[at] {
                    let there = [targets[at], advantages[at], action_targets[at]];
                    assert_eq!(there.map(f64::to_bits), [0; 3]);
                    continue;
                }
                let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
                assert!(near(targets[at], window.vtrace(at, options)));
                assert!(near(action_targets[at], window.retrace(at, options.lambda)));
                let next = match window.trace(at).nth(1) {
                    Some(next) => window.vtrace(next, options),
                    None => window.next_values[at],
                };
                let error = window.rewards[at] + window.discount(at) * next - values[at];
                assert!(near(advantages[at], ratios[at].min(options.rho_clip) * error));
            }
        }
    }

    #[test]
    fn equal_policies_give_the_targets_of_gae() {
        let mut dice = StdRng::seed_from_u64(4);
        for _ in 0..100 {
            let window = Window::random(&mut dice);
            let ones = vec![1.0; window.values.len()];
            let discount = Discount::Constant(0.9);
            let options = VTraceOptions { lambda: 0.7, ..VTraceOptions::default() };
            let (targets, _) =
                vtrace(window.steps(), &window.values, &ones, discount, options).unwrap();
            let (_, returns) = crate::gae(window.steps(), &window.values, discount, 0.7).unwrap();
            for (target, expected) in targets.iter().zip(returns) {
                assert!((target - expected).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_ratios_and_limits_are_refused_with_their_numbers() {
        let (four, none, mut mask) = ([0.5_f64; 4], [false; 4], [true; 4]);
        mask[3] = false;
        let steps = ReturnSteps {
            steps: 4,
            rewards: &four,
            next_values: None,
            terminated: &none,
            truncated: &none,
            mask: Some(&mask),
        };
        let discount = Discount::Constant(0.9);
        let refused = |values: &[f64], ratios: &[f64], options| {
            let one = vtrace(steps, values, ratios, discount, options);
            one.unwrap_err()
        };
        let good = VTraceOptions::default();
        let short = |what| ReturnsError::BadLength { what, got: 3, expected: 4 };
        assert_eq!(refused(&four, &four[1..], good), short("ratios"));
        assert_eq!(refused(&four[1..], &four, good), short("values"));
        let found = retrace(steps, &four[1..], &four, discount, 0.5).unwrap_err();
        assert_eq!(found, short("action_values"));
        let negative = ReturnsError::BadRatio { at: 1, value: -1.0 };
        assert_eq!(refused(&four, &[0.5, -1.0, 0.5, 0.5], good), negative);
        let nan = refused(&four, &[0.5, 0.5, f64::NAN, 0.5], good);
        assert!(matches!(nan, ReturnsError::BadRatio { at: 2, value } if value.is_nan()), "{nan}");
        let large = refused(&four, &four, VTraceOptions { lambda: 1.5, ..good });
        assert_eq!(large, ReturnsError::BadFactor { what: "lambda", value: 1.5 });
        let zero = refused(&four, &four, VTraceOptions { rho_clip: 0.0, ..good });
        assert_eq!(zero, ReturnsError::BadClip { what: "rho_clip", value: 0.0 });
        let nan = refused(&four, &four, VTraceOptions { c_clip: f64::NAN, ..good });
        let ReturnsError::BadClip { what: "c_clip", value } = nan else { panic!("{nan}") };
        assert!(value.is_nan());
        let unread = [0.5, 0.5, 0.5, f64::NAN];
        assert!(vtrace(steps, &four, &unread, discount, good).is_ok(), "no transition is there");
        assert!(retrace(steps, &four, &unread, discount, 1.0).is_ok());
    }

    #[test]
    fn ratios_are_finite_and_limits_positive_with_their_ends() {
        let (two, none) = ([0.5_f64; 2], [false; 2]);
        let steps = ReturnSteps {
            steps: 2,
            rewards: &two,
            next_values: None,
            terminated: &none,
            truncated: &none,
            mask: None,
        };
        let discount = Discount::Constant(0.9);
        let good = VTraceOptions::default();
        for (ratio, is_ratio) in
            [(0.0, true), (-0.0, true), (f64::MAX, true), (f64::INFINITY, false), (-1e-300, false)]
        {
            let ratios = [1.0, ratio];
            let found = vtrace(steps, &two, &ratios, discount, good);
            let action = retrace(steps, &two, &ratios, discount, 0.5);
            if is_ratio {
                assert!(found.is_ok() && action.is_ok(), "{ratio}");
            } else {
                let refused = ReturnsError::BadRatio { at: 1, value: ratio };
                assert_eq!((found.unwrap_err(), action.unwrap_err()), (refused.clone(), refused));
            }
        }
        for (limit, is_limit) in
            [(f64::MIN_POSITIVE, true), (f64::INFINITY, true), (-1.0, false), (0.0, false)]
        {
            for what in ["rho_clip", "c_clip"] {
                let options = match what {
                    "rho_clip" => VTraceOptions { rho_clip: limit, ..good },
                    _ => VTraceOptions { c_clip: limit, ..good },
                };
                let found = vtrace(steps, &two, &two, discount, options).map(drop);
                let refused = ReturnsError::BadClip { what, value: limit };
                assert_eq!(found, if is_limit { Ok(()) } else { Err(refused) });
            }
        }
    }

    #[test]
    fn windows_of_a_batch_are_those_of_each_alone() {
        let mut dice = StdRng::seed_from_u64(5);
        for _ in 0..200 {
            let windows: Vec<Window> = std::iter::repeat_with(|| Window::random(&mut dice))
                .filter(|window| window.mask.len() == 4)
                .take(3)
                .collect();
            let numbers = |of: fn(&Window) -> &Vec<f64>| -> Vec<f64> {
                windows.iter().flat_map(of).copied().collect()
            };
            let flags = |of: fn(&Window) -> &Vec<bool>| -> Vec<bool> {
                windows.iter().flat_map(of).copied().collect()
            };
            let all = Window {
                rewards: numbers(|of| &of.rewards),
                values: numbers(|of| &of.values),
                next_values: numbers(|of| &of.next_values),
                ratios: numbers(|of| &of.ratios),
                terminated: flags(|of| &of.terminated),
                truncated: flags(|of| &of.truncated),
                mask: flags(|of| &of.mask),
                discounts: numbers(|of| &of.discounts),
            };
            let options = VTraceOptions { lambda: 0.8, ..VTraceOptions::default() };
            let found = |of: &Window| {
                let steps = ReturnSteps { steps: 4, ..of.steps() };
                let discount = Discount::Steps(&of.discounts[..]);
                let (targets, advantages) =
                    vtrace(steps, &of.values, &of.ratios, discount, options).unwrap();
                let actions = retrace(steps, &of.values, &of.ratios, discount, 0.8).unwrap();
                [targets, advantages, actions]
            };
            let alone: Vec<_> = windows.iter().map(found).collect();
            let joined = [0, 1, 2].map(|which| {
                let parts: Vec<&[f64]> = alone.iter().map(|of| &of[which][..]).collect();
                parts.concat()
            });
            let bits = |of: &[Vec<f64>; 3]| -> Vec<u64> {
                of.iter().flatten().map(|number| number.to_bits()).collect()
            };
            assert_eq!(bits(&found(&all)), bits(&joined));
        }
    }
}
