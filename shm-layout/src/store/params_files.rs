//! Files of a set of parameters, created whole and opened only if every byte of their identity is
//! right.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use bytemuck::Zeroable;

use crate::error::SegmentError;
use crate::layout::params_shape::{MAX_ARRAYS, ParamsArrayRecord, ParamsShape};
use crate::layout::params_table::{
    PARAMS_BLOCKS_AT, ParamsCounterBytes, ParamsDataHeader, ParamsHeader, ParamsMemory,
    ParamsReadBytes, ParamsSlotBytes,
};
use crate::layout::reader_table::{AFTER_PINS_ALIGN, ReaderTable, ReadersHeader};
use crate::os::clock::unix_ns;
use crate::os::mapping::{Access, Mapping, page_size};
use crate::os::{files, huge_pages, space};
use crate::protocol::version::VersionPlace;
use crate::store::object::Object;

pub(crate) const CTL: &str = "params.ctl";
pub(crate) const RDR: &str = "params.rdr";
const DAT: &str = "params.dat";

/// Returns the bytes of `params.rdr`.
pub(super) fn reader_bytes(shape: &ParamsShape) -> u64 {
    let pins = ReaderTable::bytes(shape.reader_slots(), 1).next_multiple_of(AFTER_PINS_ALIGN);
    (pins + size_of::<ParamsReadBytes>() as u64).next_multiple_of(page_size() as u64)
}

/// Returns the bytes of `params.ctl`.
pub(super) fn ctl_bytes(shape: &ParamsShape) -> u64 {
    (size_of::<ParamsHeader>() + shape.arrays().len() * size_of::<ParamsArrayRecord>()) as u64
}

/// A version that new parameters begin with, and the bytes of every array, in order.
#[derive(Clone, Copy, Debug)]
pub struct FirstVersion<'a> {
    /// The version, from 1 to [`MAX_VERSION`](crate::protocol::MAX_VERSION).
    pub version: u64,
    /// The bytes of each array.
    pub arrays: &'a [&'a [u8]],
}

/// Creates the files, with a first version in slot 0 if there is one. After an error the caller
/// removes the files that were made.
pub(super) fn make(
    dir: &OwnedFd,
    path: &Path,
    shape: &ParamsShape,
    first: Option<FirstVersion<'_>>,
) -> Result<(), SegmentError> {
    let uuid = rand::random();
    let header = ParamsHeader::new(shape, uuid, unix_ns());
    let readers = ReadersHeader::new(uuid, shape.reader_slots());
    let records = shape.records();
    let data = ParamsDataHeader::new(uuid);
    let files: [(&str, u64, &[&[u8]]); 3] = [
        (DAT, shape.data_bytes(), &[bytemuck::bytes_of(&data)]),
        (RDR, reader_bytes(shape), &[bytemuck::bytes_of(&readers)]),
        (CTL, ctl_bytes(shape), &[bytemuck::bytes_of(&header), &records]),
    ];
    space::check_room(path, files.iter().map(|(_, bytes, _)| bytes).sum())?;
    for (name, bytes, parts) in files {
        let mut file = files::make(dir, name, path)?;
        huge_pages::request(&file, bytes, huge_pages::deadline(bytes));
        let path = path.join(name);
        space::allocate(&mut file, &path, bytes)?;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| parts.iter().try_for_each(|part| file.write_all(part)))
            .map_err(SegmentError::io("write", &path))?;
        if let (DAT, Some(first)) = (name, first) {
            write_first(&mut file, shape, first).map_err(SegmentError::io("write", &path))?;
        }
    }
    Ok(())
}

