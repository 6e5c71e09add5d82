//! The orderings of shared memory: when a word of another process may be believed.
//!
//! Five small protocols, each generic over the memory it runs on, so that the loom models run
//! the very code that ships (docs/protocol.md has the arguments):
//!
//! - [publish and validate](publish): an accepted copy of a row is whole;
//! - [pins](pin): rows under a lease are not overwritten;
//! - [slots](slot): the pins of the dead are taken away, and nobody else's;
//! - [`moving`]: a lane that moves to a larger file loses no row;
//! - [bells](bell): whoever sleeps until something is published does not sleep through it.
//!
//! And one between threads of one process: [hand-offs](handoff), of work to a helper.

pub mod bell;
pub mod handoff;
pub mod moving;
pub mod pin;
pub mod publish;
pub mod slot;

pub use bell::{Bell, BellFence, Ticket, listen, ring};
pub use moving::{MOVED, Mover, has_moved};
pub use pin::{HeldRows, Pin, PinError, Pins, freeze, oldest, thaw};
pub use publish::{
    Fence, ImpossibleCounters, LaneWriter, MAX_SEQ, Words, WordsMut, readable, still_whole,
};
pub use slot::{Slots, claim, reap};
