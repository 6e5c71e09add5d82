//! The choices that a market's rules leave open, each with the words that users write for it.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A word that is none of those that a choice has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{choice} is {word:?}; write {known}")]
pub struct ParseRuleError {
    /// What is to be chosen.
    pub choice: &'static str,
    /// What was written.
    pub word: String,
    /// The words there are.
    pub known: String,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $choice:literal, { $($(#[$of:meta])* $variant:ident = $word:literal $(or $alias:literal)?,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            /// Every choice.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = ParseRuleError;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                $($(if word == $alias {
                    return Ok(Self::$variant);
                })?)+
                Self::ALL.iter().copied().find(|choice| choice.word() == word).ok_or_else(|| {
                    let known: Vec<String> =
                        Self::ALL.iter().map(|choice| format!("\"{choice}\"")).collect();
                    ParseRuleError {
                        choice: $choice,
                        word: word.to_owned(),
                        known: known.join(" or "),
                    }
                })
            }
        }
    };
}

choice!(
    /// At which price of its day an order is filled.
    Bidding, "bidding", {
        /// At the close. `fast_finrl` calls it "deterministic" too.
        #[default]
        Default = "default" or "deterministic",
        /// Drawn uniformly from low to high.
        Uniform = "uniform",
        /// Drawn to the trader's disadvantage: a sale between the low and the lesser of open and close, a
        /// purchase between the greater of the two and the high.
        AdvUniform = "adv_uniform",
    }
);

choice!(
    /// Which price of a holding triggers its stop loss.
    StopLossPrice, "stop_loss_calculation", {
        /// The close.
        #[default]
        Close = "close",
        /// The low.
        Low = "low",
    }
);

choice!(
    /// What becomes of a holding whose ticker has its last row before the panel ends.
    Delisting, "delisting", {
        /// It is settled at the close of that day, after the day's orders: cash in its place, no fee.
        #[default]
        Settle = "settle",
        /// It is kept, cannot be sold, and is worth that close from then on.
        Hold = "hold",
    }
);

choice!(
    /// On which day a stop loss is looked at, for holdings after the orders of day `d`.
    StopLossDay, "stop_loss_day", {
        /// On `d`, right after the orders. What the next observation shows is known by then. A holding that was
        /// bought or added to on `d` is left out where its low is looked at, which may be older than the purchase.
        #[default]
        Same = "same",
        /// On `d + 1`, before anything of it is observed: look-ahead, since cash and shares then tell
        /// what the close of `d + 1` did.
        Next = "next",
    }
);

choice!(
    /// At which price of the day `total_asset` values holdings.
    Valuation, "valuation", {
        /// The open, which is known.
        #[default]
        Open = "open",
        /// The close, which is look-ahead.
        Close = "close",
    }
);

choice!(
    /// Where random numbers come from.
    Generator, "generator", {
        /// Counter-based, 64 bits of seed.
        #[default]
        SplitMix64 = "splitmix64",
        /// `std::mt19937` of C++, 32 bits of seed, drawn from as the C++ library of GNU does: slower, for
        /// runs that are compared with others.
        Mt19937 = "mt19937",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_its_own_word_and_refuses_others_with_the_words_there_are() {
        for &bidding in Bidding::ALL {
            assert_eq!(bidding.to_string().parse(), Ok(bidding));
        }
        assert_eq!("deterministic".parse(), Ok(Bidding::Default));
        let refused = "lowest".parse::<StopLossPrice>().unwrap_err().to_string();
        assert_eq!(refused, "stop_loss_calculation is \"lowest\"; write \"close\" or \"low\"");
    }
}
