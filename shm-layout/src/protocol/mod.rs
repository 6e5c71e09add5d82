//! The orderings of shared memory: when a word of another process may be believed.
//!
//! Three small protocols, each generic over the memory it runs on, so that the loom models run
//! the very code that ships (docs/protocol.md has the arguments):
//!
//! - [publish and validate](publish): an accepted copy of a row is whole;
//! - [pins](pin): rows under a lease are not overwritten;
//! - [bells](bell): whoever sleeps until something is published does not sleep through it.

pub mod bell;
pub mod pin;
pub mod publish;

pub use bell::{Bell, BellFence, Ticket, listen, ring};
pub use pin::{Pin, PinError, Pins, freeze, oldest, thaw};
pub use publish::{
    Fence, ImpossibleCounters, LaneWriter, MAX_SEQ, Words, WordsMut, readable, still_whole,
};
