//! Decides how a handle finds out about the locks of others, where the kernel cannot be asked.

use crate::os::byte_lock::LockMode;

/// How to find out whether another handle holds a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockProbe {
    /// No other handle holds it: the own lock excludes that.
    Free,
    /// Lock it through another open file in this mode, for a moment. Others hold it if that fails.
    Lock(LockMode),
    /// Make the own shared lock exclusive for a moment. Others hold it if that fails.
    Raise,
}

impl LockProbe {
    /// Returns the probe for a handle that holds the byte itself as `own`. `conflicts` is the mode
    /// of locks that count: any with `Shared`, exclusive ones with `Exclusive`.
    pub(super) fn of(own: Option<LockMode>, conflicts: LockMode) -> Self {
        match (own, conflicts) {
            (Some(LockMode::Exclusive), _) | (Some(LockMode::Shared), LockMode::Exclusive) => {
                Self::Free
            }
            (Some(LockMode::Shared), LockMode::Shared) => Self::Raise,
            (None, LockMode::Exclusive) => Self::Lock(LockMode::Shared),
            (None, LockMode::Shared) => Self::Lock(LockMode::Exclusive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{Exclusive, Shared};

    #[test]
    fn a_handle_does_not_take_its_own_lock_for_that_of_another() {
        for (own, conflicts, expected) in [
            (Some(Exclusive), Shared, LockProbe::Free),
            (Some(Exclusive), Exclusive, LockProbe::Free),
            (Some(Shared), Exclusive, LockProbe::Free),
            (Some(Shared), Shared, LockProbe::Raise),
        ] {
            assert_eq!(LockProbe::of(own, conflicts), expected, "{own:?}, {conflicts:?}");
        }
    }

    #[test]
    fn a_handle_without_a_lock_tries_the_one_that_conflicts() {
        assert_eq!(LockProbe::of(None, Shared), LockProbe::Lock(Exclusive));
        assert_eq!(LockProbe::of(None, Exclusive), LockProbe::Lock(Shared));
    }
}
