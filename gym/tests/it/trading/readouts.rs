//! Metrics, masks and modes that environments report, against what their steps showed.

use backcast_gym::{
    ActionScheme, AutoresetMode, DiscreteAction, EpisodeError, ExternalAgentConfig, MarkPrice,
    ResetSeed, TradingEnvConfig, TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::{AccountConfig, Limits, Preset};

use super::{draws, env, short};

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-8 * expected.abs().max(1.0)
}

#[test]
fn metrics_of_an_episode_are_those_of_its_equities_fills_and_fees() {
    let account = AccountConfig { shares: 200, ..AccountConfig::default() };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let mut env = env(TradingEnvConfig { agent, frame_skip: 3, max_ticks: 300, ..short() });
    let mut draw = draws(12);
    for seed in [1, 2] {
        env.reset(Some(seed)).unwrap();
        let mut equities = vec![env.state().equity];
        let (mut traded, mut fees, mut fills) = (0.0, 0.0, 0);
        for step in 1..=100 {
            env.step(draw(3) as u8).unwrap();
            let value = |fill: &backcast_sim::SlotFill| f64::from(fill.price * fill.quantity);
            traded += env.fills().iter().map(value).sum::<f64>() * 0.01;
            fees += env.info().fees;
            fills += env.info().fills;
            let state = env.state();
            equities.push(state.equity);
            let peak = equities.iter().copied().fold(f64::MIN, f64::max);
            assert_eq!(state.peak_equity, peak);
            assert_eq!(state.drawdown(), peak - state.equity);
            assert!(near(state.traded, traded) && state.fills == fills, "step {step}");
            let held = f64::from(state.position.abs()) * state.mid_price;
            assert!(near(state.gross_value, held), "step {step}");
            let metrics = env.metrics();
            let start = equities[0];
            for (name, found, expected) in [
                ("total return", metrics.total_return, state.equity / start - 1.0),
                ("turnover", metrics.turnover, traded / start),
                ("costs", metrics.costs, fees),
                ("final value", metrics.final_value, state.equity),
            ] {
                assert!(near(found, expected), "{name} {found} {expected}");
            }
            assert_eq!((u64::from(metrics.trades), metrics.length), (fills, step));
            assert_eq!(metrics.stop_losses, 0);
        }
        assert!(fills > 50 && fees > 0.0);
        let returns: Vec<f64> = equities.windows(2).map(|pair| pair[1] / pair[0] - 1.0).collect();
        let mean = returns.iter().sum::<f64>() / 100.0;
        let squares: f64 = returns.iter().map(|gain| (gain - mean).powi(2)).sum();
        // A year has 252 days of 23,400 ticks, and a step three of them.
        let year = (252.0 * 23_400.0 / 3.0_f64).sqrt();
        let sharpe = mean / (squares / 99.0).sqrt() * year;
        assert!((env.metrics().sharpe / sharpe - 1.0).abs() < 1e-6, "{sharpe}");
    }
}

#[test]
fn masks_of_a_vector_are_those_of_single_environments_at_the_end_of_episodes_too() {
    let account = AccountConfig {
        limits: Limits { long: 150, short: 100, order: 100 },
        ..AccountConfig::default()
    };
    for actions in [ActionScheme::Discrete, ActionScheme::DiscreteLimit] {
        let agent = ExternalAgentConfig { account, actions, ..ExternalAgentConfig::default() };
        let mut market = Preset::Normal.config();
        market.symbols = 2;
        let config = TradingEnvConfig { agent, simulation: market.into(), max_ticks: 5, ..short() };
        let mode = AutoresetMode::SameStep;
        let mut envs = TradingVectorEnv::new(config.clone(), 4, mode, 1).unwrap();
        let mut singles: Vec<_> = (0..4).map(|_| env(config.clone())).collect();
        let mut rows = vec![0.0; 4 * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(6), None, options, &mut rows).unwrap();
        for (seed, single) in (6..).zip(&mut singles) {
            single.reset(Some(seed)).unwrap();
        }
        let each = 2 * envs.action_size();
        assert_eq!((envs.action_size(), envs.action_len()), (actions.choices().unwrap(), 2));
        let mut row = vec![0.0; envs.observation_size()];
        let (mut over, mut forbidden) = (0, 0);
        // Every environment trades each of its symbols in a way of its own.
        let all = [2_u8, 0, 0, 2, 2, 1, 1, 1];
        for step in 0..17 {
            envs.step_into(&all, &mut rows).unwrap();
            let mut masks = vec![false; 4 * each];
            envs.action_mask_into(&mut masks).unwrap();
            for (at, single) in singles.iter_mut().enumerate() {
                let outcome = single.step_into(&all[2 * at..2 * at + 2], &mut row).unwrap();
                if outcome.ends() {
                    assert_eq!(envs.final_action_mask(at), single.action_mask(), "step {step}");
                    forbidden += single.action_mask().iter().filter(|&&may| !may).count();
                    single.reset(None).unwrap();
                    over += 1;
                }
                let mask = &masks[at * each..(at + 1) * each];
                assert_eq!(mask, single.action_mask(), "step {step}, {at}");
                forbidden += mask.iter().filter(|&&may| !may).count();
            }
        }
        assert!(over == 12 && forbidden > 12, "{over} {forbidden}");
        let refused = envs.action_mask_into(&mut vec![false; 4 * each - 1]).unwrap_err();
        let (expected, found) = (4 * each, 4 * each - 1);
        let length = EpisodeError::BadLength { what: "out", expected, found };
        assert_eq!(refused, TradingError::Episode(length));
    }
    let agent =
        ExternalAgentConfig { actions: ActionScheme::Quotes, ..ExternalAgentConfig::default() };
    let config = TradingEnvConfig { agent, max_ticks: 2, ..short() };
    let mut envs = TradingVectorEnv::new(config, 3, AutoresetMode::SameStep, 1).unwrap();
    let mut rows = vec![0.0; 3 * envs.observation_size()];
    envs.reset_into(ResetSeed::One(6), None, TradingResetOptions::default(), &mut rows).unwrap();
    for _ in 0..2 {
        envs.step_into(&[0.0; 12], &mut rows).unwrap();
    }
    assert_eq!(envs.ended(), [true; 3]);
    envs.action_mask_into(&mut []).unwrap();
    assert!((0..3).all(|at| envs.final_action_mask(at).is_empty()));
    assert_eq!((envs.action_size(), envs.action_len()), (4, 4));
}

