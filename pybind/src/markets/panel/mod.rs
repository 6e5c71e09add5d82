//! `backcast.Panel`: daily market data, shared once per machine, and windows around days.

mod describe;
mod frame;
mod load;
mod names;
pub(crate) mod rows;
mod sources;
mod when;
mod windows;

use std::path::PathBuf;

use backcast_market::Panel as CorePanel;
use backcast_pybind_macros::exact_arguments;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use self::names::{NAMES, names_of, unknown_ticker};
pub(crate) use self::when::when_of;
pub(crate) use self::windows::WindowMemory;
use crate::argument::{no_constructor, required, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::location::{ByName, base_at, reduce_by_name};

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
