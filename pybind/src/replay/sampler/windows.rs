//! Windows and returns of a sampler, as keywords of Python give them.

use backcast_core::{
    Boundary, ColumnWindow, ColumnWindows, Form, FormError, SampleError, SamplerOptions,
    SamplerState,
};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString, PyTuple};

use crate::argument::{Argument, FromArgument, count, found, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::replay::sampler::form;
use crate::replay::sampler::max_age::AgeArgument;

/// Word for the discounts of a column.
const DISCOUNT: &str = "discount";
/// Word for the first row of the longest window.
const FIRST: &str = "first";
/// Name for all columns that the windows do not name.
const REST: &str = "*";

/// Windows and returns of a sampler, and whether its arrays may overlap in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowOptions {
    pub(super) history: Option<u32>,
    /// Windows of single columns, instead of one history for all.
    pub(super) columns: Option<ColumnWindows>,
    pub(super) future: u32,
    pub(super) n_step: Option<u32>,
    pub(super) gamma: Option<Gamma>,
    pub(super) boundary: Boundary,
    copy: bool,
    form: Form,
    /// Rank of the learner, and number of learners that share the draws.
    pub(super) share: (u32, u32),
    pub(super) max_age: AgeArgument,
}

/// The discount of n-step returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gamma {
    Constant(f64),
    /// Discounts of the column `discount`.
    Column,
}

impl FromArgument for Gamma {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if value.is_instance_of::<PyString>() {
            let word = found(value.py(), value.extract::<String>())?;
            return Ok(word.filter(|word| word == DISCOUNT).map(|_| Self::Column));
        }
        Ok(f64::read(value)?.map(Self::Constant))
    }
}

/// Keywords of windows and returns, before they are checked.
#[derive(Default)]
pub(crate) struct WindowArguments<'a, 'py> {
    pub(crate) history: Option<&'a Bound<'py, PyAny>>,
    pub(crate) columns: Option<&'a Bound<'py, PyAny>>,
    pub(crate) future: Argument<i128>,
    pub(crate) n_step: Option<Argument<i128>>,
    pub(crate) gamma: Option<Argument<Gamma>>,
    pub(crate) boundary: Argument<String>,
    pub(crate) copy: Argument<bool>,
    pub(crate) form: Option<&'a Bound<'py, PyAny>>,
    pub(crate) share: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_age: Option<&'a Bound<'py, PyAny>>,
}

impl WindowArguments<'_, '_> {
    /// Returns the keywords, and whether each one was given.
    pub(crate) fn given(&self) -> [(&'static str, bool); 10] {
        [
            ("history", self.history.is_some()),
            ("columns", self.columns.is_some()),
            ("future", self.future.is_given()),
            ("n_step", self.n_step.is_some()),
            ("gamma", self.gamma.is_some()),
            ("boundary", self.boundary.is_given()),
            ("copy", self.copy.is_given()),
            ("form", self.form.is_some()),
            ("share", self.share.is_some()),
            ("max_age", self.max_age.is_some()),
        ]
    }
}

impl WindowOptions {
    /// Reads the keywords.
    pub(crate) fn new(asked: WindowArguments<'_, '_>) -> Result<Self, Failure> {
        let words = "\"mask\", \"reject\" or \"clamp\"";
        let boundary = asked.boundary.or("mask").get("boundary", words)?;
        let (history, columns) = histories(asked.history, asked.columns)?;
        let (form, first) = asked.form.map(form::read).transpose()?.unwrap_or_default();
        if let (Form::Sequence(_), Some(given)) = (form, asked.history) {
            // A dict whose windows are all None or "first" is refused too.
            let by_column = given.is_instance_of::<PyDict>();
            let what = if by_column { "histories by column" } else { "a history window" };
            return Err(SampleError::from(FormError::WithSequence { what }).into());
        }
        let columns = form::with_first(columns, &first);
        let n_step = asked.n_step.map(|asked| count(asked, "n_step", 1, ErrorClass::Sample));
        let gamma = "a number, 0 to 1, or \"discount\" for the discounts of that column";
        Ok(Self {
            history,
            columns,
            future: count(asked.future.or(0_i64), "future", 0, ErrorClass::Sample)?,
            n_step: n_step.transpose()?,
            gamma: asked.gamma.map(|asked| asked.get("gamma", gamma)).transpose()?,
            boundary: boundary.parse().map_err(|_| {
                Failure::new(ErrorClass::Sample, format!("boundary is {boundary:?}; write {words}"))
            })?,
            copy: asked.copy.or(false).get("copy", "True or False")?,
            form,
            share: asked.share.map_or(Ok((0, 1)), share_of)?,
            max_age: asked.max_age.map(AgeArgument::read).transpose()?.unwrap_or_default(),
        })
    }

