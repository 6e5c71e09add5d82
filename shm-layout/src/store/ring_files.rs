//! Files of a ring: created whole, and opened only if every byte of their identity is right.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::error::SegmentError;
use crate::layout::column::{Column, ColumnRecord};
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::Lane;
use crate::layout::lane_header::LaneIdentity;
use crate::layout::lane_shape::{LaneShape, LaneShapes, records};
use crate::layout::limiter_table::{LimitBytes, LimiterHeader, LimiterTable};
use crate::layout::low_marks::{LowMarks, LowMarksHeader};
use crate::layout::origin::boot_id_hash;
use crate::layout::reader_table::{ReaderTable, ReadersHeader};
use crate::layout::superblock::{
    ENDIAN_TAG, HAS_LIMITER, IS_SNAPSHOT, LAYOUT_VERSION, LINE_BYTES, MAGIC, SUPERBLOCK_BYTES,
    Superblock,
};
use crate::layout::tables::abi_fingerprint;
use crate::os::clock::unix_ns;
use crate::os::mapping::{Access, Mapping, page_size};
use crate::os::{files, huge_pages, space};
use crate::store::memfd::{self, KeptMemfds};
use crate::store::object::Object;

pub(crate) const CTL: &str = "ring.ctl";
/// File that replaces `ring.ctl` when the ring is resized.
pub(crate) const NEXT_CTL: &str = "ring.ctl.next";
/// Suffix of files that will replace others.
pub(crate) const NEXT_SUFFIX: &str = ".next";
pub(crate) const RDR: &str = "ring.rdr";
/// File of the limiter, in a ring that has one.
pub(crate) const LIM: &str = "ring.lim";
/// File of the marks below which readers ignore rows.
pub(crate) const LOW: &str = "ring.low";
/// File that marks a snapshot, and describes its source.
pub(crate) const SNAPSHOT_FILE: &str = "snapshot";
/// Maximum bytes of that description.
const MAX_MARK_BYTES: usize = 255;

pub(crate) fn lane_file(lane: u32) -> String {
    format!("lane-{lane:04}.dat")
}

/// Returns the name of the file that replaces a lane when it is relocated.
pub(crate) fn next_file(lane: u32) -> String {
    format!("lane-{lane:04}.next")
}

/// Folder in which the files of a ring are created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFolder<'a> {
    pub(crate) dir: &'a OwnedFd,
    pub(crate) path: &'a Path,
    /// Descriptors of the mapped files, if these are sealed memfds.
    pub(crate) memfds: Option<&'a KeptMemfds>,
}

impl RingFolder<'_> {
    /// Creates an empty file, or an empty memfd with its link.
    pub(crate) fn new_file(&self, name: &str) -> Result<File, SegmentError> {
        match self.memfds {
            None => files::make(self.dir, name, self.path),
            Some(memory) => memfd::make(self.dir, name, self.path, memory),
        }
    }

    /// Opens a file of the folder.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<OwnedFd, SegmentError> {
        match self.memfds {
            None => files::open(self.dir, name, self.path, access, None),
            Some(memory) => memfd::open(self.dir, name, self.path, access, None, memory),
        }
    }

    /// Refuses a number of bytes that is known not to fit.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<(), SegmentError> {
        match self.memfds {
            None => space::check_room(self.path, bytes),
            Some(_) => space::check_memory(self.path, bytes),
        }
    }

    /// Creates a file of `bytes` bytes, all of them allocated, that begins with `parts`.
    fn write(&self, name: &str, bytes: u64, parts: &[&[u8]]) -> Result<(), SegmentError> {
        self.fill(self.new_file(name)?, name, bytes, parts)
    }

    /// Allocates a file and writes its beginning. Then seals the size of a memfd.
    pub(crate) fn fill(
        &self,
        mut made: File,
        name: &str,
        bytes: u64,
        parts: &[&[u8]],
    ) -> Result<(), SegmentError> {
        let path = &self.path.join(name);
        space::allocate(&mut made, path, bytes)?;
        made.seek(SeekFrom::Start(0))
            .and_then(|_| parts.iter().try_for_each(|part| made.write_all(part)))
            .map_err(SegmentError::io("write", path))?;
        self.memfds.map_or(Ok(()), |_| memfd::seal(&made, path))
    }
}

