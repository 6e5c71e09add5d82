//! n-step returns.

use backcast_core::{DType, Ring, RingOptions, Role, SampleError, SamplerOptions, Schema};

use crate::sampling::{Actor, End, bools, floats, ring};

const GAMMA: f64 = 0.5;

fn three() -> SamplerOptions {
    SamplerOptions::seeded(1).n_step(3).gamma(GAMMA)
}

#[test]
fn a_return_ends_with_its_episode_and_bootstraps_only_where_that_was_truncated() {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(4, End::Terminated); // rows 0 to 3, observations 1 to 4, final 5
    actor.episode(4, End::Truncated); // rows 5 to 8, observations 6 to 9, final 10
    let mut sampler = ring.sampler(three()).unwrap();
    let batch = sampler.gather(&[0, 1, 2, 3, 5, 6, 7, 8]).unwrap();
    let expected = |rewards: &[f64]| rewards.iter().rev().fold(0.0, |sum, r| r + GAMMA * sum);
    let rewards: [&[f64]; 8] = [
        &[0.1, 0.2, 0.3],
        &[0.2, 0.3, 0.4],
        &[0.3, 0.4],
        &[0.4],
        &[0.6, 0.7, 0.8],
        &[0.7, 0.8, 0.9],
        &[0.8, 0.9],
        &[0.9],
    ];
    for (got, rewards) in floats(&batch, "n_reward").iter().zip(rewards) {
        assert!((got - expected(rewards)).abs() < 1e-12, "{got} of {rewards:?}");
    }
    assert_eq!(floats(&batch, "n_discount"), [0.125, 0., 0., 0., 0.125, 0.125, 0.25, 0.5]);
    assert_eq!(floats(&batch, "n_next_obs"), [4., 5., 5., 5., 9., 10., 10., 10.]);
    assert_eq!(floats(&batch, "next_obs"), [2., 3., 4., 5., 7., 8., 9., 10.], "as without");
}

#[test]
fn the_newest_transitions_are_drawn_with_shorter_returns_and_grow_as_rows_come() {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(3, End::Open);
    let mut sampler = ring.sampler(three()).unwrap();
    let batch = sampler.gather(&[0, 1]).unwrap();
    assert_eq!(floats(&batch, "n_discount"), [0.25, 0.5]);
    assert_eq!(floats(&batch, "n_next_obs"), [3., 3.], "the newest observation there is");
    let drawn = sampler.sample(200).unwrap().index();
    assert!(
        [0, 1].iter().all(|row| drawn.iter().any(|index| index == row)),
        "the newest are not left out"
    );
    actor.step(End::Open);
    let batch = sampler.gather(&[0, 1]).unwrap();
    assert_eq!(floats(&batch, "n_discount"), [0.125, 0.25]);
    assert_eq!(floats(&batch, "n_next_obs"), [4., 4.]);
}

#[test]
fn a_return_stops_where_a_writer_died() {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(3, End::Open);
    drop(actor);
    Actor::of(&ring).episode(3, End::Open);
    let mut sampler = ring.sampler(three()).unwrap();
    let batch = sampler.gather(&[0, 1, 3]).unwrap();
    assert_eq!(floats(&batch, "n_discount"), [0.25, 0.5, 0.25]);
    assert_eq!(floats(&batch, "n_next_obs"), [3., 3., 3.], "the new writer's count begins anew");
    assert!(sampler.gather(&[2]).is_err(), "the broken-off row begins no transition");
}

