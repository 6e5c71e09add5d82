//! `Writer.extend`: many steps in one call.

use backcast_core::{DType, Step};
use numpy::prelude::*;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{method, refuse_unexpected};
use crate::array::convert::{LeadingAxes, ShapeText, Target, array_of, check_shape};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::fastcall::{Call, FastMethod};
use crate::replay::writer::Writer;
use crate::replay::writer::append::SplitArguments;
use crate::replay::writer::observations::{ObservationColumn, observation_columns};
use crate::replay::writer::state::WriterState;

/// `Writer.extend` as the interpreter calls it.
pub(crate) struct Extend;

impl FastMethod for Extend {
    type Class = Writer;
    const NAME: &'static str = "extend";

    fn call<'py>(writer: &Writer, call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(done) = extend_fast(writer, call) {
            return Ok(done?.into_any());
        }
        let SplitArguments { extra, ends, named } = SplitArguments::of(call)?;
        refuse_unexpected(&extra, None, method::<Writer>("extend"))?;
        let ends = ends.each_ref().map(Option::as_ref);
        Ok(extend_checked(writer, call.py(), ends, Some(&named))?.into_any())
    }
}

/// Appends arrays that can be copied as they are. Returns `None` if nothing was appended and the
/// slow path has to check.
fn extend_fast<'py>(
    writer: &Writer,
    call: Call<'_, 'py>,
) -> Option<Result<Bound<'py, PyArray2<i64>>, Failure>> {
    let (py, lanes) = (call.py(), writer.lane_count());
    let extended =
        writer.handle.try_with(|WriterState { writer, fast_arguments, .. }| {
            fast_arguments
                .as_mut()?
                .with_step(call, lanes, true, |steps| py.detach(|| Extended::by(writer, steps)))
        })??;
    Some(extended.finish(writer, py))
}

/// Appends steps of every accepted form, and reports what is wrong with others.
pub(crate) fn extend_checked<'py>(
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
    let whole = |name, given| observation_columns(&writer.columns, name, given, leading);
    let finals = finals.map(|given| whole("final_obs", given)).transpose()?;
    let nexts = next_obs.as_ref().map(|given| whole("next_obs", given)).transpose()?;
    let rows: Vec<&[u8]> = arrays.iter().map(|array| bytes_of(array).unwrap_or_default()).collect();
    let [nexts, finals] = [&nexts, &finals].map(|given| given.as_ref().map(|given| rows_of(given)));
    let steps = Step {
        schema: &writer.schema.0,
        columns: &rows,
        terminated: &terminated,
        truncated: &truncated,
        next_obs: nexts.as_deref(),
        final_obs: finals.as_deref(),
    };
    let extended = py.detach(|| writer.handle.with(|pen| Ok(Extended::by(pen.free()?, &steps))))?;
    extended.finish(writer, py)
}

fn rows_of<'a>(columns: &'a [ObservationColumn<'_>]) -> Vec<&'a [u8]> {
    columns.iter().map(ObservationColumn::bytes).collect()
}

/// Result of an extend.
struct Extended {
    rows: Result<Vec<i64>, Failure>,
    /// Whether there is a warning to raise.
    has_warnings: bool,
}

impl Extended {
    /// Appends the steps. Call it detached.
    fn by(writer: &mut backcast_core::Writer, steps: &Step<'_>) -> Self {
        let rows = writer.extend(steps);
        let rows = rows.map(|rows| rows.iter().map(|row| row.0).collect()).map_err(Failure::from);
        Self { rows, has_warnings: writer.has_warnings() }
    }

    fn finish<'py>(
        self,
        writer: &Writer,
        py: Python<'py>,
    ) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
        let rows = self.rows?;
        if self.has_warnings {
            writer.warn_pending(py)?;
        }
        let lanes = writer.lane_count();
        Ok(PyArray1::from_vec(py, rows.clone()).reshape([rows.len() / lanes.max(1), lanes])?)
    }
}

/// Reads `terminated`, whose first axis is the number of steps.
fn first_flags(
    given: Option<&Bound<'_, PyAny>>,
    lanes: usize,
) -> Result<(LeadingAxes, Vec<bool>), Failure> {
    let target = Target { what: "terminated", class: ErrorClass::Append, dtype: DType::Bool };
    let given = given.ok_or_else(|| missing("terminated"))?;
    let array = array_of(given, target)?;
    let leading = array.shape().first().map(|steps| LeadingAxes::Steps(*steps, lanes));
    let Some(leading) = leading else {
        let got = ShapeText(array.shape());
        return Err(target.refuse(format!("got shape {got}; give (steps, {lanes})")));
    };
    Ok((leading, flags("terminated", Some(given), leading)?))
}

/// Reads one boolean per step and lane.
fn flags(
    what: &str,
    given: Option<&Bound<'_, PyAny>>,
    leading: LeadingAxes,
) -> Result<Vec<bool>, Failure> {
    let target = Target { what, class: ErrorClass::Append, dtype: DType::Bool };
    let array = array_of(given.ok_or_else(|| missing(what))?, target)?;
    check_shape(&array, leading, &[], target)?;
    Ok(bytes_of(&array).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
}

fn missing(what: &str) -> Failure {
    Failure::new(
        ErrorClass::Append,
        format!("{what} is missing; give one boolean per step and lane"),
    )
}
