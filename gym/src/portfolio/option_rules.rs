//! Checks of settings that go beyond whole long shares, and of settings that exclude each other.

use super::{actions::Actions, error::PortfolioError, options::PortfolioOptions};

/// Settings that exclude each other, and what to do.
struct Pair {
    applies: bool,
    option: &'static str,
    other: &'static str,
    remedy: &'static str,
}

impl PortfolioOptions {
    /// Refuses numbers outside their ranges, and settings that exclude each other.
    pub(crate) fn check_rules(&self) -> Result<(), PortfolioError> {
        let refuse = |option, value, rule| Err(PortfolioError::BadOption { option, value, rule });
        self.actions.check()?;
        self.reward.check()?;
        if let Some(margin) = &self.margin {
            margin.check()?;
        }
        if let Some(share) = self.max_position
            && !(share > 0.0 && share.is_finite())
        {
            return refuse("max_position", share, "a fraction of the equity above 0, or unset");
        }
        if let Some(share) = self.max_volume
            && !(share > 0.0 && share <= 1.0)
        {
            return refuse("max_volume", share, "a fraction of a bar's volume in (0, 1], or unset");
        }
        if !(self.slippage_per_share.is_finite() && self.slippage_per_share >= 0.0) {
            let rule = "a finite amount of cash per share, at least 0";
            return refuse("slippage_per_share", self.slippage_per_share, rule);
        }
        if !(0.0..10_000.0).contains(&self.impact_bps) {
            let rule = "in [0, 10000) basis points; one percent is 100";
            return refuse("impact_bps", self.impact_bps, rule);
        }
        if let Actions::Weights { leverage } = self.actions {
            let limit = self.margin.map_or(1.0, |margin| 1.0 / margin.initial);
            if leverage > limit {
                let rule = "at most 1 / Margin.initial, and at most 1 without a margin";
                return refuse("Weights.leverage", leverage, rule);
            }
        }
        self.check_pairs()
    }

    fn check_pairs(&self) -> Result<(), PortfolioError> {
        let stops = self.stop_loss_tolerance > 0.0;
        let weights = matches!(self.actions, Actions::Weights { .. });
        let pays_twice = self.dividends.is_some() && self.dividends == self.splits;
        let pairs = [
            Pair {
                applies: pays_twice,
                option: "dividends",
                other: "splits of the same column",
                remedy: "one is cash per share, the other a number of shares; name a column for \
                         each, or leave one out",
            },
            Pair {
                applies: self.fractional && matches!(self.actions, Actions::Discrete { .. }),
                option: "fractional",
                other: "discrete actions",
                remedy: "choices are whole shares; use orders of shares, or weights",
            },
            Pair {
                applies: stops && self.margin.is_some(),
                option: "stop_loss_tolerance",
                other: "margin",
                remedy: "a stop loss is a rule for long holdings; leave one of them out",
            },
            Pair {
                applies: stops && self.max_volume.is_some(),
                option: "stop_loss_tolerance",
                other: "max_volume",
                remedy: "a stop loss sells the whole holding; leave one of them out",
            },
            Pair {
                applies: weights && self.hmax != Self::default().hmax,
                option: "hmax",
                other: "weights",
                remedy: "weights name their position themselves; leave hmax out",
            },
        ];
        pairs.into_iter().find(|pair| pair.applies).map_or(Ok(()), |pair| {
            let Pair { option, other, remedy, .. } = pair;
            Err(PortfolioError::Together { option, other, remedy })
        })
    }

    /// Returns the setting by which an order needs a volume of its bar, if one is set.
    pub(crate) fn needs_volume(&self) -> Option<&'static str> {
        let impact = (self.impact_bps > 0.0).then_some("impact_bps");
        self.max_volume.map(|_| "max_volume").or(impact)
    }

    /// Returns whether whole long shares, filled in full at the close, express these settings.
    pub(crate) fn is_plain(&self) -> bool {
        !self.fractional
            && !self.step_info
            && self.margin.is_none()
            && self.max_position.is_none()
            && self.max_volume.is_none()
            && self.slippage_per_share <= 0.0
            && self.impact_bps <= 0.0
            && self.dividends.is_none()
            && self.splits.is_none()
            && !matches!(self.actions, Actions::Weights { .. })
    }
}
