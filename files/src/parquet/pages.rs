//! Reads the pages of a column and checks their sizes before the decoder sees them.
//!
//! Running out of memory ends the process. Each page's claimed sizes are therefore compared with
//! those of its column and file before anything is allocated.

use std::sync::Arc;

use parquet::{
    arrow::arrow_reader::RowGroups,
    basic::Encoding,
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
        reader::{ChunkReader, Length, SerializedPageReader},
    },
};

use super::{
    delta::DeltaStreams, limits::PAGE_SLACK_BYTES, page_header::PageHeader, source::FileSource,
};

/// Row group of a file. The page headers of a column are checked while the column is read.
#[derive(Clone, Debug)]
pub struct ColumnChunk {
    /// The file.
    pub source: FileSource,
    /// Footer of the file.
    pub metadata: Arc<ParquetMetaData>,
    /// Index of the row group.
    pub row_group: usize,
    /// Maximum values of a row: 1, unless rows are lists.
    pub row_values: u64,
}

impl RowGroups for ColumnChunk {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.row_group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let group = self.metadata.row_group(self.row_group);
        let pages = CheckedPages::new(self, group.column(column))?;
        Ok(Box::new(Once(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct Once(Option<Box<dyn PageReader>>);

impl Iterator for Once {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for Once {}

/// Page reader that checks each header before the reader of the `parquet` crate reads the page.
struct CheckedPages {
    inner: SerializedPageReader<FileSource>,
    source: FileSource,
    /// Position of the next header, and bytes from there to the column's end.
    at: u64,
    left: u64,
    /// Maximum uncompressed bytes of the remaining pages.
    unpacked: u64,
    /// Maximum values of a page.
    values: u64,
    nullable: bool,
}

impl CheckedPages {
    fn new(chunk: &ColumnChunk, column: &ColumnChunkMetaData) -> Result<Self> {
        let (source, rows) = (&chunk.source, chunk.num_rows());
        let (at, left) = byte_range(column, source.len())?;
        let claimed = u64::try_from(column.uncompressed_size()).unwrap_or(0);
        Ok(Self {
            inner: SerializedPageReader::new(Arc::new(source.clone()), column, rows, None)?,
            source: source.clone(),
            at,
            left,
            unpacked: claimed.saturating_mul(2).saturating_add(PAGE_SLACK_BYTES),
            values: (rows as u64).saturating_mul(chunk.row_values),
            nullable: column.column_descr().max_def_level() > 0,
        })
    }

    /// Checks the headers up to the next page that the inner reader returns.
    fn check_next(&mut self) -> Result<()> {
        while self.left > 0 {
            let header = PageHeader::read(self.source.get_read(self.at)?, self.left)?;
            let sizes = (
                u64::try_from(header.compressed_bytes),
                u64::try_from(header.uncompressed_bytes),
                u64::try_from(header.values),
            );
            let (Ok(compressed), Ok(uncompressed), Ok(values)) = sizes else {
                return Err(refused(format!("a page of negative size at byte {}", self.at)));
            };
            let whole = header.header_bytes.saturating_add(compressed);
            if whole > self.left {
                let (at, left) = (self.at, self.left);
                return Err(refused(format!(
                    "a page of {whole} bytes at byte {at}, {left} bytes before the column's end"
                )));
            }
            if uncompressed > self.unpacked {
                return Err(refused(format!(
                    "a page at byte {} that unpacks to {uncompressed} bytes, more than its column",
                    self.at
                )));
            }
            // Each entry of a dictionary takes a byte or more.
            let most =
                if header.kind == PageHeader::DICTIONARY { uncompressed } else { self.values };
            if values > most && header.kind != PageHeader::INDEX {
                return Err(refused(format!(
                    "a page at byte {} of {values} values, where {most} fit",
                    self.at
                )));
            }
            self.at += whole;
            self.left -= whole;
            self.unpacked -= uncompressed;
            if header.kind != PageHeader::INDEX {
                break;
            }
        }
        Ok(())
    }

    /// Checks the number of values in delta-encoded pages, which repeat it inside the page.
    fn check_delta(&self, page: &Page) -> Result<()> {
        let (Page::DataPage { encoding, .. } | Page::DataPageV2 { encoding, .. }) = page else {
            return Ok(());
        };
        let streams = match encoding {
            Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let values = match page {
            Page::DataPage { buf, .. } if self.nullable => buf
                .split_first_chunk::<4>()
                .and_then(|(length, rest)| rest.get(u32::from_le_bytes(*length) as usize..)),
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                usize::try_from(levels).ok().and_then(|levels| buf.get(levels..))
            }
            page => Some(page.buffer().as_ref()),
        };
        // A page of nulls may have no values.
        let mut delta =
            DeltaStreams(values.ok_or_else(|| refused("a page shorter than its levels"))?);
        let fits = delta.0.is_empty() || (0..streams).all(|_| delta.skip(self.values).is_some());
        if fits { Ok(()) } else { Err(refused("an invalid delta encoding, or too many values")) }
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.check_next()?;
        let page = self.inner.get_next_page()?;
        if let Some(page) = &page {
            self.check_delta(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.check_next()?;
        self.inner.skip_next_page()
    }
}

/// Returns position and length of a column's pages in bytes. Refuses a range that is not within a
/// file of `len` bytes.
pub fn byte_range(column: &ColumnChunkMetaData, len: u64) -> Result<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
    range
        .filter(|(start, length)| start.checked_add(*length).is_some_and(|end| end <= len))
        .ok_or_else(|| {
            let bytes = column.compressed_size();
            refused(format!("{bytes} bytes at byte {start} of a file of {len} bytes"))
        })
}

fn refused(message: impl Into<String>) -> ParquetError {
    ParquetError::General(message.into())
}
