//! Common fields of the headers of all kinds of `table-NAME.dat`.

use std::path::Path;

use bytemuck::{Pod, Zeroable};

use crate::error::SegmentError;
use crate::layout::origin::{Origin, boot_id_hash, header_crc};
use crate::layout::superblock::{ENDIAN_TAG, LAYOUT_VERSION};

/// First bytes of a table.
pub const TABLE_MAGIC: [u8; 8] = *b"\x89BKS\r\n\x1a\n";
/// Number of the kind of table that holds priorities in a sum tree.
pub(crate) const KIND_PRIORITIES: u32 = 1;
/// Number of the kind of table that holds claims.
pub(crate) const KIND_CLAIMS: u32 = 2;
/// Number of the kind of table that holds learned columns.
pub(crate) const KIND_LEARNED: u32 = 3;

/// Beginning of the header of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TableOrigin {
    /// [`TABLE_MAGIC`].
    pub magic: [u8; 8],
    /// [`LAYOUT_VERSION`].
    pub layout_version: u32,
    /// [`ENDIAN_TAG`].
    pub endian_tag: u32,
    /// Hash of the machine's boot id, as in the superblock.
    pub boot_id_hash: u64,
    /// Random id of the ring, as in the superblock.
    pub ring_uuid: [u8; 16],
}

impl TableOrigin {
    /// Makes the beginning of a new table of a ring.
    pub(crate) fn new(ring_uuid: [u8; 16]) -> Self {
        Self {
            magic: TABLE_MAGIC,
            layout_version: LAYOUT_VERSION,
            endian_tag: ENDIAN_TAG,
            boot_id_hash: boot_id_hash(),
            ring_uuid,
        }
    }
}

/// Header of a table of any kind: the fields that all kinds have in the same places. The structs of
/// the kinds name the others.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CommonHeader {
    origin: TableOrigin,
    own_word: u64,
    lane_count: u32,
    kind: u32,
    own_bytes: [u8; 68],
    crc32: u32,
}

const _: () = assert!(size_of::<CommonHeader>() == 128);

impl CommonHeader {
    /// Reads the common fields of a header, which has 128 bytes.
    pub(crate) fn of<H: Pod>(header: &H) -> Self {
        bytemuck::cast(*header)
    }

    /// Returns the number of the kind, or `None` if it is no header of a table.
    pub(crate) fn kind(&self) -> Option<u32> {
        (self.origin.magic == TABLE_MAGIC).then_some(self.kind)
    }

    /// Checks the common fields against a kind of table, and a ring's id and number of lanes.
    pub(crate) fn check(
        &self,
        path: &Path,
        kind: u32,
        ring_uuid: [u8; 16],
        lanes: u32,
    ) -> Result<(), SegmentError> {
        let TableOrigin { magic, layout_version, endian_tag, boot_id_hash, .. } = self.origin;
        let origin = Origin { magic, layout_version, endian_tag, boot_id_hash, crc32: self.crc32 };
        origin.check(path, TABLE_MAGIC, header_crc(self))?;
        if (self.origin.ring_uuid, self.lane_count) != (ring_uuid, lanes) {
            return Err(SegmentError::corrupt(path, "it is a table of another ring"));
        }
        if self.kind != kind {
            let contents = contents(kind).unwrap_or("this kind");
            return Err(SegmentError::corrupt(path, format!("it is no table of {contents}")));
        }
        Ok(())
    }
}

/// Returns what a kind of tables holds.
pub(crate) fn contents(kind: u32) -> Option<&'static str> {
    match kind {
        KIND_PRIORITIES => Some("priorities"),
        KIND_CLAIMS => Some("claims"),
        KIND_LEARNED => Some("learned columns"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::layout::tables::tables;

    #[test]
    fn all_kinds_have_the_common_fields_in_the_same_places() {
        let places = [
            ("magic", offset_of!(CommonHeader, origin.magic)),
            ("layout_version", offset_of!(CommonHeader, origin.layout_version)),
            ("endian_tag", offset_of!(CommonHeader, origin.endian_tag)),
            ("boot_id_hash", offset_of!(CommonHeader, origin.boot_id_hash)),
            ("ring_uuid", offset_of!(CommonHeader, origin.ring_uuid)),
            ("lane_count", offset_of!(CommonHeader, lane_count)),
            ("kind", offset_of!(CommonHeader, kind)),
            ("crc32", offset_of!(CommonHeader, crc32)),
        ];
        let fields = tables();
        for table in ["TableHeader", "ClaimHeader", "LearnedHeader"] {
            for (name, offset) in places {
                let mut of_table = fields.iter().filter(|field| field.table == table);
                let found = of_table.find(|field| field.field == name);
                assert_eq!(found.map(|field| field.offset), Some(offset), "{table}.{name}");
            }
        }
    }
}
