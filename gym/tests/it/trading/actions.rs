//! Effects of actions, scheme by scheme, and refusals of bad actions and settings.

use backcast_gym::{
    ActionScheme, ContinuousAction, DiscreteAction, EpisodeError, ExternalAgentConfig,
    OrderCommand, QuoteAction, TradingAction, TradingEnv, TradingEnvConfig, TradingError,
};
use backcast_sim::{AccountConfig, ConfigError, Limits, SessionConfig};

use super::{draws, env, short};

/// Returns settings of an agent that can pay for the largest position.
fn with_actions(actions: ActionScheme) -> TradingEnvConfig {
    let account = AccountConfig { cash: 2_000_000_000, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, actions, ..ExternalAgentConfig::default() };
    TradingEnvConfig { agent, ..short() }
}

fn begun(config: TradingEnvConfig) -> TradingEnv {
    let mut env = env(config);
    env.reset(Some(3)).unwrap();
    env
}

#[test]
fn a_target_is_reached_from_either_side_and_kept() {
    let mut env = begun(with_actions(ActionScheme::Target));
    for (target, position) in [(0.3, 300), (0.3, 300), (-0.25, -250), (0.0, 0), (1.0, 1_000)] {
        for _ in 0..4 {
            env.step(ContinuousAction(target)).unwrap();
        }
        assert_eq!(env.state().position, position, "target {target}");
        env.check().unwrap();
    }
    let mut env = begun(with_actions(ActionScheme::DiscreteTarget));
    for (choice, position) in [(2, 1_000), (1, 0), (0, -1_000)] {
        for _ in 0..8 {
            env.step(TradingAction::Choice(choice)).unwrap();
        }
        assert_eq!(env.state().position, position, "choice {choice}");
    }
}

/// Returns an environment whose warm-up ends at tick 50, within an auction that is held at tick 60.
fn begun_in_an_auction(actions: ActionScheme) -> TradingEnv {
    let mut config = with_actions(actions);
    config.simulation.market.session =
        SessionConfig { ticks: 600, u_shape: 0.0, auction_ticks: 60, overnight_sd: 0.0 };
    begun(config)
}

#[test]
fn a_target_counts_the_orders_that_wait_for_an_auction() {
    let mut env = begun_in_an_auction(ActionScheme::Target);
    for (target, shares) in [(0.3, 300), (0.3, 300), (0.5, 500)] {
        env.step(ContinuousAction(target)).unwrap();
        assert_eq!(env.market().ledger().open_shares(0, 0), (shares, 0), "target {target}");
        assert_eq!(env.state().position, 0);
    }
    for _ in 53..60 {
        env.step(ContinuousAction(0.5)).unwrap();
    }
    assert_eq!(env.market().ledger().open_shares(0, 0), (0, 0), "the auction was held");
    let position = env.state().position;
    assert!((1..=500).contains(&position), "{position}");
    env.check().unwrap();
}

#[test]
fn the_mask_rules_out_trades_once_eight_orders_wait_for_an_auction() {
    let mut env = begun_in_an_auction(ActionScheme::Discrete);
    for _ in 0..8 {
        assert_eq!(env.action_mask(), [true; 3]);
        env.step(DiscreteAction::Buy).unwrap();
    }
    assert_eq!(env.action_mask(), [false, true, false]);
    let step = env.step(DiscreteAction::Buy).unwrap();
    assert_eq!((step.info.masked, step.info.refused), (1, 0));
}

#[test]
fn an_order_size_is_a_signed_fraction_of_the_full_order() {
    let mut env = begun(with_actions(ActionScheme::OrderSize));
    for (size, position) in [(0.5, 50), (0.004, 50), (-0.2, 30), (0.0, 30)] {
        env.step(ContinuousAction(size)).unwrap();
        assert_eq!(env.state().position, position, "size {size}");
    }
}

