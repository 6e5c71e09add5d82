//! Bytes and orderings of Backcast's shared memory: the contents of files, and the rules by which a
//! word of another process may be trusted. Nothing here depends on transitions, episodes or
//! markets.
//!
//! - [`Base`], [`ObjectKind`], [`list_objects`], [`remove_object`], [`collect_garbage`]: named
//!   objects, held by kernel locks;
//! - [`RingStore`]: the files of a ring (`docs/layout.md` has their byte tables);
//! - [`Relocation`]: larger lanes for a ring while it is written and read;
//! - [`MemfdKeeper`]: keeps rings whose memory is in no file system;
//! - [`PriorityTable`]: priorities that learners give to the rows of a ring;
//! - [`ParamsStore`]: the newest version of a named set of arrays;
//! - [`SealedSegment`]: immutable named data, such as a market panel;
//! - [`protocol`]: publish and validate, pins, notifiers, generic over memory, so that models check
//!   the code that runs;
//! - [`BaseLock`]: one daemon per base directory; [`Peer`]: the process at a socket's other end;
//! - [`ReaderPins`]: the leases of one handle;
//! - `os`, `kernels`, `layout`: mappings, locks, racy copies and byte tables, the only raw
//!   pointers.
//!
//! ```
//! use backcast_layout::{Base, Exist, ObjectKind, SealedSegment};
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! # let dir = tempfile::tempdir()?;
//! let base = Base::at(dir.path());
//! let word = 7u64.to_ne_bytes();
//! let (kind, exist) = (ObjectKind::Panel, Exist::Error);
//! let made = SealedSegment::create(&base, kind, "doc", b"meta", &[&word], exist, false)?;
//! let seen = SealedSegment::attach(&base, ObjectKind::Panel, "doc")?;
//! assert_eq!(seen.words64(0, 1)?[0].load(Relaxed), 7);
//! drop((made, seen)); // the last handle removes the segment, as it is not persistent
//! assert!(backcast_layout::list_objects(&base)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod kernels;
mod layout;
mod os;
pub mod protocol;
mod store;

pub use error::{
    IoCause, MAX_NAME_BYTES, OTHER_VERSION, ObjectKind, SegmentError, ShownNumber, binary_size,
    closest_name, printable,
};
pub use kernels::huge_array::{HugeArray, copy_slice};
pub use kernels::power::raise_to_power;
pub use kernels::prefetch::prefetch_l2;
pub use kernels::racy_copy::Word;
pub use kernels::rank::{RANK_BLOCK, ranks};
pub use kernels::shared_words::{copy_words, copy_words_each};
pub use kernels::simd::{SimdKernel, run_simd, trunc_to_i32};
pub use kernels::thread_pool::{ThreadPool, handoff};
pub use layout::claim_table::ClaimSettings;
pub use layout::claimed_lane::ClaimedLane;
pub use layout::column::{Column, ColumnError, ColumnRecord, DType, Role};
pub use layout::geometry::{
    ColumnPlace, Geometry, MAX_COLUMNS, MAX_LANES, MAX_READER_SLOTS, RingSpec,
};
pub use layout::lane::{Lane, PrefetchAddress};
pub use layout::lane_alias::LaneAlias;
pub use layout::lane_header::{LANE_MAGIC, LaneHeader, LaneIdentity};
pub use layout::lane_policy::{BadLanePolicy, LanePolicy};
pub use layout::leaf_values::{KEPT_MOST, KEPT_ONE, LEAF_ONE, LeafValues};
pub use layout::learned_table::{
    LearnedColumn, LearnedCounters, MAX_LEARNED_COLUMNS, MAX_LEARNED_NAME_BYTES,
};
pub use layout::limiter_table::{
    LIMITER_MAGIC, LimitBytes, LimitCounts, LimitedSide, LimiterTable, SharedCounter, WaitMark,
};
pub use layout::low_marks::{LOW_MAGIC, LowMark, LowMarks};
pub use layout::names::{BadExist, Base, Exist, name_problem};
pub use layout::origin::boot_id_hash;
pub use layout::params_shape::{
    MAX_ARRAY_AXES, MAX_ARRAY_NAME_BYTES, MAX_ARRAYS, MAX_PARAMS_BYTES, ParamsArray, ParamsShape,
    ParamsShapeError,
};
pub use layout::params_table::{MAX_PARAMS_SLOTS, PARAMS_DATA_MAGIC, PARAMS_MAGIC, ParamsMemory};
pub use layout::priority_table::{BehindTree, TableCounters, TableSettings};
pub use layout::reader_table::{
    AGE_BINS, AgeCounts, LanePins, READERS_MAGIC, ReaderRecord, SharedNotifier,
};
pub use layout::sealed_header::SEALED_MAGIC;
pub use layout::superblock::{LAYOUT_VERSION, MAGIC, SUPERBLOCK_BYTES, Superblock};
pub use layout::table_header::TABLE_MAGIC;
pub use layout::tables::{Field, tables};
pub use layout::window_set::{InterleavedPrefetch, WindowSet, WindowSlice};
pub use os::bytes::Bytes;
pub use os::fork_id::forks;
pub use os::lock_holders::{has_ended, of_file as flock_holders};
pub use os::mirror::{MirroredBlocks, MirroredBlocksMut};
pub use os::page_size;
pub use os::peer::{Peer, receive, send_with_descriptor};
pub use os::space::{SpaceLimits, memory_left};
pub use store::base_lock::{BaseLock, DAEMON_SOCKET, LockAttempt};
pub use store::claim_state::ClaimTableState;
pub use store::claim_table::{ClaimTable, ClaimTableInfo};
pub use store::learned_table::{LearnedTable, LearnedTableInfo, LearnedView};
pub use store::mapped_lanes::Lanes;
pub use store::memfd::MemfdKeeper;
pub use store::object::{
    ObjectInfo, collect_garbage, list_objects, object_holders, remove_object, remove_unheld_object,
};
pub use store::params_files::FirstVersion;
pub use store::params_pins::{ParamsPins, PinnedVersion};
pub use store::params_store::{ParamsCounters, ParamsPublisher, ParamsStore};
pub use store::reader_pins::{MAX_PINNED_RANGES, PinnedRows, ReaderPins, ReaderPinsError};
pub use store::relocation::{LaneSize, PendingResize, Relocation, finish_relocation};
pub use store::ring_store::{ClaimedReader, LiveSampler, RingStore};
pub use store::sealed_segment::SealedSegment;
pub use store::table::{PriorityTable, TableGuard, TableInfo, UnnamedTable};
pub use store::table_file::NamedTable;
pub use store::table_removal::UnreadableTable;
pub use store::table_view::TableView;
pub use store::unnamed_ring::{UnnamedLane, UnnamedRing};
