//! Positioned reads for the decoder. They begin within the length that the file had when it was
//! wrapped.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

use bytes::Bytes;
use parquet::{
    errors::{ParquetError, Result},
    file::reader::{ChunkReader, Length},
};

/// Bytes of a read, enough for most page headers.
const HEADER_BYTES: usize = 512;

/// An open file and its length. Clones share the file.
#[derive(Clone, Debug)]
pub struct FileSource {
    file: Arc<File>,
    len: u64,
}

impl FileSource {
    /// Wraps a file with its current length.
    pub fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), len })
    }

    /// Reads `length` bytes at `start`. A range outside of the file is an error before allocation.
    pub fn bytes(&self, start: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
        if end.is_none_or(|end| end > self.len) {
            let why = format!("{length} bytes at {start} of a file of {} bytes", self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(length, 0);
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

impl Length for FileSource {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for FileSource {
    type T = BufReader<FileReader>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if start > self.len {
            let len = self.len;
            return Err(ParquetError::EOF(format!("byte {start} of a file of {len} bytes")));
        }
        let at = FileReader { source: self.clone(), position: start };
        Ok(BufReader::with_capacity(HEADER_BYTES, at))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(Bytes::from(self.bytes(start, length)?))
    }
}

/// Sequential reader from a position of the file, independent of other readers.
#[derive(Debug)]
pub struct FileReader {
    source: FileSource,
    position: u64,
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.file.read_at(out, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
