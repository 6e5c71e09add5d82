//! Export and import of rings: `ReplayBuffer.export` and `ReplayBuffer.from_file`.

use std::path::{Path, PathBuf};

use backcast_core::Exist;
use backcast_exchange::{
    ExportError, ExportOptions, Format, ImportError, ImportOptions, export, import,
};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyType};

use crate::argument::{Argument, file_of, names_of, whole};
use crate::error::{ErrorClass, Failure, bad_argument, class_of_io};
use crate::location::{base_of, exist_of, persistent_of};
use crate::progress::ProgressReporter;
use crate::replay::buffer::ReplayBuffer;
use crate::warning::warn_as;

/// Formats that a ring can be exported to.
const WRITTEN: &str = "\"parquet\", \"csv\" or \"minari\"";
/// Formats that can be imported as a ring.
const READ: &str = "\"parquet\", \"minari\" or \"npz\"";

/// Reads the `format` argument, or infers it from the path. Errors list `formats`.
fn format_of(
    given: Option<Argument<String>>,
    path: &Path,
    formats: &str,
) -> Result<Format, Failure> {
    let Some(given) = given else {
        return Format::of_path(path).ok_or_else(|| {
            let path = path.display();
            bad_argument(format!(
                "path is '{path}', whose format is not known; give format={formats}"
            ))
        });
    };
    let text = given.get("format", formats)?;
    text.parse().map_err(|_| bad_argument(format!("format is '{text}'; give {formats}")))
}

