//! Rules of a portfolio's market that are settings, each with the words that users write for it.

use crate::contract::choice;

choice!(
    /// Price of the day at which an order is filled.
    Bidding, "bidding", {
        /// The close. Also written `deterministic`, as in `fast_finrl`. The default.
        #[default]
        Default = "default" or "deterministic",
        /// A price drawn uniformly from low to high.
        Uniform = "uniform",
        /// A price drawn to the trader's disadvantage: of a sale, between the low and the lesser
        /// of open and close; of a purchase, between the greater of the two and the high.
        AdvUniform = "adv_uniform",
    }
);

choice!(
    /// Price of the day that is compared with the stop-loss limit of a holding.
    StopLossPrice, "stop_loss_calculation", {
        /// The close. The default.
        #[default]
        Close = "close",
        /// The low.
        Low = "low",
    }
);

choice!(
    /// Fate of a holding whose ticker has its last row before the panel ends.
    Delisting, "delisting", {
        /// The holding becomes cash at the close of that day, after the day's orders, without a
        /// fee. The default.
        #[default]
        Settle = "settle",
        /// The holding is kept and cannot be sold. From then on it is valued at the close of its
        /// last row.
        Hold = "hold",
    }
);

choice!(
    /// Day on which stop losses are checked for the holdings after the orders of day `d`.
    StopLossDay, "stop_loss_day", {
        /// Day `d`, right after the orders: no look-ahead. With [`StopLossPrice::Low`], a holding
        /// bought or added to on `d` is left out, since the low may be older than the purchase.
        /// The default.
        #[default]
        Same = "same",
        /// Day `d + 1`, before anything of it is observed. This is look-ahead: the cash and shares
        /// shown then depend on the close, and perhaps the low, of `d + 1`.
        Next = "next",
        /// Day `d`, as [`Same`](Self::Same). With [`StopLossPrice::Low`], holdings bought or added
        /// to on `d` are compared too, with a low that may be older than the purchase: the rule of
        /// `fast_finrl`'s single environment.
        SameAlways = "same_always",
    }
);

choice!(
    /// Price of the day at which `total_asset` values holdings.
    Valuation, "valuation", {
        /// The open, which the agent knows. The default.
        #[default]
        Open = "open",
        /// The close, which is look-ahead.
        Close = "close",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_its_own_word_and_refuses_others_with_a_list_of_words() {
        for &bidding in Bidding::ALL {
            assert_eq!(bidding.to_string().parse(), Ok(bidding));
        }
        assert_eq!("deterministic".parse(), Ok(Bidding::Default));
        let refused = "lowest".parse::<StopLossPrice>().unwrap_err().to_string();
        assert_eq!(refused, "stop_loss_calculation is \"lowest\"; write \"close\" or \"low\"");
    }
}
