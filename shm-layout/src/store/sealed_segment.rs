//! Immutable named segments: private metadata, checked by its hash, and read-only shared data.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::ObjectKind;
use crate::error::SegmentError;
use crate::layout::names::{Base, Exist, check_name};
use crate::layout::origin::{Origin, boot_id_hash, header_crc};
use crate::layout::sealed_header::{SEALED_HEADER_BYTES, SEALED_MAGIC, SealedHeader};
use crate::layout::superblock::{ENDIAN_TAG, LAYOUT_VERSION};
use crate::os::clock::unix_ns;
use crate::os::mapping::{Access, Mapping};
use crate::os::{huge_pages, space};
use crate::store::object::{Object, check_stays};

/// Maximum bytes of metadata.
pub(crate) const MAX_META_BYTES: u64 = 1 << 28;
pub(crate) const FILE: &str = "panel.dat";

/// A handle on an immutable segment. Cheap to share by reference between threads.
#[derive(Debug)]
pub struct SealedSegment {
    meta: Vec<u8>,
    memory: Mapping,
    /// First byte of the data in `memory`.
    data_at: usize,
    data_bytes: usize,
    object: Option<Object>,
}

impl SealedSegment {
    /// Writes `meta` and the `data` parts (each padded to 8 bytes) and publishes them under `name`
    /// in one step. Space is allocated before anything is written.
    ///
    /// With [`Exist::Attach`] it attaches to an existing segment if its metadata is equal.
    pub fn create(
        base: &Base,
        kind: ObjectKind,
        name: &str,
        meta: &[u8],
        data: &[&[u8]],
        exist: Exist,
        persistent: bool,
    ) -> Result<Self, SegmentError> {
        check_name(name)?;
        let header = header(meta, data)?;
        let total = data_offset(&header) + header.data_bytes;
        let (object, built) = Object::create(base, kind, name, exist, persistent, |dir, path| {
            space::check_room(path, total)?;
            let mut file = crate::os::files::make(dir, FILE, path)?;
            huge_pages::request(&file, total, huge_pages::deadline(total));
            space::allocate(&mut file, path, total)?;
            write(file, &header, meta, data).map_err(SegmentError::io("write", path))
        })?;
        if !built {
            check_stays(kind, name, object.persistent(), persistent)?;
        }
        let segment = Self::of(object)?;
        if !built && segment.meta != meta {
            let what = "its contents are others".to_owned();
            return Err(SegmentError::Different { kind, name: name.to_owned(), what });
        }
        Ok(segment)
    }