/// Warns, at the caller's line, of rows that are missing from a file.
fn warn(py: Python<'_>, rows: u64, path: &Path) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "backcast.errors", "LappedWarning")?;
    let message = format!(
        "{rows} rows are missing from {}: writers overwrote them before they were read; export a \
         snapshot, or create the ring with a larger capacity",
        path.display()
    );
    warn_as(class, &message, 1)
}

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Write the rows that are readable at the start of the call to a Parquet, CSV or Minari file.
    ///
    /// Writers continue meanwhile. Rows that they overwrite before they are read are missing from
    /// the file: at most as many as they published during the call.
    /// :class:`errors.LappedWarning` reports their number. The file appears complete or not at all.
    /// Needs memory for about a hundred megabytes of rows, and for a dataset also for the current
    /// episode of every lane. Releases the interpreter; Ctrl-C stops it and leaves nothing. A
    /// killed export leaves a folder ``path.backcast-partial``, which the next export to the path
    /// or ``backcast gc`` removes.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     File to write, or folder for a Minari dataset.
    /// format : {"parquet", "csv", "minari"}, optional
    ///     By default chosen by the path's extension; a path without one is a Minari dataset's.
    ///     ``"parquet"``: a table with ``lane``, ``seq``, ``episode``, ``t``, ``flags`` and every
    ///     column, arrays as lists, and a hash of every row group; :meth:`from_file` makes a ring
    ///     of it. ``"csv"``: the same table with a column per element. ``"minari"``: episodes
    ///     of ``obs``, ``action`` and ``reward``, for Minari 0.5 and later; a part of an episode
    ///     ends truncated.
    /// overwrite : bool, default False
    ///     Replace an existing file, or for a dataset another dataset or an empty folder, once the
    ///     new one is complete. Other folders are never replaced.
    /// progress : callable, optional
    ///     Called now and then with the bytes done and the bytes in all. An exception that it
    ///     raises stops the call.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``rows`` written, ``rows_lapped`` (overwritten before they were read), ``bytes`` of the
    ///     file, ``episodes`` (None for a table).
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If the format is unknown or cannot be written.
    /// ExistsError
    ///     If the path exists, or a file has the name of the temporary folder.
    /// InUseError
    ///     If another export to the path is running.
    /// SpaceError
    ///     If the disk is full.
    /// StorageError
    ///     If the file cannot be written for another reason.
    /// SchemaError
    ///     If a dataset needs columns that the ring lacks, or if no Gymnasium space can hold the
    ///     dtype of a column or the values of a scalar integer column.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Warns
    /// -----
    /// LappedWarning
    ///     If rows are missing from the file because writers overwrote them.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     index = writer.append(x=1.5, terminated=False, truncated=False)
    /// >>> import tempfile, os
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     buf.export(os.path.join(folder, "x.csv"))["rows"]
    /// 1
    #[pyo3(signature = (
        path=Argument::Missing, format=None, *, overwrite=false.into(), progress=None
    ))]
    #[pyo3(text_signature = "($self, path, format=None, *, overwrite=False, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn export<'py>(
        &self,
        py: Python<'py>,
        path: Argument<PathBuf>,
        format: Option<Argument<String>>,
        overwrite: Argument<bool>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let path = file_of(path, "path", "the file to write")?;
        let format = format_of(format, &path, WRITTEN)?;
        let overwrite = overwrite.get("overwrite", "True or False")?;
        let ring = self.ring()?;
        let mut reporter = ProgressReporter::new(progress)?;
        let exported = py.detach(|| {
            let options = ExportOptions::default().overwrite(overwrite);
            let options = options.on_progress(|progress| reporter.report(progress));
            export(&ring, &path, format, options)
        });
        let exported = reporter.finish(exported)?;
        if exported.rows_lapped > 0 {
            warn(py, exported.rows_lapped, &path)?;
        }
        let report = PyDict::new(py);
        report.set_item("rows", exported.rows)?;
        report.set_item("rows_lapped", exported.rows_lapped)?;
        report.set_item("bytes", exported.bytes)?;
        report.set_item("episodes", exported.episodes)?;
        Ok(report)
    }

    /// Import a file as a ring.
    ///
    /// The ring gets its name when it is complete; an error leaves no ring. Releases the
    /// interpreter; Ctrl-C stops it and leaves nothing. A killed import leaves an unnamed ring,
    /// which :func:`collect_garbage` removes. :attr:`imported` reports what was read.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     A Parquet file that a buffer was exported to; a Minari dataset in the ``parquet``
    ///     format; or a ``.npz`` of plain steps. Its arrays are ``obs``, ``action``, ``reward``,
    ///     ``terminated``, ``truncated``, ``next_obs`` and any others, with one row for each step.
    ///     Names that other programs give these arrays are accepted too (``observations``,
    ///     ``terminals``, ``timeouts``, ...).
    /// name : str or None
    ///     Name that other processes attach to; None for memory private to this process.
    /// format : {"parquet", "minari", "npz"}, optional
    ///     By default chosen by the path's extension; a path without one is a Minari dataset's.
    /// capacity : int, optional
    ///     Rows over all lanes; by default as many as the ring had or the data has.
    /// exist : {"error", "replace"}, default "error"
    ///     Policy when the name is taken.
    /// persistent : bool, default False
    ///     Keep the ring when no process holds it.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// leave_out : sequence of str, optional
    ///     Arrays of a ``.npz`` or columns of a dataset that are not imported, each with what lies
    ///     below it: ``["metadata", "infos/goal"]``. Arrays that no column can hold have to be left
    ///     out by name.
    /// progress : callable, optional
    ///     Called now and then with the bytes done and the bytes in all. An exception that it
    ///     raises stops the call.
    ///
    /// Returns
    /// -------
    /// ReplayBuffer
    ///     Lanes, rows, episodes and indices of an exported buffer are as they were. Plain steps
    ///     and episodes lie in one lane.
    ///
    /// Raises
    /// ------
    /// CorruptError
    ///     If the file is damaged or of another format; the message names the part. Rows of an
    ///     exported Parquet file are compared with its hashes of row groups. Files of a version
    ///     without hashes, files that another program rewrote, and datasets are not compared.
    /// ArgumentError
    ///     If the file is intact but cannot become a ring: arrays of different lengths or without
    ///     numbers, a dataset stored as HDF5. The message names the remedy.
    /// SpaceError
    ///     If there is not enough memory for the ring.
    /// StorageError
    ///     If the file cannot be read, or the directory of rings cannot be used.
    /// SchemaError
    ///     If its columns make no ring.
    /// ExistsError
    ///     If the name is taken.
    #[staticmethod]
    #[pyo3(signature = (
        path=Argument::Missing, name=Some(Argument::Missing), format=None, *, capacity=None,
        exist="error".into(), persistent=false.into(), dir=None, leave_out=None, progress=None
    ))]
    #[pyo3(text_signature = "(path, name, format=None, *, capacity=None, exist='error', \
                             persistent=False, dir=None, leave_out=None, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn from_file<'py>(
        py: Python<'py>,
        path: Argument<PathBuf>,
        name: Option<Argument<String>>,
        format: Option<Argument<String>>,
        capacity: Option<Argument<i128>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        leave_out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Result<Self, Failure> {
        let path = file_of(path, "path", "the file to read")?;
        let wanted = "a name for other processes to attach to, or None for private memory";
        let name = name.map(|name| name.get("name", wanted)).transpose()?;
        let format = format_of(format, &path, READ)?;
        let rows = "rows from 1 up, or None for as many as the file has";
        let capacity = capacity.map(|given| whole(given, "capacity", rows, ErrorClass::Argument));
        let (exist, base) = (exist_of(exist)?, base_of(dir)?);
        if exist == Exist::Attach {
            return Err(bad_argument(
                "exist is 'attach', and a ring that is there was not read from the file; give \
                 \"error\" or \"replace\", or call ReplayBuffer.attach",
            ));
        }
        let persistent = persistent_of(persistent, name.is_some(), "ring")?;
        let options = match &name {
            Some(name) => ImportOptions::named(name),
            None => ImportOptions::private(),
        };
        let mut options = options.exist(exist).persistent(persistent).base(base);
        if let Some(capacity) = capacity.transpose()? {
            options = options.capacity(capacity);
        }
        if let Some(given) = leave_out {
            options = options.leave_out(names_of(given, "leave_out", "[\"metadata\"]")?);
        }
        let mut reporter = ProgressReporter::new(progress)?;
        let imported = py.detach(|| {
            import(&path, format, options.on_progress(|progress| reporter.report(progress)))
        });
        let (ring, report) = reporter.finish(imported)?;
        Ok(Self::of_imported(ring, report))
    }

    /// Report of the import that made this handle, else None.
    ///
    /// A dict: ``rows`` of the ring, ``episodes`` (None for a table), ``rows_without_successor``
    /// (last steps whose next observation the file does not have: no transition starts there),
    /// ``rows_before_gap`` (rows of a table that are not in the ring, since rows after them were
    /// overwritten before they were exported), ``episodes_cut`` (episodes of plain steps that no
    /// flag ends: the step after their last one begins with another observation than ``next_obs``
    /// says, so they end there, truncated).
    #[getter]
    fn imported<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(imported) = &self.imported else { return Ok(None) };
        let report = PyDict::new(py);
        report.set_item("rows", imported.rows)?;
        report.set_item("episodes", imported.episodes)?;
        report.set_item("rows_without_successor", imported.rows_without_successor)?;
        report.set_item("rows_before_gap", imported.rows_before_gap)?;
        report.set_item("episodes_cut", imported.episodes_cut)?;
        Ok(Some(report))
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let class = match &error {
            ExportError::Exists { .. }
            | ExportError::NotReplaced { .. }
            | ExportError::NotPartial { .. } => ErrorClass::Exists,
            ExportError::Busy { .. } => ErrorClass::InUse,
            ExportError::Write { source, .. } | ExportError::Unfinished { source, .. } => {
                class_of_io(source)
            }
            ExportError::OnlyRead { .. } | ExportError::NamesFolder { .. } => ErrorClass::Argument,
            ExportError::NoColumn { .. }
            | ExportError::NoSpace { .. }
            | ExportError::TooManyChoices { .. } => ErrorClass::Schema,
            ExportError::Ring(_) => ErrorClass::Sample,
            _ => ErrorClass::Base,
        };
        Self::of(class, error)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let class = match error {
            ImportError::Restore(error) => return error.into(),
            ImportError::Read { .. } => ErrorClass::Storage,
            ImportError::Schema { .. } => ErrorClass::Schema,
            ImportError::OnlyWritten { .. }
            | ImportError::Capacity { .. }
            | ImportError::Array { .. }
            | ImportError::NotRead { .. }
            | ImportError::NotThere { .. }
            | ImportError::ComesWhole { .. } => ErrorClass::Argument,
            ImportError::Interrupted => ErrorClass::Base,
            _ => ErrorClass::Corrupt,
        };
        Self::of(class, error)
    }
}