#[test]
fn a_changed_mode_of_a_vector_is_that_of_one_made_with_it() {
    let config = || TradingEnvConfig { max_ticks: 4, ..short() };
    let made = |mode| {
        let mut envs = TradingVectorEnv::new(config(), 3, mode, 1).unwrap();
        let mut rows = vec![0.0; 3 * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(6), None, options, &mut rows).unwrap();
        (envs, rows)
    };
    let (mut other, mut there) = made(AutoresetMode::SameStep);
    let (mut changed, mut here) = made(AutoresetMode::NextStep);
    assert_eq!(changed.autoreset_mode(), AutoresetMode::NextStep);
    changed.set_autoreset_mode(AutoresetMode::SameStep).unwrap();
    assert_eq!(changed.autoreset_mode(), AutoresetMode::SameStep);
    for step in 0..13 {
        let actions = [2_u8, 0, step % 3];
        changed.step_into(&actions, &mut here).unwrap();
        other.step_into(&actions, &mut there).unwrap();
        assert_eq!((&here, changed.rewards()), (&there, other.rewards()), "step {step}");
        assert_eq!((changed.ended(), changed.began()), (other.ended(), other.began()));
        assert_eq!(changed.final_observations(), other.final_observations());
        assert_eq!(changed.final_infos(), other.final_infos());
        assert_eq!(changed.final_fills(1), other.final_fills(1));
    }
    let (mut waits, mut rows) = made(AutoresetMode::NextStep);
    for _ in 0..4 {
        waits.step_into(&[1_u8; 3], &mut rows).unwrap();
    }
    waits.set_autoreset_mode(AutoresetMode::Disabled).unwrap();
    let refused = waits.step_into(&[1_u8; 3], &mut rows).unwrap_err();
    assert_eq!(refused, TradingError::Episode(EpisodeError::Finished { env: 0 }));
    waits.set_autoreset_mode(AutoresetMode::NextStep).unwrap();
    waits.step_into(&[1_u8; 3], &mut rows).unwrap();
    assert_eq!((waits.began(), waits.ended()), (&[true; 3][..], &[false; 3][..]));
}

#[test]
fn a_margin_call_values_positions_at_liquidation_whatever_their_mark() {
    // An equity of about 10,000 for a short position of 90,000.
    let account = AccountConfig {
        cash: 1_000_000_000,
        shares: -900,
        limits: Limits { long: 1_000, short: 1_000, order: 1_000 },
    };
    let agent = ExternalAgentConfig { account, ..ExternalAgentConfig::default() };
    let config =
        TradingEnvConfig { agent, mark: MarkPrice::Mid, maintenance_margin: 0.111, ..short() };
    let mut env = env(config);
    let (mut calls, mut others) = (0, 0);
    for seed in 0..30 {
        env.reset(Some(seed)).unwrap();
        let start = *env.state();
        let step = env.step(DiscreteAction::Hold).unwrap();
        let state = *env.state();
        let at_mid = state.cash - 900.0 * state.mid_price;
        let is_called = at_mid < 0.111 * state.gross_value;
        assert_eq!((step.info.margin_call, step.terminated), (is_called, is_called));
        let expected = if is_called {
            let brings = env.market().liquidation_value(0, 0).unwrap() as f64 * 0.0001;
            assert!(state.cash + brings < at_mid);
            calls += 1;
            state.cash + brings
        } else {
            others += 1;
            at_mid
        };
        assert!(near(state.equity, expected), "{} {expected}", state.equity);
        assert_eq!((step.info.equity, step.info.pnl), (state.equity, state.equity - start.equity));
        assert!(near(step.reward, (state.equity - start.equity) / start.equity));
        assert!(near(env.metrics().final_value, state.equity));
    }
    assert!(calls > 0 && others > 0, "{calls} {others}");
}