#[test]
fn orders_are_clipped_to_the_limits_and_the_cash_and_masked_beyond_them() {
    let account = AccountConfig {
        limits: Limits { long: 150, short: 100, order: 100 },
        ..AccountConfig::default()
    };
    let agent = ExternalAgentConfig { account, allow_short: false, ..Default::default() };
    let mut env = begun(TradingEnvConfig { agent, ..short() });
    assert_eq!(env.action_mask(), [false, true, true], "nothing to sell");
    let sold = env.step(DiscreteAction::Sell).unwrap();
    assert_eq!((sold.info.position, sold.info.masked), (0, 1));
    let steps = [100, 150, 150].map(|_| env.step(DiscreteAction::Buy).unwrap().info);
    assert_eq!(steps.map(|info| (info.position, info.masked)), [(100, 0), (150, 0), (150, 1)]);
    assert_eq!(env.action_mask(), [true, true, false], "no room to buy");
    assert_eq!(steps.map(|info| info.refused), [0; 3]);

    // 1,000 currency units buy nine shares at about 100, with the room for slippage and fees.
    let account = AccountConfig { cash: 10_000_000, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let mut env = begun(TradingEnvConfig { agent, ..short() });
    let bought = env.step(DiscreteAction::Buy).unwrap();
    assert_eq!((bought.info.position, bought.info.refused), (9, 0));
    assert!(env.state().cash > 0.0);
    env.check().unwrap();
}

#[test]
fn quotes_rest_in_the_book_and_are_replaced_by_the_next() {
    let mut env = begun(with_actions(ActionScheme::Quotes));
    let far = QuoteAction { bid_offset: 1.0, ask_offset: 1.0, bid_size: 0.5, ask_size: 0.25 };
    for _ in 0..5 {
        let step = env.step(far).unwrap();
        assert_eq!((step.info.refused, step.info.masked), (0, 0));
        assert_eq!(env.market().ledger().open_shares(0, 0), (50, 25));
        assert_eq!(env.market().ledger().open_count(0, 0), 2);
    }
    env.step(QuoteAction { bid_size: 1.0, ..QuoteAction::default() }).unwrap();
    assert!(env.market().ledger().open_count(0, 0) <= 1);
    env.step(QuoteAction::default()).unwrap();
    assert_eq!(env.market().ledger().open_count(0, 0), 0, "sizes of 0 cancel all");
    // Quotes at the touch trade sooner or later.
    let touch = QuoteAction { bid_size: 1.0, ask_size: 1.0, ..QuoteAction::default() };
    let mut fills = 0;
    for _ in 0..40 {
        fills += env.step(touch).unwrap().info.fills;
    }
    assert!(fills > 0);
    env.check().unwrap();
}

#[test]
fn quotes_of_all_symbols_are_cancelled_before_any_uses_their_cash_again() {
    // The cash pays for one full bid of 100 shares at about 100, which goes from symbol to symbol.
    let mut config = with_actions(ActionScheme::Quotes);
    config.simulation.market.symbols = 3;
    config.agent.account.cash = 110_000_000;
    config.agent.max_offset = 300;
    let mut env = begun(config);
    let mut observation = vec![0.0; env.observation_size()];
    for which in [2, 0, 1, 0, 2, 1, 1, 0, 2] {
        let quote = |symbol| [1.0, 1.0, if symbol == which { 1.0 } else { 0.0 }, 0.0];
        env.step_into(&[0, 1, 2].map(quote).concat(), &mut observation).unwrap();
        assert_eq!((env.info().refused, env.info().masked), (0, 0), "{which}");
        let bids = [0, 1, 2].map(|symbol| env.market().ledger().open_shares(0, symbol).0);
        assert_eq!(bids, [0, 1, 2].map(|symbol| if symbol == which { 100 } else { 0 }));
        env.check().unwrap();
    }
    // Two full bids at once are more than the cash pays for: the second is clipped.
    let both = [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]].concat();
    env.step_into(&both, &mut observation).unwrap();
    let second = env.market().ledger().open_shares(0, 2).0;
    assert!(env.info().refused == 0 && (0..100).contains(&second), "{second}");
}

#[test]
fn shorts_of_every_scheme_are_clipped_to_the_initial_margin() {
    // 100 of cash, and shares of about 100.
    let settings = |actions, latency_ticks, margins: (f64, f64)| {
        let mut config = with_actions(actions);
        config.agent.account.cash = 1_000_000;
        config.agent.order_size = 1_000;
        config.agent.latency_ticks = latency_ticks;
        (config.initial_margin, config.maintenance_margin) = margins;
        config
    };
    let sell = |actions| match actions {
        ActionScheme::Target | ActionScheme::OrderSize => vec![-1.0],
        ActionScheme::Quotes => vec![0.0, 0.0, 0.0, 1.0],
        // One share at a low price.
        ActionScheme::LimitOrders => {
            [OrderCommand::Sell { price: 9_900, shares: 1 }; 4].map(OrderCommand::numbers).concat()
        }
        _ => vec![0.0],
    };
    for &actions in ActionScheme::ALL {
        for latency_ticks in [0, 3] {
            let shorts = [(0.5, 0.3), (0.0, 0.0)].map(|margins| {
                let mut env = begun(settings(actions, latency_ticks, margins));
                let mut observation = vec![0.0; env.observation_size()];
                let mut worst = 0;
                for _ in 0..40 {
                    if env.step_into(&sell(actions), &mut observation).unwrap().ends() {
                        break;
                    }
                    worst = worst.max(-env.state().position);
                    env.check().unwrap();
                }
                worst
            });
            assert!((1..=2).contains(&shorts[0]), "{actions} {latency_ticks}: {shorts:?}");
            assert!(shorts[1] > 100, "without margins: {actions} {latency_ticks}: {shorts:?}");
        }
    }
    let mut env = begun(settings(ActionScheme::Discrete, 0, (0.5, 0.3)));
    env.step(DiscreteAction::Sell).unwrap();
    env.step(DiscreteAction::Sell).unwrap();
    assert_eq!(env.action_mask(), [false, true, true], "the mask says so");
}

