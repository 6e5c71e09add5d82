//! Memory for rings within the budget.

use backcast_core::{ObjectInfo, Ring, collect, list};

use super::budget::{self, WhenFull};
use super::evict::evict_one;
use super::shared::{CurrentSettings, Shared, add};
use crate::protocol::{Code, Granted, Refusal};

/// Makes room for a ring by removing orphans and, if configured, by evicting other rings. The
/// caller has the turn.
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

/// Whether further bytes fit the budget.
pub(crate) fn fits(live: &CurrentSettings, objects: &[ObjectInfo], more: u64) -> bool {
    budget::used(objects).checked_add(more).is_some_and(|sum| sum <= live.budget_bytes)
}

/// Returns the refusal of a ring that exceeds the budget.
pub(crate) fn over(
    live: &CurrentSettings,
    name: &str,
    asked_bytes: u64,
    objects: &[ObjectInfo],
) -> Refusal {
    let over = budget::over(live.budget_bytes, asked_bytes, objects);
    let message = budget::explain(&format!("ring `{name}`"), &over);
    Refusal { over_budget: Some(Box::new(over)), ..Refusal::new(Code::OverBudget, message) }
}

/// Keeps the memory of a new ring in memfds. A ring that cannot be kept is freed with its handle.
pub(crate) fn keep(shared: &Shared, ring: &Ring) -> Result<(), Refusal> {
    Ok(ring.keep_by(shared.memory())?)
}

/// Describes a ring to the client that receives it.
pub(crate) fn granted(name: &str, ring: &Ring, made: bool, asked_bytes: u64) -> Granted {
    let stats = ring.stats();
    Granted {
        name: name.to_owned(),
        path: stats.path.unwrap_or_default(),
        made,
        allocated_bytes: stats.bytes_allocated,
        asked_bytes,
        capacity_rows: stats.capacity,
    }
}
