//! Exports rings to file formats of other programs, and imports rings from them.
//!
//! - [`export`]: writes a ring or a snapshot as a [Parquet](Format::Parquet) table of rows, the
//!   same table as [CSV](Format::Csv), or a [Minari](Format::Minari) dataset of episodes;
//! - [`import`]: restores a ring exactly from such a Parquet table, or makes one from a Minari
//!   dataset or from [NumPy arrays](Format::Npz) of plain steps;
//! - [`collect_exports`]: removes what killed exports left.
//!
//! Files appear whole or not at all. Files that are read are not trusted. One that is cut, hostile
//! or cannot be decoded is an error that says where, and leaves no ring. An exported table has a
//! hash of every row group, so that a changed value is an error as well.
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
//!     let columns = StepColumns::of(&schema).with("reward", &reward)?;
//!     writer.append(&columns.step(&[false], &[false])?)?;
//! }
//! let file = dir.path().join("walk.parquet");
//! assert_eq!(export(&ring, &file, Format::Parquet, ExportOptions::default())?.rows, 10);
//! let options = ImportOptions::named("walk").base(Base::at(dir.path()));
//! let (again, _) = import(&file, Format::Parquet, options)?;
//! assert_eq!(again.rows(0, 0..10)?.column::<f32>("reward")?[9], 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod columns;
mod csv_file;
mod error;
mod export;
mod format;
mod import;
mod integers;
#[cfg(test)]
mod killed;
mod leave_out;
mod minari;
mod npz;
mod options;
mod report;
mod rows;
mod staging;
mod table;

pub use error::{ExportError, ImportError};
pub use export::export;
pub use format::{BadFormat, Format};
pub use import::import;
pub use options::{ExportOptions, ImportOptions};
pub use report::{ExportReport, ImportReport};
pub use staging::{UnfinishedExport, collect_exports, unfinished_exports};
