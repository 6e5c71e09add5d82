//! Writes chunk files, with the checksums for the manifest.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_schema::Schema as ArrowSchema;
use backcast_core::DType;

use super::{crc32, size, slice};
use crate::arrow::{self, BatchBlock};
use crate::clock::unix_ns;
use crate::error::StoreError;
use crate::layout::{BatchLayout, BodyPlace, pack_bools};
use crate::manifest::{SavedBatch, SavedChunk};
use crate::storage::{NewFile, Storage};

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
        // The prefix is random, so that no file is overwritten that only a damaged manifest names.
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
