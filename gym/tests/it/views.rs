//! Other views of the same observations: flat ones and single rows.

use crate::market::{Market, actions};
use backcast_gym::{EpisodeError, Observation, PortfolioOptions, PortfolioVectorEnv, ResetSeed};

fn env(num_envs: usize) -> PortfolioVectorEnv {
    let options =
        PortfolioOptions { max_episode_steps: Some(9), hmax: 40, ..PortfolioOptions::default() };
    let market = Market::random(4, 3, 60).without(1, [30, 31]);
    PortfolioVectorEnv::new(market.panel(), num_envs, options).unwrap()
}

/// Flattens an observation field by field, in the order of the names.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "to f32")]
fn plainly_flat(obs: &Observation) -> Vec<f32> {
    let n = obs.day.len();
    let (tickers, shown) = (obs.open.len() / n, obs.indicators.len() / n);
    let mut flat = Vec::new();
    for env in 0..n {
        let per_ticker = env * tickers..(env + 1) * tickers;
        flat.extend(obs.avg_buy_price[per_ticker.clone()].iter().map(|&x| x as f32));
        flat.push(obs.cash[env] as f32);
        flat.push(obs.day[env] as f32);
        flat.extend(obs.indicators[env * shown..(env + 1) * shown].iter().map(|&x| x as f32));
        flat.extend(obs.open[per_ticker.clone()].iter().map(|&x| x as f32));
        flat.extend(obs.shares[per_ticker].iter().map(|&x| x as f32));
        flat.push(obs.total_asset[env] as f32);
    }
    flat
}

#[test]
fn a_flat_observation_holds_every_field_in_the_order_of_names() {
    let mut env = env(5);
    env.reset(ResetSeed::One(2), None, None).unwrap();
    for step in 0..12 {
        env.step(&actions(step, 15)).unwrap();
        let width = env.obs().flat_width();
        assert_eq!(width, 3 * 3 + 3 * 2 + 3);
        let mut flat = vec![f32::NAN; 5 * width];
        env.obs().flatten_into(&mut flat).unwrap();
        assert_eq!(flat, plainly_flat(env.obs()));
    }
}

#[test]
fn a_flat_observation_of_another_length_is_refused_and_nothing_written() {
    let mut env = env(2);
    env.reset(ResetSeed::One(2), None, None).unwrap();
    let expected = 2 * env.obs().flat_width();
    for found in [0, expected - 1, expected + 1] {
        let mut out = vec![7.0; found];
        let refused = Err(EpisodeError::BadLength { what: "out", expected, found }.into());
        assert_eq!(env.obs().flatten_into(&mut out), refused);
        assert!(out.iter().all(|&value| value.to_bits() == 7.0_f32.to_bits()));
    }
    // A batch without environments, as the final observations of most modes are.
    let none = Observation::default();
    assert_eq!((none.flat_width(), none.flatten_into(&mut []), none.row(0)), (0, Ok(()), None));
}

/// Everything that one environment did in a step, bit for bit.
type Seen = (Observation, u64, bool, bool);

fn seen(env: &PortfolioVectorEnv, at: usize) -> Seen {
    (
        env.obs().row(at).unwrap(),
        env.rewards()[at].to_bits(),
        env.terminated()[at],
        env.truncated()[at],
    )
}

#[test]
fn a_masked_reset_leaves_the_others_bit_for_bit() {
    let mut reset = env(3);
    reset.reset(ResetSeed::One(6), None, None).unwrap();
    reset.step(&actions(1, 9)).unwrap();
    let mut untouched = reset.clone();
    reset.reset(ResetSeed::One(90), Some(&[false, true, false]), None).unwrap();
    assert_ne!(seen(&reset, 1), seen(&untouched, 1));
    for step in 2..20 {
        for at in [0, 2] {
            assert_eq!(seen(&reset, at), seen(&untouched, at));
        }
        reset.step(&actions(step, 9)).unwrap();
        untouched.step(&actions(step, 9)).unwrap();
    }
}

#[test]
fn blocks_cover_all_environments_in_order_and_show_what_a_whole_step_shows() {
    let (mut whole, mut in_blocks) =
        (env(1_500).without_indicators_in_obs(), env(1_500).without_indicators_in_obs());
    for env in [&mut whole, &mut in_blocks] {
        env.reset(ResetSeed::One(4), None, None).unwrap();
    }
    let (width, shown) = (whole.flat_width(), whole.obs().indicators.len() / 1_500);
    for step in 0..12 {
        let actions = actions(step, 1_500 * whole.n_tickers());
        whole.step(&actions).unwrap();
        let (mut flat, mut indicators) = (Vec::new(), Vec::new());
        let mut ends = vec![0];
        let seen = in_blocks.step_in_blocks(&actions, |env, of| {
            assert_eq!(ends.last(), Some(&of.start));
            ends.push(of.end);
            let (mut part, mut mine) = (vec![0.0; of.len() * width], vec![0.0; of.len() * shown]);
            env.flatten_of(of.clone(), &mut part)?;
            env.indicators_of(of, &mut mine, &mut [])?;
            flat.extend(part);
            indicators.extend(mine);
            Ok::<(), backcast_gym::PortfolioError>(())
        });
        seen.unwrap();
        assert!(ends.len() > 2 && ends.last() == Some(&1_500), "{ends:?}");
        let (mut all, mut every) = (vec![0.0; flat.len()], vec![0.0; indicators.len()]);
        whole.flatten_into(&mut all).unwrap();
        whole.indicators_into(&mut every, &mut []).unwrap();
        assert_eq!((flat, indicators), (all, every));
        assert_eq!(in_blocks.rewards(), whole.rewards());
    }
}
