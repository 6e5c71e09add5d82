//! Bytes and orderings of Backcast's shared memory: what a file contains and when a word may be
//! believed. Knows nothing of transitions, episodes or markets.
//!
//! - [`Base`], [`Kind`], [`list`], [`remove`], [`collect`]: named objects, held by kernel locks;
//! - [`RingStore`]: the files of a ring (`docs/layout.md` has their byte tables);
//! - [`PartialRing`]: a ring that is filled, and gone on with when its maker was killed;
//! - [`Resizing`]: larger lanes for a ring that is written and read meanwhile;
//! - [`MemfdKeeper`]: keeps rings whose memory no file system has;
//! - [`SealedSegment`]: immutable named data, such as a market panel;
//! - [`protocol`]: publish and validate, pins, bells, generic over memory, so that models check
//!   this very code;
//! - [`BaseLock`]: one daemon per base directory; [`Peer`]: who is at a socket's other end;
//! - [`LeaseBook`]: the leases of one handle;
//! - `sys`: mappings, word copies and locks, the only raw pointers.
//!
//! ```
//! use backcast_layout::{Base, Exist, Kind, SealedSegment};
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! # let dir = tempfile::tempdir()?;
//! let base = Base::at(dir.path());
//! let made = SealedSegment::create(&base, Kind::Panel, "doc", b"meta", &[&7u64.to_ne_bytes()], Exist::Error, false)?;
//! let seen = SealedSegment::attach(&base, Kind::Panel, "doc")?;
//! assert_eq!(seen.words64(0, 1)?[0].load(Relaxed), 7);
//! drop((made, seen)); // the last handle removes what is not persistent
//! assert!(backcast_layout::list(&base)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod base_lock;
mod column;
mod error;
mod filling;
mod geometry;
mod lane_header;
mod lanes;
mod lease;
mod making;
mod memfd;
mod name;
mod object;
mod origin;
mod policy;
mod printable;
pub mod protocol;
mod readers;
mod resize;
mod resume;
mod ring;
mod ring_files;
mod sealed;
mod shape;
mod sizes;
mod superblock;
mod sys;
mod tables;

pub use base_lock::{BaseLock, Claimed, DAEMON_LOCK, DAEMON_SOCKET};
pub use column::{
    Column, ColumnError, ColumnRecord, DType, MAX_AXES, MAX_COLUMN_NAME_BYTES,
    MAX_COLUMN_WIDTH_BYTES, Role,
};
pub use error::{OTHER_VERSION, SegmentError};
pub use filling::{UnnamedLane, UnnamedRing};
pub use geometry::{
    ColumnPlace, Geometry, MAX_COLUMNS, MAX_LANE_BYTES, MAX_LANES, MAX_READER_SLOTS, MAX_SLOTS,
    RingSpec,
};
pub use lane_header::{LANE_HEADER_BYTES, LANE_MAGIC, LaneHeader, LaneIdentity};
pub use lanes::Lanes;
pub use lease::{Hold, HoldError, LeaseBook, MAX_HOLDS};
pub use memfd::MemfdKeeper;
pub use name::{BadExist, Base, Exist, Kind, MAX_NAME_BYTES};
pub use object::{
    ObjectInfo, PartialRing, collect, collect_orphans, list, remove, remove_partial, remove_unheld,
};
pub use origin::boot_id_hash;
pub use policy::{BadLanePolicy, LanePolicy};
pub use printable::printable;
pub use readers::{
    BELL_BYTES, BELLS, LanePins, READER_SLOT_BYTES, READERS_HEADER_BYTES, READERS_MAGIC,
    ReaderRecord, SharedBell,
};
pub use resize::{NewSize, Resizing, tend};
pub use resume::Leftover;
pub use ring::{ClaimedReader, RingStore};
pub use sealed::{SEALED_HEADER_BYTES, SEALED_MAGIC, SealedSegment};
pub use sizes::binary_size;
pub use superblock::{ENDIAN_TAG, LAYOUT_VERSION, LINE_BYTES, MAGIC, SUPERBLOCK_BYTES, Superblock};
pub use sys::bytes::Bytes;
pub use sys::claimed::ClaimedLane;
pub use sys::copy::Word;
pub use sys::forks::forks;
pub use sys::found::{Found, FoundRow, RowFinder};
pub use sys::holders::has_ended;
pub use sys::lane::{Ahead, Lane};
pub use sys::looped::{LentLoop, Looped};
pub use sys::numbers::{Numbers, copy_numbers};
pub use sys::peer::{Peer, receive, send_with_descriptor};
pub use sys::rank::{RANKED_AT_ONCE, ranks};
pub use sys::run::Run;
pub use sys::runs::{Meanwhile, RunPart, Runs};
pub use sys::soon::soon;
pub use sys::space::SpaceLimits;
pub use sys::team::ThreadTeam;
pub use sys::wide::{Wide, whole_part, wide};
pub use sys::window::Window;
pub use sys::words::{copy_words, copy_words_each};
pub use tables::{Field, tables};

/// The page size of this machine, in bytes: what mapped columns must be multiples of.
#[must_use]
pub fn page_size() -> u64 {
    sys::map::page_size() as u64
}