/// Writes a version to slot 0 of `params.dat`. No process maps the file yet.
fn write_first(file: &mut File, shape: &ParamsShape, first: FirstVersion<'_>) -> io::Result<()> {
    let newest = VersionPlace { version: first.version, slot: 0 }.word();
    let counters = ParamsCounterBytes { newest, ..ParamsCounterBytes::zeroed() };
    let slot = ParamsSlotBytes { stamp: first.version, published_unix_ns: unix_ns() };
    // The file is positioned at the end of the header, where the counters begin.
    file.write_all(bytemuck::bytes_of(&counters))?;
    file.write_all(bytemuck::bytes_of(&slot))?;
    for (array, bytes) in shape.arrays().iter().zip(first.arrays) {
        if array.bytes() != bytes.len() {
            let (array, len) = (array.name(), bytes.len());
            return Err(io::Error::other(format!("{len} bytes are given for `{array}`")));
        }
        file.seek(SeekFrom::Start(PARAMS_BLOCKS_AT + array.offset() as u64))?;
        file.write_all(bytes)?;
    }
    Ok(())
}

/// Reads the header and the arrays, from one private copy of `params.ctl`.
pub(super) fn read_ctl(object: &Object) -> Result<(ParamsHeader, ParamsShape), SegmentError> {
    let path = object.path().join(CTL);
    let corrupt = |what: String| SegmentError::corrupt(&path, what);
    let fd = object.file(CTL, Access::ReadOnly, None)?;
    let len = rustix::fs::fstat(&fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    let (least, most) = (size_of::<ParamsHeader>(), MAX_ARRAYS * size_of::<ParamsArrayRecord>());
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if !(least..=least + most).contains(&len) {
        return Err(corrupt(format!("it has {len} bytes, not {least} to {}", least + most)));
    }
    let map =
        Mapping::file(fd.as_fd(), len, Access::ReadOnly).map_err(SegmentError::io("map", &path))?;
    let bytes = map.copy(0, len);
    let (header, records) = bytes.split_at(least.min(bytes.len()));
    let Ok(header) = bytemuck::try_pod_read_unaligned::<ParamsHeader>(header) else {
        return Err(corrupt("its length is odd".to_owned()));
    };
    header.check_origin(&path)?;
    if *blake3::hash(records).as_bytes() != header.records_hash {
        return Err(corrupt("its arrays do not have the hash in the header".to_owned()));
    }
    let ParamsHeader { versions_kept, slots, reader_slots, .. } = header;
    let shape = ParamsShape::of_records(records, versions_kept, slots, reader_slots)
        .ok_or_else(|| corrupt("an array's record is not one of ours".to_owned()))?;
    // The header must be the one that this shape has, so that every number in it is right.
    if header != header.of_shape(&shape) {
        return Err(corrupt("its header contradicts its arrays".to_owned()));
    }
    Ok((header, shape))
}

/// Maps `params.dat`, if it belongs to this header.
pub(super) fn map_data(
    object: &Object,
    header: &ParamsHeader,
    shape: &ParamsShape,
    access: Access,
) -> Result<ParamsMemory, SegmentError> {
    let path = object.path().join(DAT);
    let fd = object.file(DAT, access, Some(shape.data_bytes()))?;
    let len = usize::try_from(shape.data_bytes())
        .map_err(|_| SegmentError::corrupt(&path, "it does not fit memory"))?;
    let map = Mapping::aligned(fd.as_fd(), len, access).map_err(SegmentError::io("map", &path))?;
    let memory = ParamsMemory::new(map, shape);
    if !memory.has_header(&ParamsDataHeader::new(header.params_uuid)) {
        return Err(SegmentError::corrupt(&path, "its header is not that of these parameters"));
    }
    Ok(memory)
}

/// Maps `params.rdr`, if it belongs to this header.
pub(super) fn map_readers(
    object: &Object,
    header: &ParamsHeader,
    shape: &ParamsShape,
) -> Result<ReaderTable, SegmentError> {
    let path = object.path().join(RDR);
    let bytes = reader_bytes(shape);
    let fd = object.file(RDR, Access::ReadWrite, Some(bytes))?;
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let map = Mapping::file(fd.as_fd(), len, Access::ReadWrite)
        .map_err(SegmentError::io("map", &path))?;
    let found = map.copy(0, size_of::<ReadersHeader>());
    if found != bytemuck::bytes_of(&ReadersHeader::new(header.params_uuid, shape.reader_slots())) {
        return Err(SegmentError::corrupt(&path, "its header is not that of these parameters"));
    }
    Ok(ReaderTable::new(map, shape.reader_slots(), 1))
}
