//! `backcast.Panel`: daily market data, shared once per machine, and windows around days.

mod describe;
mod frame;
mod load;
mod names;
pub(crate) mod rows;
mod when;
mod windows;

use std::path::PathBuf;

use backcast_core::DType;
use backcast_market::{Panel as CorePanel, PanelData};
use backcast_pybind_macros::exact_arguments;
use numpy::prelude::*;
use numpy::{PyArray1, PyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use self::frame::Frame;
use self::load::{PanelTarget, TableArguments, separator_of};
use self::names::{NAMES, names_of, unknown_ticker};
pub(crate) use self::when::when_of;
pub(crate) use self::windows::WindowMemory;
use self::windows::{tokens_of, views, without_unit_axis};
use crate::argument::{Argument, count, no_constructor, required, wrong_type};
use crate::array::allocation::Allocator;
use crate::array::convert::{self, descr};
use crate::array::pool::ArrayPool;
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::location::{ByName, base_at, base_of, name_of, reduce_by_name};

/// Immutable prices and indicators of many tickers by day or by bar, in shared memory.
///
/// Made by :meth:`from_csv`, :meth:`from_parquet` or :meth:`from_frame`, joined by :meth:`attach`.
/// A context manager; pickles by name. A table with a column ``date`` makes a panel of days, one
/// with ``timestamp``, or with ``date`` and ``time``, a panel of bars. What is said of days applies
/// to bars, too. Axes are always tickers ``T``, days ``D``, columns ``C``; columns are open,
/// high, low, close, volume, then the indicators. A ticker without a row on a day has zeros there
/// and a mask of 0.
///
/// Examples
/// --------
/// >>> import pathlib, tempfile
/// >>> with tempfile.TemporaryDirectory() as folder:
/// ...     csv = pathlib.Path(folder, "prices.csv")
/// ...     lines = ["date,tic,open,high,low,close,volume"]
/// ...     lines += [f"2024-01-0{day},AAA,{day},9,1,{day},100" for day in range(1, 8)]
/// ...     size = csv.write_text("\n".join(lines) + "\n")
/// ...     panel = bc.Panel.from_csv(csv)
/// >>> windows = panel.windows(days=[3], tokens=panel.tokens(["AAA"]), history=2, future=1)
/// >>> windows["history"][0, 0, :, 3], windows["open"], windows["future"][0, 0, :, 3]
/// (array([2., 3.], dtype=float32), array([[4.]], dtype=float32), array([5.], dtype=float32))
#[pyclass(module = "backcast", name = "Panel", frozen)]
pub(crate) struct Panel {
    data: Handle<CorePanel>,
    name: Option<String>,
    path: Option<PathBuf>,
}

impl Panel {
    /// Copies windows of the panel into an array of the pool, or a new one.
    fn cut<'py>(
        &self,
        py: Python<'py>,
        (days, tokens): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
        (history, future): (Argument<i128>, Argument<i128>),
        pool: &ArrayPool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let panel = self.get()?;
        // Environments have the day as `(B, 1)`.
        let days = without_unit_axis(days)?;
        let days = convert::int64s(&days, "days", ErrorClass::Panel)?;
        let tokens = tokens_of(tokens, days.len())?;
        let history = count(history, "history", 0, ErrorClass::Panel)? as usize;
        let future = count(future, "future", 0, ErrorClass::Panel)? as usize;
        let per_sample = tokens.per_sample();
        let plan = panel.window_shape(days.len(), per_sample, history, future)?;

        // The arena is the largest array. If there is memory for it, there is memory for the
        // others.
        let allocator =
            Allocator { class: ErrorClass::Panel, remedy: "ask for shorter windows or fewer days" };
        let (dtype, shape) = (DType::F32, plan.arena_shape());
        let arena = pool.take().take_or_new(0, &descr(py, dtype)?, &shape);
        let mut arena = arena.map_err(|error| allocator.array_failure(py, error, dtype, &shape))?;
        let mask = PyArray3::<bool>::zeros(py, plan.mask_shape(), false);
        let tokens = tokens.of_samples(days.len(), allocator)?;
        {
            let floats = bytemuck::try_cast_slice_mut(arena.bytes_mut())
                .map_err(|error| Failure::new(ErrorClass::Panel, error))?;
            let mut flags = mask.readwrite();
            let flags =
                flags.as_slice_mut().map_err(|error| Failure::new(ErrorClass::Panel, error))?;
            py.detach(|| {
                panel.windows_into(&days, &tokens, per_sample, history, future, floats, flags)
            })?;
        }
        let arena = arena.into_array();
        pool.keep([&arena]);
        Ok(views(&arena, &mask, &plan, history)?)
    }

    fn shut(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.data.close())
    }

    pub(crate) fn of(panel: CorePanel) -> Self {
        let name = panel.name().map(str::to_owned);
        let path = panel.path().map(ToOwned::to_owned);
        let label = name
            .as_ref()
            .map_or_else(|| "a private panel".to_owned(), |name| format!("panel '{name}'"));
        Self { data: Handle::new(label, "attach or load it again", panel), name, path }
    }

    /// Returns another handle on the same panel.
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Ok(Self::of(self.get()?))
    }

    /// Returns the panel for the duration of a call.
    pub(crate) fn get(&self) -> Result<CorePanel, Failure> {
        self.data.with(|panel| Ok(panel.clone()))
    }
}

