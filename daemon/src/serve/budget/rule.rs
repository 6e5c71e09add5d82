//! Decides whether a new or a larger ring fits the budget. If it does not, makes room for it, makes
//! it smaller, or refuses it, as [`WhenFull`] says.

use backcast_core::{
    Capacity, ObjectInfo, Ring, RingOptions, Schema, collect_garbage, list_objects,
};

use super::evict::evict_one;
use super::{WhenFull, explain, used};
use crate::protocol::{Code, Refusal};
use crate::serve::shared::{CurrentSettings, Shared, add};

/// Makes room for a ring by removing orphans and, if configured, by evicting other rings. Returns a
/// refusal if the ring still does not fit. The caller holds the lock of `Shared::turn`.
pub(crate) fn room(shared: &Shared, name: &str, asked_bytes: u64) -> Result<(), Refusal> {
    let (base, live) = (&shared.base, shared.live());
    if fits(&live, &list_objects(base)?, asked_bytes) {
        return Ok(());
    }
    add(&shared.tally.orphans_removed, collect_garbage(base)?.len() as u64);
    // A ring that exceeds the whole budget evicts no other.
    if asked_bytes <= live.budget_bytes && live.when_full == WhenFull::Evict {
        while !fits(&live, &list_objects(base)?, asked_bytes) && evict_one(shared, name)? {}
    }
    let objects = list_objects(base)?;
    if fits(&live, &objects, asked_bytes) {
        Ok(())
    } else {
        Err(over(&live, name, asked_bytes, &objects))
    }
}

/// Returns options of a new ring that fits: the given ones after making [`room`] for them, or with
/// the policy `shrink` those of a ring that takes the rest of the budget. The caller holds the lock
/// of `Shared::turn`.
pub(crate) fn room_or_less(
    shared: &Shared,
    name: &str,
    (schema, options): (&Schema, RingOptions),
    objects: &[ObjectInfo],
) -> Result<RingOptions, Refusal> {
    let live = shared.live();
    let asked_bytes = Ring::planned_bytes(schema, &options)?;
    if live.when_full != WhenFull::Shrink {
        room(shared, name, asked_bytes)?;
        return Ok(options);
    }
    let left = live.budget_bytes.saturating_sub(used(objects));
    let less = options.capacity(Capacity::Bytes(left));
    // The rest may be too small, for example for a row in each lane.
    let fits = left > 0 && Ring::planned_bytes(schema, &less).is_ok_and(|bytes| bytes <= left);
    if fits { Ok(less) } else { Err(over(&live, name, asked_bytes, objects)) }
}

/// Returns the capacity that a ring may be resized to. This is the requested capacity if the larger
/// memory fits beside the old one. Otherwise, with the policy `shrink`, it is the rest of the
/// budget. The caller holds the lock of `Shared::turn`.
pub(crate) fn capacity_within(
    shared: &Shared,
    name: &str,
    ring: &Ring,
    asked: Capacity,
) -> Result<Capacity, Refusal> {
    let more = ring.planned_resize_bytes(asked)?;
    if more == 0 {
        return Ok(asked);
    }
    let Err(mut refusal) = room(shared, name, more) else { return Ok(asked) };
    let Some(over) = &refusal.over_budget else { return Err(refusal) };
    let left = over.budget_bytes.saturating_sub(over.used_bytes);
    let less = Capacity::Bytes(left);
    // Shrinks only if the rest of the budget makes the ring larger.
    if shared.live().when_full == WhenFull::Shrink
        && ring.planned_resize_bytes(less).is_ok_and(|more| (1..=left).contains(&more))
    {
        return Ok(less);
    }
    let what = format!("the larger memory of ring `{name}`, which exists beside the old one,");
    refusal.message = explain(&what, over);
    Err(refusal)
}

/// Returns whether further bytes fit the budget.
pub(crate) fn fits(live: &CurrentSettings, objects: &[ObjectInfo], more: u64) -> bool {
    used(objects).checked_add(more).is_some_and(|sum| sum <= live.budget_bytes)
}

/// Returns the refusal of a ring that exceeds the budget.
fn over(live: &CurrentSettings, name: &str, asked_bytes: u64, objects: &[ObjectInfo]) -> Refusal {
    let over = super::over(live.budget_bytes, asked_bytes, objects);
    let message = explain(&format!("ring `{name}`"), &over);
    Refusal { over_budget: Some(Box::new(over)), ..Refusal::new(Code::OverBudget, message) }
}