pub(crate) fn make(folder: RingFolder<'_>, spec: &RingSpec) -> Result<LaneShapes, SegmentError> {
    let RingFolder { dir, path, .. } = folder;
    let shapes = LaneShapes::new(rand::random(), spec.clone(), page_size() as u64);
    let shape = shapes.of(spec.lane_capacity)?;
    let geometry = &shape.geometry;
    folder.check_room(geometry.total_bytes(spec.lanes))?;
    if spec.snapshot {
        let mark = spec.snapshot_of.as_bytes();
        files::make(dir, SNAPSHOT_FILE, path)?
            .write_all(mark.get(..MAX_MARK_BYTES).unwrap_or(mark))
            .map_err(SegmentError::io("write", &path.join(SNAPSHOT_FILE)))?;
    }
    make_readers(folder, &shapes, geometry)?;
    make_limiter(folder, &shapes, geometry)?;
    let marks = LowMarksHeader::new(shapes.ring_uuid, spec.lanes);
    folder.write(LOW, geometry.low_bytes, &[bytemuck::bytes_of(&marks)])?;
    let huge_bytes = make_lanes(folder, &shapes, &shape, 0, &lane_file)?;
    let origin = (unix_ns(), spec.lane_capacity, 0);
    write_ctl(folder, CTL, &shapes, &shape, huge_bytes, origin)?;
    Ok(shapes)
}

/// Creates `ring.rdr`.
fn make_readers(
    folder: RingFolder<'_>,
    shapes: &LaneShapes,
    geometry: &Geometry,
) -> Result<(), SegmentError> {
    let readers = ReadersHeader::new(shapes.ring_uuid, shapes.spec().reader_slots);
    folder.write(RDR, geometry.rdr_bytes, &[bytemuck::bytes_of(&readers)])
}

/// Creates `ring.lim`, in a ring that has a limiter.
fn make_limiter(
    folder: RingFolder<'_>,
    shapes: &LaneShapes,
    geometry: &Geometry,
) -> Result<(), SegmentError> {
    let spec = shapes.spec();
    let Some(made) = spec.limits else { return Ok(()) };
    let header = LimiterHeader::new(shapes.ring_uuid, spec.lanes, spec.reader_slots, made);
    folder.write(LIM, geometry.lim_bytes, &[&header.file()])
}

/// Creates the files of all lanes, under the names that `name` gives them. Returns the bytes that
/// are on huge pages.
pub(crate) fn make_lanes(
    folder: RingFolder<'_>,
    shapes: &LaneShapes,
    shape: &LaneShape,
    resizes: u32,
    name: &dyn Fn(u32) -> String,
) -> Result<u64, SegmentError> {
    let (spec, bytes) = (shapes.spec(), shape.geometry.lane_bytes);
    let mut huge_bytes = 0;
    let deadline = huge_pages::deadline(shape.geometry.total_bytes(spec.lanes));
    for lane in 0..spec.lanes {
        let header = shapes.identity(shape, lane, resizes);
        let (name, parts) = (name(lane), [bytemuck::bytes_of(&header)]);
        let file = folder.new_file(&name)?;
        if spec.huge_pages {
            // Request huge pages first, since small pages would be allocated in vain.
            huge_bytes += huge_pages::request(&file, bytes, deadline);
        }
        folder.fill(file, &name, bytes, &parts)?;
    }
    Ok(huge_bytes)
}

/// Writes `ring.ctl`, which describes all other files, under the name `name`. The last argument is
/// the time of creation, the rows of a lane at creation, and the number of resizes.
pub(crate) fn write_ctl(
    folder: RingFolder<'_>,
    name: &str,
    shapes: &LaneShapes,
    shape: &LaneShape,
    huge_bytes: u64,
    (created_unix_ns, made_lane_capacity, resizes): (u64, u64, u32),
) -> Result<(), SegmentError> {
    let (spec, geometry) = (shapes.spec(), &shape.geometry);
    let records = records(spec, geometry);
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
        map_align: u32::try_from(shapes.map_align()).unwrap_or(u32::MAX),
        line_bytes: LINE_BYTES,
        lane_count: spec.lanes,
        column_count: count(spec.columns.len()),
        slots: geometry.slots,
        lane_capacity: geometry.lane_capacity,
        reserve_chunk: spec.reserve_chunk,
        reader_slots: spec.reader_slots,
        asked_rows: spec.asked_rows,
        asked_bytes: spec.asked_bytes,
        schema_offset: SUPERBLOCK_BYTES,
        schema_hash: shape.schema_hash,
        ring_uuid: shapes.ring_uuid,
        created_unix_ns,
        boot_id_hash: boot_id_hash(),
        lane_policy,
        lease_timeout_ms,
        huge_bytes,
        made_lane_capacity,
        resizes,
        files: special_files(spec),
        unused: [0; 3884],
        crc32: 0,
    }
    .sealed();
    let parts = [bytemuck::bytes_of(&superblock), bytemuck::cast_slice(&records)];
    folder.write(name, geometry.ctl_bytes, &parts)
}