#[exact_arguments]
#[pymethods]
impl Panel {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor(
            "Panel",
            "call Panel.from_csv(path), Panel.from_parquet(path), Panel.from_frame(frame) or \
             Panel.attach(name)",
        ))
    }

    /// Return another handle on the same panel.
    fn __copy__(&self) -> Result<Self, Failure> {
        self.again()
    }

    /// Return another handle on the same panel. Shared memory is not copied.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        self.__copy__()
    }

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
    ///     except ``day``, ``day_idx`` and index columns that pandas wrote, which are ignored.
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
    ///     If tickers have bars of different lengths, or bars do not tell how many a year has.
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
    ///     If tickers have bars of different lengths, or bars do not tell how many a year has.
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

    /// Load a data frame, an Arrow table or a dict of columns, and share it.
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
    ///     If tickers have bars of different lengths, or bars do not tell how many a year has.
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

    /// Return history and future around days, for some tickers each.
    ///
    /// The day itself lies in neither. Only its open is shown, since nothing else is known when a
    /// decision is made. The call makes one copy per (sample, token), with the interpreter
    /// released. ``history``, ``open`` and ``future`` are views of one array.
    ///
    /// Parameters
    /// ----------
    /// days : array_like of int, shape (B,) or (B, 1)
    ///     Positions in :attr:`dates`; windows may reach beyond the panel's edges, days may not.
    /// tokens : array_like of int, shape (B, T) or (T,)
    ///     Tokens as from :meth:`tokens`; 0 is cash, which has no market. One axis serves every
    ///     sample.
    /// history : int
    ///     Days before, ``H``.
    /// future : int
    ///     Days after, ``F``.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``history`` float32 ``[B, T, H, C]`` of day-H to day-1, ``history_mask`` bool
    ///     ``[B, T, H]``, ``open`` float32 ``[B, T]``, ``listed`` bool ``[B, T]``, ``future``
    ///     float32 ``[B, T, F, C]`` of day+1 to day+F, ``future_mask`` bool ``[B, T, F]``. Zeros
    ///     where a mask is False.
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If a day or token is outside the panel, shapes do not fit, or the window is longer than
    ///     :attr:`longest_window`.
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (
        days=None, tokens=None, history=Argument::Missing, future=Argument::Missing
    ))]
    #[pyo3(text_signature = "($self, days, tokens, history, future)")]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn windows<'py>(
        &self,
        py: Python<'py>,
        days: Option<&Bound<'py, PyAny>>,
        tokens: Option<&Bound<'py, PyAny>>,
        history: Argument<i128>,
        future: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let days = required(days, "days", "positions in the panel's dates, (B,)")?;
        let tokens = required(tokens, "tokens", "what tokens() returned, (B, T) or (T,)")?;
        self.cut(py, (days, tokens), (history, future), &ArrayPool::default())
    }

    /// Return the same as ``windows``, in the memory of an earlier result that nothing refers to.
    ///
    /// Parameters
    /// ----------
    /// memory : WindowMemory
    ///     Memory of earlier calls.
    /// days, tokens, history, future
    ///     See ``windows``.
    fn _windows_in<'py>(
        &self,
        py: Python<'py>,
        memory: &Bound<'py, WindowMemory>,
        days: &Bound<'py, PyAny>,
        tokens: &Bound<'py, PyAny>,
        history: Argument<i128>,
        future: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        self.cut(py, (days, tokens), (history, future), &memory.get().0)
    }

    /// Return the tokens of tickers: 1 plus the position in :attr:`tickers`; 0 for ``"<CASH>"``.
    ///
    /// Parameters
    /// ----------
    /// tickers : sequence of str
    ///     Names as in :attr:`tickers`, or ``"<CASH>"``.
    ///
    /// Returns
    /// -------
    /// ndarray of int32, shape (len(tickers),)
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the panel has no such ticker.
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (tickers=None))]
    #[pyo3(text_signature = "($self, tickers)")]
    fn tokens<'py>(
        &self,
        py: Python<'py>,
        tickers: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArray1<i32>>, Failure> {
        let names = names_of(required(tickers, "tickers", NAMES)?, "tickers")?;
        let panel = self.get()?;
        let tokens = names
            .iter()
            .map(|name| {
                panel
                    .token(name)
                    .and_then(|token| i32::try_from(token).ok())
                    .ok_or_else(|| unknown_ticker(&panel, name))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(PyArray1::from_vec(py, tokens))
    }

    /// Return the position of the first day or bar at or after a date or a time.
    ///
    /// Parameters
    /// ----------
    /// when : str, date, datetime or datetime64
    ///     A date (midnight in UTC on a panel of bars), or on a panel of bars a time with its
    ///     offset, ``"2024-01-02T14:30:00Z"``. A ``datetime64`` is in UTC, like those of
    ///     :attr:`timestamps`.
    ///
    /// Returns
    /// -------
    /// int
    ///     At most ``n_days``, if every day or bar is earlier.
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If it is no date or, on a panel of bars, a time without its offset.
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (when=None))]
    #[pyo3(text_signature = "($self, when)")]
    fn position(&self, when: Option<&Bound<'_, PyAny>>) -> Result<usize, Failure> {
        let wanted = "a date or a time, such as \"2024-01-02\"";
        let when = required(when, "when", wanted)?;
        let panel = self.get()?;
        let text = when_of(when, panel.calendar())?;
        let text = text.ok_or_else(|| wrong_type(when, "when", wanted))?;
        panel.position(&text).map_err(|error| Failure::of(ErrorClass::Panel, error))
    }

    /// Release the panel, which stays for its other holders. Closing again does nothing.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.shut(py)
    }

    /// Remove the panel's name, even if it is persistent. Processes that have it open keep it.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If the name was removed or taken over by another panel already.
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        let panel = self.get()?;
        Ok(py.detach(|| panel.unlink())?)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.shut(py)
    }

    fn __repr__(&self) -> String {
        let state = self.data.describe(|panel| {
            let tickers = panel.tickers().len();
            let macros = (0..tickers).filter(|&ticker| panel.is_macro(ticker)).count();
            format!(
                "{tickers} tickers ({macros} macro), {} {} {} to {}, {} columns",
                panel.days(),
                panel.calendar(),
                panel.date(0).unwrap_or_default(),
                panel.date(panel.days() - 1).unwrap_or_default(),
                panel.columns().len()
            )
        });
        format!("<backcast.Panel: {}, {state}>", self.data.label())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<ByName<'py>, Failure> {
        reduce_by_name(py, "a panel", "_attach_panel", self.name.as_deref(), self.path.as_deref())
    }
}

/// Attaches to a pickled panel.
#[pyfunction]
#[pyo3(signature = (name, dir=None))]
pub(crate) fn _attach_panel(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
) -> Result<Panel, Failure> {
    Ok(Panel::of(py.detach(|| CorePanel::attach_in(&base_at(dir), name))?))
}
