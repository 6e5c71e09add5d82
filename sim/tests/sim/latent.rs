//! Makers that quote around the latent price.

use backcast_sim::{
    LatentConfig, MakerConfig, Market, MarketConfig, Preset, Side, SlotRequest,
    facts::{Simulated, manipulation::Schedule},
};

/// Returns the preset `normal` with makers that know the value and whose quotes no order moves.
fn informed() -> MarketConfig {
    let mut config = Preset::Normal.config();
    config.latent = LatentConfig { depth: 1e8, slope: 0.0, error_sd: 0.0, ..config.latent };
    config.population.maker.skew = 0.0;
    config
}

#[test]
fn the_mid_price_follows_the_makers_opinion_within_a_tick() {
    let mut market = Market::new(&informed(), 5).unwrap();
    market.run(10);
    let (mut sum, ticks) = (0.0, 3_000);
    for _ in 0..ticks {
        market.tick();
        sum += (market.mid(0) - market.fundamental(0)).abs();
    }
    let mean = sum / f64::from(ticks);
    assert!(mean < 1.0, "the mid-price is {mean} ticks from the makers' opinion on average");
}

/// Quotes are whole ticks. Those of all makers together are as far from their common price as if
/// they were not rounded, to within half of a maker's share of a tick.
#[test]
fn makers_share_out_the_tick_around_the_latent_price() {
    for count in [1, 2, 7] {
        let mut config = informed();
        let of = &mut config.population;
        (of.noise.count, of.value.count, of.signal.count, of.executor.count) = (0, 0, 0, 0);
        of.maker = MakerConfig {
            count,
            half_spread: 3.25,
            spread_per_vol: 0.0,
            flow_shift: 0.0,
            root_shift: 0.0,
            level_step: 2.0,
            size: 10.0,
            ..of.maker
        };
        // 10, 15 and 20 shares are 0, 2 and 4 ticks behind the quote, which is rounded away from
        // the price by half a tick on average.
        let distance = 3.25 + 0.5 + (15.0 * 2.0 + 20.0 * 4.0) / 45.0;
        let share = 0.5 / f64::from(count) + 1e-9;
        let mut market = Market::new(&config, 6).unwrap();
        let mut prices = [false; 4];
        for tick in 0..400 {
            market.tick();
            let price = market.fundamental(0);
            for side in [Side::Buy, Side::Sell] {
                let (mut shares, mut value) = (0.0, 0.0);
                market.book(0).for_each_level(side, |level, quantity| {
                    shares += f64::from(quantity);
                    value += f64::from(quantity) * f64::from(level);
                    true
                });
                let off = f64::from(side.sign()) * (price - value / shares) - distance;
                assert!(off.abs() <= share, "{count} makers, {side:?}, tick {tick}: {off}");
            }
            prices[(price.fract() * 4.0) as usize] = true;
        }
        assert_eq!(prices, [true; 4], "prices between ticks");
    }
}

#[test]
fn an_order_moves_the_price_and_the_opposite_order_takes_it_back() {
    let mut config = Preset::Normal.config();
    config.slots[0].account.limits.long = 100_000;
    config.slots[0].account.cash = 1_000_000_000_000;
    let (mut moved, mut after) = (0.0, 0.0);
    for seed in 0..12 {
        let mut with = Market::new(&config, seed).unwrap();
        with.run(600);
        let mut without = with.clone();
        let mut difference = |side: Side| {
            for _ in 0..20 {
                with.send(0, 0, SlotRequest::market(side, 100)).unwrap();
                with.tick();
                without.tick();
            }
            with.mid(0) - without.mid(0)
        };
        moved += difference(Side::Buy) / 12.0;
        after += difference(Side::Sell) / 12.0;
    }
    assert!(moved > 1.0, "2,000 shares move the price by {moved} ticks");
    assert!(after.abs() < 0.5 * moved, "{after} of {moved} ticks are left after the way back");
}

#[test]
fn many_small_orders_do_not_lift_the_price_for_a_block() {
    let schedule = Schedule {
        ticks: 20,
        orders: 60,
        shares: 1,
        wait: 0,
        blocks: 3,
        gap: 1,
        behind: None,
        two_accounts: false,
    };
    for preset in [Preset::Normal, Preset::Calm, Preset::Stressed, Preset::Flash] {
        let profit: f64 = (0..8)
            .map(|seed| schedule.play(&Simulated::new(&preset.config(), seed).unwrap()))
            .sum();
        assert!(profit < 0.0, "{preset}: {profit}");
    }
    let off = MarketConfig { latent: LatentConfig::OFF, ..Preset::Normal.config() };
    let mut lagging = off;
    lagging.population.maker.root_shift = 0.27;
    let gained = schedule.play(&Simulated::new(&lagging, 1).unwrap());
    assert!(gained > 0.0, "makers that lag and add up roots are pumped: {gained}");
}

#[test]
fn a_latent_order_book_that_is_off_changes_nothing() {
    let config = Preset::Teaching.config();
    assert!(!config.latent.is_on());
    let other = LatentConfig {
        slope: 500.0,
        recovery_ticks: 10.0,
        error_sd: 0.1,
        error_ticks: 100.0,
        ..LatentConfig::OFF
    };
    let run = |config: &MarketConfig| {
        let mut market = Market::new(config, 3).unwrap();
        market.run(2_000);
        market.mid(0).to_bits() ^ market.cash(0).unwrap() as u64 ^ market.volume(0) as u64
    };
    let other = MarketConfig { latent: other, ..config.clone() };
    assert_eq!(run(&config), run(&other));
}

#[test]
fn makers_of_a_call_auction_quote_around_the_latent_price() {
    let mut config = informed();
    let rule = backcast_sim::AuctionRule::PricePriority;
    config.matching = backcast_sim::Matching::CallAuction(rule);
    let mut market = Market::new(&config, 4).unwrap();
    let mut volume = 0;
    for _ in 0..1_000 {
        market.tick();
        volume += market.volume(0);
    }
    assert!(volume > 0, "nothing trades");
    let gap = (market.mid(0) - market.fundamental(0)).abs();
    assert!(gap < 20.0, "the auction's price is {gap} ticks from the makers' opinion");
    market.check().unwrap();
}

/// The inventory of a maker is what it has gained or lost since the start.
#[test]
fn shares_that_makers_begin_with_move_no_price() {
    for latent in [LatentConfig::OFF, Preset::Normal.config().latent] {
        let course = |shares: i32| -> Vec<u64> {
            let mut config = MarketConfig { latent, ..Preset::Normal.config() };
            let population = &mut config.population;
            (population.noise.count, population.noise.wait) = (1, 1e7);
            (population.value.count, population.signal.count) = (0, 0);
            (population.executor.count, population.shares) = (0, shares);
            population.limits.long += 3_000;
            let mut market = Market::new(&config, 4).unwrap();
            let mut tick = || {
                market.tick();
                market.mid(0).to_bits()
            };
            (0..300).map(|_| tick()).collect()
        };
        assert!(course(0) == course(3_000), "with {latent:?}");
    }
}