/// Returns the bits of the files that this ring has, but not every ring.
fn special_files(spec: &RingSpec) -> u32 {
    let limiter = if spec.limits.is_some() { HAS_LIMITER } else { 0 };
    let snapshot = if spec.snapshot { IS_SNAPSHOT } else { 0 };
    limiter | snapshot
}

/// Refuses a ring that has lost its limiter or its snapshot mark, or has one that it was not
/// created with. Without `ring.lim` new handles would not be limited. A snapshot without its mark
/// could be written.
pub(crate) fn check_special_files(
    object: &Object,
    superblock: &Superblock,
    spec: &RingSpec,
) -> Result<(), SegmentError> {
    let (said, found) = (superblock.files, special_files(spec));
    let files = [
        (HAS_LIMITER, LIM, "a rate limiter"),
        (IS_SNAPSHOT, SNAPSHOT_FILE, "the mark of a snapshot"),
    ];
    for (bit, file, what) in files {
        if (said ^ found) & bit != 0 {
            let why = if said & bit != 0 {
                format!("it is missing, and the ring was created with {what}")
            } else {
                format!("the ring was created without {what}, and the file is there")
            };
            return Err(SegmentError::corrupt(&object.path().join(file), why));
        }
    }
    Ok(())
}

/// Reads the source of a snapshot. Empty for other rings.
pub(crate) fn read_mark(object: &Object) -> Result<String, SegmentError> {
    if !object.has(SNAPSHOT_FILE) {
        return Ok(String::new());
    }
    let fd = object.file(SNAPSHOT_FILE, Access::ReadOnly, None)?;
    let mut mark = [0; MAX_MARK_BYTES];
    let read = rustix::io::pread(&fd, &mut mark, 0).map_err(|error| {
        SegmentError::io("read", &object.path().join(SNAPSHOT_FILE))(error.into())
    })?;
    Ok(String::from_utf8_lossy(mark.get(..read).unwrap_or_default()).into_owned())
}

