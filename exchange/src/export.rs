//! Writes a ring to a file.

use std::path::Path;

use backcast_core::Ring;

use crate::error::{ExportError, WriteFailure};
use crate::format::Format;
use crate::options::ExportOptions;
use crate::report::ExportReport;
use crate::rows::RowReader;
use crate::staging::Staging;
use crate::{csv_file, minari, table};

/// Writes to a file the rows of a ring that are readable when the call begins. Writers go on
/// meanwhile.
///
/// The lane whose rows are overwritten soonest is read first, ahead of compression. Rows that a
/// writer overwrites before they are read are missing from the file and counted in
/// [`ExportReport::rows_lapped`]. They are at most as many as were published during the export.
///
/// The file appears whole or not at all, and is on disk when the call returns. By default the call
/// needs memory for about a hundred megabytes of rows, and for a dataset also the current episode
/// of every lane.
///
/// The file is made in the folder `PATH.backcast-partial` and then renamed. A killed export leaves
/// that folder; the next export to the path or [`collect_exports`](crate::collect_exports) removes
/// it.
pub fn export(
    ring: &Ring,
    to: &Path,
    format: Format,
    options: ExportOptions<'_>,
) -> Result<ExportReport, ExportError> {
    match format {
        Format::Parquet | Format::Csv => {}
        Format::Minari => minari::check(ring.schema())?,
        Format::Npz => return Err(ExportError::OnlyRead { format: "npz" }),
    }
    if format != Format::Minari && !to.is_dir() && names_folder(to) {
        return Err(ExportError::NamesFolder { path: to.to_owned(), format: format.as_str() });
    }
    let staging = Staging::open(to, format, options.overwrite)?;
    let mut reader = RowReader::begin(
        ring,
        options.group_rows_of(ring),
        options.read_ahead_bytes(),
        options.progress,
    );
    let new = staging.path();
    let written = match format {
        Format::Csv => csv_file::write(&mut reader, &new),
        Format::Minari => minari::write(&mut reader, &new, to),
        Format::Parquet | Format::Npz => table::write(&mut reader, &new),
    };
    let report = written.map_err(|failure| match failure {
        WriteFailure::Io(source) => ExportError::Write { path: to.to_owned(), source },
        WriteFailure::Export(error) => error,
    });
    match report {
        Ok(report) => {
            staging.commit()?;
            Ok(ExportReport { rows_lapped: reader.lapped(), ..report })
        }
        Err(error) => Err(error.and_left(staging.discard())),
    }
}

/// Returns whether the file name in the path is followed by `/` or `/.`, so that the path can only
/// name a folder.
fn names_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes())
}
