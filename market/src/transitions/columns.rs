//! The columns of a transition in the ring.

use std::fmt;

use backcast_core::{Column, DType, Role, Schema};

use super::error::TransitionError;

/// Number of the transition since its lane began or was cleared. A row that clears the lane has
/// [`CLEARED`].
pub(crate) const POSITION: usize = 0;
pub(crate) const ENV_ID: usize = 1;
/// Days of the state and the next state.
pub(crate) const DAY: usize = 2;
pub(crate) const TOKENS: usize = 3;
/// Cash of the state and the next state. The two columns below have both states too.
pub(crate) const CASH: usize = 4;
pub(crate) const SHARES: usize = 5;
pub(crate) const AVG_BUY_PRICE: usize = 6;
pub(crate) const ACTION: usize = 7;
pub(crate) const REWARD: usize = 8;
/// Flags done and terminal. Terminal means that a limit from outside ended the episode.
pub(crate) const ENDS: usize = 9;

/// Position in a row that clears its lane.
pub(crate) const CLEARED: u64 = u64::MAX;

/// Maximum number of tickers of a panel: tokens are stored in 16 bits.
const MOST_TICKERS: usize = u16::MAX as usize;
/// Maximum number of axes of an action.
const MOST_AXES: usize = 6;

/// Sizes of the parts of a transition. A row with 10 tickers, 10 numbers of an action and one
/// reward takes 278 bytes, including 24 bytes of row header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionShape {
    /// Number of tickers of a portfolio, `T`: at least 1, at most those of the panel.
    pub tickers: usize,
    /// Shape of one action, at most six axes.
    pub action: Vec<usize>,
    /// Number of rewards of one transition, at least 1.
    pub objectives: usize,
}

impl fmt::Display for TransitionShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tickers, action, objectives } = self;
        write!(f, "{tickers} tickers, action_shape {action:?} and n_objectives {objectives}")
    }
}

impl TransitionShape {
    /// Returns the number of values in one action.
    #[must_use]
    pub fn action_len(&self) -> usize {
        self.action.iter().product()
    }

    /// Returns the columns, or refuses a size that is out of range.
    pub(crate) fn schema(&self, panel_tickers: usize) -> Result<Schema, TransitionError> {
        let refuse = |what, value, limit| Err(TransitionError::BadShape { what, value, limit });
        if panel_tickers > MOST_TICKERS {
            return refuse("tickers of the panel", panel_tickers, MOST_TICKERS);
        }
        if self.tickers == 0 || self.tickers > panel_tickers {
            return refuse("tickers of a portfolio", self.tickers, panel_tickers);
        }
        if self.objectives == 0 {
            return refuse("rewards of a transition", 0, usize::from(u16::MAX));
        }
        if self.action.len() > MOST_AXES {
            return refuse("axes of an action", self.action.len(), MOST_AXES);
        }
        let tickers = axis(self.tickers);
        let action: Vec<u32> = self.action.iter().copied().map(axis).collect();
        let columns: [(&str, DType, &[u32]); 10] = [
            ("position", DType::U64, &[]),
            ("env_id", DType::I32, &[]),
            ("day", DType::I32, &[2]),
            ("tokens", DType::U16, &[tickers]),
            ("cash", DType::F32, &[2]),
            ("shares", DType::I32, &[2, tickers]),
            ("avg_buy_price", DType::F32, &[2, tickers]),
            ("action", DType::F32, &action),
            ("reward", DType::F32, &[axis(self.objectives)]),
            ("ends", DType::Bool, &[2]),
        ];
        let builder =
            columns.into_iter().fold(Schema::builder(), |builder, (name, dtype, shape)| {
                builder.column_as(name, dtype, shape, Role::Step)
            });
        Ok(builder.build()?)
    }

    /// Returns the sizes of a ring's transitions, or `None` if its columns are not those of
    /// transitions.
    pub(crate) fn of(schema: &Schema, panel_tickers: usize) -> Option<Self> {
        let shape = |at: usize| {
            let axes = schema.columns().get(at).map(Column::shape)?.iter();
            axes.map(|axis| usize::try_from(*axis).ok()).collect::<Option<Vec<usize>>>()
        };
        let found = Self {
            tickers: *shape(TOKENS)?.first()?,
            action: shape(ACTION)?,
            objectives: *shape(REWARD)?.first()?,
        };
        (found.schema(panel_tickers).ok()? == *schema).then_some(found)
    }
}

/// Converts the length of an axis. The schema refuses the maximum, which stands for all longer
/// ones.
fn axis(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(tickers: usize, action: &[usize], objectives: usize) -> TransitionShape {
        TransitionShape { tickers, action: action.to_vec(), objectives }
    }

    #[test]
    fn a_transition_of_ten_tickers_takes_less_than_300_bytes() {
        assert_eq!(shape(10, &[10], 1).schema(33).unwrap().row_bytes(), 278);
    }

    #[test]
    fn sizes_are_found_again_in_the_columns() {
        for shape in [shape(10, &[10, 2], 3), shape(1, &[], 1), shape(2, &[0], 1)] {
            let Ok(schema) = shape.schema(10) else {
                assert_eq!(shape.action, [0], "an action without numbers is no column");
                continue;
            };
            assert_eq!(TransitionShape::of(&schema, 10), Some(shape));
            assert_eq!(TransitionShape::of(&schema, 0), None);
        }
        let other = Schema::builder().column("obs", DType::F32, &[3]).build().unwrap();
        assert_eq!(TransitionShape::of(&other, 10), None);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_with_their_limit() {
        for (shape, panel, part, expected) in [
            (shape(0, &[1], 1), 10, "portfolio", 0),
            (shape(11, &[1], 1), 10, "portfolio", 11),
            (shape(1, &[1], 0), 10, "reward", 0),
            (shape(1, &[1; 7], 1), 10, "action", 7),
            (shape(1, &[1], 1), 65_536, "panel", 65_536),
        ] {
            let error = shape.schema(panel).unwrap_err();
            let TransitionError::BadShape { what, value, .. } = error else { panic!("{error}") };
            assert!(what.contains(part) && value == expected, "{error}");
        }
    }
}
