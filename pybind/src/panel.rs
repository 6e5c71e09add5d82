//! `backcast.Panel`: daily market data, shared once per machine, and the windows around days.

use std::path::PathBuf;

use backcast_core::DType;
use backcast_market::{CsvOptions, Panel as CorePanel, PanelData, WindowPlan};
use numpy::prelude::*;
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayDyn, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyEllipsis, PySlice};

use crate::coerce::{self, Target, Tuple, array_of, count, descr};
use crate::error::{Failure, Kind};
use crate::handle::Handle;
use crate::place::{ByName, base, by_name, exist};
use crate::view::FreshArray;

/// Daily prices and indicators of many tickers: immutable, in memory that every process shares.
///
/// Made by :meth:`from_csv`, joined by :meth:`attach`. A context manager; pickles by name. Axes are
/// always tickers ``T``, days ``D``, columns ``C``; columns are open, high, low, close, volume,
/// then the indicators. A ticker without a row on a day has zeros there and a mask that says so.
#[pyclass(module = "backcast", name = "Panel", frozen)]
pub(crate) struct Panel {
    data: Handle<CorePanel>,
    name: Option<String>,
    path: Option<PathBuf>,
}

impl Panel {
    fn of(panel: CorePanel) -> Self {
        let name = panel.name().map(str::to_owned);
        let path = panel.path().map(ToOwned::to_owned);
        let label = name
            .as_ref()
            .map_or_else(|| "a private panel".to_owned(), |name| format!("panel '{name}'"));
        Self { data: Handle::new(label, panel), name, path }
    }

    /// The panel, for as long as the caller needs it.
    pub(crate) fn get(&self) -> Result<CorePanel, Failure> {
        self.data.with(|panel| Ok(panel.clone()))
    }
}

