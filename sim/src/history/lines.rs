//! Lines of a file, none of which takes more than a bounded amount of memory.

use std::io::{BufRead, Read};

use super::error::{HistoryError, HistoryFile};
use super::message::Line;

/// Maximum length of a line, its end included. A row of 1,000 levels with the longest numbers fits.
const MAX_LINE: u64 = 64 * 1024;

/// Reader of lines.
pub(super) struct Lines<R> {
    file: HistoryFile,
    reader: R,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(file: HistoryFile, reader: R) -> Self {
        Self { file, reader, number: 0, bytes: Vec::new() }
    }

    /// Reads the next line, without its end. Returns `None` at the end of the file, before which
    /// lines may be empty.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, HistoryError> {
        let (file, line) = (self.file, self.number + 1);
        if !self.fill(line)? {
            return Ok(None);
        }
        if self.bytes.trim_ascii().is_empty() {
            let mut after = line + 1;
            while self.fill(after)? {
                if !self.bytes.trim_ascii().is_empty() {
                    return Err(HistoryError::EmptyLine { file, line });
                }
                after += 1;
            }
            return Ok(None);
        }
        self.number = line;
        Ok(Some(Line { file, number: line, bytes: self.bytes.trim_ascii_end() }))
    }

    /// Names a compressed file or a byte order mark, whose cells would be shown as damaged.
    fn refuse_other_formats(&self) -> Result<(), HistoryError> {
        let (found, advice) = match self.bytes[..] {
            [0x1F, 0x8B, ..] => ("the bytes of gzip", "decompress it first"),
            [b'P', b'K', 3, 4, ..] => ("the bytes of a ZIP archive", "extract its files first"),
            [0xEF, 0xBB, 0xBF, ..] | [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
                ("a byte order mark", "save it as plain ASCII")
            }
            _ => return Ok(()),
        };
        Err(HistoryError::NotPlain { file: self.file, found, advice })
    }

    /// Reads the bytes of a line. Returns whether there was one.
    fn fill(&mut self, line: u64) -> Result<bool, HistoryError> {
        let file = self.file;
        self.bytes.clear();
        let mut part = self.reader.by_ref().take(MAX_LINE);
        let read = part.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|source| HistoryError::Read { file, line, source })?;
        if read == 0 {
            return Ok(false);
        }
        if line == 1 {
            self.refuse_other_formats()?;
        }
        if read as u64 == MAX_LINE && self.bytes.last() != Some(&b'\n') {
            return Err(HistoryError::LineTooLong { file, line, limit: MAX_LINE });
        }
        Ok(true)
    }

    /// Counts the lines that are left.
    pub(super) fn count_rest(&mut self) -> Result<u64, HistoryError> {
        while self.next()?.is_some() {}
        Ok(self.number)
    }
}
