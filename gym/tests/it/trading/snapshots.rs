//! Episodes that begin from warm snapshots.

use std::collections::BTreeMap;

use backcast_gym::{
    AutoresetMode, DiscreteAction, ResetSeed, SeedSpace, TradingEnv, TradingEnvConfig,
    TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::{AccountConfig, ConfigError};

use super::{bare_market, env, short};

fn warm(snapshots: u32) -> TradingEnvConfig {
    TradingEnvConfig { warm_snapshots: snapshots, ..short() }
}

/// Begins an episode and returns its observation.
fn begin(env: &mut TradingEnv, seed: Option<u64>, options: TradingResetOptions) -> Vec<f32> {
    let mut observation = vec![0.0; env.observation_size()];
    env.reset_into(seed, options, &mut observation).unwrap();
    observation
}

#[test]
fn an_episode_begins_where_a_warm_up_ends_and_goes_on_with_streams_of_its_own() {
    const ENVS: usize = 5;
    let mode = AutoresetMode::NextStep;
    let mut envs = TradingVectorEnv::new(warm(2), ENVS, mode, 1).unwrap();
    let mut observations = vec![0.0; ENVS * envs.observation_size()];
    let options = TradingResetOptions::default();
    envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
    for env in 0..ENVS {
        let info = *envs.info(env);
        assert_eq!(info.tick, 50);
        assert!(info.snapshot.is_some_and(|number| number < 2), "{info:?}");
    }
    envs.step_into(&[1_u8; ENVS], &mut observations).unwrap();
    let mut hashes: Vec<u64> = (0..ENVS).map(|env| envs.market(env).state_hash()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), ENVS);
    envs.check().unwrap();
}

#[test]
fn every_snapshot_is_drawn_as_often_as_the_others_in_both_seed_spaces() {
    const EPISODES: u32 = 800;
    for seed_space in [SeedSpace::Train, SeedSpace::Test] {
        for snapshots in [1, 2, 5, 8] {
            let mut env = env(TradingEnvConfig { seed_space, ..warm(snapshots) });
            let mut counts = BTreeMap::new();
            begin(&mut env, Some(7), TradingResetOptions::default());
            for _ in 0..EPISODES {
                begin(&mut env, None, TradingResetOptions::default());
                *counts.entry(env.info().snapshot.unwrap()).or_insert(0) += 1;
            }
            assert_eq!(counts.len(), snapshots as usize, "{seed_space}: {counts:?}");
            let expected = f64::from(EPISODES) / f64::from(snapshots);
            // Four standard deviations of a binomial count.
            let slack = 4.0 * (expected * (1.0 - 1.0 / f64::from(snapshots))).sqrt();
            for count in counts.values() {
                assert!((f64::from(*count) - expected).abs() <= slack, "{counts:?}");
            }
        }
    }
}

#[test]
fn training_and_test_episodes_share_no_snapshot() {
    let states = |seed_space| {
        let mut env = env(TradingEnvConfig { seed_space, ..warm(4) });
        let mut states = BTreeMap::new();
        begin(&mut env, Some(3), TradingResetOptions::default());
        for _ in 0..60 {
            let observation = begin(&mut env, None, TradingResetOptions::default());
            let bits: Vec<u32> = observation.iter().map(|value| value.to_bits()).collect();
            let number = env.info().snapshot.unwrap();
            // Nothing of a first observation depends on the streams of the episode.
            assert_eq!(*states.entry(number).or_insert_with(|| bits.clone()), bits);
        }
        states
    };
    let (train, test) = (states(SeedSpace::Train), states(SeedSpace::Test));
    assert_eq!((train.len(), test.len()), (4, 4));
    for observation in train.values() {
        assert!(test.values().all(|other| other != observation));
    }
}

#[test]
fn equal_episode_seeds_begin_from_the_same_snapshot_in_another_environment() {
    for seed in [4, 10, 1 << 40] {
        let options = TradingResetOptions { episode_seed: Some(seed), ..Default::default() };
        let (mut here, mut there) = (env(warm(6)), env(warm(6)));
        begin(&mut there, Some(99), TradingResetOptions::default());
        assert_eq!(begin(&mut here, None, options), begin(&mut there, None, options));
        for _ in 0..20 {
            here.step(DiscreteAction::Buy).unwrap();
            there.step(DiscreteAction::Buy).unwrap();
        }
        assert_eq!(here.market().state_hash(), there.market().state_hash());
    }
}

#[test]
fn a_reset_chooses_the_endowment_of_an_episode_from_a_snapshot() {
    let mut env = env(warm(3));
    for (cash, shares) in [(5_000_000, 40), (1_000_000_000, -25), (0, 1_000)] {
        let (cash, shares) = (Some(cash), Some(shares));
        begin(&mut env, Some(1), TradingResetOptions { cash, shares, ..Default::default() });
        let market = env.market();
        assert_eq!(market.cash(0).ok(), cash);
        assert_eq!(market.position(0, 0).ok(), shares);
        // The shares count as bought at the price at which the episode begins.
        let price = (market.mid(0) * 2.0) as i64 / 2;
        assert_eq!(market.cost(0, 0), Ok(i64::from(shares.unwrap().abs()) * price * 100));
        assert_eq!(market.realised(0), Ok(0));
        env.check().unwrap();
        for _ in 0..30 {
            env.step(DiscreteAction::Sell).unwrap();
        }
        env.check().unwrap();
    }
    begin(&mut env, Some(1), TradingResetOptions::default());
    let AccountConfig { cash, shares, .. } = env.config().agent.account;
    assert_eq!((env.market().cash(0), env.market().position(0, 0)), (Ok(cash), Ok(shares)));
    let beyond = TradingResetOptions { shares: Some(1_001), ..Default::default() };
    let mut observation = vec![0.0; env.observation_size()];
    let refused = env.reset_into(None, beyond, &mut observation).unwrap_err();
    let limits = ConfigError::OutsideLimits { shares: 1_001, long: 1_000, short: 1_000 };
    assert_eq!(refused, TradingError::Market(limits));
}

#[test]
fn a_short_endowment_pays_for_no_share_that_the_warm_up_borrowed() {
    let mut config = warm(1);
    config.agent.account.shares = -500;
    config.warmup_ticks = 600;
    let mut env = env(config.clone());
    begin(&mut env, Some(1), TradingResetOptions::default());
    assert_eq!(env.market().cash(0), Ok(config.agent.account.cash));
    let mut market = bare_market(&config, 1);
    market.run(600);
    assert!(market.cash(0).unwrap() < config.agent.account.cash, "a warm-up charges borrowing");
}