#[pymethods]
impl Panel {
    /// Load a long CSV and share it.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     UTF-8 with a header; columns ``date`` (YYYY-MM-DD), ``tic``, ``open``, ``high``,
    ///     ``low``, ``close``, ``volume``; every further column is an indicator. One row per ticker
    ///     and day, in any order.
    /// name : str, optional
    ///     What other processes attach to; private to this process when left out.
    /// macro : sequence of str
    ///     Tickers that are shown but never traded, such as an index.
    /// exist : {"error", "attach", "replace"}
    ///     What to do when the name is taken. Attaching needs equal data.
    /// persistent : bool
    ///     Keep the panel when nobody holds it.
    /// dir : path, optional
    ///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the file is no such CSV; the message has line and column.
    /// ExistsError, SpaceError
    #[staticmethod]
    #[pyo3(signature = (
        path, *, name=None, r#macro=Vec::new(), exist="error", persistent=false, dir=None
    ))]
    #[pyo3(
        text_signature = "(path, *, name=None, macro=(), exist='error', persistent=False, dir=None)"
    )]
    fn from_csv(
        py: Python<'_>,
        path: PathBuf,
        name: Option<&str>,
        r#macro: Vec<String>,
        exist: &str,
        persistent: bool,
        dir: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let exist = self::exist(exist)?;
        let options = CsvOptions::default().macro_tickers(r#macro);
        let panel = py.detach(move || {
            let data = PanelData::from_csv(&path, &options)?;
            match name {
                Some(name) => data.share(name, &base(dir), exist, persistent),
                None => Ok(data.into_heap()),
            }
        })?;
        Ok(Self::of(panel))
    }

    /// Join the panel of that name.
    ///
    /// Parameters
    /// ----------
    /// name : str
    /// dir : path, optional
    ///     Where it lives; ``BACKCAST_DIR``, else ``/dev/shm``, when left out.
    ///
    /// Returns
    /// -------
    /// Panel
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If there is none.
    /// CorruptError, PanelError
    ///     If the bytes there are no panel of this version.
    #[staticmethod]
    #[pyo3(signature = (name, *, dir=None))]
    fn attach(py: Python<'_>, name: &str, dir: Option<PathBuf>) -> Result<Self, Failure> {
        Ok(Self::of(py.detach(|| CorePanel::attach_in(&base(dir), name))?))
    }

    /// History and future around days, for some tickers each.
    ///
    /// The day itself lies in neither: of it only the open is shown, since nothing else is known
    /// when a decision is made. One copy per (sample, token), with the interpreter released;
    /// ``history``, ``open`` and ``future`` are views of one array.
    ///
    /// Parameters
    /// ----------
    /// days : array_like of int, shape (B,)
    ///     Positions in :attr:`dates`; windows may reach beyond the panel's edges, days may not.
    /// tokens : array_like of int, shape (B, T) or (T,)
    ///     As from :meth:`tokens`; 0 is cash, which has no market. One axis serves every sample.
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
    ///     If a day or token is outside the panel, or shapes do not fit.
    fn windows<'py>(
        &self,
        py: Python<'py>,
        days: &Bound<'py, PyAny>,
        tokens: &Bound<'py, PyAny>,
        history: i64,
        future: i64,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let panel = self.get()?;
        let days = coerce::int64s(days, "days", Kind::Panel)?;
        let (tokens, per_sample) = tokens_of(tokens, days.len())?;
        let history = count(history, "history", 0, Kind::Panel)? as usize;
        let future = count(future, "future", 0, Kind::Panel)? as usize;
        let plan = panel.window_shape(days.len(), per_sample, history, future)?;

        let mut arena = FreshArray::for_filling(py, &descr(py, DType::F32)?, &plan.arena_shape())?;
        let mask = PyArray3::<bool>::zeros(py, plan.mask_shape(), false);
        {
            let floats = bytemuck::try_cast_slice_mut(arena.bytes_mut())
                .map_err(|error| Failure::new(Kind::Panel, error))?;
            let mut flags = mask.readwrite();
            let flags = flags.as_slice_mut().map_err(|error| Failure::new(Kind::Panel, error))?;
            py.detach(|| {
                panel.windows_into(&days, &tokens, per_sample, history, future, floats, flags)
            })?;
        }
        Ok(views(&arena.into_array(), &mask, &plan, history)?)
    }

    /// The tokens of tickers: 1 plus the position in :attr:`tickers`; 0 for ``"<CASH>"``.
    ///
    /// Parameters
    /// ----------
    /// tickers : sequence of str
    ///
    /// Returns
    /// -------
    /// ndarray of int32, shape (len(tickers),)
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If the panel has no such ticker.
    fn tokens<'py>(
        &self,
        py: Python<'py>,
        tickers: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyArray1<i32>>, Failure> {
        let panel = self.get()?;
        let names: Vec<String> = tickers.extract().map_err(|_| {
            PyTypeError::new_err(
                "tickers must be a sequence of names, such as [\"AAPL\", \"MSFT\"]",
            )
        })?;
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

    /// A copy of every number, float64 ``[T, D, C]``; zeros where there is no row.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray3<f64>>, Failure> {
        let panel = self.get()?;
        let shape = [panel.tickers().len(), panel.days(), panel.columns().len()];
        let values = py.detach(|| panel.values());
        Ok(PyArray1::from_vec(py, values).reshape(shape)?)
    }

    /// True where a ticker has a row on a day, bool ``[T, D]``; a copy.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray2<bool>>, Failure> {
        let panel = self.get()?;
        let shape = [panel.tickers().len(), panel.days()];
        let mask = py.detach(|| panel.mask());
        Ok(PyArray1::from_vec(py, mask).reshape(shape)?)
    }

    /// Every ticker, sorted, macro ones included.
    #[getter]
    fn tickers(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.tickers().to_vec())
    }

    /// The tickers that are shown but never traded.
    #[getter]
    fn r#macro(&self) -> Result<Vec<String>, Failure> {
        let panel = self.get()?;
        let tickers = panel.tickers().iter().enumerate();
        Ok(tickers.filter(|(at, _)| panel.is_macro(*at)).map(|(_, name)| name.clone()).collect())
    }

    /// The days as ``YYYY-MM-DD``, ascending.
    #[getter]
    fn dates(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.dates().to_vec())
    }

    /// Open, high, low, close, volume, then the indicators.
    #[getter]
    fn columns(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.columns().to_vec())
    }

    /// The indicators, in the order of the file.
    #[getter]
    fn indicators(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.indicators().to_vec())
    }

    /// Days in the panel, ``D``.
    #[getter]
    fn n_days(&self) -> Result<usize, Failure> {
        Ok(self.get()?.days())
    }

    /// The panel's name; None when it is private to this process.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The panel's directory; None when it is private to this process.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// Let go of the panel, which stays for its other holders. Closing again does nothing.
    fn close(&self) {
        self.data.close();
    }

    /// Remove the panel's name, also of a persistent panel; who has it open keeps it.
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        let panel = self.get()?;
        Ok(py.detach(|| panel.unlink())?)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        match self.get() {
            Ok(panel) => format!(
                "<backcast.Panel: {}, {} tickers, {} days {} to {}, {} columns>",
                self.data.label(),
                panel.tickers().len(),
                panel.days(),
                panel.dates().first().map_or("", String::as_str),
                panel.dates().last().map_or("", String::as_str),
                panel.columns().len()
            ),
            Err(_) => format!("<backcast.Panel: {}, closed>", self.data.label()),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<ByName<'py>, Failure> {
        by_name(py, "_attach_panel", self.name.as_deref(), self.path.as_deref())
    }
}

