//! The five verifications of the design note that the environment follows.

use backcast_gym::{
    DiscreteAction, MarkPrice, PnlDeltaReward, RewardScale, TradingEnvConfig, TradingResetOptions,
};
use backcast_sim::CASH_PER_TICK;

use super::{draws, env, short, with_reward};

/// Runs a whole episode and returns its observations and rewards.
fn episode(env: &mut backcast_gym::TradingEnv, seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut draw = draws(3);
    let (mut observations, _) = env.reset(Some(seed)).unwrap();
    let mut rewards = Vec::new();
    loop {
        let step = env.step(DiscreteAction::ALL[draw(3) as usize]).unwrap();
        observations.extend(&step.observation);
        rewards.push(step.reward);
        if step.terminated || step.truncated {
            env.check().unwrap();
            return (observations, rewards);
        }
    }
}

#[test]
fn verification_1_the_agent_buys_sells_and_holds_its_order_size() {
    let mut env = env(short());
    env.reset(Some(1)).unwrap();
    for (action, position) in [
        (DiscreteAction::Hold, 0),
        (DiscreteAction::Buy, 100),
        (DiscreteAction::Buy, 200),
        (DiscreteAction::Sell, 100),
        (DiscreteAction::Hold, 100),
    ] {
        let step = env.step(action).unwrap();
        assert_eq!(step.info.position, position, "{action:?}");
        assert_eq!(step.info.fills > 0, action != DiscreteAction::Hold);
        assert_eq!((step.info.refused, step.info.masked), (0, 0));
    }
    env.check().unwrap();
}

#[test]
fn verification_2_a_hundred_holds_give_valid_observations() {
    let mut env = env(TradingEnvConfig::default());
    let (first, info) = env.reset(Some(7)).unwrap();
    assert_eq!((info.tick, info.decisions), (3_600, 0));
    let entries: Vec<_> = env.observation_entries().map(|(_, entry)| *entry).collect();
    assert_eq!(entries.len(), first.len());
    let mut last = first;
    for step in 1..=100 {
        let result = env.step(DiscreteAction::Hold).unwrap();
        for (entry, &value) in entries.iter().zip(&result.observation) {
            let bounds = entry.low..=entry.high;
            assert!(bounds.contains(&value), "step {step}, {}: {value}", entry.name);
        }
        assert_ne!(result.observation, last, "the market moves");
        assert!(!result.terminated && !result.truncated);
        assert_eq!((result.info.fills, result.info.position), (0, 0));
        last = result.observation;
    }
    env.check().unwrap();
}

#[test]
fn verification_3_equal_seeds_give_identical_observations_over_whole_episodes() {
    let config = || TradingEnvConfig { max_ticks: 400, ..TradingEnvConfig::default() };
    let mut one = env(config());
    let first = episode(&mut one, 42);
    let hash = one.market().state_hash();
    assert_eq!(episode(&mut one, 42), first, "after a reset");
    assert_eq!(one.market().state_hash(), hash);
    let mut fresh = env(config());
    assert_eq!(episode(&mut fresh, 42), first, "fresh");
    assert_eq!(fresh.market().state_hash(), hash);
    assert_ne!(episode(&mut fresh, 43), first, "another seed");
}

#[test]
fn verification_4_ten_thousand_random_steps_trade_change_equity_and_end_at_the_limit() {
    let mut env = env(TradingEnvConfig::default());
    let mut observation = vec![0.0; env.observation_size()];
    env.reset_into(Some(5), TradingResetOptions::default(), &mut observation).unwrap();
    let (start, mut draw) = (env.state().equity, draws(9));
    let (mut fills, mut equities) = (0, Vec::new());
    for step in 1..=10_000 {
        let outcome = env.step_into(&[f64::from(draw(3))], &mut observation).unwrap();
        assert_eq!(outcome.truncated, step == 10_000, "step {step}");
        assert!(!outcome.terminated);
        fills += env.info().fills;
        equities.push(env.state().equity);
        if step % 500 == 0 {
            env.check().unwrap();
        }
    }
    assert!(fills > 5_000, "{fills} fills");
    assert_eq!((env.info().decisions, env.info().tick), (10_000, 13_600));
    equities.dedup();
    assert!(equities.len() > 5_000, "equity moves");
    assert!(env.state().equity < start, "random trading pays the spread");
    let metrics = env.metrics();
    assert_eq!((metrics.length, u64::from(metrics.trades)), (10_000, fills));
}

#[test]
fn verification_5_a_known_profit_gives_the_exact_reward() {
    let currency = || PnlDeltaReward { scale: RewardScale::Currency };
    let at_mid = TradingEnvConfig { mark: MarkPrice::Mid, ..short() };
    let mut env = env(with_reward(at_mid, currency));
    env.reset(Some(11)).unwrap();
    let tick_size = env.market().config().tick_size;
    let unit = tick_size / CASH_PER_TICK as f64;
    let bought = env.step(DiscreteAction::Buy).unwrap();
    let spent: i64 = env
        .market()
        .fills(0)
        .unwrap()
        .iter()
        .map(|fill| i64::from(fill.price) * i64::from(fill.quantity) * CASH_PER_TICK + fill.fee)
        .sum();
    let value = 100.0 * env.market().mid(0) * CASH_PER_TICK as f64;
    let expected = (value - spent as f64) * unit;
    assert!((bought.reward - expected).abs() < 1e-9, "{} {expected}", bought.reward);
    assert!(bought.reward < 0.0, "the spread and the fee are paid at once");
    let mid = env.market().mid(0);
    let held = env.step(DiscreteAction::Hold).unwrap();
    let expected = 100.0 * (env.market().mid(0) - mid) * tick_size;
    assert!((held.reward - expected).abs() < 1e-9, "{} {expected}", held.reward);
    assert_eq!(held.info.pnl, held.reward);
    env.check().unwrap();
}