/// Reads the superblock and the columns, each from a private copy of its bytes in `ring.ctl`.
pub(crate) fn read_ctl(object: &Object) -> Result<(Superblock, Vec<Column>), SegmentError> {
    let path = object.path().join(CTL);
    let corrupt = |what: String| SegmentError::corrupt(&path, what);
    let fd = object.memory(CTL, Access::ReadOnly, None)?;
    let len = rustix::fs::fstat(&fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    let most = SUPERBLOCK_BYTES + 128 * crate::layout::geometry::MAX_COLUMNS as u64 + (1 << 21);
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
        || count > crate::layout::geometry::MAX_COLUMNS
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
) -> Result<ReaderTable, SegmentError> {
    let path = object.path().join(RDR);
    let fd = object.memory(RDR, Access::ReadWrite, Some(geometry.rdr_bytes))?;
    let len = usize::try_from(geometry.rdr_bytes).unwrap_or(usize::MAX);
    let map = Mapping::file(fd.as_fd(), len, Access::ReadWrite)
        .map_err(SegmentError::io("map", &path))?;
    let found = map.copy(0, size_of::<ReadersHeader>());
    if found != bytemuck::bytes_of(&ReadersHeader::new(ring_uuid, spec.reader_slots)) {
        return Err(SegmentError::corrupt(&path, "its header is not that of this ring"));
    }
    Ok(ReaderTable::new(map, spec.reader_slots, spec.lanes))
}

/// Opens and maps `ring.low`: for reading, or to raise a mark.
pub(crate) fn map_low_marks(
    object: &Object,
    geometry: &Geometry,
    ring_uuid: [u8; 16],
    spec: &RingSpec,
    access: Access,
) -> Result<LowMarks, SegmentError> {
    let path = object.path().join(LOW);
    let fd = object.memory(LOW, access, Some(geometry.low_bytes))?;
    let len = usize::try_from(geometry.low_bytes).unwrap_or(usize::MAX);
    let map = Mapping::file(fd.as_fd(), len, access).map_err(SegmentError::io("map", &path))?;
    let found = map.copy(0, size_of::<LowMarksHeader>());
    if found != bytemuck::bytes_of(&LowMarksHeader::new(ring_uuid, spec.lanes)) {
        return Err(SegmentError::corrupt(&path, "its header is not that of this ring"));
    }
    Ok(LowMarks::new(map, spec.lanes))
}

/// Reads the limits that a ring was created with; `None` if it has no limiter.
pub(crate) fn read_limits(object: &Object) -> Result<Option<LimitBytes>, SegmentError> {
    if !object.has(LIM) {
        return Ok(None);
    }
    let fd = object.memory(LIM, Access::ReadOnly, None)?;
    let path = object.path().join(LIM);
    let mut found = [0; size_of::<LimiterHeader>()];
    let read = rustix::io::pread(&fd, &mut found, 0)
        .map_err(|error| SegmentError::io("read", &path)(error.into()))?;
    if read < found.len() {
        return Err(SegmentError::corrupt(&path, "it has too few bytes for a header"));
    }
    Ok(Some(bytemuck::pod_read_unaligned::<LimiterHeader>(&found).made))
}

/// Opens and maps `ring.lim`.
pub(crate) fn map_limiter(
    object: &Object,
    geometry: &Geometry,
    ring_uuid: [u8; 16],
    spec: &RingSpec,
) -> Result<Option<LimiterTable>, SegmentError> {
    let Some(made) = spec.limits else { return Ok(None) };
    let fd = object.memory(LIM, Access::ReadWrite, Some(geometry.lim_bytes))?;
    let header = LimiterHeader::new(ring_uuid, spec.lanes, spec.reader_slots, made);
    map_limits(&fd, &object.path().join(LIM), &header, geometry.lim_bytes).map(Some)
}

/// Maps the file of a limiter, whose header must be the one that the ring was created with.
pub(crate) fn map_limits(
    fd: &OwnedFd,
    path: &Path,
    header: &LimiterHeader,
    bytes: u64,
) -> Result<LimiterTable, SegmentError> {
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let map =
        Mapping::file(fd.as_fd(), len, Access::ReadWrite).map_err(SegmentError::io("map", path))?;
    if map.copy(0, size_of::<LimiterHeader>()) != bytemuck::bytes_of(header) {
        return Err(SegmentError::corrupt(path, "its header is not that of this ring"));
    }
    Ok(LimiterTable::new(map, header.made, header.lane_count, header.reader_slots))
}

/// Opens and maps one of a ring's lane files.
pub(crate) fn open_lane(
    object: &Object,
    shapes: &LaneShapes,
    lane: u32,
    name: &str,
    access: Access,
) -> Result<Lane, SegmentError> {
    let fd = object.memory(name, access, None)?;
    map_lane(&fd, &object.path().join(name), shapes, lane, access)
}

/// Maps the file of a lane, opened from `path`. Takes only the capacity and the number of resizes
/// from its header. All other fields must be those of this ring's lane.
pub(crate) fn map_lane(
    fd: &OwnedFd,
    path: &Path,
    shapes: &LaneShapes,
    lane: u32,
    access: Access,
) -> Result<Lane, SegmentError> {
    let corrupt = |what: String| Err(SegmentError::corrupt(path, what));
    let mut found = [0; size_of::<LaneIdentity>()];
    let read = rustix::io::pread(fd, &mut found, 0)
        .map_err(|error| SegmentError::io("read", path)(error.into()))?;
    let bytes = rustix::fs::fstat(fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    if read < found.len() {
        return corrupt(format!("it has {bytes} bytes, too few for a header"));
    }
    let said: LaneIdentity = bytemuck::pod_read_unaligned(&found);
    let shape = shapes.of(said.lane_capacity).map_err(|error| {
        SegmentError::corrupt(path, format!("the size that it claims is impossible: {error}"))
    })?;
    if bytes != shape.geometry.lane_bytes {
        return corrupt(format!("it has {bytes} bytes, not {}", shape.geometry.lane_bytes));
    }
    if found != bytemuck::bytes_of(&shapes.identity(&shape, lane, said.resizes)) {
        return corrupt("its header is not that of this ring's lane".to_owned());
    }
    Lane::map(fd.as_fd(), &shape.geometry, &shape.columns, said.resizes, access)
        .map_err(SegmentError::io("map", path))
}
