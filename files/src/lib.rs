//! Files of ours, written whole or not at all; files of others, read so that a hostile one is an error
//! and never ends the process.
//!
//! - [`write_atomically`]: a path holds the old content or all of the new one;
//! - [`RingDescription`]: what a file of rows says of the ring that they were in;
//! - [`Progress`]: how far long work has come, and stopping it;
//! - [`parquet`]: what the decoder of Parquet needs around it.
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

mod atomic;
mod description;
pub mod parquet;
mod progress;

pub use atomic::write_atomically;
pub use description::{BadDescription, ColumnDescription, RingDescription};
pub use progress::{OnProgress, Progress};
