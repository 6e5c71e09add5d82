//! Meaning of the numbers of an action.

use super::error::PortfolioError;

/// Largest number of choices of a discrete action.
const MOST_CHOICES: usize = 255;

/// Meaning of the numbers of an action, one for each ticker.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Actions {
    /// Numbers in `[-1, 1]`: an order of `action * hmax` shares. The default.
    #[default]
    Shares,
    /// Weights of the equity at the close, before the orders. The cash is what is left. Weights
    /// whose absolute values sum up to more than `leverage` are scaled to that sum.
    ///
    /// Each is in `[0, 1]`, or in `[-leverage, leverage]` with a
    /// [`Margin`](crate::Margin).
    Weights {
        /// Largest sum of the absolute weights, at least 0 and without a margin at most 1.
        leverage: f64,
    },
    /// Positions in `choices`: an order of `choices[action] * hmax` shares.
    Discrete {
        /// Fractions of `hmax` in `[-1, 1]`, 2 to 255 of them, each once.
        choices: Vec<f64>,
    },
}

impl Actions {
    /// Returns discrete actions that sell, hold and buy.
    #[must_use]
    pub fn sell_hold_buy() -> Self {
        Self::Discrete { choices: vec![-1.0, 0.0, 1.0] }
    }

    /// Returns weights whose absolute values sum up to at most 1.
    #[must_use]
    pub fn weights() -> Self {
        Self::Weights { leverage: 1.0 }
    }

    /// Refuses numbers outside their ranges.
    pub(crate) fn check(&self) -> Result<(), PortfolioError> {
        let refuse = |option, value, rule| Err(PortfolioError::BadOption { option, value, rule });
        match self {
            Self::Weights { leverage } if !(*leverage > 0.0 && *leverage <= 100.0) => {
                refuse("Weights.leverage", *leverage, "above 0 and at most 100")
            }
            Self::Shares | Self::Weights { .. } => Ok(()),
            Self::Discrete { choices } => {
                let rule = "one of 2 to 255 different fractions of hmax in [-1, 1]";
                if !(2..=MOST_CHOICES).contains(&choices.len()) {
                    let rule = "2 to 255 choices long";
                    #[expect(clippy::cast_precision_loss, reason = "a number for a message")]
                    let length = choices.len() as f64;
                    return refuse("Discrete.choices", length, rule);
                }
                let twice = |at: usize| choices[..at].contains(&choices[at]);
                let bad = (0..choices.len())
                    .find(|&at| !(-1.0..=1.0).contains(&choices[at]) || twice(at));
                bad.map_or(Ok(()), |at| refuse("Discrete.choices", choices[at], rule))
            }
        }
    }

    /// Returns the range of one number of an action. `short` allows negative weights.
    #[must_use]
    pub(crate) fn range(&self, short: bool) -> (f64, f64) {
        match self {
            Self::Shares => (-1.0, 1.0),
            Self::Weights { leverage } if short => {
                // Float32 actions of a space that ends at `leverage` may be rounded up.
                #[expect(clippy::cast_possible_truncation, reason = "rounded to float32")]
                let most = leverage.max(f64::from(*leverage as f32));
                (-most, most)
            }
            Self::Weights { .. } => (0.0, 1.0),
            #[expect(clippy::cast_precision_loss, reason = "at most 255")]
            Self::Discrete { choices } => (0.0, (choices.len() - 1) as f64),
        }
    }
}
