//! Chunk files: rows of one ring in batches, located by the manifest.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_schema::Schema as ArrowSchema;
use backcast_core::DType;

use crate::arrow::{self, BatchBlock};
use crate::clock::unix_ns;
use crate::damage::{ChunkPart, Damage, DamageKind};
use crate::error::StoreError;
use crate::layout::{BatchLayout, BodyPlace, pack_bools};
use crate::manifest::{SavedBatch, SavedChunk};
use crate::read_failure::ReadFailure;
use crate::storage::{NewFile, Storage, StoredFile};

/// Maximum complete files that are not forced to disk yet.
const IN_FLIGHT: usize = 8;

/// Writer of chunk files. Dropping it before [`keep`](Self::keep) removes the files.
pub(crate) struct ChunkWriter<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    /// Prefix of the file names.
    prefix: String,
    layout: &'a BatchLayout,
    schema: ArrowSchema,
    /// Bytes at which a file is closed.
    file_bytes: u64,
    open: Option<OpenChunk>,
    in_flight: VecDeque<(Box<dyn NewFile>, PathBuf)>,
    done: Vec<SavedChunk>,
    /// Temporary and final names of all files begun, the open one included.
    names: Vec<(PathBuf, PathBuf)>,
    finished: bool,
    body: Vec<u8>,
    /// Unpacked `bool` values, one byte each.
    bools: Vec<Vec<u8>>,
}

/// Descriptions of saved parts of a snapshot, and the writers of their files. Dropping it before
/// [`keep`](Self::keep) removes the files.
pub(crate) struct SavedFiles<'a, S> {
    pub(crate) saved: Vec<S>,
    writers: Vec<ChunkWriter<'a>>,
}

impl<S> Default for SavedFiles<'_, S> {
    fn default() -> Self {
        Self { saved: Vec::new(), writers: Vec::new() }
    }
}

impl<'a, S> SavedFiles<'a, S> {
    pub(crate) fn push(&mut self, saved: S, writer: ChunkWriter<'a>) {
        self.saved.push(saved);
        self.writers.push(writer);
    }

    /// Keeps the files when `self` is dropped.
    pub(crate) fn keep(self) {
        self.writers.into_iter().for_each(ChunkWriter::keep);
    }
}

struct OpenChunk {
    file: Box<dyn NewFile>,
    beside: PathBuf,
    chunk: SavedChunk,
    blocks: Vec<BatchBlock>,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(
        storage: &'a dyn Storage,
        dir: &'a Path,
        generation: u64,
        layout: &'a BatchLayout,
        about: &[(&str, String)],
        file_bytes: u64,
    ) -> Self {
        // Random, so that a file that only a damaged manifest names is never overwritten.
        let prefix = format!("{generation:08}-{:08x}", rand::random::<u32>());
        Self {
            storage,
            dir,
            prefix,
            layout,
            schema: arrow::schema(layout, about),
            file_bytes,
            open: None,
            in_flight: VecDeque::new(),
            done: Vec::new(),
            names: Vec::new(),
            finished: false,
            body: Vec::new(),
            bools: Vec::new(),
        }
    }

