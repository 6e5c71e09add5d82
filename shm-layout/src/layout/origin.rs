//! Origin of a header: this project, layout version, byte order and boot of the machine, and its
//! checksum.

use std::os::fd::AsFd;
use std::path::Path;

use bytemuck::Pod;

use crate::error::SegmentError;
use crate::layout::superblock::{ENDIAN_TAG, LAYOUT_VERSION};

/// Fields of a file's first header that tell its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) magic: [u8; 8],
    pub(crate) layout_version: u32,
    pub(crate) endian_tag: u32,
    pub(crate) boot_id_hash: u64,
    pub(crate) crc32: u32,
}

impl Origin {
    /// Refuses a damaged header, and one of another layout version, byte order or boot of the host.
    /// `magic` holds the expected first bytes, `crc32` the checksum computed from the header.
    pub(crate) fn check(self, path: &Path, magic: [u8; 8], crc32: u32) -> Result<(), SegmentError> {
        let corrupt = |what: String| Err(SegmentError::corrupt(path, what));
        if self.magic != magic {
            return corrupt(format!("it begins with {:02x?}, not {magic:02x?}", self.magic));
        }
        if self.endian_tag != ENDIAN_TAG {
            return corrupt(format!("its byte order tag is {:#010x}", self.endian_tag));
        }
        if self.layout_version != LAYOUT_VERSION {
            return Err(SegmentError::WrongVersion {
                path: path.to_owned(),
                found: self.layout_version,
                supported: LAYOUT_VERSION,
            });
        }
        if self.crc32 != crc32 {
            return corrupt(format!("its header has CRC {crc32:08x}, not {:08x}", self.crc32));
        }
        let (here, there) = (boot_id_hash(), self.boot_id_hash);
        if here != there && here != 0 && there != 0 {
            return corrupt("it dates from before the machine's last start and may be torn".into());
        }
        Ok(())
    }
}

/// Returns whether a file begins with a Backcast header of another layout version.
pub(crate) fn is_of_other_version(file: impl AsFd) -> bool {
    let mut begin = [0; 16];
    if rustix::io::pread(file, &mut begin, 0) != Ok(begin.len()) {
        return false;
    }
    // Magic, version and byte order tag have the same places in every version.
    let [magic, rest] = [&begin[..8], &begin[8..]];
    let ours = [
        crate::layout::superblock::MAGIC,
        crate::layout::sealed_header::SEALED_MAGIC,
        crate::layout::params_table::PARAMS_MAGIC,
    ];
    let version = rest.first_chunk().map_or(LAYOUT_VERSION, |bytes| u32::from_le_bytes(*bytes));
    ours.iter().any(|known| known == magic) && version != 0 && version != LAYOUT_VERSION
}

/// Returns the CRC-32 of a header that ends with its own CRC: of all bytes but the last four.
pub(crate) fn header_crc<T: Pod>(header: &T) -> u32 {
    let bytes = bytemuck::bytes_of(header);
    crc32fast::hash(bytes.split_last_chunk::<4>().map_or(bytes, |(head, _)| head))
}

/// Returns a number that changes with every boot of the machine; 0 where it is unknown.
#[must_use]
pub fn boot_id_hash() -> u64 {
    std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| {
        let hash = blake3::hash(&id);
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    })
}
