//! A market allocates nothing after it was built.
#![expect(unsafe_code, reason = "a global allocator that counts; no other way to see allocations")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Arc,
};

use backcast_sim::{
    AuctionRule, FeatureSet, FullFeatures, Market, MarketConfig, Matching, NormalisedFeatures,
    Preset, PrivateFeatures, SessionConfig, Side, SlotRequest,
};

thread_local! {
    /// Allocations of this thread only, since tests run in parallel.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator with its arguments unchanged; the counters are
// constant-initialised thread locals without destructors, so that counting never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: the caller upholds the contract of `alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: the caller guarantees that `pointer` came from `alloc` or `realloc` above with
        // `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + size as i64 - layout.size() as i64);
        // SAFETY: the caller guarantees that `pointer` came from `alloc` or `realloc` above with
        // `layout`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

fn exercise(config: &MarketConfig) -> u64 {
    let mut market = Market::new(config, 5).unwrap();
    let mut warm = market.clone();
    warm.run(100);
    let (mut full, mut normalised, mut private) = ([0.0; 55], [0.0; 40], [0.0; 11]);
    allocations(|| {
        for step in 0..2_000 {
            let side = if step % 3 == 0 { Side::Buy } else { Side::Sell };
            let price = market.mid(0) as i32 - side.sign() * 5;
            // Some are refused: refusals do not allocate either.
            let _sent = market.send(0, 0, SlotRequest::market(side, 1 + step % 7)).is_ok();
            let _sent = market.send(0, 0, SlotRequest::limit(side, price, 5)).is_ok();
            if step % 10 == 0 {
                market.send(0, 0, SlotRequest::CancelAll).unwrap();
            }
            market.tick();
            FullFeatures.observe(&market, 0, &mut full).unwrap();
            NormalisedFeatures.observe(&market, 0, &mut normalised).unwrap();
            let set = PrivateFeatures { slot: 0, time_left: 0.5 };
            set.observe(&market, 0, &mut private).unwrap();
            std::hint::black_box(market.state_hash());
        }
        market.reset(6);
        market.run(10);
        market.clone_from(&warm);
        market.reseed(7);
        market.run(10);
    })
}

#[test]
fn a_running_market_never_allocates() {
    for preset in Preset::ALL {
        assert_eq!(exercise(&preset.config()), 0, "{preset}");
    }
    let mut config = Preset::Normal.config();
    config.symbols = 3;
    assert_eq!(exercise(&config), 0, "several symbols");
    config.matching = Matching::CallAuction(AuctionRule::PricePriority);
    assert_eq!(exercise(&config), 0, "call auction");
    config.matching = Matching::Continuous;
    config.session =
        SessionConfig { ticks: 400, u_shape: 0.5, auction_ticks: 60, overnight_sd: 0.01 };
    config.fundamental.common = 0.5;
    assert_eq!(exercise(&config), 0, "sessions");
}

/// The budget of one environment is 96 KiB: rewards, spaces and observations need room too.
#[test]
fn a_market_of_a_hundred_agents_takes_less_than_ninety_kibibytes() {
    let config = Arc::new(Preset::Normal.config());
    assert_eq!(config.population.total(), 100);
    let before = BYTES.get();
    let market = Market::with_agents(Arc::clone(&config), 1, Vec::new()).unwrap();
    let bytes = BYTES.get() - before + size_of_val(&market) as i64;
    assert!((60_000..90 * 1_024).contains(&bytes), "{bytes} bytes");
    drop(market);
    assert_eq!(BYTES.get(), before);
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))) > 0);
}
