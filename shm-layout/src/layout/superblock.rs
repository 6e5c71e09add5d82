//! The superblock: identity and geometry of a ring, the first page of `ring.ctl`.

use std::path::Path;

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::layout::origin::{Origin, header_crc};
use crate::layout::tables::abi_fingerprint;

/// Bytes of the superblock.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// First bytes of `ring.ctl`. As in PNG, a copy in text mode changes them, so attaching detects it.
pub const MAGIC: [u8; 8] = *b"\x89BKC\r\n\x1a\n";
/// Version of every table in docs/layout.md. Readers and writers must agree on it.
pub const LAYOUT_VERSION: u32 = 12;
/// Bit of [`Superblock::files`] of a ring with a rate limiter.
pub(crate) const HAS_LIMITER: u32 = 1;
/// Bit of [`Superblock::files`] of a snapshot.
pub(crate) const IS_SNAPSHOT: u32 = 2;
/// Value that reads as another number on a host of the other byte order.
pub(crate) const ENDIAN_TAG: u32 = 0x0102_0304;
/// Bytes of a line of counters; those of different writers are on separate lines. A line is two
/// cache lines of 64 bytes, because x86 prefetches these in pairs and other machines have lines of
/// 128 bytes.
pub(crate) const LINE_BYTES: u32 = 128;

/// Identity and geometry of a ring, written once before the ring has a name. Attaching copies it to
/// private memory and checks it. A resize puts another file in its place.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`LAYOUT_VERSION`].
    pub layout_version: u32,
    /// `ENDIAN_TAG`.
    pub endian_tag: u32,
    /// Hash of the offsets and sizes in the tables of rings and panels, and of the numbers of
    /// element types and roles.
    pub abi_fingerprint: u64,
    /// Bytes of `ring.ctl`.
    pub ctl_bytes: u64,
    /// Bytes of `ring.rdr`.
    pub rdr_bytes: u64,
    /// Bytes of a `lane-NNNN.dat` of the current size. During a resize, lanes that are not
    /// relocated yet have the old size.
    pub lane_bytes: u64,
    /// Mapped parts are multiples of this: the creator's page size.
    pub map_align: u32,
    /// `LINE_BYTES`.
    pub line_bytes: u32,
    /// Lanes of the ring.
    pub lane_count: u32,
    /// Records in the schema block.
    pub column_count: u32,
    /// Physical rows of a lane of the current size.
    pub slots: u64,
    /// Rows of a lane of the current size that a reader may count on.
    pub lane_capacity: u64,
    /// Rows announced at a time.
    pub reserve_chunk: u32,
    /// Reader slots in `ring.rdr`.
    pub reader_slots: u32,
    /// Capacity that the user gave in rows, or 0.
    pub asked_rows: u64,
    /// Capacity that the user gave in bytes, or 0.
    pub asked_bytes: u64,
    /// First byte of the schema block.
    pub schema_offset: u64,
    /// BLAKE3 of the schema block.
    pub schema_hash: [u8; 32],
    /// Random id of the ring, which the headers of its other files repeat.
    pub ring_uuid: [u8; 16],
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Hash of the machine's boot id: files that outlived a reboot may be torn.
    pub boot_id_hash: u64,
    /// Policy of writers about leases: 0 overwrite (no leases), 1 block, 2 drop the new row, 3
    /// fail.
    pub lane_policy: u32,
    /// Maximum wait of a writer for a lease, in milliseconds.
    pub lease_timeout_ms: u32,
    /// Bytes of the lanes that were on huge pages when they were made.
    pub huge_bytes: u64,
    /// Rows of a lane that the ring was created with.
    pub made_lane_capacity: u64,
    /// Number of resizes of the ring.
    pub resizes: u32,
    /// Files that only some rings have, a bit each: a limiter, the mark of a snapshot.
    pub files: u32,
    /// Zero.
    pub unused: [u8; 3884],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

const _: () = assert!(size_of::<Superblock>() as u64 == SUPERBLOCK_BYTES);

impl Superblock {
    pub(crate) fn sealed(mut self) -> Self {
        self.crc32 = header_crc(&self);
        self
    }

    /// Checks that the bytes are a superblock of this version, this host and this boot.
    pub(crate) fn check_identity(&self, path: &Path) -> Result<(), SegmentError> {
        let Self { magic, layout_version, endian_tag, boot_id_hash, crc32, .. } = *self;
        let origin = Origin { magic, layout_version, endian_tag, boot_id_hash, crc32 };
        origin.check(path, MAGIC, header_crc(self))?;
        if self.abi_fingerprint != abi_fingerprint() {
            let what = "its tables are laid out differently from this build's";
            return Err(SegmentError::corrupt(path, what));
        }
        Ok(())
    }
}
