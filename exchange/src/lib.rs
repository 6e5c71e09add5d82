//! Rings as files of other programs, and back.
//!
//! - [`export`]: a ring, or a snapshot of one, as [Parquet](Format::Parquet) with every row as it
//!   is, as [CSV](Format::Csv), or as a [Minari](Format::Minari) dataset of episodes;
//! - [`import`]: a ring from such a Parquet file, exactly; from a Minari dataset or from
//!   [NumPy arrays](Format::Npz) of plain steps, with rows made of them.
//!
//! Files appear whole or not at all. What is read is not trusted: a file that is cut, hostile or cannot
//! be decoded is an error that says where, and leaves no ring. An exported table has the hash of every row
//! group, so that a value that was changed on disk is such an error too.
//!
//! ```
//! use backcast_core::{Base, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
//! use backcast_exchange::{ExportOptions, Format, ImportOptions, export, import};
//!
//! # let dir = tempfile::tempdir()?;
//! let schema = Schema::builder().column("reward", DType::F32, &[]).build()?;
//! let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
//! let mut writer = ring.writer(WriterOptions::lanes(1))?;
//! for t in 0..10_u8 {
//!     let reward = [f32::from(t)];
//!     writer.append(&StepColumns::of(&schema).with("reward", &reward)?.step(&[false], &[false])?)?;
//! }
//! let file = dir.path().join("walk.parquet");
//! assert_eq!(export(&ring, &file, Format::Parquet, ExportOptions::default())?.rows, 10);
//! let options = ImportOptions::named("walk").base(Base::at(dir.path()));
//! let (again, _) = import(&file, Format::Parquet, options)?;
//! assert_eq!(again.rows(0, 0..10)?.column::<f32>("reward")?[9], 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod about;
mod arrays;
mod careful;
mod csv_file;
mod episodes;
mod error;
mod export;
mod import;
mod integers;
mod journal;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod killed_import;
mod leave_out;
mod leaves;
mod minari;
mod npy;
mod npz;
mod parquet_file;
mod partial;
mod plan;
mod resume;
mod row_groups;
mod row_reader;
mod rows_hash;
mod sink;

pub use error::{ExportError, ImportError};
pub use export::{BadFormat, ExportOptions, ExportReport, Format, export};
pub use import::{ImportOptions, ImportReport, import};
pub use plan::BeganAnew;