    /// Returns the options of a gather by the buffer itself.
    pub(crate) fn of_gather(
        history: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let (history, columns) = histories(history, columns)?;
        let (n_step, gamma, boundary) = (None, None, Boundary::Mask);
        let (future, copy, form, share) = (0, false, Form::Transitions, (0, 1));
        let max_age = AgeArgument::default();
        Ok(Self { history, columns, future, n_step, gamma, boundary, copy, form, share, max_age })
    }

    /// Returns the options of a saved sampler.
    pub(crate) fn of(state: &SamplerState) -> Self {
        let SamplerState { history, future, n_step, boundary, copy, .. } = *state;
        let SamplerState { form, rank: share, .. } = *state;
        let columns = state.columns.clone();
        let constant = state.gamma.map(Gamma::Constant);
        let gamma = if state.discounts { Some(Gamma::Column) } else { constant };
        let max_age = AgeArgument { rows: state.max_age, versions: state.max_policy_age };
        Self { history, columns, future, n_step, gamma, boundary, copy, form, share, max_age }
    }

    /// Returns the form as an object of Python; `None` for transitions.
    pub(super) fn form_of<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        form::in_python(py, self.form, self.columns.as_ref())
    }

    /// Returns the form of what is drawn.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns the number of learners that share the draws of the seed.
    pub(crate) fn world_size(&self) -> u32 {
        self.share.1
    }

    /// Returns the options of a sampler of the core.
    pub(crate) fn spec(&self, seed: Option<u64>) -> SamplerOptions {
        let options = seed.map_or_else(SamplerOptions::from_entropy, SamplerOptions::seeded);
        let options = options.future(self.future).boundary(self.boundary).copy(self.copy);
        let (rank, world_size) = self.share;
        let options = self.max_age.limit(options.rank(rank, world_size));
        let options = match self.form {
            Form::Sequence(of) => options.sequence(of),
            Form::Episodes(of) => options.episodes(of),
            Form::Rollout(of) => options.rollout(of),
            _ => options,
        };
        let options = match self.history {
            Some(history) => options.history(history),
            None => options,
        };
        let options = match self.n_step {
            Some(n) => options.n_step(n),
            None => options,
        };
        let options = match self.gamma {
            None => options,
            Some(Gamma::Constant(gamma)) => options.gamma(gamma),
            Some(Gamma::Column) => options.discount_column(),
        };
        match &self.columns {
            None => options,
            Some(columns) => options.columns(columns.clone()),
        }
    }

    /// Returns the discount of n-step returns, unless a column has it.
    pub(super) fn constant_gamma(&self) -> Option<f64> {
        match self.gamma {
            Some(Gamma::Constant(gamma)) => Some(gamma),
            Some(Gamma::Column) | None => None,
        }
    }

    /// Returns the discount of n-step returns, as Python gave it.
    pub(super) fn gamma_of<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.gamma {
            None => None,
            Some(Gamma::Constant(gamma)) => Some(gamma.into_pyobject(py)?.into_any()),
            Some(Gamma::Column) => Some(DISCOUNT.into_pyobject(py)?.into_any()),
        })
    }

    /// Describes the windows and returns for a repr.
    pub(super) fn in_words(&self) -> String {
        let Self { history, columns, future, n_step, gamma, boundary, .. } = self;
        let history = match (history, columns) {
            (_, Some(_)) => "by column".to_owned(),
            (Some(history), None) => history.to_string(),
            (None, None) => "None".to_owned(),
        };
        let returns = match (n_step, gamma) {
            (Some(n), Some(Gamma::Constant(gamma))) => format!(", n_step {n}, gamma {gamma}"),
            (Some(n), Some(Gamma::Column)) => format!(", n_step {n}, gamma {DISCOUNT:?}"),
            _ => String::new(),
        };
        let limit = self.max_age.in_words();
        format!("history {history}, future {future}{returns}, boundary {boundary}{limit}")
    }

    /// Returns the history, or a dict of windows by column if `history` or `columns` named columns.
    /// Returns `None` for sequences.
    pub(super) fn history_of<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // The columns of a sequence belong to its form.
        let by_column = self.columns.as_ref().filter(|_| !matches!(self.form, Form::Sequence(_)));
        let Some(columns) = by_column else {
            let history = self.history.map(|history| history.into_pyobject(py)).transpose()?;
            return Ok(history.map(Bound::into_any));
        };
        let windows = PyDict::new(py);
        let rest = columns.others().map(|window| (REST, window));
        for (name, window) in columns.named().chain(rest) {
            match window {
                ColumnWindow::Drawn => windows.set_item(name, py.None())?,
                ColumnWindow::History(transitions) => windows.set_item(name, transitions)?,
                ColumnWindow::First => windows.set_item(name, FIRST)?,
            }
        }
        Ok(Some(windows.into_any()))
    }
}

