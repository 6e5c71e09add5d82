//! The header of a sealed segment.

use bytemuck::{Pod, Zeroable};

/// Bytes of the header of a sealed segment.
pub(crate) const SEALED_HEADER_BYTES: u64 = 4096;
/// First bytes of a sealed segment.
pub const SEALED_MAGIC: [u8; 8] = *b"\x89BKP\r\n\x1a\n";
/// Header of a sealed segment, written once before the segment has a name. The metadata follows at
/// byte 4096, the data at the next multiple of 4096.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SealedHeader {
    /// [`SEALED_MAGIC`].
    pub magic: [u8; 8],
    /// [`LAYOUT_VERSION`].
    pub layout_version: u32,
    /// `ENDIAN_TAG`.
    pub endian_tag: u32,
    /// Bytes of metadata.
    pub meta_bytes: u64,
    /// Bytes of data, a multiple of 8.
    pub data_bytes: u64,
    /// BLAKE3 of the metadata.
    pub meta_hash: [u8; 32],
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Hash of the machine's boot id, as in the superblock.
    pub boot_id_hash: u64,
    /// Zero.
    pub unused: [u8; 4012],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

const _: () = assert!(size_of::<SealedHeader>() as u64 == SEALED_HEADER_BYTES);
