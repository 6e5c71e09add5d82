//! Exponent of priorities: fixed, annealed, or as the table has it.

use crate::error::PriorityError;

/// Exponent of priorities: 0 draws uniformly, 1 in proportion to them.
///
/// All samplers of a table draw by one exponent at a time. A table keeps priorities beside their
/// powers unless its samplers have constants, so that the exponent can change.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Alpha {
    /// One number from 0 up, fixed when the table is created.
    Constant(f64),
    /// An exponent that moves from `first` to `last` over `batches` batches of a sampler, in at
    /// most [`STEPS`](Self::STEPS) equal steps. If the table's exponent is further ahead, by
    /// another sampler, it stays.
    Annealed {
        /// Exponent at batch 0, from 0 up.
        first: f64,
        /// Exponent from batch `batches` on, from 0 up.
        last: f64,
        /// Batches from the one to the other, at least 1.
        batches: u64,
    },
    /// The exponent that the table has, which [`Priorities::set_alpha`](crate::Priorities) and
    /// samplers with a schedule change. A new table has [`DEFAULT`](Self::DEFAULT).
    Table,
}

impl From<f64> for Alpha {
    fn from(alpha: f64) -> Self {
        Self::Constant(alpha)
    }
}

impl Alpha {
    /// Exponent if no other is given.
    pub const DEFAULT: f64 = 0.6;
    /// Maximum steps of an annealed exponent. Each of them computes all powers of the table again.
    pub const STEPS: u64 = 100;

    /// Returns the exponent that a sampler has the table change to for batch number `batch`, or
    /// `None` if it does not change it.
    #[must_use]
    pub fn at(self, batch: u64) -> Option<f64> {
        let Self::Annealed { first, last, batches } = self else { return None };
        let step = u128::from(batch) * u128::from(Self::STEPS) / u128::from(batches.max(1));
        #[expect(clippy::cast_precision_loss, reason = "at most 100")]
        match u64::try_from(step).unwrap_or(u64::MAX).min(Self::STEPS) {
            Self::STEPS => Some(last),
            step => Some(first + (last - first) * (step as f64 / Self::STEPS as f64)),
        }
    }

    /// Returns whether the schedule has the table change its exponent from `now` to `next`: not if
    /// it is further ahead.
    pub(crate) fn moves(self, now: f64, next: f64) -> bool {
        match self {
            Self::Annealed { first, last, .. } if last < first => next < now,
            Self::Annealed { .. } => next > now,
            Self::Constant(_) | Self::Table => false,
        }
    }

    /// Returns the exponent by which a sampler draws batch number `batch` by rank.
    pub(crate) fn of_sampler(self, batch: u64) -> f64 {
        self.at(batch).unwrap_or_else(|| self.first())
    }

    /// Returns the exponent of a new table.
    pub(crate) fn first(self) -> f64 {
        match self {
            Self::Constant(alpha) | Self::Annealed { first: alpha, .. } => alpha,
            Self::Table => Self::DEFAULT,
        }
    }

    /// Returns whether the exponent of the table can change.
    pub(crate) fn can_change(self) -> bool {
        !matches!(self, Self::Constant(_))
    }

    /// Refuses numbers out of range.
    pub(crate) fn check(self) -> Result<(), PriorityError> {
        match self {
            Self::Constant(alpha) => check_alpha("alpha", alpha),
            Self::Annealed { first, last, batches } => {
                check_alpha("the first number of alpha", first)?;
                check_alpha("the second number of alpha", last)?;
                if batches == 0 {
                    let (what, wanted) = ("the third number of alpha", "batches, at least 1");
                    return Err(PriorityError::BadOption { what, value: 0.0, wanted });
                }
                Ok(())
            }
            Self::Table => Ok(()),
        }
    }
}

/// Refuses an exponent that is out of range.
pub(super) fn check_alpha(what: &'static str, alpha: f64) -> Result<(), PriorityError> {
    if alpha.is_finite() && alpha >= 0.0 {
        return Ok(());
    }
    let wanted = "a number from 0 up, often 0.6";
    Err(PriorityError::BadOption { what, value: alpha, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annealed_alpha_moves_in_steps_and_never_back() {
        let down = Alpha::Annealed { first: 0.8, last: 0.0, batches: 1_000 };
        for (batch, expected) in
            [(0, 0.8), (9, 0.8), (10, 0.792), (500, 0.4), (999, 0.008), (1_000, 0.0), (5_000, 0.0)]
        {
            let found = down.at(batch).unwrap();
            assert!((found - expected).abs() < 1e-12, "{batch}: {found}");
        }
        assert!(down.moves(0.8, 0.4) && !down.moves(0.4, 0.8) && !down.moves(0.4, 0.4));
        let up = Alpha::Annealed { first: 0.2, last: 1.0, batches: 3 };
        assert!(up.moves(0.2, 0.4) && !up.moves(0.4, 0.2));
        assert_eq!([3, u64::MAX].map(|batch| up.at(batch)), [Some(1.0); 2]);
        assert_eq!([Alpha::Table, Alpha::Constant(0.6)].map(|alpha| alpha.at(7)), [None; 2]);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let annealed = |first, last, batches| Alpha::Annealed { first, last, batches };
        for bad in [
            Alpha::Constant(-0.5),
            Alpha::Constant(f64::NAN),
            annealed(-1.0, 0.0, 9),
            annealed(0.6, f64::INFINITY, 9),
            annealed(0.6, 0.4, 0),
        ] {
            assert!(matches!(bad.check(), Err(PriorityError::BadOption { .. })), "{bad:?}");
        }
        assert!(annealed(0.6, 0.0, 1).check().is_ok() && Alpha::Table.check().is_ok());
    }

    #[test]
    fn a_sampler_has_the_exponent_of_its_schedule_or_that_of_a_new_table() {
        let annealed = Alpha::Annealed { first: 0.5, last: 1.5, batches: 10 };
        for (alpha, first, later) in [
            (Alpha::Constant(0.7), 0.7, 0.7),
            (Alpha::Table, Alpha::DEFAULT, Alpha::DEFAULT),
            (annealed, 0.5, 0.9),
        ] {
            let found = [alpha.first(), alpha.of_sampler(0), alpha.of_sampler(4)];
            for (found, expected) in found.into_iter().zip([first, first, later]) {
                assert!((found - expected).abs() < 1e-12, "{alpha:?}: {found}");
            }
            let has_schedule = alpha == annealed;
            assert_eq!(alpha.moves(0.2, 0.9), has_schedule, "{alpha:?}");
            assert_eq!(alpha.can_change(), has_schedule || alpha == Alpha::Table, "{alpha:?}");
        }
    }
}
