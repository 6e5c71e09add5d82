//! Limits of the Parquet reader on untrusted files. [`unpacked_limit`](crate::unpacked_limit)
//! limits what a file may unpack to in total.

/// Maximum depth of a schema.
pub(super) const MAX_SCHEMA_DEPTH: usize = 100;
/// Maximum nesting of Thrift structs and lists. Valid structs nest five deep.
pub(super) const MAX_THRIFT_DEPTH: u32 = 16;
/// Bytes that the pages of a column may unpack to beyond twice its claimed size, since writers
/// count differently.
pub(super) const PAGE_SLACK_BYTES: u64 = 1 << 16;
/// Maximum values of a delta-encoded block. Blocks of valid files have 128 values or a small
/// multiple.
pub(super) const MAX_DELTA_BLOCK: u64 = 1 << 16;
