//! The header of a lane: its identity, then the counters of its one writer on separate cache lines.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};

use crate::layout::geometry::Geometry;
use crate::layout::origin::header_crc;

/// Bytes of the header; in a file padded to the page size.
pub(crate) const LANE_HEADER_BYTES: u64 = 512;
/// First bytes of `lane-NNNN.dat`.
pub const LANE_MAGIC: [u8; 8] = *b"\x89BKL\r\n\x1a\n";

/// Identity of a lane, written once by the process that made the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneIdentity {
    /// [`LANE_MAGIC`].
    pub magic: [u8; 8],
    /// Random id of the ring, as in the superblock.
    pub ring_uuid: [u8; 16],
    /// First half of the hash of the schema block, as it is for lanes of this size.
    pub schema_hash: [u8; 16],
    /// Number of the lane.
    pub lane: u32,
    /// Number of the resize that made the file. 0 if it was made with the ring.
    pub resizes: u32,
    /// Physical rows.
    pub slots: u64,
    /// Rows that readers may count on.
    pub lane_capacity: u64,
    /// Zero.
    pub unused: [u8; 60],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

impl LaneIdentity {
    pub(crate) fn new(
        ring_uuid: [u8; 16],
        schema_hash: &[u8; 32],
        geometry: &Geometry,
        lane: u32,
        resizes: u32,
    ) -> Self {
        let schema_hash = schema_hash.first_chunk().copied().unwrap_or_default();
        let mut identity = Self {
            magic: LANE_MAGIC,
            ring_uuid,
            schema_hash,
            lane,
            resizes,
            slots: geometry.slots,
            lane_capacity: geometry.lane_capacity,
            unused: [0; 60],
            crc32: 0,
        };
        identity.crc32 = header_crc(&identity);
        identity
    }
}

/// The whole header, for its offsets: live counters are atomics and are accessed one by one.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct LaneHeader {
    /// Identity, which never changes.
    pub identity: LaneIdentity,
    /// One past the last row announced, or 2^63 once the lane is relocated: all rows are in the
    /// file that replaces this one. Never goes down.
    pub reserved: u64,
    /// Padding to the end of the cache line.
    pub pad1: [u8; 120],
    /// Next sequence number to be published.
    pub head: u64,
    /// Padding to the end of the cache line.
    pub pad2: [u8; 120],
    /// How often the lane was claimed.
    pub generation: u64,
    /// Process id of the last writer. Only for messages.
    pub pid: u64,
    /// Time of the last claim, in nanoseconds since 1970.
    pub claimed_unix_ns: u64,
    /// Rows that writers dropped because a lease blocked them.
    pub dropped: u64,
    /// How often a writer waited, dropped or failed because of a lease.
    pub stalls: u64,
    /// Episodes cut because an append did not begin with the `next_obs` of the one before.
    pub cuts: u64,
    /// Episodes whose beginning suggests another autoreset mode.
    pub suspect_resets: u64,
    /// Zero.
    pub pad3: [u8; 72],
}

const _: () = {
    assert!(size_of::<LaneIdentity>() == 128);
    assert!(size_of::<LaneHeader>() as u64 == LANE_HEADER_BYTES);
    assert!(offset_of!(LaneHeader, reserved) == 0x080);
    assert!(offset_of!(LaneHeader, head) == 0x100);
    assert!(offset_of!(LaneHeader, generation) == 0x180);
};
