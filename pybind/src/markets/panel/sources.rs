//! Calls that make or join a panel: from files, from frames, and by name.

use std::path::PathBuf;

use backcast_market::{Panel as CorePanel, PanelData};
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Panel;
use super::frame::Frame;
use super::load::{PanelTarget, TableArguments, separator_of};
use crate::argument::{Argument, required};
use crate::error::Failure;
use crate::location::{base_of, name_of};

#[exact_arguments]
#[pymethods]
impl Panel {
    /// Load a long CSV and share it.
    ///
    /// One row per ticker and day, in any order. A ticker without a row on a day is masked there.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     UTF-8 with a header; columns ``date`` (``2024-01-02``, ``20240102`` or an ISO timestamp,
    ///     whose day is the one written), ``tic``, ``open``, ``high``, ``low``, ``close``,
    ///     ``volume``. For bars, ``timestamp`` (``2024-01-02T14:30:00Z``) instead of ``date``, or
    ///     ``time`` (``09:30``) beside it, with a `zone`. Every further column is an indicator,
    ///     except ``day``, ``day_idx`` and index columns that pandas wrote (``index``, ``level_0``
    ///     and those without a name), which are ignored.
    /// macro : sequence of str
    ///     Tickers that are shown but never traded, such as an index.
    /// columns : dict of str to str or None, optional
    ///     Names in the file to names in the panel, such as ``{"Date": "date"}``; None or an empty
    ///     name leaves a column out.
    /// nan : {"refuse", "mask"}
    ///     Policy for a row that lacks a number (an empty cell, a null, a NaN): refuse the file, or
    ///     mask the row. Infinities are always refused.
    /// name : str, optional
    ///     Name that other processes attach to; private to this process when left out.
    /// exist : {"error", "attach", "replace"}
    ///     Policy when the name is taken. Attaching needs equal data.
    /// persistent : bool
    ///     Keep the panel when no process holds it.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// separator : str
    ///     Character between two cells: one ASCII character, such as ``";"`` or a tab.
    /// ticker : str, optional
    ///     Ticker of all rows of a table without a column ``tic``.
    /// derive : sequence of {"open", "high", "low", "volume"}
    ///     Columns that the table lacks: the open is the close before it (the first row of a
    ///     ticker becomes absent), high and low are the larger and the smaller of open and close,
    ///     the volume is 0.
    /// zone : str, optional
    ///     Zone of instants that are written without one: ``"UTC"``, ``"America/New_York"``,
    ///     ``"-05:00"``. Times that its clocks show twice or never are refused.
    /// unit : {"s", "ms", "us", "ns"}, optional
    ///     Unit of instants or days that are whole numbers since 1970, in UTC.
    /// bars_per_year : float, optional
    ///     Bars of a year, which annualise Sharpe and Sortino ratios; see :attr:`bars_per_year`.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the file cannot be opened or is no such CSV; the message has line and column.
    /// ArgumentError
    ///     If an argument is invalid.
    /// ExistsError, SpaceError
    ///     If the name is taken, or there is no room.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If an open or a close of a tradable ticker lies outside low and high; the row is kept.
    ///     If tickers have bars of different lengths, or that begin within those of another one, or
    ///     bars do not tell how many a year has. If all dates are in 1970 or before, as in too fine
    ///     a unit, or times of day in ``date`` are dropped. If a price moves as after a split that
    ///     no column with "split" in its name tells.
    #[staticmethod]
    #[pyo3(signature = (
        path=Argument::Missing, *, r#macro=None, columns=None, nan="refuse".into(), name=None,
        exist="error".into(), persistent=false.into(), dir=None, separator=",".into(), ticker=None,
        derive=None, zone=None, unit=None, bars_per_year=None
    ))]
    #[pyo3(text_signature = "(path, *, macro=(), columns=None, nan='refuse', name=None, \
                             exist='error', persistent=False, dir=None, separator=',', \
                             ticker=None, derive=(), zone=None, unit=None, \
                             bars_per_year=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn from_csv<'py>(
        py: Python<'py>,
        path: Argument<PathBuf>,
        r#macro: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
        nan: Argument<String>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        separator: Argument<String>,
        ticker: Option<Argument<String>>,
        derive: Option<&Bound<'py, PyAny>>,
        zone: Option<Argument<String>>,
        unit: Option<Argument<String>>,
        bars_per_year: Option<Argument<f64>>,
    ) -> Result<Self, Failure> {
        let path = path.get("path", "the path of a CSV file")?;
        let arguments = TableArguments {
            macros: r#macro,
            columns,
            nan,
            ticker,
            derive,
            zone,
            unit,
            bars_per_year,
        };
        let options = arguments.options()?.separator(separator_of(separator)?);
        let share = PanelTarget::of(name, exist, persistent, dir)?;
        share.make(py, move || PanelData::from_csv(&path, &options))
    }

    /// Load a long Parquet file and share it.
    ///
    /// One row per ticker and day, in any order. A ticker without a row on a day is masked there.
    /// Row groups are read one after the other; columns that are not part of the panel are not
    /// read.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     Columns as in :meth:`from_csv`. ``date`` is a date, a timestamp of any unit, text as in
    ///     a CSV, or an integer YYYYMMDD. The day of a timestamp is the one on the clocks of its
    ///     zone. ``timestamp`` is a timestamp, ISO text, or an integer with a `unit`; ``time`` is a
    ///     time of day or text. ``tic`` is text or an integer. The others are integers, floats or
    ///     decimals of any width. Any of them may be dictionary-encoded (pandas calls that a
    ///     category).
    /// macro : sequence of str
    ///     Tickers that are shown but never traded, such as an index.
    /// columns : dict of str to str or None, optional
    ///     Names in the file to names in the panel, such as ``{"Date": "date"}``; None or an empty
    ///     name leaves a column out.
    /// nan : {"refuse", "mask"}
    ///     Policy for a row that lacks a number (an empty cell, a null, a NaN): refuse the file, or
    ///     mask the row. Infinities are always refused.
    /// name : str, optional
    ///     Name that other processes attach to; private to this process when left out.
    /// exist : {"error", "attach", "replace"}
    ///     Policy when the name is taken. Attaching needs equal data.
    /// persistent : bool
    ///     Keep the panel when no process holds it.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// ticker : str, optional
    ///     Ticker of all rows of a table without a column ``tic``.
    /// derive : sequence of {"open", "high", "low", "volume"}
    ///     Columns that the table lacks: the open is the close before it (the first row of a
    ///     ticker becomes absent), high and low are the larger and the smaller of open and close,
    ///     the volume is 0.
    /// zone : str, optional
    ///     Zone of instants that are written without one: ``"UTC"``, ``"America/New_York"``,
    ///     ``"-05:00"``. Times that its clocks show twice or never are refused.
    /// unit : {"s", "ms", "us", "ns"}, optional
    ///     Unit of instants or days that are whole numbers since 1970, in UTC.
    /// bars_per_year : float, optional
    ///     Bars of a year, which annualise Sharpe and Sortino ratios; see :attr:`bars_per_year`.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the file cannot be opened or is no such Parquet file; the message has row (counted
    ///     from 0) and column.
    /// ArgumentError
    ///     If an argument is invalid.
    /// ExistsError, SpaceError
    ///     If the name is taken, or there is no room.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If an open or a close of a tradable ticker lies outside low and high; the row is kept.
    ///     If tickers have bars of different lengths, or that begin within those of another one, or
    ///     bars do not tell how many a year has. If all dates are in 1970 or before, as in too fine
    ///     a unit, or times of day in ``date`` are dropped. If a price moves as after a split that
    ///     no column with "split" in its name tells.
    #[staticmethod]
    #[pyo3(signature = (
        path=Argument::Missing, *, r#macro=None, columns=None, nan="refuse".into(), name=None,
        exist="error".into(), persistent=false.into(), dir=None, ticker=None, derive=None,
        zone=None, unit=None, bars_per_year=None
    ))]
    #[pyo3(text_signature = "(path, *, macro=(), columns=None, nan='refuse', name=None, \
                             exist='error', persistent=False, dir=None, ticker=None, \
                             derive=(), zone=None, unit=None, bars_per_year=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn from_parquet<'py>(
        py: Python<'py>,
        path: Argument<PathBuf>,
        r#macro: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
        nan: Argument<String>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        ticker: Option<Argument<String>>,
        derive: Option<&Bound<'py, PyAny>>,
        zone: Option<Argument<String>>,
        unit: Option<Argument<String>>,
        bars_per_year: Option<Argument<f64>>,
    ) -> Result<Self, Failure> {
        let path = path.get("path", "the path of a Parquet file")?;
        let arguments = TableArguments {
            macros: r#macro,
            columns,
            nan,
            ticker,
            derive,
            zone,
            unit,
            bars_per_year,
        };
        let options = arguments.options()?;
        let share = PanelTarget::of(name, exist, persistent, dir)?;
        share.make(py, move || PanelData::from_parquet(&path, &options))
    }

    /// Load a data frame, an Arrow table or dataset, or a dict of columns, and share it.
    ///
    /// One row per ticker and day, in any order, checked like the rows of a file. Frames of pandas
    /// may also be wide, with fields and tickers as two levels of columns, as yfinance returns
    /// them; a ticker then has no row where all its cells are missing.
    ///
    /// Parameters
    /// ----------
    /// frame : DataFrame, Arrow table or dict of array_like
    ///     Anything with ``__arrow_c_stream__`` (polars, PyArrow, DuckDB, pandas 2.2 and later), a
    ///     pandas frame, whose index is a column too, or a dict of columns of one length. Types as
    ///     in :meth:`from_parquet`. Known columns may be written in another case, and ``ticker``
    ///     or ``symbol`` means ``tic``.
    /// macro : sequence of str
    ///     Tickers that are shown but never traded, such as an index.
    /// columns : dict of str to str or None, optional
    ///     Names in the frame to names in the panel, such as ``{"day": "date"}``; None or an empty
    ///     name leaves a column out.
    /// nan : {"refuse", "mask"}
    ///     Policy for a row that lacks a number (None, a null, a NaN): refuse the frame, or mask
    ///     the row. Infinities are always refused.
    /// name : str, optional
    ///     Name that other processes attach to; private to this process when left out.
    /// exist : {"error", "attach", "replace"}
    ///     Policy when the name is taken. Attaching needs equal data.
    /// persistent : bool
    ///     Keep the panel when no process holds it.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    /// ticker : str, optional
    ///     Ticker of all rows of a table without a column ``tic``.
    /// derive : sequence of {"open", "high", "low", "volume"}
    ///     Columns that the table lacks: the open is the close before it (the first row of a
    ///     ticker becomes absent), high and low are the larger and the smaller of open and close,
    ///     the volume is 0.
    /// zone : str, optional
    ///     Zone of instants that are written without one: ``"UTC"``, ``"America/New_York"``,
    ///     ``"-05:00"``. Times that its clocks show twice or never are refused.
    /// unit : {"s", "ms", "us", "ns"}, optional
    ///     Unit of instants or days that are whole numbers since 1970, in UTC.
    /// bars_per_year : float, optional
    ///     Bars of a year, which annualise Sharpe and Sortino ratios; see :attr:`bars_per_year`.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the frame is no such table; the message has row (counted from 0) and column.
    /// ArgumentError, ArgumentTypeError
    ///     If an argument is invalid.
    /// ExistsError, SpaceError
    ///     If the name is taken, or there is no room.
    ///
    /// Warns
    /// -----
    /// UserWarning
    ///     If an open or a close of a tradable ticker lies outside low and high; the row is kept.
    ///     If tickers have bars of different lengths, or that begin within those of another one, or
    ///     bars do not tell how many a year has. If all dates are in 1970 or before, as in too fine
    ///     a unit, or times of day in ``date`` are dropped. If a price moves as after a split that
    ///     no column with "split" in its name tells.
    ///
    /// Examples
    /// --------
    /// >>> closes = {"date": ["2024-01-02", "2024-01-03"], "close": [10.5, 11.5]}
    /// >>> derive = ["open", "high", "low", "volume"]
    /// >>> panel = bc.Panel.from_frame(closes, ticker="AAPL", derive=derive)
    /// >>> panel.values[0, 1]
    /// array([10.5, 11.5, 10.5, 11.5,  0. ])
    #[staticmethod]
    #[pyo3(signature = (
        frame=None, *, r#macro=None, columns=None, nan="refuse".into(), name=None,
        exist="error".into(), persistent=false.into(), dir=None, ticker=None, derive=None,
        zone=None, unit=None, bars_per_year=None
    ))]
    #[pyo3(text_signature = "(frame, *, macro=(), columns=None, nan='refuse', name=None, \
                             exist='error', persistent=False, dir=None, ticker=None, \
                             derive=(), zone=None, unit=None, bars_per_year=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn from_frame<'py>(
        py: Python<'py>,
        frame: Option<&Bound<'py, PyAny>>,
        r#macro: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
        nan: Argument<String>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        ticker: Option<Argument<String>>,
        derive: Option<&Bound<'py, PyAny>>,
        zone: Option<Argument<String>>,
        unit: Option<Argument<String>>,
        bars_per_year: Option<Argument<f64>>,
    ) -> Result<Self, Failure> {
        let frame = required(frame, "frame", "a data frame, an Arrow table or a dict of columns")?;
        let arguments = TableArguments {
            macros: r#macro,
            columns,
            nan,
            ticker,
            derive,
            zone,
            unit,
            bars_per_year,
        };
        let options = arguments.options()?.any_case();
        let share = PanelTarget::of(name, exist, persistent, dir)?;
        let frame = Frame::of(frame)?;
        share.make(py, move || frame.load(&options))
    }

    /// Attach to the panel of that name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the panel.
    /// dir : path, optional
    ///     Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is no such panel.
    /// CorruptError, PanelError
    ///     If the files are not a valid panel of this version.
    #[staticmethod]
    #[pyo3(signature = (name=Argument::Missing, *, dir=None))]
    #[pyo3(text_signature = "(name, *, dir=None)")]
    fn attach(
        py: Python<'_>,
        name: Argument<String>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let (name, base) = (name_of(name)?, base_of(dir)?);
        Ok(Self::of(py.detach(|| CorePanel::attach_in(&base, &name))?))
    }

    /// Load rows that were made from a panel, whose loading warned of what is doubtful.
    ///
    /// Parameters
    /// ----------
    /// frame, macro, nan, name, exist, persistent, dir, zone, bars_per_year
    ///     See ``from_frame``.
    #[staticmethod]
    #[pyo3(signature = (
        frame, *, r#macro, nan, name, exist, persistent, dir, zone, bars_per_year
    ))]
    #[pyo3(text_signature = "(frame, *, macro, nan, name, exist, persistent, dir, zone, \
                             bars_per_year)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn _derived<'py>(
        py: Python<'py>,
        frame: &Bound<'py, PyAny>,
        r#macro: &Bound<'py, PyAny>,
        nan: Argument<String>,
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
        zone: Option<Argument<String>>,
        bars_per_year: Argument<f64>,
    ) -> Result<Self, Failure> {
        let arguments = TableArguments {
            macros: Some(r#macro),
            columns: None,
            nan,
            ticker: None,
            derive: None,
            zone,
            unit: None,
            bars_per_year: Some(bars_per_year),
        };
        let options = arguments.options()?;
        let share = PanelTarget::of(name, exist, persistent, dir)?;
        let frame = Frame::of(frame)?;
        share.make_silently(py, move || frame.load(&options))
    }
}
