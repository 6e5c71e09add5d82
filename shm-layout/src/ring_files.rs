//! The files of a ring: made whole, and read back only where every byte of their identity is right.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::column::{Column, ColumnRecord};
use crate::error::SegmentError;
use crate::geometry::{Geometry, RingSpec};
use crate::lane_header::LaneIdentity;
use crate::object::{Object, unix_ns};
use crate::origin::boot_id_hash;
use crate::readers::{Readers, ReadersHeader};
use crate::superblock::{
    ENDIAN_TAG, LAYOUT_VERSION, LINE_BYTES, MAGIC, SUPERBLOCK_BYTES, Superblock,
};
use crate::sys::lane::Lane;
use crate::sys::map::{Access, Mapping, page_size};
use crate::sys::{file, huge, space};
use crate::tables::abi_fingerprint;

pub(crate) const CTL: &str = "ring.ctl";
const RDR: &str = "ring.rdr";
/// Marks a ring that nobody writes.
pub(crate) const SNAPSHOT_FILE: &str = "snapshot";

/// What every file of one ring repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) ring_uuid: [u8; 16],
    pub(crate) schema_hash: [u8; 32],
}

pub(crate) fn lane_file(lane: u32) -> String {
    format!("lane-{lane:04}.dat")
}

/// The schema block.
pub(crate) fn records(spec: &RingSpec, geometry: &Geometry) -> Vec<ColumnRecord> {
    let places = spec.columns.iter().zip(&geometry.places);
    places.map(|(column, place)| ColumnRecord::new(column, place.offset, place.length)).collect()
}

pub(crate) fn make(
    dir: &OwnedFd,
    path: &Path,
    spec: &RingSpec,
    geometry: &Geometry,
) -> Result<Identity, SegmentError> {
    use std::io::{Seek, SeekFrom, Write};
    space::check_room(path, geometry.total_bytes(spec.lanes))?;
    let records = records(spec, geometry);
    let schema: &[u8] = bytemuck::cast_slice(&records);
    let schema_hash = *blake3::hash(schema).as_bytes();
    let ring_uuid: [u8; 16] = rand::random();
    let identity = Identity { ring_uuid, schema_hash };
    let make = |name: &str, bytes: u64, parts: &[&[u8]]| {
        let mut made = file::make(dir, name, path)?;
        space::pay(&mut made, &path.join(name), bytes)?;
        made.seek(SeekFrom::Start(0))
            .and_then(|_| parts.iter().try_for_each(|part| made.write_all(part)))
            .map_err(SegmentError::io("write", &path.join(name)))?;
        Ok::<_, SegmentError>(made)
    };
    if spec.snapshot {
        file::make(dir, SNAPSHOT_FILE, path)?;
    }
    let readers = ReadersHeader::new(ring_uuid, spec.reader_slots);
    make(RDR, geometry.rdr_bytes, &[bytemuck::bytes_of(&readers)])?;
    let mut huge_bytes = 0;
    let deadline = huge::deadline(geometry.total_bytes(spec.lanes));
    for lane in 0..spec.lanes {
        let header = LaneIdentity::new(ring_uuid, &schema_hash, lane, geometry.slots);
        let file = make(&lane_file(lane), geometry.lane_bytes, &[bytemuck::bytes_of(&header)])?;
        if spec.huge_pages {
            huge_bytes += huge::ask(&file, geometry.lane_bytes, deadline);
        }
    }
    let (lane_policy, lease_timeout_ms) = spec.policy.to_words();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let superblock = Superblock {
        magic: MAGIC,
        layout_version: LAYOUT_VERSION,
        endian_tag: ENDIAN_TAG,
        abi_fingerprint: abi_fingerprint(),
        ctl_bytes: geometry.ctl_bytes,
        rdr_bytes: geometry.rdr_bytes,
        lane_bytes: geometry.lane_bytes,
        map_align: count(page_size()),
        line_bytes: LINE_BYTES,
        lane_count: spec.lanes,
        column_count: count(spec.columns.len()),
        slots: geometry.slots,
        lane_capacity: spec.lane_capacity,
        reserve_chunk: spec.reserve_chunk,
        reader_slots: spec.reader_slots,
        asked_rows: spec.asked_rows,
        asked_bytes: spec.asked_bytes,
        schema_offset: SUPERBLOCK_BYTES,
        schema_hash,
        ring_uuid,
        created_unix_ns: unix_ns(),
        boot_id_hash: boot_id_hash(),
        lane_policy,
        lease_timeout_ms,
        huge_bytes,
        unused: [0; 3900],
        crc32: 0,
    }
    .sealed();
    make(CTL, geometry.ctl_bytes, &[bytemuck::bytes_of(&superblock), schema])?;
    Ok(identity)
}

