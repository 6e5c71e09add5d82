//! Warm-ups that an interrupt ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use backcast_core::Interrupt;
use backcast_gym::{
    AutoresetMode, EpisodeError, MultiAgentTradingEnv, ResetSeed, TradingEnv, TradingEnvConfig,
    TradingError, TradingResetOptions, TradingVectorEnv,
};

use super::short;

/// Returns settings with long warm-ups, and the number of looks at the interrupt before it ends
/// one. None is left at first.
fn interrupted(warm_snapshots: u32) -> (TradingEnvConfig, Arc<AtomicI64>) {
    let looks = Arc::new(AtomicI64::new(1 << 40));
    let left = Arc::clone(&looks);
    let mut config = TradingEnvConfig { warmup_ticks: 30_000, warm_snapshots, ..short() };
    config.simulation.interrupt = Interrupt::when(move || left.fetch_sub(1, Relaxed) == 0);
    (config, looks)
}

#[test]
fn an_interrupt_ends_the_warm_up_of_snapshots() {
    let (config, looks) = interrupted(3);
    looks.store(9, Relaxed);
    let ended = TradingEnv::new(config.clone()).map(drop).unwrap_err();
    // A market has seven looks: the tenth is in the second one, after three parts.
    assert_eq!(ended, TradingError::Interrupted { left: 30_000 - 3 * 4_096 });
    TradingEnv::new(config).unwrap();
}

#[test]
fn an_environment_whose_reset_was_interrupted_has_to_be_reset() {
    let (config, looks) = interrupted(0);
    let mut env = TradingEnv::new(config.clone()).unwrap();
    env.reset(Some(3)).unwrap();
    env.step(2_u8).unwrap();
    looks.store(2, Relaxed);
    let ended = env.reset(Some(4)).unwrap_err();
    assert_eq!(ended, TradingError::Interrupted { left: 30_000 - 3 * 4_096 });
    let refused = env.step(2_u8).unwrap_err();
    assert_eq!(refused, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
    let mut other = TradingEnv::new(config).unwrap();
    assert_eq!(env.reset(Some(4)).unwrap(), other.reset(Some(4)).unwrap());
    assert_eq!(env.step(2_u8).unwrap(), other.step(2_u8).unwrap());
}

#[test]
fn an_interrupt_ends_the_warm_ups_of_all_threads() {
    for threads in [1, 2] {
        let (config, looks) = interrupted(0);
        let vector =
            || TradingVectorEnv::new(config.clone(), 3, AutoresetMode::SameStep, threads).unwrap();
        let (mut envs, mut others) = (vector(), vector());
        let size = 3 * envs.observation_size();
        let (mut rows, mut wanted) = (vec![0.0; size], vec![0.0; size]);
        let options = TradingResetOptions::default;
        envs.reset_into(ResetSeed::One(1), None, options(), &mut rows).unwrap();
        // An episode of 60 ticks ends, and the next one's warm-up is interrupted.
        looks.store(1, Relaxed);
        let ended = (0..60).find_map(|_| envs.step_into(&[1.0; 3], &mut rows).err()).unwrap();
        assert!(matches!(ended, TradingError::Interrupted { .. }), "{ended}");
        assert!(looks.load(Relaxed) < 0);
        let refused = envs.step_into(&[1.0; 3], &mut rows).unwrap_err();
        assert_eq!(refused, TradingError::Episode(EpisodeError::NotReset { env: 0 }));
        let masked =
            envs.reset_into(ResetSeed::Keep, Some(&[true, false, true]), options(), &mut rows);
        assert_eq!(masked, Err(TradingError::Episode(EpisodeError::LeftOut { env: 1 })));
        envs.reset_into(ResetSeed::One(7), None, options(), &mut rows).unwrap();
        others.reset_into(ResetSeed::One(7), None, options(), &mut wanted).unwrap();
        assert_eq!(rows, wanted);
    }
}

#[test]
fn agents_in_one_market_have_to_be_reset_too() {
    let (config, looks) = interrupted(0);
    let mut env = MultiAgentTradingEnv::new(config.clone(), vec![config.agent; 2]).unwrap();
    let mut rows = vec![0.0; 2 * env.observation_size()];
    env.reset_into(Some(1), TradingResetOptions::default(), &mut rows).unwrap();
    looks.store(0, Relaxed);
    let ended = env.reset_into(None, TradingResetOptions::default(), &mut rows).unwrap_err();
    assert_eq!(ended, TradingError::Interrupted { left: 30_000 - 4_096 });
    assert!(env.step_into(&[1.0; 2], &mut rows).is_err());
    env.reset_into(Some(1), TradingResetOptions::default(), &mut rows).unwrap();
    env.step_into(&[1.0; 2], &mut rows).unwrap();
}
