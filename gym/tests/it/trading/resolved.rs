//! Tests that resolve the open points of the environment's design note.
//!
//! Item numbers: `docs/concepts/trading-environment.md`, "Where the design note was open".

use std::sync::atomic::{AtomicUsize, Ordering};

use backcast_gym::{
    ActionScheme, AutoresetMode, DiscreteAction, EpisodeError, EpisodeState, ExternalAgentConfig,
    FeatureChoice, MarkPrice, ResetSeed, RewardFunction, RewardInput, RewardScale,
    RiskAdjustedReward, SeedSpace, SimulationConfig, TradingAction, TradingEnv, TradingEnvConfig,
    TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::{AccountConfig, Agent, Floor, Limits, Preset};

use super::{bare_market, draws, env, short, with_reward, without_costs};

#[test]
fn item_1_the_time_limit_truncates_and_bankruptcy_terminates_and_both_can_be() {
    let mut limited = env(short());
    limited.reset(Some(1)).unwrap();
    for step in 1..=60 {
        let result = limited.step(DiscreteAction::Hold).unwrap();
        assert_eq!((result.terminated, result.truncated), (false, step == 60));
    }
    // Any loss below the initial 100,000 is a bankruptcy here, and a fee of 1 % is a loss.
    let mut simulation = short().simulation;
    simulation.market.fees.taker_ppm = 10_000;
    let broke = TradingEnvConfig { bankruptcy_equity: 99_999.999, simulation, ..short() };
    let mut env_ = env(broke.clone());
    env_.reset(Some(1)).unwrap();
    let result = env_.step(DiscreteAction::Buy).unwrap();
    assert_eq!((result.terminated, result.truncated), (true, false));
    let mut both = env(TradingEnvConfig { max_ticks: 1, ..broke });
    both.reset(Some(1)).unwrap();
    let result = both.step(DiscreteAction::Buy).unwrap();
    assert_eq!((result.terminated, result.truncated), (true, true));
}

#[test]
fn item_2_decisions_are_counted_apart_from_ticks_and_without_the_warm_up() {
    let mut env = env(TradingEnvConfig { frame_skip: 7, ..short() });
    let (_, info) = env.reset(Some(1)).unwrap();
    assert_eq!((info.decisions, info.tick), (0, 50));
    let mut decisions = 0;
    loop {
        decisions += 1;
        let result = env.step(DiscreteAction::Hold).unwrap();
        let ticks = 50 + (7 * decisions).min(60);
        assert_eq!((result.info.decisions, result.info.tick), (decisions, ticks));
        if result.truncated {
            break;
        }
    }
    assert_eq!(decisions, 9, "60 ticks of 7 each; the last step has 4");
}

#[test]
fn item_3_the_baseline_of_an_episode_is_taken_after_the_warm_up() {
    let account = AccountConfig { shares: 500, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let mark = MarkPrice::Mid;
    let mut env = env(TradingEnvConfig { agent, mark, warmup_ticks: 2_000, ..short() });
    env.reset(Some(2)).unwrap();
    let state = *env.state();
    let held = 500.0 * state.mid_price;
    assert!((state.equity - (100_000.0 + held)).abs() < 1e-6);
    assert_ne!(state.mid_price, 100.0, "the price moved in the warm-up");
    assert_eq!((state.peak_equity, state.decisions), (state.equity, 0));
    let result = env.step(DiscreteAction::Hold).unwrap();
    let moved = 500.0 * (env.state().mid_price - state.mid_price);
    assert!((result.info.pnl - moved).abs() < 1e-6);
}

/// Asserts that the details of a reset or a step say what the state and the market say.
fn assert_details(env: &TradingEnv, before: Option<&EpisodeState>) {
    let (info, state) = (env.info(), env.state());
    // A reset changes nothing.
    let before = before.unwrap_or(state);
    assert_eq!((info.tick, info.decisions), (env.market().now(), state.decisions));
    assert_eq!((info.equity, info.mid_price), (state.equity, state.mid_price));
    let cash = f64::from(state.position) * state.mid_price + state.cash;
    assert!((info.equity - cash).abs() < 1e-6, "{} of {cash}", info.equity);
    assert_eq!((info.position, info.realized_pnl), (state.position, state.realized_pnl));
    assert_eq!(Ok(info.position), env.market().position(0, 0));
    assert_eq!(info.pnl, state.equity - before.equity);
    assert_eq!((info.fees, info.fills), (state.fees - before.fees, state.fills - before.fills));
    assert_eq!(info.borrowing, state.borrowing - before.borrowing);
}

#[test]
fn details_of_resets_and_steps_say_what_the_state_says() {
    let account = AccountConfig { shares: -200, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let mut env = env(TradingEnvConfig { agent, mark: MarkPrice::Mid, ..short() });
    let mut draw = draws(8);
    for seed in 1..4 {
        env.reset(Some(seed)).unwrap();
        assert_details(&env, None);
        let (mut fees, mut fills) = (0.0, 0);
        for _ in 0..30 {
            let before = *env.state();
            env.step(draw(3) as u8).unwrap();
            assert_details(&env, Some(&before));
            (fees, fills) = (fees + env.info().fees, fills + env.info().fills);
        }
        assert!(fees > 0.0 && fills > 0);
    }
}

#[test]
fn borrowing_in_the_warm_up_is_charged_and_not_counted() {
    let account = AccountConfig { shares: -500, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let mut market = Preset::Normal.config();
    market.fees.borrow_ppm_per_day = 1_000_000;
    let simulation = market.into();
    let mut env = env(TradingEnvConfig { agent, simulation, warmup_ticks: 500, ..short() });
    env.reset(Some(2)).unwrap();
    let start = *env.state();
    assert_eq!(start.borrowing, 0.0);
    assert!(start.cash < 99_900.0, "{}", start.cash);
    let info = env.step(DiscreteAction::Hold).unwrap().info;
    assert!(info.borrowing > 0.0, "{}", info.borrowing);
    assert!((env.state().borrowing - info.borrowing).abs() < 1e-9);
    assert!((start.cash - env.state().cash - info.borrowing).abs() < 1e-6);
}

#[test]
fn item_4_a_seed_restarts_the_stream_of_episode_seeds_and_none_goes_on_in_it() {
    let mut env = env(short());
    let mut seeds = |seed: Option<u64>| env.reset(seed).unwrap().1.episode_seed;
    let first = [seeds(Some(9)), seeds(None), seeds(None)];
    assert_eq!([seeds(Some(9)), seeds(None), seeds(None)], first);
    assert!(first[0] != first[1] && first[1] != first[2]);
    let configured = || TradingEnvConfig { seed: Some(9), ..short() };
    let mut fresh = super::env(configured());
    assert_eq!(fresh.reset(None).unwrap().1.episode_seed, first[0], "the seed of the settings");
    let mut drawn = [super::env(short()), super::env(short())];
    let [one, other] = drawn.each_mut().map(|env| env.reset(None).unwrap().1.episode_seed);
    assert_ne!(one, other, "without any seed episodes differ");
}

#[test]
fn item_5_a_reset_takes_the_endowment_and_the_episode_seed_and_returns_information() {
    let mut env = env(short());
    let mut observation = vec![0.0; env.observation_size()];
    let options =
        TradingResetOptions { episode_seed: Some(123), shares: Some(-40), cash: Some(60_000_000) };
    env.reset_into(None, options, &mut observation).unwrap();
    assert_eq!((env.info().episode_seed, env.state().position), (123, -40));
    assert!((env.state().cash - 6_000.0).abs() < 1.0, "but for the cost of borrowing");
    let refused = TradingResetOptions { shares: Some(1_001), ..options };
    let hash = env.market().state_hash();
    let refused = env.reset_into(None, refused, &mut observation).unwrap_err();
    assert!(refused.to_string().contains("1001 shares"), "{refused}");
    let called = TradingResetOptions { cash: Some(51_000_000), ..options };
    let called = env.reset_into(None, called, &mut observation).unwrap_err();
    assert!(
        matches!(called, TradingError::EndowmentBelowMargin { shares: -40, .. }),
        "an equity of 1,100 for a short of 4,000: {called}"
    );
    assert_eq!(env.market().state_hash(), hash);
    env.reset(None).unwrap();
    assert_eq!(env.state().position, 0, "options hold for one reset");
    env.check().unwrap();
}

#[test]
fn item_6_every_draw_depends_on_the_episode_seed_alone() {
    let mut env = env(short());
    let (_, info) = env.reset(Some(4)).unwrap();
    for _ in 0..60 {
        env.step(DiscreteAction::Hold).unwrap();
    }
    let mut bare = bare_market(env.config(), info.episode_seed);
    bare.run(110);
    assert_eq!(env.market().state_hash(), bare.state_hash(), "the market without an environment");
}

#[test]
fn item_7_a_reward_has_its_own_state_for_each_environment_and_pays_the_bonus_once() {
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone, Debug)]
    struct Counting {
        steps: u32,
        ended: bool,
    }
    impl RewardFunction for Counting {
        fn reset(&mut self, start: &EpisodeState) {
            assert_eq!(start.decisions, 0);
            (self.steps, self.ended) = (0, false);
        }
        fn compute(&mut self, input: &RewardInput<'_>) -> f64 {
            assert!(!self.ended, "nothing comes after the last step");
            assert_eq!(input.curr.decisions, input.prev.decisions + 1);
            assert_eq!(input.fills.len() as u64, input.curr.fills - input.prev.fills);
            self.ended = input.terminated || input.truncated;
            self.steps += 1;
            f64::from(self.steps)
        }
    }
    let config = with_reward(short(), || {
        BUILT.fetch_add(1, Ordering::Relaxed);
        Counting { steps: 0, ended: false }
    });
    let mut envs = TradingVectorEnv::new(config, 3, AutoresetMode::SameStep, 1).unwrap();
    assert_eq!(BUILT.load(Ordering::Relaxed), 3);
    let mut observations = vec![0.0; 3 * envs.observation_size()];
    envs.reset_into(ResetSeed::One(1), None, TradingResetOptions::default(), &mut observations)
        .unwrap();
    for step in 0..150 {
        envs.step_into(&[2, 1, 0], &mut observations).unwrap();
        assert_eq!(envs.rewards(), [f64::from(step % 60 + 1); 3]);
    }

    let bonus = |weight| {
        let mut env = env(with_reward(short(), move || RiskAdjustedReward::new(0.0, 0.0, weight)));
        env.reset(Some(8)).unwrap();
        let mut draw = draws(1);
        (0..60)
            .map(|_| env.step(DiscreteAction::ALL[draw(3) as usize]).unwrap().reward)
            .collect::<Vec<f64>>()
    };
    let (with, without) = (bonus(1.0), bonus(0.0));
    assert_eq!(with[..59], without[..59]);
    assert!((with[59] - without[59]).abs() > 1e-6, "the bonus is really paid");
}

#[test]
fn item_8_a_drawdown_is_charged_once_however_long_it_lasts() {
    let mut env = env(with_reward(
        TradingEnvConfig { simulation: without_costs().into(), max_ticks: 500, ..short() },
        || RiskAdjustedReward::new(1.0, 0.0, 0.0).with_scale(RewardScale::Currency),
    ));
    env.reset(Some(3)).unwrap();
    env.step(DiscreteAction::Buy).unwrap();
    let (mut penalties, mut deepest) = (0.0, 0.0_f64);
    let mut last = env.state().drawdown();
    for _ in 1..500 {
        let step = env.step(DiscreteAction::Hold).unwrap();
        penalties += step.info.pnl - step.reward;
        deepest += (env.state().drawdown() - last).max(0.0);
        last = env.state().drawdown();
    }
    assert!((penalties - deepest).abs() < 1e-6 && deepest > 0.0, "{penalties} {deepest}");
}

#[test]
fn item_9_fees_are_paid_on_fills_and_rewards_are_fractions_of_the_initial_equity() {
    let mut env = env(short());
    env.reset(Some(6)).unwrap();
    let step = env.step(DiscreteAction::Buy).unwrap();
    assert!(step.info.fees > 0.0);
    assert!((step.reward - step.info.pnl / 100_000.0).abs() < 1e-15, "raw profit is information");
    let held = env.step(DiscreteAction::Hold).unwrap();
    assert_eq!((held.info.fees, held.info.fills), (0.0, 0));
}

#[test]
fn item_10_several_symbols_have_an_action_each_and_count_in_equity() {
    let mut market = Preset::Normal.config();
    market.symbols = 3;
    let mark = MarkPrice::Mid;
    let mut env = env(TradingEnvConfig { simulation: market.into(), mark, ..short() });
    assert_eq!((env.action_len(), env.action_size(), env.action_mask().len()), (3, 3, 9));
    assert_eq!(env.observation_size(), 3 * (40 + 11));
    env.reset(Some(1)).unwrap();
    let mut observation = vec![0.0; env.observation_size()];
    env.step_into(&[2, 1, 0], &mut observation).unwrap();
    let position = |symbol| env.market().position(0, symbol).unwrap();
    assert_eq!([0, 1, 2].map(position), [100, 0, -100]);
    let worth: f64 = [0, 1, 2]
        .map(|symbol| f64::from(position(symbol)) * env.market().mid(symbol) * 0.01)
        .iter()
        .sum();
    assert!((env.state().equity - env.state().cash - worth).abs() < 1e-6);
    env.check().unwrap();
}

#[test]
fn item_11_observations_end_with_the_state_of_the_agent() {
    let mut env = env(short());
    env.reset(Some(1)).unwrap();
    let names: Vec<&str> = env.observation_entries().map(|(_, entry)| entry.name).collect();
    assert_eq!((names[40], names[50]), ("position", "time_left"));
    let step = env.step(DiscreteAction::Buy).unwrap();
    assert!((step.observation[40] - 0.1).abs() < 1e-6, "100 of 1,000 shares");
    assert!((f64::from(step.observation[50]) - 59.0 / 60.0).abs() < 1e-6);
    let mut public = super::env(TradingEnvConfig { private_features: false, ..short() });
    assert_eq!(public.reset(Some(1)).unwrap().0.len(), 40);
}

#[test]
fn item_12_the_full_set_has_55_features_and_spaces_come_from_the_registry() {
    let env = env(TradingEnvConfig { features: FeatureChoice::Full, ..short() });
    let entries: Vec<_> = env.observation_entries().collect();
    assert_eq!((entries.len(), env.observation_size()), (66, 66));
    assert_eq!(entries[54].1.name, "f_sentiment_price_gap");
}

#[test]
fn item_13_orders_are_clipped_to_limits_masked_parts_are_counted_and_shorts_are_a_setting() {
    let agent = ExternalAgentConfig { allow_short: false, ..ExternalAgentConfig::default() };
    let mut env = env(TradingEnvConfig { agent, ..short() });
    env.reset(Some(1)).unwrap();
    assert_eq!(env.action_mask(), [false, true, true]);
    let step = env.step(DiscreteAction::Sell).unwrap();
    assert_eq!((step.info.position, step.info.masked, step.info.refused), (0, 1, 0));
}

#[test]
fn item_14_an_action_is_discrete_a_target_a_size_or_a_pair_of_quotes() {
    let sizes = ActionScheme::ALL.iter().map(|scheme| (scheme.choices(), scheme.numbers()));
    let expected =
        [(Some(3), 1), (Some(6), 1), (Some(3), 1), (None, 1), (None, 1), (None, 4), (None, 4)];
    assert!(sizes.eq(expected));
}

#[test]
fn item_15_orders_arrive_first_in_the_next_tick_or_after_their_latency() {
    for latency_ticks in [0, 1, 5] {
        let agent = ExternalAgentConfig { latency_ticks, ..ExternalAgentConfig::default() };
        let mut env = env(TradingEnvConfig { agent, ..short() });
        env.reset(Some(1)).unwrap();
        let ask = env.market().best_ask(0).unwrap();
        let mut action = DiscreteAction::Buy;
        for tick in 0..=latency_ticks {
            let step = env.step(action).unwrap();
            let expected = if tick == latency_ticks { 100 } else { 0 };
            assert_eq!(step.info.position, expected, "latency {latency_ticks}, tick {tick}");
            action = DiscreteAction::Hold;
        }
        if latency_ticks == 0 {
            assert_eq!(env.market().fills(0).unwrap()[0].price, ask, "nobody came before");
        }
    }
}

#[test]
fn item_16_observation_reward_and_information_describe_the_same_tick() {
    let mut env = env(TradingEnvConfig { mark: MarkPrice::Mid, ..short() });
    env.reset(Some(5)).unwrap();
    for _ in 0..20 {
        let before = env.state().equity;
        let step = env.step(DiscreteAction::Buy).unwrap();
        let equity = env.market().equity(0).unwrap() as f64 * 0.0001;
        assert!((step.info.equity - equity).abs() < 1e-6);
        assert!((step.reward - (equity - before) / 100_000.0).abs() < 1e-9);
        let shown = f64::from(step.observation[42]);
        assert!((shown - (equity / 100_000.0 - 1.0)).abs() < 1e-5, "{shown}");
    }
}

#[test]
fn item_17_equity_is_marked_at_mid_or_liquidation_and_a_margin_call_terminates() {
    let account = AccountConfig {
        cash: 1_000_000_000,
        shares: -900,
        limits: Limits { long: 1_000, short: 1_000, order: 1_000 },
    };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let config = TradingEnvConfig { agent, maintenance_margin: 0.05, ..short() };
    let equity = |mark| {
        let mut env = env(TradingEnvConfig { mark, ..config.clone() });
        env.reset(Some(2)).unwrap();
        env.state().equity
    };
    let (mid, liquidation) = (equity(MarkPrice::Mid), equity(MarkPrice::Liquidation));
    assert!(liquidation < mid, "covering 900 shares walks through the book");
    assert!(liquidation > mid - 900.0, "by less than one currency unit a share");

    // Equity is about 10,000 and the short position 90,000.
    let mut calm = env(config.clone());
    calm.reset(Some(2)).unwrap();
    assert!(!calm.step(DiscreteAction::Hold).unwrap().terminated);
    // Closing the position costs more than what is above this margin at the initial price.
    let mut called = env(TradingEnvConfig { maintenance_margin: 0.111, ..config });
    let step = (0..20).find_map(|seed| {
        called.reset(Some(seed)).unwrap();
        Some(called.step(DiscreteAction::Hold).unwrap()).filter(|step| step.terminated)
    });
    let step = step.expect("a margin call");
    assert!(step.info.margin_call);
    let at_mid = called.market().equity(0).unwrap() as f64 * 0.0001;
    assert!(step.info.equity < at_mid, "the position is valued at liquidation");
}

#[test]
fn equity_is_by_default_what_closing_all_positions_brings() {
    let run = |mark| {
        let mut env = env(TradingEnvConfig { mark, simulation: without_costs().into(), ..short() });
        env.reset(Some(8)).unwrap();
        let gains = [DiscreteAction::Buy; 8].map(|action| env.step(action).unwrap().info.pnl);
        let state = *env.state();
        let brings = env.market().liquidation_value(0, 0).unwrap() as f64 * 0.0001;
        (gains, state.cash + brings - state.equity)
    };
    assert_eq!(TradingEnvConfig::default().mark, MarkPrice::Liquidation);
    let (gains, off) = run(MarkPrice::Liquidation);
    assert!(off.abs() < 1e-6, "{off}");
    let (at_mid, off) = run(MarkPrice::Mid);
    assert!(off < -1.0, "the mid-price promises more than the book pays: {off}");
    assert!(gains.iter().sum::<f64>() < at_mid.iter().sum::<f64>());
}

#[test]
fn item_18_the_agent_owns_the_first_account_and_leaves_the_others_alone() {
    /// An agent of the user's own that does nothing.
    #[derive(Clone, Debug)]
    struct Silent;
    impl Agent for Silent {
        fn reset(&mut self) {}
        fn act(&mut self, _: &mut Floor<'_>) -> u64 {
            u64::MAX
        }
    }
    let run = |agents: Vec<(AccountConfig, Box<dyn Agent>)>| {
        let simulation = SimulationConfig { agents, ..SimulationConfig::default() };
        let mut env = env(TradingEnvConfig { simulation, ..short() });
        env.reset(Some(3)).unwrap();
        (0..60).map(|_| env.step(DiscreteAction::Hold).unwrap().observation).collect::<Vec<_>>()
    };
    let silent: Box<dyn Agent> = Box::new(Silent);
    assert_eq!(run(vec![(AccountConfig::default(), silent)]), run(Vec::new()));
}

#[test]
fn item_19_a_step_after_the_end_is_a_typed_error() {
    let mut env = env(TradingEnvConfig { max_ticks: 1, ..short() });
    env.reset(Some(1)).unwrap();
    assert!(env.step(DiscreteAction::Hold).unwrap().truncated);
    let finished = TradingError::Episode(EpisodeError::Finished { env: 0 });
    let refused = env.step(DiscreteAction::Hold).unwrap_err();
    assert_eq!(refused, finished);
    assert!(!refused.for_single().contains("environment 0"), "it has no number");
    env.reset(None).unwrap();
    env.step(TradingAction::Choice(1)).unwrap();
}

#[test]
fn item_20_observations_are_finite_and_within_the_bounds_of_the_registry() {
    for preset in Preset::ALL {
        for &features in FeatureChoice::ALL {
            let config = TradingEnvConfig {
                simulation: preset.into(),
                features,
                ..TradingEnvConfig::default()
            };
            let mut env = env(TradingEnvConfig { max_ticks: 300, warmup_ticks: 0, ..config });
            let bounds: Vec<_> = env.observation_entries().map(|(_, e)| (e.low, e.high)).collect();
            assert!(bounds.iter().all(|(low, high)| low.is_finite() && high.is_finite()));
            let (first, _) = env.reset(Some(1)).unwrap();
            let mut seen = vec![first];
            let mut draw = draws(2);
            for _ in 0..300 {
                seen.push(env.step(TradingAction::Choice(draw(3) as u8)).unwrap().observation);
            }
            for observation in seen {
                let inside = bounds
                    .iter()
                    .zip(&observation)
                    .all(|((low, high), v)| (low..=high).contains(&v));
                assert!(inside, "{preset} {features}");
            }
        }
    }
}

#[test]
fn item_21_the_initial_state_is_read_from_the_market() {
    let mut env = env(short());
    env.reset(Some(1)).unwrap();
    let (state, market) = (*env.state(), env.market());
    assert_eq!(state.tick, market.now());
    assert_eq!(state.mid_price, market.mid(0) * 0.01);
    assert_eq!(state.cash, 100_000.0);
}

#[test]
fn item_22_environments_have_streams_of_their_own_and_train_and_test_seeds_are_disjoint() {
    let seeds = |seed_space| {
        let config = TradingEnvConfig { seed_space, ..short() };
        let mut envs = TradingVectorEnv::new(config, 8, AutoresetMode::NextStep, 1).unwrap();
        let mut observations = vec![0.0; 8 * envs.observation_size()];
        let mut seeds = Vec::new();
        for seed in [ResetSeed::One(0), ResetSeed::Keep, ResetSeed::One(100)] {
            envs.reset_into(seed, None, TradingResetOptions::default(), &mut observations).unwrap();
            seeds.extend((0..8).map(|env| envs.info(env).episode_seed));
        }
        seeds
    };
    let (train, test) = (seeds(SeedSpace::Train), seeds(SeedSpace::Test));
    let mut distinct = train.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 24, "no two episodes are the same");
    assert!(train.iter().all(|seed| seed % 2 == 0) && test.iter().all(|seed| seed % 2 == 1));
}