/// The superblock and the columns, from one private copy of `ring.ctl`.
pub(crate) fn read_ctl(object: &Object) -> Result<(Superblock, Vec<Column>), SegmentError> {
    let path = object.path().join(CTL);
    let corrupt = |what: String| SegmentError::corrupt(&path, what);
    let fd = object.file(CTL, Access::ReadOnly, None)?;
    let len = rustix::fs::fstat(&fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    let most = SUPERBLOCK_BYTES + 128 * crate::geometry::MAX_COLUMNS as u64 + (1 << 21);
    if len < SUPERBLOCK_BYTES || len > most {
        return Err(corrupt(format!("it has {len} bytes, not {SUPERBLOCK_BYTES} to {most}")));
    }
    let len = usize::try_from(len).map_err(|_| corrupt("it does not fit memory".into()))?;
    let memory =
        Mapping::file(fd.as_fd(), len, Access::ReadOnly).map_err(SegmentError::io("map", &path))?;
    let superblock: Superblock = bytemuck::pod_read_unaligned(&memory.copy(0, 4096));
    superblock.check_identity(&path)?;
    let page = page_size() as u64;
    let align = u64::from(superblock.map_align);
    if !align.is_power_of_two() || align % page != 0 || align > 1 << 21 {
        let why = format!("its parts are aligned to {align} bytes, pages here have {page}");
        return Err(corrupt(why));
    }
    let count = superblock.column_count as usize;
    if superblock.line_bytes != LINE_BYTES
        || superblock.schema_offset != SUPERBLOCK_BYTES
        || superblock.ctl_bytes != len as u64
        || count == 0
        || count > crate::geometry::MAX_COLUMNS
        || 4096 + count * size_of::<ColumnRecord>() > len
    {
        return Err(corrupt("its superblock contradicts itself".into()));
    }
    let schema = memory.copy(4096, count * size_of::<ColumnRecord>());
    if *blake3::hash(&schema).as_bytes() != superblock.schema_hash {
        return Err(corrupt("its schema block does not have the hash in the superblock".into()));
    }
    let columns = schema
        .chunks_exact(size_of::<ColumnRecord>())
        .map(|bytes| bytemuck::pod_read_unaligned::<ColumnRecord>(bytes).column())
        .collect::<Option<Vec<_>>>();
    let columns = columns.ok_or_else(|| corrupt("a column record is not one of ours".into()))?;
    Ok((superblock, columns))
}

pub(crate) fn map_readers(
    object: &Object,
    geometry: &Geometry,
    ring_uuid: [u8; 16],
    spec: &RingSpec,
) -> Result<Readers, SegmentError> {
    let path = object.path().join(RDR);
    let fd = object.file(RDR, Access::ReadWrite, Some(geometry.rdr_bytes))?;
    let len = usize::try_from(geometry.rdr_bytes).unwrap_or(usize::MAX);
    let map = Mapping::file(fd.as_fd(), len, Access::ReadWrite)
        .map_err(SegmentError::io("map", &path))?;
    let found = map.copy(0, size_of::<ReadersHeader>());
    if found != bytemuck::bytes_of(&ReadersHeader::new(ring_uuid, spec.reader_slots)) {
        return Err(SegmentError::corrupt(&path, "its header is not that of this ring"));
    }
    Ok(Readers::new(map, spec.reader_slots, spec.lanes))
}

/// Maps a lane's file, which was opened from `path` and has the right length.
pub(crate) fn map_lane(
    fd: &OwnedFd,
    path: &Path,
    geometry: &Geometry,
    identity: &Identity,
    lane: u32,
    access: Access,
) -> Result<Lane, SegmentError> {
    let map = Lane::map(fd.as_fd(), geometry, access).map_err(SegmentError::io("map", path))?;
    let found = map.memory().copy(0, size_of::<LaneIdentity>());
    let expected =
        LaneIdentity::new(identity.ring_uuid, &identity.schema_hash, lane, geometry.slots);
    if found != bytemuck::bytes_of(&expected) {
        return Err(SegmentError::corrupt(path, "its header is not that of this ring's lane"));
    }
    Ok(map)
}
