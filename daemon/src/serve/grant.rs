//! Rings that clients receive.

use backcast_core::Ring;

use super::shared::Shared;
use crate::protocol::{Granted, Refusal};

/// Keeps the memory of a new ring if it is in memfds. If that fails, the ring is freed with its
/// handle.
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
