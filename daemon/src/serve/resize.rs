//! Makes rings larger within the budget.

use std::ops::ControlFlow;
use std::time::Duration;

use backcast_core::{ResizeError, ResizeProgress};

use super::budget::rule::capacity_within;
use super::restore::attach;
use super::shared::Shared;
use crate::protocol::{Code, Grown, Refusal, ResizeAsk};

/// Maximum wait for writers, which occupies a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Makes a ring larger, while it is written, if the larger memory fits beside the old one. Restores
/// an evicted ring first. Other requests for memory wait until the larger memory is allocated, not
/// until it is filled.
pub(crate) fn resize(shared: &Shared, ask: &ResizeAsk) -> Result<Grown, Refusal> {
    let asked = ask.capacity().map_err(|why| Refusal::new(Code::BadArgument, why))?;
    let timeout = Duration::from_millis(ask.timeout_ms);
    if timeout > LONGEST_WAIT {
        let (is, most) = (ask.timeout_ms, LONGEST_WAIT.as_millis());
        let why =
            format!("timeout_ms is {is}; give {most} at most: lanes move later by themselves");
        return Err(Refusal::new(Code::BadArgument, why));
    }
    // The handle holds the ring during the resize.
    let ring = attach(shared, &ask.name)?;
    // Memory that an interrupted resize left would count twice.
    ring.finish_resize()?;
    let mut turn = Some(shared.turn());
    let capacity = capacity_within(shared, &ask.name, &ring, asked)?;
    let mut watch = |_: ResizeProgress| {
        // All memory is allocated before the first call.
        drop(turn.take());
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
