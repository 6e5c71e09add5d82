//! Making a ring larger within the budget.

use std::ops::ControlFlow;
use std::time::Duration;

use backcast_core::{Capacity, ResizeError, ResizeProgress, Ring};

use super::answer::attach;
use super::budget::{self, WhenFull};
use super::caller::Caller;
use super::create::{note, room};
use super::quota::Share;
use super::shared::Shared;
use crate::wire::{Code, Grown, Refusal, ResizeAsk};

/// Longest wait for writers that a client may ask for: it keeps a connection at work.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Makes a ring larger beside its writers, if the larger memory fits beside the old. One that was evicted
/// is brought back first. Others who ask for memory wait until it is allocated, not until it is filled.
pub(crate) fn resize(shared: &Shared, ask: &ResizeAsk, caller: Caller) -> Result<Grown, Refusal> {
    let asked = ask.capacity().map_err(|why| Refusal::new(Code::BadArgument, why))?;
    let timeout = Duration::from_millis(ask.timeout_ms);
    if timeout > LONGEST_WAIT {
        let (is, most) = (ask.timeout_ms, LONGEST_WAIT.as_millis());
        let why =
            format!("timeout_ms is {is}; give {most} at most: lanes move later by themselves");
        return Err(Refusal::new(Code::BadArgument, why));
    }
    // Held, so that it is there as long as this takes.
    let ring = attach(shared, &ask.name, caller)?;
    // What a killed resize left would take room twice.
    ring.finish_resize()?;
    let mut turn = Some(shared.turn());
    let capacity = fitting(shared, &ask.name, &ring, asked, caller)?;
    let grows = ring.planned_resize_bytes(capacity)? > 0;
    let mut watch = |_: ResizeProgress| {
        // When this is first asked everything is allocated.
        if let Some(_turn) = turn.take()
            && grows
        {
            note(&ring, caller);
        }
        if shared.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let resized = ring.resize_kept(shared.memory(), capacity, Some(timeout), &mut watch);
    let resized = resized.map_err(|error| match error {
        ResizeError::Ring(error) => error.into(),
        error => Refusal::new(Code::Stopping, format!("the daemon is ending: {error}")),
    })?;
    let allocated_bytes = ring.stats().bytes_allocated;
    tracing::info!(
        ring = %ask.name,
        rows = resized.capacity,
        bytes = allocated_bytes,
        waiting = resized.lanes_waiting.len(),
        "resize"
    );
    Ok(Grown {
        name: ask.name.clone(),
        capacity_rows: resized.capacity,
        lane_capacity_rows: resized.lane_capacity,
        allocated_bytes,
        copied_rows: resized.rows_copied,
        waiting_lanes: resized.lanes_waiting,
        shrunk: capacity != asked,
    })
}

/// How large it can be. The turn is the caller's.
fn fitting(
    shared: &Shared,
    name: &str,
    ring: &Ring,
    asked: Capacity,
    caller: Caller,
) -> Result<Capacity, Refusal> {
    if ring.planned_resize_bytes(asked)? == 0 {
        return Ok(asked);
    }
    // Something is gained only if what is left makes it larger than it is.
    let shrinks = shared.live().when_full == WhenFull::Shrink;
    let gains = |capacity, most| {
        let more = ring.planned_resize_bytes(capacity);
        shrinks && more.is_ok_and(|more| (1..=most).contains(&more))
    };
    let (mut capacity, mut allowed) = (asked, u64::MAX);
    if let Some(share) = Share::of(shared, caller, name)? {
        let whole = Ring::planned_bytes(ring.schema(), &ring.options().capacity(asked))?;
        allowed = share.left();
        if whole > allowed {
            capacity = Capacity::Bytes(allowed);
            if !gains(capacity, allowed) {
                return Err(share.refusal(name, whole));
            }
        }
    }
    let more = ring.planned_resize_bytes(capacity)?;
    let Err(mut refusal) = room(shared, name, more) else { return Ok(capacity) };
    let Some(over) = &refusal.over_budget else { return Err(refusal) };
    let left = over.budget_bytes.saturating_sub(over.used_bytes);
    let less = Capacity::Bytes(left.min(allowed));
    if gains(less, left) {
        return Ok(less);
    }
    let what = format!("the larger memory of ring `{name}`, which exists beside the old one,");
    refusal.message = budget::explain(&what, over);
    Err(refusal)
}
