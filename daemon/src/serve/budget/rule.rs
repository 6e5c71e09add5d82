//! Decides whether a ring fits the budget, makes room for it, or refuses it.

use backcast_core::{ObjectInfo, collect, list};

use super::evict::evict_one;
use super::{WhenFull, explain, used};
use crate::protocol::{Code, Refusal};
use crate::serve::shared::{CurrentSettings, Shared, add};

/// Makes room for a ring by removing orphans and, if configured, by evicting other rings. Returns a
/// refusal if the ring still does not fit. The caller holds the lock of `Shared::turn`.
pub(crate) fn room(shared: &Shared, name: &str, asked_bytes: u64) -> Result<(), Refusal> {
    let (base, live) = (&shared.base, shared.live());
    if fits(&live, &list(base)?, asked_bytes) {
        return Ok(());
    }
    add(&shared.tally.orphans_removed, collect(base)?.len() as u64);
    // A ring that exceeds the whole budget evicts no other.
    if asked_bytes <= live.budget_bytes && live.when_full == WhenFull::Evict {
        while !fits(&live, &list(base)?, asked_bytes) && evict_one(shared, name)? {}
    }
    let objects = list(base)?;
    if fits(&live, &objects, asked_bytes) {
        Ok(())
    } else {
        Err(over(&live, name, asked_bytes, &objects))
    }
}

/// Returns whether further bytes fit the budget.
pub(crate) fn fits(live: &CurrentSettings, objects: &[ObjectInfo], more: u64) -> bool {
    used(objects).checked_add(more).is_some_and(|sum| sum <= live.budget_bytes)
}

/// Returns the refusal of a ring that exceeds the budget.
pub(crate) fn over(
    live: &CurrentSettings,
    name: &str,
    asked_bytes: u64,
    objects: &[ObjectInfo],
) -> Refusal {
    let over = super::over(live.budget_bytes, asked_bytes, objects);
    let message = explain(&format!("ring `{name}`"), &over);
    Refusal { over_budget: Some(Box::new(over)), ..Refusal::new(Code::OverBudget, message) }
}
