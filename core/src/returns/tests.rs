//! Returns against their definitions as sums, and refusals.

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
    assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected.map(f32::to_bits));
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
    let short = |what, got| ReturnsError::BadLength { what, got, expected: 4 };
    let of = |steps| ReturnsError::BadSteps { rewards: 4, steps };
    for (steps, discount, expected) in [
        (ReturnSteps { steps: 0, ..good }, constant, of(0)),
        (ReturnSteps { steps: 3, ..good }, constant, of(3)),
        (ReturnSteps { next_values: Some(&four[1..]), ..good }, constant, short("next_values", 3)),
        (ReturnSteps { terminated: &none[2..], ..good }, constant, short("terminated", 2)),
        (ReturnSteps { truncated: &[], ..good }, constant, short("truncated", 0)),
        (ReturnSteps { mask: Some(&none[3..]), ..good }, constant, short("mask", 1)),
        (good, Discount::Steps(&four[1..]), short("discounts", 3)),
        (good, Discount::Constant(1.5), ReturnsError::BadFactor { what: "gamma", value: 1.5 }),
    ] {
        assert_eq!(lambda_returns(steps, discount, 0.5), Err(expected));
    }
    let error = lambda_returns(good, constant, f64::NAN).unwrap_err();
    let ReturnsError::BadFactor { what: "lambda", value } = error else { panic!("{error}") };
    assert!(value.is_nan());
    assert_eq!(gae(good, &four[1..], constant, 0.5), Err(short("values", 3)));
}

#[test]
fn factors_from_0_to_1_are_accepted_and_no_others() {
    let (two, none) = ([1.0_f64, 2.0], [false; 2]);
    let steps = ReturnSteps {
        steps: 2,
        rewards: &two,
        next_values: Some(&two),
        terminated: &none,
        truncated: &none,
        mask: None,
    };
    for (factor, is_factor) in
        [(0.0, true), (1.0, true), (-f64::MIN_POSITIVE, false), (1.0 + f64::EPSILON, false)]
    {
        for what in ["gamma", "lambda"] {
            let (gamma, lambda) = if what == "gamma" { (factor, 0.5) } else { (0.5, factor) };
            let discount = Discount::Constant(gamma);
            let refused = ReturnsError::BadFactor { what, value: factor };
            let expected = if is_factor { Ok(()) } else { Err(refused) };
            assert_eq!(lambda_returns(steps, discount, lambda).map(drop), expected);
            assert_eq!(gae(steps, &two, discount, lambda).map(drop), expected);
        }
    }
    // There are no windows in a batch without transitions.
    let empty = ReturnSteps {
        steps: 2,
        rewards: &two[..0],
        next_values: None,
        terminated: &[],
        truncated: &[],
        mask: None,
    };
    assert_eq!(discounted_returns(empty, Discount::Constant(0.9)), Ok(Vec::new()));
}
