//! What the decoder of Parquet needs around it, since a file may claim anything: a schema that can be
//! followed ([`read_footer`]), pages whose sizes are true ([`ColumnChunk`]), reads that stay in the
//! file ([`Source`]), and a wall for what the decoder panics over ([`caught`]).

mod delta;
mod footer;
mod guard;
mod page_header;
mod pages;
mod source;
mod thrift;

pub use footer::read as read_footer;
pub use guard::caught;
pub use pages::{ColumnChunk, byte_range};
pub use source::{At, Source};
