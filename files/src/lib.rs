//! Building blocks for files: atomic writes, and safe reading of untrusted Parquet.
//!
//! - [`write_atomically`]: replaces a file, whole or not at all;
//! - [`collect_files`]: removes the temporary files of killed processes;
//! - [`arrow_field`]: a column's field in Arrow files and Parquet tables;
//! - [`RingDescription`]: describes a ring in a file of its rows;
//! - [`RingPlacement`]: options of a ring made from files that the files do not record;
//! - [`Progress`], [`OnProgress`]: count what long work has done; the callback may stop it;
//! - [`parquet`]: checks Parquet files before they are decoded;
//! - [`catch_panics`]: turns panics of decoders into errors;
//! - [`unpacked_limit`]: limits what a file of a given size may unpack to.
//!
//! ```
//! use std::io::{self, Write};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("kept.json");
//! backcast_files::write_atomically::<io::Error>(&path, |file| file.write_all(b"{}"))?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok::<(), io::Error>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "arrow")]
mod arrow_field;
mod atomic;
mod description;
mod panics;
#[cfg(feature = "parquet")]
pub mod parquet;
mod placement;
mod progress;
mod unfinished;
mod unpacked_limit;

#[cfg(feature = "arrow")]
pub use arrow_field::{arrow_field, arrow_item, arrow_length, arrow_type};
pub use atomic::write_atomically;
pub use description::{BadDescription, ColumnDescription, RingDescription};
pub use panics::catch_panics;
pub use placement::RingPlacement;
pub use progress::{OnProgress, Progress};
pub use unfinished::{UnfinishedFile, collect_files, unfinished_files};
pub use unpacked_limit::unpacked_limit;
