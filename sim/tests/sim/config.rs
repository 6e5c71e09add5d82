//! Wrong configurations are refused before anything runs, each with its own message.

use backcast_sim::{
    AuctionRule, ConfigError, Market, MarketConfig, Matching, OrderReject, Population, Preset,
    Side, SlotRequest,
};

/// Name, change to a good configuration, words that the message must hold.
type Case = (&'static str, fn(&mut MarketConfig), &'static [&'static str]);

const CASES: &[Case] = &[
    ("no symbols", |c| c.symbols = 0, &["symbols", "0", "1 to 64"]),
    ("price too low", |c| c.initial_price = 1, &["initial_price", "1"]),
    ("negative price", |c| c.initial_price = -5, &["initial_price", "-5"]),
    ("tick of zero", |c| c.tick_size = 0.0, &["tick_size"]),
    ("tick that is no number", |c| c.tick_size = f64::NAN, &["tick_size", "NaN"]),
    ("no levels", |c| c.book_levels = 0, &["book_levels", "64 to 4096"]),
    ("book too small", |c| c.book_orders = 100, &["808", "100", "book_orders"]),
    ("negative volatility", |c| c.fundamental.volatility = -1.0, &["fundamental.volatility", "-1"]),
    ("negative depth", |c| c.latent.depth = -1.0, &["latent.depth", "-1"]),
    ("recovery within a tick", |c| c.latent.recovery_ticks = 0.5, &["latent.recovery_ticks"]),
    ("negative size", |c| c.population.noise.size = -10.0, &["noise.size", "-10"]),
    (
        "a length of days without sessions",
        |c| c.session.ticks = 1_000,
        &["session.ticks", "1000", "23400", "overnight_sd"],
    ),
    (
        "auctions of sessions where every tick is an auction",
        |c| {
            c.matching = Matching::CallAuction(AuctionRule::PricePriority);
            c.session.auction_ticks = 30;
        },
        &["session.auction_ticks", "30", "matching"],
    ),
    (
        "auctions of half a day",
        |c| (c.session.ticks, c.session.auction_ticks) = (600, 300),
        &["session.auction_ticks", "300", "299"],
    ),
    ("too many slots", |c| c.slots = vec![c.slots[0]; 4_097], &["slots", "4097", "4096"]),
    ("size of zero", |c| c.population.maker.size = 0.0, &["maker.size", "0"]),
    ("size above the limit", |c| c.population.limits.order = 50, &["maker.size", "50"]),
    ("wait of zero", |c| c.population.value.wait = 0.0, &["value.wait"]),
    ("probability above one", |c| c.population.noise.market = 1.5, &["noise.market", "1.5"]),
    (
        "probabilities above one",
        |c| {
            c.population.noise.market = 0.7;
            c.population.noise.cancel = 0.4;
        },
        &["noise.cancel", "0.4"],
    ),
    ("negative fee", |c| c.fees.taker_ppm = -1, &["fees.taker_ppm", "-1"]),
    ("rebate above the fee", |c| c.fees.maker_ppm = -c.fees.taker_ppm - 1, &["fees.maker_ppm"]),
    (
        "negative cash",
        |c| c.slots[0].account.cash = -1,
        &["slots[0]", "account.cash", "-1", "10000000000000000"],
    ),
    ("order limit of zero", |c| c.slots[0].account.limits.order = 0, &["limits.order", "0"]),
    ("start above the limit", |c| c.slots[0].account.shares = 5_000, &["slot", "5000", "1000"]),
    (
        "no agents",
        |c| {
            let p = &mut c.population;
            p.maker.count = 0;
            p.noise.count = 0;
            p.value.count = 0;
            p.signal.count = 0;
            p.executor.count = 0;
        },
        &["agents"],
    ),
    (
        "too many agents",
        |c| {
            c.population.noise.count = 60_000;
            c.symbols = 2;
        },
        &["accounts", "65534"],
    ),
];

#[test]
fn a_wrong_configuration_is_refused_with_what_and_how_much() {
    for (name, change, words) in CASES {
        let mut config = Preset::Normal.config();
        change(&mut config);
        let Err(error) = Market::new(&config, 1) else { panic!("{name} was accepted") };
        let message = error.to_string();
        for word in *words {
            assert!(message.contains(word), "{name}: `{word}` is not in: {message}");
        }
    }
}

#[test]
fn an_unknown_preset_is_refused_and_the_known_ones_are_named() {
    let error = "quiet".parse::<Preset>().unwrap_err();
    assert_eq!(error, ConfigError::UnknownPreset { name: "quiet".to_owned() });
    for preset in Preset::ALL {
        assert!(error.to_string().contains(preset.name()));
        assert_eq!(preset.name().parse(), Ok(preset));
    }
}

#[test]
fn an_order_above_the_limit_is_refused_when_it_is_sent() {
    let mut market = Market::new(&Preset::Normal.config(), 1).unwrap();
    let hash = market.state_hash();
    let too_large = SlotRequest::market(Side::Buy, 1_001);
    let expected = OrderReject::TooLarge { quantity: 1_001, limit: 1_000 };
    assert_eq!(market.send(0, 0, too_large), Err(expected));
    for (request, slot, symbol) in [
        (SlotRequest::market(Side::Buy, 0), 0, 0),
        (SlotRequest::market(Side::Sell, -3), 0, 0),
        (SlotRequest::limit(Side::Buy, 0, 1), 0, 0),
        (SlotRequest::market(Side::Buy, 1), 1, 0),
        (SlotRequest::market(Side::Buy, 1), 0, 1),
    ] {
        assert!(market.send(slot, symbol, request).is_err(), "{request:?} {slot} {symbol}");
    }
    assert_eq!(market.state_hash(), hash, "a refused request changes nothing");
}

#[test]
fn any_population_size_from_one_archetype_to_thousands_runs() {
    for total in [10, 50, 1_000] {
        let mut config = Preset::Normal.config();
        config.population = config.population.scaled(total);
        config.book_orders = 9_000;
        assert_eq!(config.population.total(), u32::from(total));
        let mut market = Market::new(&config, 3).unwrap();
        market.run(500);
        market.check().unwrap();
    }
}

#[test]
fn more_agents_quote_as_many_shares_together_and_act_as_often() {
    for preset in Preset::ALL {
        let one = preset.config().population;
        for factor in [3, 10] {
            let many = one.scaled(factor * one.total() as u16);
            let same = |what: &str, one: f64, many: f64| {
                assert!((many - one).abs() < 1e-9 * one, "{what} of {factor} times: {many}, {one}");
            };
            let quoted = |of: &Population| f64::from(of.maker.count) * of.maker.size;
            same("shares quoted", quoted(&one), quoted(&many));
            let acts = |of: &Population| {
                [
                    f64::from(of.noise.count) / of.noise.wait,
                    f64::from(of.value.count) / of.value.wait,
                    f64::from(of.signal.count) / of.signal.wait,
                    f64::from(of.executor.count) / of.executor.idle,
                ]
            };
            for (one, many) in acts(&one).into_iter().zip(acts(&many)) {
                same("acts in a tick", one, many);
            }
        }
    }
}

#[test]
fn prices_are_the_decimal_fractions_of_their_ticks() {
    for (tick_size, ticks, price) in [
        (0.01, 10_032, 100.32),
        (0.01, 7, 0.07),
        (0.05, 2_003, 100.15),
        (0.25, 3, 0.75),
        (1e-9, 3, 3e-9),
        (0.003, 1_111, 3.333),
        (5.0, 21, 105.0),
        (2.5, 3, 7.5),
    ] {
        let config = MarketConfig { tick_size, ..MarketConfig::default() };
        assert_eq!(config.price(ticks).to_bits(), f64::to_bits(price), "{ticks} of {tick_size}");
    }
    let third = MarketConfig { tick_size: 1.0 / 3.0, ..MarketConfig::default() };
    assert!((third.price(3) - 1.0).abs() < 1e-12);
}
