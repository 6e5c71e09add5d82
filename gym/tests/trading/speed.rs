//! Rates of the environment relative to the bare market, measured in one run.
//!
//! `cargo test -p backcast-gym --test trading -- --ignored --nocapture speed`

use std::time::{Duration, Instant};

use backcast_gym::{
    AutoresetMode, FeatureChoice, ResetSeed, TradingEnvConfig, TradingResetOptions,
    TradingVectorEnv,
};

use crate::{bare_market, env};

const TICKS: u32 = 20_000;
const ROUNDS: usize = 5;

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
#[ignore = "measures time: run it alone"]
fn a_step_with_the_full_observation_takes_at_most_two_and_a_half_ticks() {
    let config = TradingEnvConfig {
        features: FeatureChoice::Full,
        max_ticks: 1 << 40,
        warm_snapshots: 4,
        ..TradingEnvConfig::default()
    };
    let (mut market, mut env) = (bare_market(&config, 1), env(config));
    let mut observation = vec![0.0; env.observation_size()];
    let options = TradingResetOptions::default();
    env.reset_into(Some(1), options, &mut observation).unwrap();
    market.run(100);
    let (mut ticks, mut steps, mut resets) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ticks.push(time(|| market.run(TICKS.into())) / TICKS);
        steps.push(
            time(|| {
                for step in 0..TICKS {
                    env.step_into(&[step % 3], &mut observation).unwrap();
                }
            }) / TICKS,
        );
        resets.push(
            time(|| {
                for _ in 0..1_000 {
                    env.reset_into(None, options, &mut observation).unwrap();
                }
            }) / 1_000,
        );
    }
    let [tick, step, reset] = [ticks, steps, resets].map(median);
    println!("tick {tick:?}, step with the full observation {step:?}, warm reset {reset:?}");
    assert!(step.as_secs_f64() * 0.4 <= tick.as_secs_f64());
    assert!(reset <= 200 * tick);
}

#[test]
#[ignore = "measures time: run it alone"]
fn two_threads_step_sixty_four_environments_faster_than_one() {
    let rate = |threads: usize, frame_skip: u32| {
        let config = TradingEnvConfig { frame_skip, ..TradingEnvConfig::default() };
        let mode = AutoresetMode::SameStep;
        let mut envs = TradingVectorEnv::new(config, 64, mode, threads).unwrap();
        let mut observations = vec![0.0; 64 * envs.observation_size()];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
        let calls = 2_000 / frame_skip;
        let actions: Vec<u8> = (0..64).map(|env| env % 3).collect();
        let run = || {
            for _ in 0..calls {
                envs.step_into(&actions, &mut observations).unwrap();
            }
        };
        64.0 * f64::from(calls) / time(run).as_secs_f64()
    };
    for frame_skip in [1, 10] {
        let rounds: Vec<(f64, f64)> =
            (0..ROUNDS).map(|_| (rate(1, frame_skip), rate(2, frame_skip))).collect();
        let mut gains: Vec<f64> = rounds.iter().map(|(one, two)| two / one).collect();
        gains.sort_unstable_by(f64::total_cmp);
        println!("frame_skip {frame_skip}: {rounds:.0?} steps/s, gain {:.2}", gains[ROUNDS / 2]);
        assert!(gains[ROUNDS / 2] > 1.3);
    }
}
