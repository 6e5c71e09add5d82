//! Limit orders at any price, and cancels by id.

use backcast_core::AutoresetMode;
use backcast_gym::{
    ActionScheme, ExternalAgentConfig, MultiAgentTradingEnv, OrderCommand, ResetSeed, StepOrders,
    TradingEnv, TradingEnvConfig, TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::{AuctionRule, Matching, SessionConfig, Side};

use super::{draws, env, short};

const NOTHING: OrderCommand = OrderCommand::Nothing;

fn buy(price: i32, shares: i32) -> OrderCommand {
    OrderCommand::Buy { price, shares }
}

fn sell(price: i32, shares: i32) -> OrderCommand {
    OrderCommand::Sell { price, shares }
}

fn settings() -> TradingEnvConfig {
    let agent = ExternalAgentConfig {
        actions: ActionScheme::LimitOrders,
        ..ExternalAgentConfig::default()
    };
    TradingEnvConfig { agent, ..short() }
}

/// Returns the numbers of up to four commands; the others do nothing.
fn action(commands: &[OrderCommand]) -> Vec<f64> {
    let mut all = [NOTHING; 4];
    all[..commands.len()].copy_from_slice(commands);
    all.map(OrderCommand::numbers).concat()
}

/// An environment that takes lists of commands.
struct Traded(TradingEnv, Vec<f32>);

impl Traded {
    fn begun(config: TradingEnvConfig) -> Self {
        let mut env = env(config);
        let (observation, _) = env.reset(Some(3)).unwrap();
        Self(env, observation)
    }

    /// Takes a step and returns the ids of its orders.
    fn step(&mut self, commands: &[OrderCommand]) -> Vec<Option<u64>> {
        self.0.step_into(&action(commands), &mut self.1).unwrap();
        self.0.check().unwrap();
        self.0.orders().ids.clone()
    }

    /// Returns id, signed shares and price of every open order.
    fn open(&self) -> Vec<(u64, i32, i32)> {
        let shown = |order: &backcast_sim::OpenOrder| {
            (order.number, order.side.sign() * order.quantity, order.price)
        };
        self.0.orders().open.iter().map(shown).collect()
    }
}

#[test]
fn orders_rest_at_their_prices_until_they_are_cancelled_by_id() {
    let mut env = Traded::begun(settings());
    let (bid, ask) = (env.0.market().best_bid(0).unwrap(), env.0.market().best_ask(0).unwrap());
    let (low, high) = (bid - 90, ask + 90);
    assert_eq!(env.step(&[buy(low, 5), NOTHING, sell(high, 7)]), [Some(0), None, Some(1), None]);
    assert_eq!(env.open(), [(0, 5, low), (1, -7, high)]);
    let tick = env.0.market().now();
    assert!(env.0.orders().open.iter().all(|order| order.tick == tick));
    assert_eq!(env.step(&[buy(low - 1, 3), OrderCommand::Cancel(0)])[0], Some(2));
    assert_eq!(env.open(), [(1, -7, high), (2, 3, low - 1)]);
    // A cancel has a number too, so that ids are not consecutive.
    assert_eq!(env.step(&[OrderCommand::Cancel(0), buy(low, 1)])[1], Some(5));
    assert_eq!(env.open().len(), 3, "an order that has left is not cancelled again");
    assert_eq!((env.0.info().refused, &env.0.orders().refused[..2]), (1, &[Some(0), None][..]));
    env.step(&[OrderCommand::CancelAll]);
    assert_eq!((env.open(), env.0.market().ledger().open_count(0, 0)), (vec![], 0));
    // An order beyond the touch trades at once.
    let id = env.step(&[buy(ask + 30, 20)])[0];
    assert_eq!((id, env.0.state().position), (Some(7), 20));
    assert_eq!(env.0.info().refused, 0);
}

#[test]
fn an_order_can_be_cancelled_before_it_has_arrived() {
    let mut config = settings();
    config.agent.latency_ticks = 3;
    let mut env = Traded::begun(config);
    let price = env.0.market().best_bid(0).unwrap() - 90;
    let ids = env.step(&[buy(price, 5), buy(price, 6)]);
    env.step(&[OrderCommand::Cancel(ids[0].unwrap())]);
    assert!(env.open().is_empty(), "both are on their way");
    env.step(&[]);
    env.step(&[]);
    assert_eq!(env.open().len(), 2);
    env.step(&[]);
    assert_eq!(env.open(), [(1, 6, price)]);
}

#[test]
fn a_cancel_makes_room_for_an_order_of_the_same_step() {
    let mut env = Traded::begun(settings());
    let price = env.0.market().best_bid(0).unwrap() - 90;
    env.step(&[buy(price, 1); 4]);
    env.step(&[buy(price, 1); 4]);
    env.step(&[buy(price, 1)]);
    assert_eq!((env.open().len(), env.0.info().refused), (8, 1), "eight orders are the most");
    env.step(&[OrderCommand::Cancel(4), buy(price - 1, 9)]);
    assert_eq!((env.open().len(), env.0.info().refused), (8, 0));
    assert_eq!(env.open()[7], (10, 9, price - 1));
}

#[test]
fn orders_without_price_or_shares_are_masked_and_bad_numbers_change_nothing() {
    let mut env = Traded::begun(settings());
    assert_eq!(env.step(&[buy(0, 5), sell(10_000, 0)]), [None; 4]);
    assert_eq!(env.0.info().masked, 2);
    let hash = env.0.market().state_hash();
    for (at, value, what) in [
        (0, 5.0, "command"),
        (0, 0.5, "command"),
        (1, -1.0, "price"),
        (2, 1_001.0, "shares"),
        (2, 0.5, "shares"),
        (7, -1.0, "id"),
        (7, f64::NAN, "id"),
    ] {
        let mut numbers = action(&[]);
        numbers[at] = value;
        let refused = env.0.step_into(&numbers, &mut env.1).unwrap_err();
        let TradingError::BadAction { what: named, .. } = refused else { panic!("{refused}") };
        assert_eq!(named, what);
    }
    assert_eq!(env.0.market().state_hash(), hash);
}

#[test]
fn resting_orders_reserve_cash_and_margin() {
    // The cash pays for ten shares at about 100.
    let mut config = settings();
    config.agent.account.cash = 10_500_000;
    config.agent.account.limits.order = 100;
    let mut env = Traded::begun(config);
    let price = env.0.market().best_bid(0).unwrap() - 90;
    env.step(&[buy(price, 6), buy(price, 5)]);
    assert_eq!((env.open().len(), env.0.info().refused), (1, 1), "11 shares cost more");
    env.step(&[OrderCommand::CancelAll, buy(price, 10)]);
    assert_eq!((env.open().len(), env.0.info().refused), (1, 0));
    // At a margin of one half, equity of ten shares carries a short of 20.
    let high = env.0.market().best_ask(0).unwrap() + 90;
    env.step(&[OrderCommand::CancelAll, sell(high, 12), sell(high, 12)]);
    assert_eq!((env.open().len(), env.0.info().refused), (1, 1));
    env.step(&[sell(high, 8)]);
    assert_eq!((env.open().len(), env.0.info().refused), (2, 0));
}

#[test]
fn orders_wait_for_auctions_and_end_with_them() {
    let mut config = settings();
    config.max_ticks = 200;
    // The first auction ends with tick 60. The day's orders are cancelled after tick 180.
    config.simulation.market.session =
        SessionConfig { ticks: 240, u_shape: 0.0, auction_ticks: 60, overnight_sd: 0.0 };
    let mut env = Traded::begun(config);
    let price = (env.0.market().mid(0) as i32) - 90;
    env.step(&[buy(price, 5), buy(price, 6), sell(price + 180, 7)]);
    assert_eq!(env.open().len(), 3, "they wait");
    env.step(&[OrderCommand::Cancel(1)]);
    assert_eq!(env.open(), [(0, 5, price), (2, -7, price + 180)]);
    while env.0.market().now() < 60 {
        env.step(&[]);
    }
    assert!(env.open().is_empty(), "what does not trade is dropped");
    for _ in 0..10 {
        env.step(&[]);
    }
    let price = env.0.market().best_bid(0).unwrap() - 200;
    let id = env.step(&[buy(price, 5)])[0].unwrap();
    assert_eq!(env.open(), [(id, 5, price)], "in the book");
    while env.0.market().now() < 180 {
        assert_eq!(env.open().len(), 1);
        env.step(&[]);
    }
    assert!(env.open().is_empty(), "the session cancelled it");
    assert_eq!(env.0.market().ledger().free_cash(0), env.0.market().cash(0).unwrap());
}

#[test]
fn random_commands_keep_the_limits_in_every_kind_of_market() {
    let days = SessionConfig { ticks: 120, u_shape: 0.3, auction_ticks: 20, overnight_sd: 0.002 };
    let calls = Matching::CallAuction(AuctionRule::ProRata);
    let kinds: [(SessionConfig, Matching); 3] = [
        (SessionConfig::OFF, Matching::Continuous),
        (days, Matching::Continuous),
        (SessionConfig::OFF, calls),
    ];
    for (session, matching) in kinds {
        let (mut config, mut draw) = (settings(), draws(5));
        let market = &mut config.simulation.market;
        (market.session, market.matching, market.symbols) = (session, matching, 2);
        config.max_ticks = 600;
        config.agent.latency_ticks = 1;
        config.agent.account.cash = 60_000_000;
        let mut env = env(config);
        env.reset(Some(7)).unwrap();
        let mut observation = vec![0.0; env.observation_size()];
        let (mut fills, mut resting, mut refused) = (0, 0, 0);
        loop {
            let mut numbers = Vec::new();
            for at in 0..8 {
                let mid = env.market().mid(at / 4) as i32;
                let price = mid + draw(61).cast_signed() - 30;
                let shares = 1 + draw(60).cast_signed();
                let known = &env.orders().open;
                let chosen = draw(8) as usize;
                let id = known.get(chosen).map_or(u64::from(draw(50)), |order| order.number);
                numbers.extend(
                    [
                        NOTHING,
                        buy(price, shares),
                        sell(price, shares),
                        OrderCommand::Cancel(id),
                        buy(price, shares),
                        sell(price, shares),
                        OrderCommand::CancelAll,
                    ][draw(7) as usize]
                        .numbers(),
                );
            }
            let outcome = env.step_into(&numbers, &mut observation).unwrap();
            env.check().unwrap();
            assert!(env.market().ledger().free_cash(0) >= 0 || env.market().cash(0).unwrap() < 0);
            for symbol in 0..2 {
                let of = |side| {
                    let open = env.orders().open.iter();
                    let open = open.filter(|order| (order.symbol, order.side) == (symbol, side));
                    open.map(|order| order.quantity).sum::<i32>()
                };
                let open = env.market().ledger().open_shares(0, symbol);
                assert_eq!(open, (of(Side::Buy), of(Side::Sell)));
            }
            let numbers = env.orders().open.iter().map(|order| order.number);
            assert!(numbers.is_sorted_by(|one, next| one < next));
            resting += env.orders().open.len();
            fills += env.info().fills;
            refused += env.info().refused;
            if outcome.ends() {
                break;
            }
        }
        assert!(fills > 10 && refused > 10, "{fills} {refused}");
        assert!(resting > 10 || matching == calls, "{resting}");
    }
}

#[test]
fn vectors_have_the_orders_of_single_environments_and_keep_the_last_ones() {
    let config = TradingEnvConfig { max_ticks: 7, ..settings() };
    let mut envs = TradingVectorEnv::new(config.clone(), 3, AutoresetMode::SameStep, 2).unwrap();
    let mut singles: Vec<_> = (0..3).map(|_| env(config.clone())).collect();
    let size = envs.observation_size();
    let mut rows = vec![0.0; 3 * size];
    let options = TradingResetOptions::default();
    let seeds = [Some(1), Some(2), Some(3)];
    envs.reset_into(ResetSeed::Each(&seeds), None, options, &mut rows).unwrap();
    for (single, seed) in singles.iter_mut().zip(seeds) {
        single.reset(seed).unwrap();
    }
    let mut row = vec![0.0; size];
    for step in 0..20_u8 {
        let commands = |env: u8| {
            let env = i32::from(env);
            let price = 9_950 + i32::from(step) + env;
            action(&[buy(price, 1 + env), sell(price + 90, 2), OrderCommand::Cancel(step.into())])
        };
        let all: Vec<f64> = (0..3).flat_map(commands).collect();
        envs.step_into(&all, &mut rows).unwrap();
        for (at, single) in singles.iter_mut().enumerate() {
            let ended = single.step_into(&commands(at as u8), &mut row).unwrap().ends();
            let shown = if ended { envs.final_orders(at) } else { envs.orders(at) };
            let lone = single.orders();
            let parts = |orders: &StepOrders| {
                (orders.ids.clone(), orders.refused.clone(), orders.open.clone())
            };
            assert_eq!(parts(shown), parts(lone), "step {step}");
            assert!(step < 3 || !lone.open.is_empty());
            if ended {
                single.reset(None).unwrap();
                assert!(envs.orders(at).open.is_empty());
                assert_eq!(envs.orders(at).ids, [None; 4]);
            }
        }
    }
}

#[test]
fn open_orders_of_a_terminated_agent_are_cancelled_and_the_others_go_on() {
    let agent = settings().agent;
    let mut poor = agent;
    poor.account.cash = 1_000_000;
    let mut config = settings();
    (config.initial_margin, config.maintenance_margin) = (0.0, 0.0);
    let mut env = MultiAgentTradingEnv::new(config, vec![poor, agent]).unwrap();
    let mut rows = vec![0.0; 2 * env.observation_size()];
    env.reset_into(Some(1), TradingResetOptions::default(), &mut rows).unwrap();
    let quiet = action(&[]);
    let mut first = vec![sell(10_400, 3), sell(10_410, 5)];
    // Each round trip costs the spread, its own impact and fees.
    for step in 0..50 {
        let churn = match step {
            0 => sell(9_600, 900),
            _ if step % 2 == 0 => sell(9_600, 800),
            _ => buy(10_300, 800),
        };
        first.push(churn);
        env.step_into(&[action(&first), quiet.clone()].concat(), &mut rows).unwrap();
        env.check().unwrap();
        if env.terminated()[0] {
            break;
        }
        first.clear();
    }
    assert!(env.terminated()[0], "equity {}", env.state(0).equity);
    assert!(env.market().ledger().open_count(0, 0) > 0, "orders are open at its end");
    assert!(!env.orders(0).open.is_empty());
    let held = env.state(0).position;
    let numbers = [vec![f64::NAN; quiet.len()], action(&[buy(9_900, 3)])].concat();
    env.step_into(&numbers, &mut rows).unwrap();
    assert_eq!(env.market().ledger().open_count(0, 0), 0);
    assert_eq!(env.market().open_orders(0).unwrap().count(), 0);
    assert_eq!(env.market().position(0, 0), Ok(held));
    assert_eq!(env.orders(1).open.len(), 1);
    env.check().unwrap();
}

#[test]
fn a_market_takes_as_many_agents_as_its_books_have_room_for() {
    let agents = |count| vec![settings().agent; count];
    let config = TradingEnvConfig { warmup_ticks: 5, ..settings() };
    let few = MultiAgentTradingEnv::new(config.clone(), agents(20)).unwrap();
    assert_eq!(few.market().config().book_orders, config.simulation.market.book_orders);
    let mut many = MultiAgentTradingEnv::new(config.clone(), agents(300)).unwrap();
    let mut rows = vec![0.0; 300 * many.observation_size()];
    many.reset_into(Some(1), TradingResetOptions::default(), &mut rows).unwrap();
    for step in 0..2 {
        let numbers = |at: i32| action(&[buy(9_500 + at % 40, 1); 4]);
        let all: Vec<f64> = (0..300).flat_map(numbers).collect();
        many.step_into(&all, &mut rows).unwrap();
        many.check().unwrap();
        assert!((0..300).all(|at| many.orders(at).open.len() == 4 * (step + 1)), "step {step}");
    }
    let limit = MultiAgentTradingEnv::MOST_AGENTS;
    let refused = MultiAgentTradingEnv::new(config, agents(limit + 1)).unwrap_err();
    assert_eq!(refused, TradingError::BadAgentCount { agents: limit + 1, limit });
}