    /// Attaches to an existing segment.
    pub fn attach(base: &Base, kind: ObjectKind, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open(base, kind, name)?)
    }

    /// Makes a segment in private memory, without a name.
    ///
    /// # Panics
    /// If the memory cannot be allocated; [`try_heap`](Self::try_heap) returns an error instead.
    #[must_use]
    pub fn heap(meta: &[u8], data: &[&[u8]]) -> Self {
        Self::try_heap(meta, data).expect("memory for a copy of the data")
    }

    /// Makes a segment in private memory like [`heap`](Self::heap). Returns an error if there is no
    /// memory for it.
    pub fn try_heap(meta: &[u8], data: &[&[u8]]) -> Result<Self, SegmentError> {
        let data_bytes = padded(data);
        let memory = space::private_memory(data_bytes as u64, || Mapping::heap(data_bytes))?;
        let words = memory.words64(0, data_bytes / 8).unwrap_or_default();
        let mut words = words.iter();
        for part in data {
            for chunk in part.chunks(8) {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                if let Some(word) = words.next() {
                    word.store(u64::from_ne_bytes(bytes), Relaxed);
                }
            }
        }
        Ok(Self { meta: meta.to_vec(), memory, data_at: 0, data_bytes, object: None })
    }

    fn of(object: Object) -> Result<Self, SegmentError> {
        let path = object.path().join(FILE);
        let corrupt = |what: String| SegmentError::corrupt(&path, what);
        let fd = object.file(FILE, Access::ReadOnly, None)?;
        let len = rustix::fs::fstat(&fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if len < SEALED_HEADER_BYTES {
            return Err(corrupt(format!("it has {len} bytes, less than its header")));
        }
        let len_usize =
            usize::try_from(len).map_err(|_| corrupt("it does not fit memory".into()))?;
        let memory = Mapping::aligned(fd.as_fd(), len_usize, Access::ReadOnly)
            .map_err(SegmentError::io("map", &path))?;
        let header: SealedHeader = bytemuck::pod_read_unaligned(&memory.copy(0, 4096));
        check_header(&header, &path)?;
        // Check the limit first: the sums below cannot overflow then.
        let end = (header.meta_bytes <= MAX_META_BYTES)
            .then(|| data_offset(&header).checked_add(header.data_bytes))
            .flatten();
        if end != Some(len) || !header.data_bytes.is_multiple_of(8) {
            let (meta, data) = (header.meta_bytes, header.data_bytes);
            return Err(corrupt(format!("its {len} bytes cannot hold {meta} + {data}")));
        }
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let meta = memory.copy(4096, to_usize(header.meta_bytes));
        if *blake3::hash(&meta).as_bytes() != header.meta_hash {
            return Err(corrupt("its metadata does not have the hash in its header".into()));
        }
        let data_at = to_usize(data_offset(&header));
        let data_bytes = to_usize(header.data_bytes);
        Ok(Self { meta, memory, data_at, data_bytes, object: Some(object) })
    }

    /// Returns the metadata: a private copy whose hash was checked. Its content is untrusted all
    /// the same.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Returns the bytes of data.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Returns `count` 64-bit words of the data at a byte offset; load them relaxed. Fails outside
    /// the data, or if the offset is no multiple of 8.
    pub fn words64(&self, offset: usize, count: usize) -> Result<&[AtomicU64], SegmentError> {
        let at = self.place(offset, count, 8)?;
        self.memory.words64(at, count).ok_or(self.outside(offset, count))
    }

    /// Returns `count` 32-bit words of the data at a byte offset; load them relaxed. Fails outside
    /// the data, or if the offset is no multiple of 4.
    pub fn words32(&self, offset: usize, count: usize) -> Result<&[AtomicU32], SegmentError> {
        let at = self.place(offset, count, 4)?;
        self.memory.words32(at, count).ok_or(self.outside(offset, count))
    }

    fn place(&self, offset: usize, count: usize, size: usize) -> Result<usize, SegmentError> {
        let end = count.checked_mul(size).and_then(|n| n.checked_add(offset));
        match end {
            Some(end) if end <= self.data_bytes => Ok(self.data_at + offset),
            _ => Err(self.outside(offset, count)),
        }
    }

    fn outside(&self, offset: usize, count: usize) -> SegmentError {
        SegmentError::OutOfBounds { offset, count, len: self.data_bytes }
    }

    /// Returns the name; `None` on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.object.as_ref().map(Object::name)
    }

    /// Returns the directory; `None` on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.object.as_ref().map(Object::path)
    }

    /// Removes the name; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), SegmentError> {
        self.object.as_ref().map_or(Ok(()), Object::unlink)
    }
}

fn header(meta: &[u8], data: &[&[u8]]) -> Result<SealedHeader, SegmentError> {
    let meta_bytes = meta.len() as u64;
    if meta_bytes > MAX_META_BYTES {
        return Err(SegmentError::Limit {
            what: "the size of the metadata in bytes",
            value: meta_bytes,
            limit: MAX_META_BYTES,
            remedy: "use fewer or shorter names",
        });
    }
    let mut header = SealedHeader {
        magic: SEALED_MAGIC,
        layout_version: LAYOUT_VERSION,
        endian_tag: ENDIAN_TAG,
        meta_bytes,
        data_bytes: padded(data) as u64,
        meta_hash: *blake3::hash(meta).as_bytes(),
        created_unix_ns: unix_ns(),
        boot_id_hash: boot_id_hash(),
        unused: [0; 4012],
        crc32: 0,
    };
    header.crc32 = header_crc(&header);
    Ok(header)
}

fn check_header(header: &SealedHeader, path: &Path) -> Result<(), SegmentError> {
    let SealedHeader { magic, layout_version, endian_tag, boot_id_hash, crc32, .. } = *header;
    let origin = Origin { magic, layout_version, endian_tag, boot_id_hash, crc32 };
    origin.check(path, SEALED_MAGIC, header_crc(header))
}

fn data_offset(header: &SealedHeader) -> u64 {
    (SEALED_HEADER_BYTES + header.meta_bytes).next_multiple_of(4096)
}

fn padded(data: &[&[u8]]) -> usize {
    data.iter().map(|part| part.len().next_multiple_of(8)).sum()
}

fn write(
    mut file: File,
    header: &SealedHeader,
    meta: &[u8],
    data: &[&[u8]],
) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytemuck::bytes_of(header))?;
    file.write_all(meta)?;
    file.seek(SeekFrom::Start(data_offset(header)))?;
    for part in data {
        file.write_all(part)?;
        file.write_all(&[0; 8][..part.len().next_multiple_of(8) - part.len()])?;
    }
    Ok(())
}
