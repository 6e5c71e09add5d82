//! Cash, shares and open orders add up to the unit.

use backcast_sim::{Market, Preset};

#[test]
fn every_preset_conserves_cash_and_shares_to_the_unit() {
    for preset in Preset::ALL {
        let mut market = Market::new(&preset.config(), 11).expect("a preset is valid");
        for _ in 0..20 {
            market.run(150);
            market.check().unwrap_or_else(|error| panic!("{preset}: {error}"));
        }
        assert!(market.ledger().fees_taken() > 0, "{preset}: nobody traded");
    }
}
