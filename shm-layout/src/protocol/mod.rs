//! Orderings of shared memory: the rules by which a word of another process may be trusted.
//!
//! Eleven small protocols, each generic over the memory it runs on, so that the loom models run the
//! code that ships (docs/protocol.md has the arguments):
//!
//! - [publish and validate](publish): an accepted copy of a row is whole;
//! - [pins](pin): rows under a lease are not overwritten;
//! - [reader slots](reader_slot): only the pins of dead readers are cleared;
//! - [`relocate`]: a lane that is relocated to a larger file loses no row;
//! - [`mod@notify`]: a sleeper does not miss what is published while it falls asleep;
//! - [`low_mark`]: readers ignore the rows of a lane below its mark;
//! - [`limit`]: two sides count, and each waits for the count of the other;
//! - [`mod@claim`]: each row of a pass goes to one claimant;
//! - [`sum_tree`]: draws in proportion to priorities, beside updates; [`mod@extremes`] reads it;
//! - [`mod@learned`]: a value that learners attach to a row is of that row;
//! - [`version`]: the newest version of a block of arrays is whole.

#![forbid(unsafe_code)]

pub mod claim;
pub mod extremes;
pub mod learned;
pub mod limit;
pub mod low_mark;
mod mapped;
pub mod notify;
pub mod pin;
pub mod publish;
pub mod reader_slot;
pub mod relocate;
pub mod sum_tree;
pub mod version;

pub(crate) use mapped::clear_pins;
pub use notify::{Notifier, NotifyFence, Ticket, listen, notify};
pub use pin::{HeldRows, Pin, PinError, Pins, freeze, oldest, thaw};
pub use publish::{
    Fence, ImpossibleCounters, LaneWriter, MAX_SEQ, Words, WordsMut, readable, still_whole,
};
pub use reader_slot::{ReaderSlots, claim, reap};
pub use relocate::{RELOCATED, Relocator, has_relocated};
pub use version::{
    ImpossibleVersion, MAX_VERSION, Unpublishable, VersionFence, VersionPlace, VersionPublisher,
    VersionWords, VersionWordsMut,
};
