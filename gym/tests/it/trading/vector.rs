//! The vector environment: equal to single ones, on any number of threads, in every autoreset mode.

use backcast_gym::{
    ActionScheme, AutoresetMode, EpisodeError, ExternalAgentConfig, ResetSeed, TradingEnvConfig,
    TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::SlotFill;

use super::{draws, env, short};

const N: usize = 7;

fn made(config: TradingEnvConfig, mode: AutoresetMode, threads: usize) -> TradingVectorEnv {
    TradingVectorEnv::new(config, N, mode, threads).unwrap()
}

/// Everything that a run shows: observations, rewards, flags, hashes.
type Shown = (Vec<Vec<f32>>, Vec<Vec<f64>>, Vec<Vec<bool>>, Vec<u64>);

fn run(envs: &mut TradingVectorEnv, steps: usize) -> Shown {
    let mut observations = vec![0.0; N * envs.observation_size()];
    envs.reset_into(ResetSeed::One(5), None, TradingResetOptions::default(), &mut observations)
        .unwrap();
    let mut shown = (vec![observations.clone()], Vec::new(), Vec::new(), Vec::new());
    let mut draw = draws(4);
    for _ in 0..steps {
        let actions: Vec<f32> = (0..N).map(|_| draw(3) as f32).collect();
        envs.step_into(&actions, &mut observations).unwrap();
        shown.0.push(observations.clone());
        shown.1.push(envs.rewards().to_vec());
        shown.2.push(envs.ended().iter().chain(envs.began()).copied().collect());
    }
    shown.3 = (0..N).map(|env| envs.market(env).state_hash()).collect();
    envs.check().unwrap();
    shown
}

#[test]
fn all_fills_of_a_step_are_there_and_explain_positions_cash_and_fees() {
    let agent = ExternalAgentConfig {
        actions: ActionScheme::Quotes,
        order_size: 1_000,
        ..ExternalAgentConfig::default()
    };
    let config = TradingEnvConfig { agent, frame_skip: 400, max_ticks: 1_600, ..short() };
    for mode in [AutoresetMode::SameStep, AutoresetMode::NextStep] {
        let mut envs = made(config.clone(), mode, 2);
        let mut observations = vec![0.0; N * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(5), None, options, &mut observations).unwrap();
        let (mut before, mut most, mut makers) = ([(0, 0.0); N], 0, 0);
        let cash = 100_000.0;
        before.fill((0, cash));
        let actions = [0.0, 0.0, 1.0, 1.0].repeat(N);
        for _ in 0..10 {
            envs.step_into(&actions, &mut observations).unwrap();
            for (env, before) in before.iter_mut().enumerate() {
                let (ended, began) = (envs.ended()[env], envs.began()[env]);
                if began && !ended {
                    assert!(envs.fills(env).is_empty(), "a reset");
                    *before = (0, cash);
                    continue;
                }
                let (info, fills) = if ended && began {
                    assert!(envs.fills(env).is_empty(), "the new episode has none");
                    (&envs.final_infos()[env], envs.final_fills(env))
                } else {
                    (envs.info(env), envs.fills(env))
                };
                assert_eq!(fills.len() as u64, info.fills);
                let fees: i64 = fills.iter().map(|fill| fill.fee).sum();
                assert!((fees as f64 * 0.0001 - info.fees).abs() < 1e-6);
                let signed = |fill: &SlotFill| fill.side.sign() * fill.quantity;
                let position = before.0 + fills.iter().map(signed).sum::<i32>();
                assert_eq!(position, info.position);
                let paid = |fill: &SlotFill| f64::from(signed(fill) * fill.price) * 0.01;
                let spent = fills.iter().map(paid).sum::<f64>() + info.fees + info.borrowing;
                let left = before.1 - spent;
                if !(ended && began) {
                    assert!((envs.state(env).cash - left).abs() < 1e-6);
                }
                most = most.max(fills.len());
                makers += fills.iter().filter(|fill| fill.maker).count();
                *before = if ended && began { (0, cash) } else { (position, left) };
            }
        }
        assert!(most > 64 && makers > 64, "{most} fills in a step, {makers} of resting orders");
    }
}

/// More than 16 environments are prefetched, in chunks of several sizes.
#[test]
fn many_environments_equal_single_ones_on_any_number_of_threads() {
    const MANY: usize = 70;
    let hashes = |threads: usize| -> Vec<u64> {
        let mode = AutoresetMode::SameStep;
        let mut envs = TradingVectorEnv::new(short(), MANY, mode, threads).unwrap();
        let mut observations = vec![0.0; MANY * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(5), None, options, &mut observations).unwrap();
        for step in 0..8 {
            let actions: Vec<u32> = (0..MANY as u32).map(|env| (env + step) % 3).collect();
            envs.step_into(&actions, &mut observations).unwrap();
        }
        envs.check().unwrap();
        (0..MANY).map(|env| envs.market(env).state_hash()).collect()
    };
    let expected: Vec<u64> = (0..MANY as u32)
        .map(|at| {
            let mut single = env(short());
            single.reset(Some(5 + u64::from(at))).unwrap();
            let mut observation = vec![0.0; single.observation_size()];
            for step in 0..8 {
                single.step_into(&[(at + step) % 3], &mut observation).unwrap();
            }
            single.market().state_hash()
        })
        .collect();
    for threads in [1, 2, 3] {
        assert_eq!(hashes(threads), expected, "{threads} threads");
    }
}

#[test]
fn a_vector_equals_its_single_environments_to_the_last_bit() {
    let mut envs = made(short(), AutoresetMode::NextStep, 1);
    let (observations, rewards, _, hashes) = run(&mut envs, 60);
    for at in 0..N {
        let mut single = env(short());
        let mut draw = draws(4);
        let width = single.observation_size();
        let mine = at * width..(at + 1) * width;
        let (first, _) = single.reset(Some(5 + at as u64)).unwrap();
        assert_eq!(first, observations[0][mine.clone()]);
        let mut observation = vec![0.0; width];
        for step in 0..60 {
            let actions: Vec<u32> = (0..N).map(|_| draw(3)).collect();
            let outcome = single.step_into(&[actions[at]], &mut observation).unwrap();
            assert_eq!(outcome.reward, rewards[step][at]);
            assert_eq!(observation, observations[step + 1][mine.clone()], "env {at}, step {step}");
        }
        assert_eq!(single.market().state_hash(), hashes[at]);
        assert_eq!(single.metrics(), envs.metrics()[at]);
    }
}

#[test]
fn threads_fresh_environments_and_resets_give_the_same_state_hashes() {
    for mode in [AutoresetMode::NextStep, AutoresetMode::SameStep] {
        for warm_snapshots in [0, 3] {
            let config = || TradingEnvConfig { warm_snapshots, frame_skip: 3, ..short() };
            let mut one = made(config(), mode, 1);
            let shown = run(&mut one, 75);
            assert!(shown == run(&mut one, 75), "after a reset");
            assert!(shown == run(&mut made(config(), mode, 1), 75), "fresh");
            for threads in [2, 5, 16] {
                assert!(shown == run(&mut made(config(), mode, threads), 75), "{threads} threads");
            }
        }
    }
}

#[test]
fn next_step_resets_in_a_step_of_its_own() {
    let mut envs = made(short(), AutoresetMode::NextStep, 1);
    let mut observations = vec![0.0; N * envs.observation_size()];
    envs.reset_into(ResetSeed::One(1), None, TradingResetOptions::default(), &mut observations)
        .unwrap();
    for _ in 0..60 {
        envs.step_into(&[2_u8; N], &mut observations).unwrap();
    }
    assert_eq!(
        (envs.truncated(), envs.ended(), envs.began()),
        (&[true; N][..], &[true; N][..], &[false; N][..])
    );
    assert!(envs.metrics().iter().all(|metrics| metrics.length == 60 && metrics.trades > 0));
    // The action is not read: it would be refused.
    envs.step_into(&[99_u8; N], &mut observations).unwrap();
    assert_eq!((envs.truncated(), envs.rewards()), (&[false; N][..], &[0.0; N][..]));
    assert_eq!((envs.began(), envs.info(0).decisions), (&[true; N][..], 0));
    envs.step_into(&[1_u8; N], &mut observations).unwrap();
    assert_eq!(envs.info(3).decisions, 1);
}

#[test]
fn same_step_keeps_the_final_observation_and_its_information() {
    let run = |mode| {
        let mut envs = made(short(), mode, 2);
        let mut observations = vec![0.0; N * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
        for _ in 0..60 {
            envs.step_into(&[2_u8; N], &mut observations).unwrap();
        }
        (envs, observations)
    };
    let (same, now) = run(AutoresetMode::SameStep);
    let (mut next, last) = run(AutoresetMode::NextStep);
    assert_eq!(same.final_observations(), last);
    assert_eq!((same.rewards(), same.truncated()), (next.rewards(), next.truncated()));
    assert_eq!((same.ended(), same.began()), (&[true; N][..], &[true; N][..]));
    assert_eq!(same.final_infos()[2], *next.info(2));
    assert_eq!(same.metrics(), next.metrics());
    // Both modes begin the same next episodes.
    let mut first = vec![0.0; last.len()];
    next.step_into(&[0_u8; N], &mut first).unwrap();
    assert_eq!(now, first);
    assert_eq!(same.info(0).episode_seed, next.info(0).episode_seed);
}

#[test]
fn disabled_refuses_a_step_until_a_mask_resets_what_has_ended() {
    let config = TradingEnvConfig { bankruptcy_equity: 99_999.999, ..short() };
    let mut envs = made(config, AutoresetMode::Disabled, 1);
    let mut observations = vec![0.0; N * envs.observation_size()];
    let options = TradingResetOptions::default();
    let refused = envs.step_into(&[1_u8; N], &mut observations).unwrap_err();
    assert_eq!(refused, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
    let mut mask = [false; N];
    mask[2] = true;
    let left_out = envs.reset_into(ResetSeed::Keep, Some(&mask), options, &mut observations);
    assert_eq!(left_out, Err(EpisodeError::LeftOut { env: 0 }.into()));
    envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
    let mut actions = [1_u8; N];
    actions[2] = 2; // a purchase pays the spread, which is a bankruptcy here
    envs.step_into(&actions, &mut observations).unwrap();
    assert_eq!(envs.terminated(), mask);
    let hashes: Vec<u64> = (0..N).map(|env| envs.market(env).state_hash()).collect();
    let refused = envs.step_into(&[1_u8; N], &mut observations).unwrap_err();
    assert_eq!(refused, TradingError::Episode(EpisodeError::Finished { env: 2 }));
    assert!(hashes.iter().enumerate().all(|(env, hash)| envs.market(env).state_hash() == *hash));
    let before = observations.clone();
    envs.reset_into(ResetSeed::Keep, Some(&mask), options, &mut observations).unwrap();
    let width = envs.observation_size();
    let others = |all: &[f32]| [&all[..2 * width], &all[3 * width..]].concat();
    assert_eq!(others(&observations), others(&before), "the others stay as they are");
    assert_eq!((envs.began(), envs.info(2).decisions), (&mask[..], 0));
    envs.step_into(&[1_u8; N], &mut observations).unwrap();
    assert!(envs.info(2).decisions == 1 && envs.info(0).decisions == 2);
}

#[test]
fn bad_calls_are_refused_before_anything_changes() {
    let mut envs = made(short(), AutoresetMode::NextStep, 1);
    let mut observations = vec![0.0; N * envs.observation_size()];
    let options = TradingResetOptions::default();
    envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
    let hash = envs.market(0).state_hash();
    let mut actions = [1.0; N];
    actions[4] = 1.5;
    let refused = envs.step_into(&actions, &mut observations).unwrap_err();
    assert!(matches!(refused, TradingError::BadAction { env: 4, value: 1.5, .. }), "{refused}");
    assert!(envs.step_into(&[1.0; N - 1], &mut observations).is_err());
    assert!(envs.step_into(&[1.0; N], &mut observations[1..]).is_err());
    let none = envs.reset_into(ResetSeed::Keep, Some(&[false; N]), options, &mut observations);
    assert_eq!(none, Err(EpisodeError::EmptyMask { num_envs: N }.into()));
    let seeds = envs.reset_into(ResetSeed::Each(&[None]), None, options, &mut observations);
    assert!(seeds.is_err());
    assert_eq!(envs.market(0).state_hash(), hash);
    for (num_envs, threads) in [(0, 1), (2_000_000, 1), (1, 0), (1, 5_000)] {
        assert!(
            TradingVectorEnv::new(short(), num_envs, AutoresetMode::NextStep, threads).is_err()
        );
    }
}

#[test]
fn a_copy_goes_on_as_the_original_does() {
    let mut envs = made(short(), AutoresetMode::SameStep, 2);
    run(&mut envs, 30);
    let mut copy = envs.clone();
    let width = envs.observation_size();
    let (mut here, mut there) = (vec![0.0; N * width], vec![0.0; N * width]);
    for _ in 0..60 {
        envs.step_into(&[2_u8; N], &mut here).unwrap();
        copy.step_into(&[2_u8; N], &mut there).unwrap();
        assert_eq!((&here, envs.rewards()), (&there, copy.rewards()));
    }
    let mut one = vec![0.0; width];
    for env in 0..N {
        copy.observe_into(env, &mut one).unwrap();
        assert_eq!(one, here[env * width..(env + 1) * width], "env {env}");
    }
    let fresh = made(short(), AutoresetMode::SameStep, 1);
    let error = fresh.observe_into(0, &mut one).unwrap_err();
    assert_eq!(error, EpisodeError::NotReset { env: 0 }.into());
    assert_eq!(fresh.metrics_so_far(0), None);
    assert_eq!(copy.metrics_so_far(0).unwrap(), envs.metrics_so_far(0).unwrap());
}

#[test]
fn an_advance_with_observations_afterwards_is_a_step() {
    for mode in [AutoresetMode::NextStep, AutoresetMode::SameStep] {
        let (mut envs, mut other) = (made(short(), mode, 2), made(short(), mode, 1));
        let width = envs.observation_size();
        let (mut here, mut there) = (vec![0.0; N * width], vec![0.0; N * width]);
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(3), None, options, &mut here).unwrap();
        other.reset_into(ResetSeed::One(3), None, options, &mut there).unwrap();
        for _ in 0..70 {
            envs.step_into(&[2_u8; N], &mut here).unwrap();
            other.advance(&[2_u8; N]).unwrap();
            for (env, row) in there.chunks_exact_mut(width).enumerate() {
                other.observe_into(env, row).unwrap();
            }
            assert_eq!((&here, envs.rewards()), (&there, other.rewards()));
            assert_eq!(envs.final_observations(), other.final_observations());
        }
    }
}
