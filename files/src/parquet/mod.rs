//! Checks around the Parquet decoder for untrusted files.
//!
//! - [`read_footer`]: reads the footer and checks the tree of its schema;
//! - [`ColumnChunk`]: checks the sizes of pages before the decoder allocates for them;
//! - [`FileSource`]: reads within the bounds of the file.
//!
//! [`catch_panics`](crate::catch_panics) turns panics of the decoder into errors.

mod delta;
mod footer;
mod limits;
mod page_header;
mod pages;
mod source;
mod thrift;

pub use footer::read as read_footer;
pub use pages::{ColumnChunk, byte_range};
pub use source::{FileReader, FileSource};
