//! Reads chunk files, and checks the bytes read against the checksums of the manifest.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{crc32, size, slice};
use crate::damage::{ChunkPart, Damage, DamageKind};
use crate::layout::{BatchLayout, BodyPlace};
use crate::manifest::{SavedBatch, SavedChunk};
use crate::read_failure::ReadFailure;
use crate::storage::{Storage, StoredFile};

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

    /// Checks all bytes of the file outside the bodies of batches. Returns the failures.
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
            // The file was cut after its size was read.
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
