//! Several agents in one market.

use backcast_gym::{
    ActionScheme, EpisodeError, ExternalAgentConfig, MultiAgentTradingEnv, TradingEnv,
    TradingEnvConfig, TradingError, TradingResetOptions,
};

fn config() -> TradingEnvConfig {
    TradingEnvConfig { max_ticks: 300, frame_skip: 3, ..TradingEnvConfig::default() }
}

fn env(agents: usize) -> MultiAgentTradingEnv {
    MultiAgentTradingEnv::new(config(), vec![ExternalAgentConfig::default(); agents]).unwrap()
}

fn reset(env: &mut MultiAgentTradingEnv, seed: u64) -> Vec<f32> {
    let mut observations = vec![0.0; env.agents() * env.observation_size()];
    env.reset_into(Some(seed), TradingResetOptions::default(), &mut observations).unwrap();
    observations
}

/// Returns a fixed choice for each agent and step.
fn choice(agent: usize, step: usize) -> u8 {
    ((step * 7 + agent * 5 + step * step * (agent + 3)) % 3) as u8
}

/// Runs a whole episode and returns its observations and rewards.
fn episode(env: &mut MultiAgentTradingEnv, seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut observations = reset(env, seed);
    let (mut shown, mut rewards) = (observations.clone(), Vec::new());
    for step in 0..100 {
        let actions: Vec<u8> = (0..env.agents()).map(|agent| choice(agent, step)).collect();
        env.step_into(&actions, &mut observations).unwrap();
        shown.extend(&observations);
        rewards.extend(env.rewards());
        env.check().unwrap();
    }
    assert!(env.truncated().iter().all(|cut| *cut) && !env.active().contains(&true));
    (shown, rewards)
}

#[test]
fn equal_seeds_give_equal_episodes_and_others_do_not() {
    let (mut one, mut other) = (env(4), env(4));
    let first = episode(&mut one, 9);
    assert_eq!(first, episode(&mut other, 9));
    assert_ne!(first, episode(&mut one, 10));
    assert_eq!(first, episode(&mut one, 9), "after another episode");
    assert!((0..4).all(|agent| one.metrics(agent).trades > 0), "every agent trades");
}

#[test]
fn one_agent_equals_the_single_environment_bit_for_bit() {
    let mut many = env(1);
    let mut single = TradingEnv::new(config()).unwrap();
    let mut observation = vec![0.0; single.observation_size()];
    single.reset_into(Some(5), TradingResetOptions::default(), &mut observation).unwrap();
    let mut observations = reset(&mut many, 5);
    for step in 0..100 {
        assert_eq!(observations, observation, "step {step}");
        let action = [choice(0, step)];
        let outcome = single.step_into(&action, &mut observation).unwrap();
        many.step_into(&action, &mut observations).unwrap();
        assert_eq!(many.rewards()[0].to_bits(), outcome.reward.to_bits());
        assert_eq!(many.info(0), single.info());
        assert_eq!(many.truncated()[0], outcome.truncated);
    }
    assert_eq!(many.metrics(0), single.metrics());
}

#[test]
fn a_silent_agent_changes_nothing_for_the_others() {
    let (mut two, mut three) = (env(2), env(3));
    let (mut seen, mut beside) = (reset(&mut two, 3), reset(&mut three, 3));
    for step in 0..100 {
        assert_eq!(seen, beside[..seen.len()], "step {step}");
        let actions = [choice(0, step), choice(1, step)];
        two.step_into(&actions, &mut seen).unwrap();
        three.step_into(&[actions[0], actions[1], 1], &mut beside).unwrap();
        assert_eq!(two.rewards(), &three.rewards()[..2]);
        let shown = |env: &MultiAgentTradingEnv| {
            (env.market().mid(0).to_bits(), env.market().tape(0).arousal().to_bits())
        };
        assert_eq!(shown(&two), shown(&three));
    }
    assert_eq!((three.info(2).fills, three.info(2).position), (0, 0));
}

