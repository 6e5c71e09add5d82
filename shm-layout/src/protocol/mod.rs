//! The orderings of shared memory: when a word of another process may be believed.
//!
//! Five small protocols, each generic over the memory it runs on, so that the loom models run
//! the very code that ships (docs/protocol.md has the arguments):
//!
//! - [publish and validate](publish): an accepted copy of a row is whole;
//! - [pins](pin): rows under a lease are not overwritten;
//! - [slots](reader_slot): the pins of the dead are taken away, and nobody else's;
//! - [`relocate`]: a lane that moves to a larger file loses no row;
//! - [bells](notify): whoever sleeps until something is published does not sleep through it.

#![forbid(unsafe_code)]

mod mapped;
pub mod notify;
pub mod pin;
pub mod publish;
pub mod reader_slot;
pub mod relocate;

pub(crate) use mapped::clear_pins;
pub use notify::{Bell, BellFence, Ticket, listen, ring};
pub use pin::{HeldRows, Pin, PinError, Pins, freeze, oldest, thaw};
pub use publish::{
    Fence, ImpossibleCounters, LaneWriter, MAX_SEQ, Words, WordsMut, readable, still_whole,
};
pub use reader_slot::{Slots, claim, reap};
pub use relocate::{MOVED, Mover, has_moved};