    /// Appends rows of a lane. `fill` gets a buffer for each column but `lane`, with one byte per
    /// `bool`. If `fill` fails, the batch is not written. Returns the bytes of the batch.
    pub(crate) fn batch<E: From<StoreError>>(
        &mut self,
        lane: u32,
        rows: Range<u64>,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let count = rows.end - rows.start;
        let Some((places, body_bytes)) = self.layout.places(count) else { return Ok(0) };
        self.body.resize(usize::try_from(body_bytes).unwrap_or(usize::MAX), 0);
        self.fill_body(lane, count, &places, fill)?;
        let frame = arrow::frame(self.layout, count, &places, body_bytes);
        let column_crc32 = places.iter().map(|place| crc32(slice(&self.body, place))).collect();
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(start(
                self.storage,
                self.dir,
                &self.prefix,
                &self.schema,
                &mut self.names,
            )?),
        };
        let write = |file: &mut Box<dyn NewFile>, bytes: &[u8]| {
            file.write_all(bytes).map_err(StoreError::io("write", &open.beside))
        };
        write(&mut open.file, &frame)?;
        write(&mut open.file, &self.body)?;
        let (at, frame_bytes) = (open.chunk.bytes, frame.len() as u64);
        open.blocks.push(BatchBlock { at, frame_bytes, body_bytes });
        open.chunk.bytes = at + frame_bytes + body_bytes;
        open.chunk.batches.push(SavedBatch {
            lane,
            first: rows.start,
            rows: count,
            frame_at: at,
            body_at: at + frame_bytes,
            frame_crc32: crc32(&frame),
            column_crc32,
        });
        if open.chunk.bytes >= self.file_bytes {
            self.close()?;
        }
        Ok(frame_bytes + body_bytes)
    }

    fn fill_body<E>(
        &mut self,
        lane: u32,
        rows: u64,
        places: &[BodyPlace],
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = self.body.as_mut_slice();
        let mut columns: Vec<&mut [u8]> = Vec::with_capacity(places.len());
        for place in places {
            let (column, after) = std::mem::take(&mut rest).split_at_mut(size(place.padded));
            let (column, padding) = column.split_at_mut(size(place.bytes));
            padding.fill(0);
            columns.push(column);
            rest = after;
        }
        let mut columns = columns.into_iter();
        for place in columns.next().unwrap_or_default().chunks_exact_mut(size_of::<u32>()) {
            place.copy_from_slice(&lane.to_le_bytes());
        }
        let bool_columns = self.layout.columns.iter().filter(|c| c.dtype == DType::Bool);
        self.bools.resize(bool_columns.clone().count(), Vec::new());
        for (bools, column) in self.bools.iter_mut().zip(bool_columns) {
            bools.resize(size(rows * column.items), 0);
        }
        let (mut bools, mut packed) = (self.bools.iter_mut(), Vec::new());
        let mut outs: Vec<&mut [u8]> = Vec::with_capacity(places.len());
        for (column, bits) in self.layout.columns.iter().skip(1).zip(columns) {
            if column.dtype == DType::Bool {
                outs.extend(bools.next().map(Vec::as_mut_slice));
                packed.push(bits);
            } else {
                outs.push(bits);
            }
        }
        fill(&mut outs)?;
        for (bits, bytes) in packed.into_iter().zip(&self.bools) {
            pack_bools(bytes, bits);
        }
        Ok(())
    }

    /// Completes the open file.
    fn close(&mut self) -> Result<(), StoreError> {
        let Some(OpenChunk { mut file, beside, mut chunk, blocks }) = self.open.take() else {
            return Ok(());
        };
        let tail = arrow::tail(&self.schema, &blocks);
        file.write_all(&tail).map_err(StoreError::io("write", &beside))?;
        chunk.bytes += tail.len() as u64;
        chunk.tail_crc32 = crc32(&tail);
        file.complete();
        self.done.push(chunk);
        self.in_flight.push_back((file, beside));
        if self.in_flight.len() > IN_FLIGHT {
            self.sync_oldest()?;
        }
        Ok(())
    }

    fn sync_oldest(&mut self) -> Result<(), StoreError> {
        let Some((mut file, path)) = self.in_flight.pop_front() else { return Ok(()) };
        file.sync().map_err(StoreError::io("force to disk", &path))
    }

    /// Forces all files to disk and renames them. They are garbage until a manifest names them;
    /// call [`keep`](Self::keep) before writing that manifest.
    pub(crate) fn finish(&mut self) -> Result<Vec<SavedChunk>, StoreError> {
        self.close()?;
        while !self.in_flight.is_empty() {
            self.sync_oldest()?;
        }
        for (beside, path) in &self.names {
            self.storage.rename(beside, path).map_err(StoreError::io("put in place", path))?;
        }
        if !self.names.is_empty() {
            self.storage.sync_dir(self.dir).map_err(StoreError::io("force to disk", self.dir))?;
        }
        Ok(self.done.clone())
    }

    /// Keeps the files when the writer is dropped.
    pub(crate) fn keep(mut self) {
        self.finished = true;
    }
}

impl Drop for ChunkWriter<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // The next save removes what cannot be removed now. A file has one of the two names.
        for (beside, path) in &self.names {
            if self.storage.remove(beside).is_err() {
                let _ = self.storage.remove(path);
            }
        }
    }
}