#[test]
fn agents_trade_in_one_book_and_feel_each_other() {
    let (mut alone, mut crowded) = (env(2), env(2));
    let mut moved = 0.0;
    // Background agents trade too, so that the price of a single market may move either way.
    for seed in 1..=20 {
        let (mut shown, mut other) = (reset(&mut alone, seed), reset(&mut crowded, seed));
        for _ in 0..30 {
            alone.step_into(&[1, 1], &mut shown).unwrap();
            crowded.step_into(&[1, 2], &mut other).unwrap();
        }
        moved += crowded.market().mid(0) - alone.market().mid(0);
        assert_eq!(crowded.info(0).position, 0);
        assert!(crowded.info(1).position > 0);
    }
    assert!(moved > 0.0, "buyers move the price by {moved} together");
}

#[test]
fn each_agent_has_its_own_scheme_account_and_mask() {
    let discrete = ExternalAgentConfig { allow_short: false, ..ExternalAgentConfig::default() };
    let quoting =
        ExternalAgentConfig { actions: ActionScheme::Quotes, ..ExternalAgentConfig::default() };
    let mut env = MultiAgentTradingEnv::new(config(), vec![discrete, quoting, discrete]).unwrap();
    assert_eq!((env.actions_len(), env.action_range(1), env.action_range(2)), (6, 1..5, 5..6));
    let mut observations = reset(&mut env, 1);
    assert_eq!(env.action_mask(0), [false, true, true], "nothing to sell yet");
    assert!(env.action_mask(1).is_empty());
    for _ in 0..20 {
        env.step_into(&[2.0, 0.0, 0.0, 0.5, 0.5, 1.0], &mut observations).unwrap();
    }
    assert!(env.info(0).position > 0 && env.info(2).position == 0);
    assert!(env.state(1).fills > 0, "the quotes are hit");
    let open = |slot: u16| env.market().ledger().open_count(slot, 0);
    assert_eq!((open(0), open(2)), (0, 0));
    let refused = env.step_into(&[2.0, 0.0, 1.5, 0.5, 0.5, 1.0], &mut observations).unwrap_err();
    let TradingError::Agent { agent: 1, error } = &refused else { panic!("{refused}") };
    let TradingError::BadAction { value: 1.5, low: 0.0, high: 1.0, .. } = **error else {
        panic!("{refused}")
    };
    assert!(!refused.to_string().contains("environment"), "an agent is none: {refused}");
    let refused = env.step_into(&[2.0, 0.0], &mut observations).unwrap_err();
    let length = EpisodeError::BadLength { what: "actions", expected: 6, found: 2 };
    assert_eq!(refused, TradingError::Episode(length));
}

#[test]
fn a_bankrupt_agent_leaves_and_the_others_go_on() {
    let mut rich = ExternalAgentConfig::default();
    rich.account.cash *= 2;
    // Spread and fees ruin the second agent, whose quotes are then cancelled.
    let poor = ExternalAgentConfig {
        actions: ActionScheme::DiscreteLimit,
        ..ExternalAgentConfig::default()
    };
    let start = 100_000.0;
    let config = TradingEnvConfig { bankruptcy_equity: start - 20.0, max_ticks: 3_000, ..config() };
    let mut env = MultiAgentTradingEnv::new(config, vec![rich, poor]).unwrap();
    let mut observations = reset(&mut env, 1);
    let mut steps = 0;
    while env.active()[1] {
        // Buys, bids and sells in turn.
        let action = [2, 4, 0][steps % 3];
        env.step_into(&[1, action], &mut observations).unwrap();
        steps += 1;
        assert!(steps < 1_000, "it never went bankrupt: {:?}", env.state(1));
    }
    assert!(env.terminated()[1] && !env.truncated()[1] && env.active()[0]);
    assert!(env.rewards()[1] < 0.0 && env.state(1).equity <= start - 20.0);
    let info = *env.info(1);
    // The numbers of a terminated agent are not read.
    env.step_into(&[2, 99], &mut observations).unwrap();
    assert_eq!(env.market().ledger().open_count(1, 0), 0, "its orders are cancelled");
    assert_eq!((env.rewards()[1], env.terminated()[1], *env.info(1)), (0.0, false, info));
    assert!(env.info(0).position > 0);
    while env.active()[0] {
        env.step_into(&[1, 0], &mut observations).unwrap();
    }
    assert_eq!((env.truncated()[0], env.truncated()[1]), (true, false));
    let ended = env.step_into(&[1, 0], &mut observations).unwrap_err();
    assert_eq!(ended, TradingError::Episode(EpisodeError::Finished { env: 0 }));
    reset(&mut env, 2);
    assert_eq!(env.active(), [true, true]);
    env.check().unwrap();
}