#[test]
fn limit_orders_join_the_touch_and_a_cancel_removes_them() {
    let mut env = begun(with_actions(ActionScheme::DiscreteLimit));
    assert_eq!(env.action_size(), 6);
    assert!(!env.action_mask()[5], "nothing to cancel");
    let bid = env.market().best_bid(0).unwrap();
    env.step(TradingAction::Choice(4)).unwrap();
    let open = env.market().ledger().open_shares(0, 0).0 + env.state().position;
    assert_eq!(open, 100, "the order rests, or has traded, at {bid}");
    for _ in 0..20 {
        let step = env.step(TradingAction::Choice(4)).unwrap();
        assert_eq!(step.info.refused, 0, "clipped before they are sent");
    }
    env.step(TradingAction::Choice(5)).unwrap();
    assert_eq!(env.market().ledger().open_count(0, 0), 0);
    for choice in 0..6 {
        env.step(TradingAction::Choice(choice)).unwrap();
    }
    env.check().unwrap();
}

#[test]
fn an_action_a_choice_and_its_number_have_the_same_effect() {
    let mut envs: [TradingEnv; 3] = std::array::from_fn(|_| begun(short()));
    let mut observation = vec![0.0; envs[0].observation_size()];
    for action in [DiscreteAction::Buy, DiscreteAction::Sell, DiscreteAction::Hold] {
        envs[0].step(action).unwrap();
        envs[1].step(action as u8).unwrap();
        envs[2].step_into(&[action], &mut observation).unwrap();
        let [first, others @ ..] = envs.each_ref().map(|env| env.market().state_hash());
        assert_eq!(others, [first; 2], "{action:?}");
    }
}

#[test]
fn random_actions_of_every_scheme_keep_the_limits_and_conserve_cash_and_shares() {
    for &actions in ActionScheme::ALL {
        let (mut config, mut draw) = (with_actions(actions), draws(17));
        config.max_ticks = 600;
        config.frame_skip = 2;
        config.agent.latency_ticks = 3;
        let bounds = config.agent;
        let mut env = begun(config);
        let mut observation = vec![0.0; env.observation_size()];
        loop {
            let mut number = |at| {
                let (low, high) = bounds.bounds(at);
                let unit = f64::from(draw(1_001)) / 1_000.0;
                let number = low + (high - low) * unit;
                let whole = actions.choices().is_some() || actions == ActionScheme::LimitOrders;
                if whole { number.round() } else { number }
            };
            let numbers: Vec<f64> = (0..env.action_len()).map(&mut number).collect();
            let outcome = env.step_into(&numbers, &mut observation).unwrap();
            assert!(env.state().position.abs() <= 1_000, "{actions}");
            env.check().unwrap();
            if outcome.ends() {
                break;
            }
        }
    }
}