#[test]
fn returns_stay_in_their_episode_after_the_ring_has_wrapped() {
    let ring = ring(41);
    let mut actor = Actor::of(&ring);
    let mut sampler = ring.sampler(three().history(2).future(1)).unwrap();
    for round in 0..40_u32 {
        let end = if round % 2 == 0 { End::Terminated } else { End::Truncated };
        actor.episode(1 + round as usize % 7, end);
        if round == 0 {
            continue;
        }
        let batch = sampler.sample(100).unwrap();
        let now: Vec<f64> = floats(&batch, "obs").chunks(2).map(|pair| pair[1]).collect();
        let used: Vec<f64> =
            floats(&batch, "n_next_obs").iter().zip(&now).map(|(next, now)| next - now).collect();
        for (((used, discount), reward), obs) in
            used.iter().zip(floats(&batch, "n_discount")).zip(floats(&batch, "n_reward")).zip(&now)
        {
            assert!((1.0..=3.0).contains(used), "{used} steps");
            let terms = [1.0, 0.5, 0.25].iter().zip([0.0, 1.0, 2.0]).filter(|(_, k)| k < used);
            let sum: f64 = terms.map(|(weight, k)| weight * (obs + k) / 10.0).sum();
            assert!((reward - sum).abs() < 1e-9);
            assert!(discount == 0.0 || (discount - 0.5_f64.powf(*used)).abs() < 1e-12);
        }
    }
}

#[test]
fn returns_change_no_draw_and_no_other_column() {
    let ring = ring(200);
    let mut actor = Actor::of(&ring);
    (0..30).for_each(|n| actor.episode(1 + n % 9, End::Truncated));
    let options = SamplerOptions::seeded(9).history(3).future(2);
    let plain = ring.sampler(options.clone()).unwrap().sample(64).unwrap();
    let summed = ring.sampler(options.n_step(5).gamma(0.9)).unwrap().sample(64).unwrap();
    assert_eq!(plain.index(), summed.index());
    for key in ["obs", "next_obs", "reward", "future/obs", "future/reward"] {
        assert_eq!(floats(&plain, key), floats(&summed, key), "{key}");
    }
    assert_eq!(bools(&plain, "mask"), bools(&summed, "mask"));
    let added: Vec<&str> = summed.keys().filter(|key| plain.keys().all(|k| k != *key)).collect();
    assert_eq!(added, ["n_reward", "n_discount", "n_next_obs"]);
}

#[test]
fn impossible_returns_are_refused_with_the_reason() {
    let refuse =
        |ring: &Ring, options: SamplerOptions| ring.sampler(options).map(|_| ()).unwrap_err();
    let base = SamplerOptions::seeded(1);
    let ring = ring(10);
    let bad_gamma = |options| match refuse(&ring, options) {
        SampleError::BadGamma { gamma, discounts: false, n_step } => (gamma, n_step),
        other => panic!("{other}"),
    };
    assert_eq!(bad_gamma(base.clone().n_step(3)), (None, Some(3)));
    assert_eq!(bad_gamma(base.clone().gamma(0.9)), (Some(0.9), None));
    for gamma in [-0.1, 1.5, f64::NAN] {
        let (given, n_step) = bad_gamma(base.clone().n_step(3).gamma(gamma));
        assert_eq!((given.map(f64::to_bits), n_step), (Some(gamma.to_bits()), Some(3)));
    }
    let long = refuse(&ring, base.clone().n_step(10).gamma(0.9));
    assert!(matches!(long, SampleError::BadWindow { n_step: 10, rows: 11, .. }), "{long}");
    assert!(ring.sampler(base.clone().n_step(9).gamma(0.9)).is_ok());
    assert!(matches!(
        ring.sampler(base.n_step(0).gamma(0.9)),
        Err(SampleError::EmptyWindow { what: "n_step" })
    ));
    for (dtype, shape, role, value) in [
        (DType::I32, &[][..], Role::Step, "i4[]"),
        (DType::F16, &[], Role::Step, "f2[]"),
        (DType::F32, &[2], Role::Step, "f4[2]"),
        (DType::F32, &[], Role::Obs, ""),
    ] {
        let schema = Schema::builder().column_as("reward", dtype, shape, role).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(10)).unwrap();
        let refused = refuse(&ring, three());
        let SampleError::BadReward { found } = refused else { panic!("{refused}") };
        assert!(found.contains(value), "{found}");
    }
    let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(10)).unwrap();
    let refused = refuse(&ring, three());
    assert!(matches!(&refused, SampleError::BadReward { found } if found.contains("obs")));
}