/// What pickles of a panel call.
#[pyfunction]
#[pyo3(signature = (name, dir=None))]
pub(crate) fn _attach_panel(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
) -> Result<Panel, Failure> {
    Panel::attach(py, name, dir)
}

/// `[B, T]` flat and `T`; one axis is repeated for every sample.
fn tokens_of(value: &Bound<'_, PyAny>, batch: usize) -> Result<(Vec<i64>, usize), Failure> {
    let target = Target { what: "tokens", kind: Kind::Panel, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
    let tokens = array.as_slice().map_err(|error| Failure::new(Kind::Panel, error))?;
    match *array.shape() {
        [per_sample] => Ok((tokens.repeat(batch), per_sample)),
        [samples, per_sample] if samples == batch => Ok((tokens.to_vec(), per_sample)),
        _ => Err(Failure::new(
            Kind::Panel,
            format!(
                "tokens: got shape {}, expected ({batch}, T) for {batch} days, or (T,)",
                Tuple(array.shape())
            ),
        )),
    }
}

/// The parts of an arena `[B, T, H + 1 + F, C]` and its mask under their names.
fn views<'py>(
    arena: &Bound<'py, PyUntypedArray>,
    mask: &Bound<'py, PyArray3<bool>>,
    plan: &WindowPlan,
    history: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let py = arena.py();
    let all = || PySlice::full(py);
    let (day, end) = (isize::try_from(history)?, isize::try_from(plan.window())?);
    let before = || PySlice::new(py, 0, day, 1);
    let after = || PySlice::new(py, day + 1, end, 1);
    let dots = PyEllipsis::get(py);

    let result = PyDict::new(py);
    result.set_item(intern!(py, "history"), arena.get_item((all(), all(), before()))?)?;
    result.set_item(intern!(py, "history_mask"), mask.get_item((dots, before()))?)?;
    result.set_item(intern!(py, "open"), arena.get_item((dots, day, 0))?)?;
    result.set_item(intern!(py, "listed"), mask.get_item((dots, day))?)?;
    result.set_item(intern!(py, "future"), arena.get_item((all(), all(), after()))?)?;
    result.set_item(intern!(py, "future_mask"), mask.get_item((dots, after()))?)?;
    Ok(result)
}

fn unknown_ticker(panel: &CorePanel, name: &str) -> Failure {
    let closest = panel
        .tickers()
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .map(|(_, known)| format!("; did you mean {known:?}?"));
    Failure::new(
        Kind::Panel,
        format!(
            "the panel has no ticker {name:?} among its {}{}",
            panel.tickers().len(),
            closest.unwrap_or_default()
        ),
    )
}
