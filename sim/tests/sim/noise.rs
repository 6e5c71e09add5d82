//! Noise traders: how often they trade, and on which side.

use backcast_sim::{
    ArousalConfig, FeeSchedule, Limits, Market, NewsConfig, NoiseConfig, Side, SlotRequest,
};

use super::money::quiet;

/// Slot 0 quotes enough for all of them.
#[test]
fn noise_traders_cross_at_their_probability_and_lean_with_the_news() {
    let fees = FeeSchedule { maker_ppm: 0, taker_ppm: 0, borrow_ppm_per_day: 0 };
    let mut config = quiet(1, 1, fees);
    let limits = Limits { long: 1_000_000, short: 1_000_000, order: 100_000 };
    config.slots[0].account.limits = limits;
    config.slots[0].account.cash = 10_000_000_000_000;
    config.arousal = ArousalConfig { floor: 1.0, fast: 0.0, slow: 0.0, ..config.arousal };
    config.news = NewsConfig {
        symbol_per_day: 500.0,
        rumour_share: 1.0,
        life_ticks: 50.0,
        sentiment_tilt: 0.8,
        ..config.news
    };
    config.population.limits = limits;
    config.population.noise = NoiseConfig {
        count: 50,
        wait: 4.0,
        market: 0.5,
        cancel: 0.3,
        size: 1.0,
        size_sigma: 0.0,
        ..config.population.noise
    };
    let mut market = Market::new(&config, 7).unwrap();
    for request in
        [Side::Buy, Side::Sell].map(|side| SlotRequest::limit(side, 10_000 - side.sign(), 100_000))
    {
        market.send(0, 0, request).unwrap();
    }
    market.tick();
    let (ticks, mut orders, mut leaning, mut squares) = (4_000, 0, 0.0, 0.0);
    for _ in 0..ticks {
        market.tick();
        let sentiment: f64 = market.news(0).map(|news| news.faded(market.now())).sum();
        let sentiment = sentiment.clamp(-1.0, 1.0);
        for order in market.market_orders(0) {
            orders += 1;
            leaning += f64::from(order.side.sign()) * sentiment;
            squares += sentiment * sentiment;
        }
    }
    let share = f64::from(orders) / f64::from(ticks) / (50.0 / 4.0);
    assert!((share - 0.5).abs() < 0.02, "{share} of the acts are orders that trade");
    assert!((leaning / squares - 0.8).abs() < 0.1, "{}", leaning / squares);
}