#[test]
fn bad_actions_are_refused_before_anything_changes() {
    let mut env = env(short());
    let refused = env.step(DiscreteAction::Buy).unwrap_err();
    assert_eq!(refused, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
    assert!(!refused.for_single().contains("environment 0"), "it has no number");
    env.reset(Some(1)).unwrap();
    let hash = env.market().state_hash();
    let mut observation = vec![0.0; env.observation_size()];
    for bad in [-1.0, 3.0, 0.5, f64::NAN, f64::INFINITY] {
        let refused = env.step_into(&[bad], &mut observation).unwrap_err();
        assert!(
            matches!(refused, TradingError::BadAction { low: 0.0, high: 2.0, .. }),
            "{refused}"
        );
        assert!(refused.for_single().contains(" 0 to 2 "), "{refused}");
    }
    assert!(matches!(env.step(ContinuousAction(0.1)), Err(TradingError::WrongAction { .. })));
    assert!(matches!(env.step(TradingAction::Choice(3)), Err(TradingError::BadAction { .. })));
    assert!(env.step_into(&[1.0, 1.0], &mut observation).is_err());
    assert!(env.step_into(&[1.0], &mut observation[1..]).is_err());
    assert_eq!((env.market().state_hash(), env.info().decisions), (hash, 0));
}

#[test]
fn bad_settings_give_one_typed_error_each_before_anything_runs() {
    type Change = fn(&mut TradingEnvConfig);
    let refusal = |change: Change| {
        let mut config = short();
        change(&mut config);
        TradingEnv::new(config).unwrap_err()
    };
    let table: [(&str, Change, &[&str]); 22] = [
        ("order size 0", |c| c.agent.order_size = 0, &["`order_size`", "0"]),
        ("negative order size", |c| c.agent.order_size = -5, &["`order_size`", "-5"]),
        ("order above the limit", |c| c.agent.order_size = 1_001, &["1001", "1000"]),
        ("no slippage", |c| c.agent.max_slippage = 0, &["`max_slippage`", "0"]),
        ("slippage", |c| c.agent.max_slippage = 1_000_001, &["`max_slippage`", "1000001"]),
        ("offset", |c| c.agent.max_offset = 1_000_001, &["`max_offset`", "1000001"]),
        ("no offset", |c| c.agent.max_offset = -1, &["`max_offset`", "-1"]),
        ("negative cash", |c| c.agent.account.cash = -1, &["`account.cash`", "-1"]),
        ("shares above the limit", |c| c.agent.account.shares = 2_000, &["2000"]),
        (
            "no agents",
            |c| {
                let population = &mut c.simulation.market.population;
                population.maker.count = 0;
                population.noise.count = 0;
                population.value.count = 0;
                population.signal.count = 0;
                population.executor.count = 0;
            },
            &["agents"],
        ),
        ("no ticks", |c| c.max_ticks = 0, &["`max_ticks`", "0"]),
        ("no frame", |c| c.frame_skip = 0, &["`frame_skip`", "0"]),
        ("bankrupt at once", |c| c.bankruptcy_equity = 1e9, &["`bankruptcy_equity`", "1000000000"]),
        ("no number", |c| c.bankruptcy_equity = f64::NAN, &["`bankruptcy_equity`", "NaN"]),
        ("margin", |c| c.maintenance_margin = 1.0, &["`maintenance_margin`", "1"]),
        ("initial margin", |c| c.initial_margin = 1.5, &["`initial_margin`", "1.5"]),
        ("initial below maintenance", |c| c.initial_margin = 0.2, &["`initial_margin`", "0.2"]),
        ("latency", |c| c.agent.latency_ticks = 64, &["65", "64"]),
        ("no commands", |c| c.agent.commands = 0, &["`commands`", "0"]),
        (
            "more commands than a slot holds",
            |c| {
                c.agent.actions = ActionScheme::LimitOrders;
                (c.agent.commands, c.agent.latency_ticks) = (16, 4);
            },
            &["80", "64"],
        ),
        (
            "an endowment below the margin",
            |c| (c.agent.account.shares, c.agent.account.cash) = (-100, 128_000_000),
            &["-100", "2800", "3000"],
        ),
        ("snapshots", |c| c.warm_snapshots = 5_000, &["`warm_snapshots`", "5000"]),
    ];
    for (case, change, values) in table {
        let found = refusal(change).to_string();
        assert!(values.iter().all(|value| found.contains(value)), "{case}: {found}");
    }
    // Latency is no remedy where one action alone has too many requests.
    for (actions, latency_ticks, commands, latency) in [
        (ActionScheme::LimitOrders, 0, true, false),
        (ActionScheme::LimitOrders, 4, true, false),
        (ActionScheme::Quotes, 0, false, false),
        (ActionScheme::Discrete, 2, false, true),
    ] {
        let mut config = TradingEnvConfig::default();
        config.simulation.market.symbols = 30;
        config.agent.latency_ticks = latency_ticks;
        (config.agent.actions, config.agent.commands) = (actions, 16);
        let error = TradingEnv::new(config).unwrap_err();
        let TradingError::TooManyInFlight { requests, each, symbols: 30, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(requests, each * u64::from(latency_ticks + 1));
        let found = error.to_string();
        assert!(found.contains("30"), "{found}");
        let remedies = ["lower `commands`", "lower `latency_ticks`"].map(|one| found.contains(one));
        assert_eq!(remedies, [commands, latency], "{found}");
    }
    let unknown = backcast_gym::SimulationConfig::preset("quiet").unwrap_err();
    assert!(matches!(unknown, ConfigError::UnknownPreset { .. }), "{unknown}");
    assert!(backcast_gym::SimulationConfig::preset("teaching").is_ok());
}
