//! Makes a ring from a file.

use std::path::Path;

use backcast_core::Ring;

use crate::error::ImportError;
use crate::format::Format;
use crate::options::ImportOptions;
use crate::report::ImportReport;
use crate::{minari, npz, table};

/// Makes a ring from a file. The ring gets its name when it is complete; an error leaves no ring. A
/// killed import leaves an unnamed ring, which [`collect_garbage`](backcast_core::collect_garbage)
/// removes.
pub fn import(
    from: &Path,
    format: Format,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    match format {
        Format::Parquet if !options.leave_out.is_empty() => {
            Err(ImportError::ComesWhole { path: from.to_owned() })
        }
        Format::Parquet => table::read(from, options),
        Format::Minari => minari::read(from, options),
        Format::Npz => npz::read(from, options),
        Format::Csv => Err(ImportError::OnlyWritten { format: "csv" }),
    }
}
