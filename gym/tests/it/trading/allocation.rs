//! Allocations of steps and resets: none on one thread, and none that grows with the environments.
#![expect(unsafe_code, reason = "a global allocator that counts; no other way to see allocations")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use backcast_gym::{
    ActionScheme, AutoresetMode, ExternalAgentConfig, OrderCommand, ResetSeed, TradingEnvConfig,
    TradingError, TradingResetOptions, TradingVectorEnv,
};
use backcast_sim::{AuctionRule, MarketConfig, Matching};

use super::{env, short};

thread_local! {
    /// Allocations of this thread only, since tests run in parallel.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator with its arguments unchanged; the counters are
// constant-initialised thread locals without a destructor, so that counting never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size().cast_signed());
        // SAFETY: the caller guarantees that `pointer` came from `alloc` above with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

fn config(actions: ActionScheme) -> TradingEnvConfig {
    let agent = ExternalAgentConfig { actions, ..ExternalAgentConfig::default() };
    TradingEnvConfig { agent, max_ticks: 20, warm_snapshots: 2, ..short() }
}

#[test]
fn steps_and_resets_of_one_environment_allocate_nothing() {
    for &actions in ActionScheme::ALL {
        for warm_snapshots in [0, 2] {
            let mut env = env(TradingEnvConfig { warm_snapshots, ..config(actions) });
            let mut observation = vec![0.0; env.observation_size()];
            let mut action = vec![1.0; env.action_len()];
            if actions == ActionScheme::LimitOrders {
                let buy = OrderCommand::Buy { price: 9_900, shares: 1 };
                let cancel = OrderCommand::Cancel(5);
                action = [buy, buy, cancel, buy].map(OrderCommand::numbers).concat();
            }
            let options = TradingResetOptions::default();
            let found = allocations(|| {
                for _ in 0..3 {
                    env.reset_into(Some(1), options, &mut observation).unwrap();
                    while !env.step_into(&action, &mut observation).unwrap().ends() {}
                }
            });
            assert_eq!(found, 0, "{actions}, {warm_snapshots} snapshots");
        }
    }
}

#[test]
fn steps_of_a_vector_allocate_nothing_on_one_thread_in_any_autoreset_mode() {
    for mode in [AutoresetMode::NextStep, AutoresetMode::SameStep] {
        let mut envs = TradingVectorEnv::new(config(ActionScheme::Discrete), 6, mode, 1).unwrap();
        let mut observations = vec![0.0; 6 * envs.observation_size()];
        let options = TradingResetOptions::default();
        let found = allocations(|| {
            envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
            for _ in 0..70 {
                envs.step_into(&[2_u8; 6], &mut observations).unwrap();
            }
        });
        assert_eq!(found, 0, "{mode}");
    }
}

#[test]
fn allocations_of_the_caller_on_several_threads_do_not_grow_with_the_environments() {
    let found = [4, 64].map(|num_envs| {
        let config = config(ActionScheme::Discrete);
        let mut envs = TradingVectorEnv::new(config, num_envs, AutoresetMode::SameStep, 3).unwrap();
        let mut observations = vec![0.0; num_envs * envs.observation_size()];
        let actions = vec![2_u8; num_envs];
        let options = TradingResetOptions::default();
        envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
        allocations(|| {
            for _ in 0..30 {
                envs.step_into(&actions, &mut observations).unwrap();
            }
        })
    });
    assert_eq!(found, [0, 0]);
}

#[test]
fn an_environment_takes_less_than_ninety_six_kibibytes() {
    let bytes = |num_envs: usize| {
        let (mode, before) = (AutoresetMode::SameStep, BYTES.get());
        // Without a seed, the first draw allocates the generator of the thread.
        let config = TradingEnvConfig { seed: Some(1), ..short() };
        let envs = TradingVectorEnv::new(config, num_envs, mode, 1).unwrap();
        let bytes = BYTES.get() - before;
        drop(envs);
        assert_eq!(BYTES.get(), before, "all of it is freed");
        bytes
    };
    let each = (bytes(33) - bytes(1)) / 32;
    println!("{each} bytes an environment");
    assert!((50_000..96 * 1_024).contains(&each), "{each} bytes");
}

/// Returns the bytes of one sub-environment of `config`, as measured and as the error
/// [`TradingError::NoRoom`] states.
fn measured_and_said(config: &TradingEnvConfig) -> (f64, f64) {
    let bytes = |num_envs: usize| {
        let before = BYTES.get();
        let config = TradingEnvConfig { seed: Some(1), ..config.clone() };
        let envs = TradingVectorEnv::new(config, num_envs, AutoresetMode::Disabled, 1).unwrap();
        let bytes = BYTES.get() - before;
        drop(envs);
        bytes
    };
    let measured = (bytes(3) - bytes(1)) as f64 / 2.0;
    // No machine holds a million markets of 64 symbols.
    match TradingVectorEnv::check_num_envs(config, 1 << 20) {
        Err(TradingError::NoRoom { kib_each, .. }) => (measured, kib_each as f64 * 1_024.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_many_environments_are_refused_by_what_their_markets_take() {
    let many_symbols = |change: fn(&mut MarketConfig)| {
        let mut market = MarketConfig { symbols: 64, ..MarketConfig::default() };
        change(&mut market);
        TradingEnvConfig { simulation: market.into(), ..short() }
    };
    let configs = [
        ("as it is", many_symbols(|_| {})),
        ("a narrow book", many_symbols(|m| m.book_levels = 64)),
        ("a wide book", many_symbols(|m| m.book_levels = 4_096)),
        ("a deep book", many_symbols(|m| m.book_orders = 20_000)),
        (
            "many agents",
            many_symbols(|m| {
                (m.population, m.book_orders) = (m.population.scaled(500), 20_000);
            }),
        ),
        (
            "a call auction",
            many_symbols(|m| m.matching = Matching::CallAuction(AuctionRule::ProRata)),
        ),
        ("few agents", many_symbols(|m| m.population = m.population.scaled(10))),
    ];
    for (name, config) in configs {
        let (measured, said) = measured_and_said(&config);
        println!("{name}: {measured} bytes, said {said}");
        assert!((0.7..1.4).contains(&(said / measured)), "{name}: {measured}, said {said}");
    }
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))) > 0);
}
