//! What a ring looks like from outside, at one moment.

use std::path::PathBuf;

use backcast_layout::{Column, LanePolicy};

/// Sizes, lanes and readers of a ring. Taken without stopping anybody, so the numbers are each
/// true and not of one instant.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct RingStats {
    /// Name; `None` on the heap.
    pub name: Option<String>,
    /// Directory; `None` on the heap.
    pub path: Option<PathBuf>,
    /// Single-writer lanes.
    pub lanes: u32,
    /// Rows a lane keeps for readers.
    pub lane_capacity: u64,
    /// Physical rows of a lane.
    pub slots: u64,
    /// Rows all lanes keep together.
    pub capacity: u64,
    /// Transitions that can be drawn.
    pub transitions: u64,
    /// Rows published since the ring was made.
    pub rows_published: u64,
    /// Bytes that the capacity asked for needs, built-in columns included.
    pub bytes_asked: u64,
    /// Bytes allocated.
    pub bytes_allocated: u64,
    /// Of these, bytes on huge pages when the ring was made.
    pub bytes_huge: u64,
    /// Stays when nobody holds it.
    pub persistent: bool,
    /// It lies in sealed memfds, not in files.
    pub memfd: bool,
    /// It was removed or replaced, so that no process can attach to it any more.
    pub unlinked: bool,
    /// Bytes of a row, built-in columns included.
    pub row_bytes: u64,
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// What a writer does about a lease in its way.
    pub lane_policy: LanePolicy,
    /// The user's columns.
    pub columns: Vec<Column>,
    /// Per lane.
    pub lane_stats: Vec<LaneStats>,
    /// Readers that hold a slot.
    pub readers: Vec<ReaderStats>,
    /// Rows that are frozen now.
    pub pins: Vec<PinStats>,
    /// Some process may be asleep until a row is published. One that was killed in its sleep counts
    /// until the next row.
    pub rows_awaited: bool,
    /// Some writer may be asleep until a lease ends; as above.
    pub release_awaited: bool,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// Number of the lane.
    pub lane: u32,
    /// Rows published since the ring was made.
    pub head: u64,
    /// One past the last row announced.
    pub reserved: u64,
    /// Rows readable now.
    pub rows: u64,
    /// Transitions that can be drawn.
    pub transitions: u64,
    /// Episodes begun since the ring was made.
    pub episodes: u64,
    /// How often a writer claimed the lane.
    pub generation: u64,
    /// Some writer has it now.
    pub held: bool,
    /// Process that holds it, or of its last writer, as that says.
    pub pid: Option<u64>,
    /// Rows that writers dropped because a lease was in the way.
    pub dropped: u64,
    /// How often a writer waited, dropped or failed because of a lease.
    pub stalls: u64,
    /// Episodes cut because an append did not begin with the `next_obs` of the one before.
    pub cuts: u64,
    /// Episodes that begin as they hardly do in the writer's autoreset mode: see
    /// [`Doubt`](crate::Doubt).
    pub suspect_resets: u64,
}

/// The leases of one reader on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinStats {
    /// Number of the reader's slot.
    pub slot: u32,
    /// Its process, as it says.
    pub pid: u64,
    /// Number of the lane.
    pub lane: u32,
    /// First row frozen.
    pub start: u64,
}

/// One reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderStats {
    /// Number of its slot.
    pub slot: u32,
    /// Its process, as it says.
    pub pid: u64,
    /// Rows it has drawn.
    pub sampled_rows: u64,
    /// Batches it has drawn.
    pub sampled_batches: u64,
    /// Draws it threw away because a writer passed it.
    pub lapped: u64,
    /// Leases it was granted.
    pub leases: u64,
    /// How often a writer waited, dropped or failed because of one of them.
    pub stalls: u64,
}