fn start(
    storage: &dyn Storage,
    dir: &Path,
    prefix: &str,
    schema: &ArrowSchema,
    names: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<OpenChunk, StoreError> {
    let name = format!("{prefix}-{:04}.arrow", names.len());
    let (beside, path) = (dir.join(format!("{name}.tmp")), dir.join(&name));
    let mut file = storage.create(&beside).map_err(StoreError::io("create", &beside))?;
    names.push((beside.clone(), path));
    let head = arrow::head(schema);
    file.write_all(&head).map_err(StoreError::io("write", &beside))?;
    let chunk = SavedChunk {
        file: name,
        bytes: head.len() as u64,
        unix_ns: unix_ns(),
        head_crc32: crc32(&head),
        tail_crc32: 0,
        batches: Vec::new(),
    };
    Ok(OpenChunk { file, beside, chunk, blocks: Vec::new() })
}

/// Returns whether a file of the directory was left by a killed process.
pub(crate) fn is_leftover(name: &str) -> bool {
    name.ends_with(".arrow.tmp")
}

/// A chunk file open for reading, of the expected size.
pub(crate) struct ChunkFile<'a> {
    path: PathBuf,
    bytes: u64,
    file: Box<dyn StoredFile>,
    layout: &'a BatchLayout,
}

impl<'a> ChunkFile<'a> {
    pub(crate) fn open(
        storage: &dyn Storage,
        dir: &Path,
        chunk: &SavedChunk,
        layout: &'a BatchLayout,
    ) -> Result<Self, ReadFailure> {
        let (path, bytes) = (dir.join(&chunk.file), chunk.bytes);
        let failed = |source: io::Error| ReadFailure::of(&path, source);
        let file = storage.open(&path).map_err(failed)?;
        let found = file.bytes().map_err(failed)?;
        let file = Self { path, bytes, file, layout };
        if found == bytes { Ok(file) } else { Err(file.resized(found)) }
    }

    /// Reads the body of a batch and checks its bytes. Returns the places of the columns in it.
    pub(crate) fn body(
        &self,
        batch: &SavedBatch,
        body: &mut Vec<u8>,
    ) -> Result<Vec<BodyPlace>, ReadFailure> {
        // A checked manifest has only batches within the file.
        let (places, bytes) = self.layout.places(batch.rows).unwrap_or_default();
        body.resize(size(bytes), 0);
        self.read(batch.body_at, body)?;
        for ((place, column), crc) in
            places.iter().zip(&self.layout.columns).zip(&batch.column_crc32)
        {
            if crc32(slice(body, place)) != *crc {
                let part = ChunkPart::Column {
                    column: column.name.clone(),
                    lane: batch.lane,
                    rows: batch.range(),
                };
                let at = batch.body_at + place.offset;
                return Err(self.changed(part, at..at + place.padded));
            }
        }
        Ok(places)
    }

    /// Checks all bytes of the file outside the bodies of batches.
    pub(crate) fn rest(&self, chunk: &SavedChunk) -> Vec<ReadFailure> {
        let mut damages = Vec::new();
        let mut check = |part: ChunkPart, bytes: Range<u64>, crc: u32| {
            let mut buffer = vec![0; size(bytes.end.saturating_sub(bytes.start))];
            match self.read(bytes.start, &mut buffer) {
                Ok(()) if crc32(&buffer) == crc => {}
                Ok(()) => damages.push(self.changed(part, bytes)),
                Err(damage) => damages.push(damage),
            }
        };
        let head = chunk.batches.first().map_or(0, |batch| batch.frame_at);
        check(ChunkPart::Head, 0..head, chunk.head_crc32);
        let mut end = head;
        for batch in &chunk.batches {
            let part = ChunkPart::Frame { lane: batch.lane, rows: batch.range() };
            check(part, batch.frame_at..batch.body_at, batch.frame_crc32);
            end = batch.body_at + self.layout.places(batch.rows).map_or(0, |(_, bytes)| bytes);
        }
        check(ChunkPart::Tail, end..chunk.bytes, chunk.tail_crc32);
        damages
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), ReadFailure> {
        self.file.read_exact_at(buffer, at).map_err(|source| match source.kind() {
            // It was cut after its size was read.
            ErrorKind::UnexpectedEof => self.resized(self.file.bytes().unwrap_or(0)),
            _ => ReadFailure::of(&self.path, source),
        })
    }

    fn resized(&self, found: u64) -> ReadFailure {
        let kind = DamageKind::Size { found, expected: self.bytes };
        Damage { file: self.path.clone(), kind }.into()
    }

    fn changed(&self, part: ChunkPart, bytes: Range<u64>) -> ReadFailure {
        Damage { file: self.path.clone(), kind: DamageKind::Changed { part, bytes } }.into()
    }
}

/// Returns a column with its padding.
fn slice<'a>(body: &'a [u8], place: &BodyPlace) -> &'a [u8] {
    let start = size(place.offset);
    body.get(start..start.saturating_add(size(place.padded))).unwrap_or_default()
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
