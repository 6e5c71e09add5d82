//! A file as the decoder reads it: positioned reads that never leave the file as it was opened.

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

/// Page headers are small; most lie within one such read.
const HEADER_BYTES: usize = 512;

/// An open file and its length. Cloning is one reference count.
#[derive(Clone, Debug)]
pub struct Source {
    file: Arc<File>,
    len: u64,
}

impl Source {
    /// The file, as long as it is now.
    pub fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), len })
    }

    /// Bytes within the file, all of them or an error; nothing is allocated for more.
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

impl Length for Source {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Source {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if start > self.len {
            let len = self.len;
            return Err(ParquetError::EOF(format!("byte {start} of a file of {len} bytes")));
        }
        let at = At { source: self.clone(), position: start };
        Ok(BufReader::with_capacity(HEADER_BYTES, at))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(Bytes::from(self.bytes(start, length)?))
    }
}

/// A file from some byte on; others may read it at the same time.
#[derive(Debug)]
pub struct At {
    source: Source,
    position: u64,
}

impl Read for At {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.file.read_at(out, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
