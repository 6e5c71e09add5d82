//! `Writer.extend`: many steps in one call.

use backcast_core::{DType, Step};
use numpy::prelude::*;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::coerce::{Leading, Target, Tuple, array_of, check_shape};
use crate::error::{Failure, Kind};
use crate::fastcall::{Call, FastMethod};
use crate::final_obs::{FinalColumn, whole_columns};
use crate::given::{method, refuse_strangers};
use crate::view::bytes_of;
use crate::writer::{Pen, Taken, Writer};

/// `Writer.extend` as the interpreter calls it.
pub(crate) struct Extend;

impl FastMethod for Extend {
    type Class = Writer;
    const NAME: &'static str = "extend";

    fn call<'py>(writer: &Writer, call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(done) = at_once(writer, call) {
            return Ok(done?.into_any());
        }
        let Taken { extra, ends, named } = Taken::of(call)?;
        refuse_strangers(&extra, None, method::<Writer>("extend"))?;
        let ends = ends.each_ref().map(Option::as_ref);
        Ok(closely(writer, call.py(), ends, Some(&named))?.into_any())
    }
}

/// The call that most likely is meant: arrays that can be copied as they are. `None`: nothing was
/// appended, look more closely.
fn at_once<'py>(
    writer: &Writer,
    call: Call<'_, 'py>,
) -> Option<Result<Bound<'py, PyArray2<i64>>, Failure>> {
    let (py, lanes) = (call.py(), writer.lane_count());
    let extended = writer.handle.try_with(|Pen { writer, shortcut, .. }| {
        shortcut
            .as_mut()?
            .with_step(call, lanes, true, |steps| py.detach(|| Extended::by(writer, steps)))
    })??;
    Some(extended.finish(writer, py))
}

/// The same for every form that the arguments may have; says what is wrong with them.
pub(crate) fn closely<'py>(
    writer: &Writer,
    py: Python<'py>,
    [terminated, truncated, next_obs, final_obs]: [Option<&Bound<'py, PyAny>>; 4],
    columns: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
    let lanes = writer.lane_count();
    let next_obs = writer.columns.take_next(columns, next_obs)?;
    let found = writer.columns.find(
        columns,
        "extend",
        [("terminated", terminated.is_some()), ("truncated", truncated.is_some())],
    )?;
    let (leading, terminated) = first_flags(terminated, lanes)?;
    let truncated = flags("truncated", truncated, leading)?;
    let arrays = found.arrays(leading)?;
    let ends = terminated.iter().chain(&truncated).any(|ended| *ended);
    let observed = writer.columns.observations().next().is_some();
    let finals = final_obs.filter(|_| ends && observed);
    let whole = |name, given| whole_columns(&writer.columns, name, given, leading);
    let finals = finals.map(|given| whole("final_obs", given)).transpose()?;
    let nexts = next_obs.as_ref().map(|given| whole("next_obs", given)).transpose()?;
    let rows: Vec<&[u8]> = arrays.iter().map(|array| bytes_of(array).unwrap_or_default()).collect();
    let [nexts, finals] = [&nexts, &finals].map(|given| given.as_ref().map(|given| rows_of(given)));
    let steps = Step {
        columns: &rows,
        terminated: &terminated,
        truncated: &truncated,
        next_obs: nexts.as_deref(),
        final_obs: finals.as_deref(),
    };
    let extended = py.detach(|| writer.handle.with(|pen| Ok(Extended::by(pen.free()?, &steps))))?;
    extended.finish(writer, py)
}

fn rows_of<'a>(columns: &'a [FinalColumn<'_>]) -> Vec<&'a [u8]> {
    columns.iter().map(FinalColumn::bytes).collect()
}

/// What became of the steps.
struct Extended {
    rows: Result<Vec<i64>, Failure>,
    /// What a signal raised while the steps waited for a lease.
    signal: Option<PyErr>,
    /// There is something to warn of.
    has_news: bool,
}

impl Extended {
    /// To be called detached.
    fn by(writer: &mut backcast_core::Writer, steps: &Step<'_>) -> Self {
        let mut signal = None;
        let mut interrupted = || {
            signal = Python::attach(|py| py.check_signals().err());
            signal.is_some()
        };
        let rows = writer.extend_until(steps, &mut interrupted);
        let rows = rows.map(|rows| rows.iter().map(|row| row.0).collect()).map_err(Failure::from);
        Self { rows, signal, has_news: writer.has_news() }
    }

    fn finish<'py>(
        self,
        writer: &Writer,
        py: Python<'py>,
    ) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
        if let Some(raised) = self.signal {
            return Err(raised.into());
        }
        let rows = self.rows?;
        if self.has_news {
            writer.complain(py)?;
        }
        let lanes = writer.lane_count();
        Ok(PyArray1::from_vec(py, rows.clone()).reshape([rows.len() / lanes.max(1), lanes])?)
    }
}

/// `terminated`, which says how many steps there are.
fn first_flags(
    given: Option<&Bound<'_, PyAny>>,
    lanes: usize,
) -> Result<(Leading, Vec<bool>), Failure> {
    let target = Target { what: "terminated", kind: Kind::Append, dtype: DType::Bool };
    let given = given.ok_or_else(|| missing("terminated"))?;
    let array = array_of(given, target)?;
    let leading = array.shape().first().map(|steps| Leading::Steps(*steps, lanes));
    let Some(leading) = leading else {
        let got = Tuple(array.shape());
        return Err(target.refuse(format!("got shape {got}; give (steps, {lanes})")));
    };
    Ok((leading, flags("terminated", Some(given), leading)?))
}

/// One boolean per step and lane.
fn flags(
    what: &str,
    given: Option<&Bound<'_, PyAny>>,
    leading: Leading,
) -> Result<Vec<bool>, Failure> {
    let target = Target { what, kind: Kind::Append, dtype: DType::Bool };
    let array = array_of(given.ok_or_else(|| missing(what))?, target)?;
    check_shape(&array, leading, &[], target)?;
    Ok(bytes_of(&array).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
}

fn missing(what: &str) -> Failure {
    Failure::new(Kind::Append, format!("{what} is missing; give one boolean per step and lane"))
}