#[test]
fn bad_settings_and_orders_of_calls_are_typed_errors() {
    for count in [0, 4_097] {
        let agents = vec![ExternalAgentConfig::default(); count];
        let refused = MultiAgentTradingEnv::new(config(), agents).unwrap_err();
        assert_eq!(refused, TradingError::BadAgentCount { agents: count, limit: 4_096 });
    }
    let bad = ExternalAgentConfig { order_size: 0, ..ExternalAgentConfig::default() };
    let agents = vec![ExternalAgentConfig::default(), bad];
    let refused = MultiAgentTradingEnv::new(config(), agents).unwrap_err();
    let TradingError::Agent { agent: 1, error } = refused else { panic!("{refused}") };
    let TradingError::BadOption { option: "order_size", .. } = *error else { panic!("{error}") };
    let mut env = env(2);
    let mut observations = vec![0.0; 2 * env.observation_size()];
    let early = env.step_into(&[1, 1], &mut observations).unwrap_err();
    assert_eq!(early, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
    let short = env.reset_into(None, TradingResetOptions::default(), &mut observations[1..]);
    assert!(matches!(short, Err(TradingError::Episode(EpisodeError::BadLength { .. }))));
}

#[test]
fn the_last_observation_of_a_bankrupt_agent_is_that_of_the_single_environment() {
    let agent = ExternalAgentConfig {
        actions: ActionScheme::DiscreteLimit,
        ..ExternalAgentConfig::default()
    };
    let config =
        TradingEnvConfig { bankruptcy_equity: 99_980.0, max_ticks: 3_000, agent, ..config() };
    let mut single = TradingEnv::new(config.clone()).unwrap();
    let mut many = MultiAgentTradingEnv::new(config, vec![agent]).unwrap();
    let mut observation = vec![0.0; single.observation_size()];
    let early = many.observe_into(&mut observation).unwrap_err();
    assert_eq!(early, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
    single.reset_into(Some(1), TradingResetOptions::default(), &mut observation).unwrap();
    let mut observations = reset(&mut many, 1);
    for step in 0.. {
        let action = [[2_u8, 4, 0][step % 3]];
        let outcome = single.step_into(&action, &mut observation).unwrap();
        many.step_into(&action, &mut observations).unwrap();
        assert_eq!(observations, observation, "step {step}");
        if outcome.ends() {
            assert!(outcome.terminated, "it never went bankrupt");
            break;
        }
    }
    let mut again = vec![0.0; observation.len()];
    many.observe_into(&mut again).unwrap();
    assert_eq!(again, observation);
}

#[test]
fn the_page_about_the_environment_names_the_test_of_every_open_point() {
    let page = include_str!("../../../../docs/concepts/trading-environment.md");
    let tests = include_str!("resolved.rs");
    for item in 1..=22 {
        let begin = format!("| {item} | ");
        let row = page.lines().find(|line| line.starts_with(&begin)).expect("a row");
        let name = row.split('`').rev().nth(1).expect("a test");
        assert!(name.starts_with(&format!("item_{item}_")), "{row}");
        assert!(tests.contains(&format!("fn {name}()")), "{name} is no test");
    }
}
