//! The call auction as the matcher of a whole market.

use backcast_sim::{AuctionRule, Market, Matching, Preset};

#[test]
fn a_call_market_trades_at_one_price_a_tick_and_leaves_nothing_open() {
    for rule in [AuctionRule::PricePriority, AuctionRule::ProRata] {
        let mut config = Preset::Normal.config();
        config.matching = Matching::CallAuction(rule);
        let mut market = Market::new(&config, 2).unwrap();
        let mut traded = 0;
        for _ in 0..2_000 {
            market.tick();
            market.check().unwrap();
            assert_eq!(market.book(0).live_orders(), 0);
            assert!(market.market_orders(0).len() <= 1, "one auction, one price");
            traded += u64::from(market.volume(0) > 0);
        }
        assert!(traded > 500, "{rule:?}: {traded} ticks with trades");
        let drift = (f64::from(market.last_price(0)) / 10_000.0).ln().abs();
        assert!(drift < 0.1, "{rule:?}: the price ran away to {}", market.last_price(0));
    }
}