/// Reads `share`: the rank of a learner, and the number of learners.
fn share_of(share: &Bound<'_, PyAny>) -> Result<(u32, u32), Failure> {
    const WANTED: &str = "a pair (rank, world_size), such as (0, 2) and (1, 2) for two learners";
    let pair = share.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let Some(pair) = pair else { return Err(wrong_type(share, "share", WANTED)) };
    let number = |place| -> Result<Argument<i128>, Failure> {
        let Ok(number) = pair.get_item(place)?.extract();
        Ok(number)
    };
    let rank = count(number(0)?, "share[0], the rank,", 0, ErrorClass::Sample)?;
    Ok((rank, count(number(1)?, "share[1], the world_size,", 1, ErrorClass::Sample)?))
}

/// Reads `history` and `columns`: one history for all columns, or windows by column.
fn histories(
    history: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyAny>>,
) -> Result<(Option<u32>, Option<ColumnWindows>), Failure> {
    if let Some(by_column) = history.and_then(|history| history.cast::<PyDict>().ok()) {
        if columns.is_some() {
            let message = "columns is given, and history names columns too; leave columns out, \
                           \"*\" stands for all others";
            return Err(Failure::new(ErrorClass::Sample, message.to_owned()));
        }
        return Ok((None, Some(windows_by_column(by_column)?)));
    }
    let all = history.map(one_history).transpose()?;
    let Some(columns) = columns else { return Ok((all, None)) };
    let names = if columns.is_instance_of::<PyString>() {
        None
    } else {
        found(columns.py(), columns.extract::<Vec<String>>())?
    };
    let Some(names) = names else {
        return Err(wrong_type(columns, "columns", "a list of names of columns"));
    };
    let window = all.map_or(ColumnWindow::Drawn, ColumnWindow::History);
    let empty = ColumnWindows::default();
    let windows = names.iter().fold(empty, |windows, name| windows.column(name, window));
    Ok((None, Some(windows)))
}

/// Reads one history for all columns.
fn one_history(history: &Bound<'_, PyAny>) -> Result<u32, Failure> {
    let Some(transitions) = i128::read(history.as_borrowed())? else {
        let wanted = "a whole number from 1 up, None, or a dict of windows by column";
        return Err(wrong_type(history, "history", wanted));
    };
    count(transitions, "history", 1, ErrorClass::Sample)
}

/// Reads a history by column.
fn windows_by_column(by_column: &Bound<'_, PyDict>) -> Result<ColumnWindows, Failure> {
    let mut windows = ColumnWindows::default();
    for (key, window) in by_column {
        let Some(name) = found(key.py(), key.extract::<String>())? else {
            return Err(wrong_type(&key, "a key of history", "the name of a column, or \"*\""));
        };
        let window = column_window(&window, &name)?;
        windows = match name.as_str() {
            REST => windows.rest(window),
            name => windows.column(name, window),
        };
    }
    Ok(windows)
}

/// Reads the window of a column.
fn column_window(window: &Bound<'_, PyAny>, name: &str) -> Result<ColumnWindow, Failure> {
    if window.is_none() {
        return Ok(ColumnWindow::Drawn);
    }
    let what = format!("history[{name:?}]");
    if let Some(transitions) = i128::read(window.as_borrowed())? {
        let transitions = count(transitions, &what, 1, ErrorClass::Sample)?;
        return Ok(ColumnWindow::History(transitions));
    }
    match found(window.py(), window.extract::<String>())?.as_deref() {
        Some(FIRST) => Ok(ColumnWindow::First),
        _ => Err(wrong_type(window, &what, "a whole number from 1 up, \"first\", or None")),
    }
}
