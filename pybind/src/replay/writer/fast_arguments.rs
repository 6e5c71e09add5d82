//! Fast arguments of an append or extend: keywords that are full column names, values that NumPy
//! need not convert, and no final observation to read.
//!
//! All other calls are left to
//! [`AppendColumns`](crate::replay::writer::columns::AppendColumns), which accepts every form and
//! reports what is wrong.

use backcast_core::{Column, DType, Role, Schema, Step};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use crate::array::convert::{LeadingAxes, descr};
use crate::array::plain::PlainDtype;
use crate::fastcall::Call;

/// Maximum number of columns, whose rows are kept on the stack of a call.
const MOST_COLUMNS: usize = 16;

/// Columns of a ring, and the call site of the last append.
#[derive(Debug)]
pub(crate) struct FastArguments {
    schema: Schema,
    columns: Box<[FastColumn]>,
    /// Position of the only observation column, unless its name has a `/`.
    only_obs: Option<usize>,
    flag: FastColumn,
    site: Option<CallSite>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

/// Column with its NumPy dtype.
#[derive(Debug)]
struct FastColumn {
    name: String,
    dtype: DType,
    plain: PlainDtype,
    shape: Vec<usize>,
}

/// Keywords of one call in Python code.
#[derive(Debug)]
struct CallSite {
    /// Tuple that the interpreter keeps for the call. Holding a reference prevents reuse of its
    /// address.
    names: Py<PyTuple>,
    /// Meanings of the keywords. `None` if one of them is neither the full name of a column nor one
    /// of the four keywords of every append.
    keywords: Option<Box<[Keyword]>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keyword {
    Column(usize),
    Terminated,
    Truncated,
    NextObs,
    FinalObs,
}

impl FastArguments {
    /// Makes the fast arguments of a schema, or `None` if it has more than [`MOST_COLUMNS`]
    /// columns.
    pub(crate) fn of(py: Python<'_>, schema: &Schema) -> PyResult<Option<Self>> {
        if schema.columns().len() > MOST_COLUMNS {
            return Ok(None);
        }
        let mut obs = schema.columns().iter().enumerate().filter(|(_, c)| c.role() == Role::Obs);
        let only_obs = match (obs.next(), obs.next()) {
            (Some((at, column)), None) if !column.name().contains('/') => Some(at),
            _ => None,
        };
        let expected = |c: &Column| FastColumn::new(py, c.name(), c.dtype(), c.shape());
        Ok(Some(Self {
            schema: schema.clone(),
            columns: schema.columns().iter().map(expected).collect::<PyResult<_>>()?,
            only_obs,
            flag: FastColumn::new(py, "a flag", DType::Bool, &[])?,
            site: None,
            terminated: Vec::new(),
            truncated: Vec::new(),
        }))
    }

    /// Calls `work` with the step that the arguments describe, or with several steps if `many`.
    /// Returns `None` if the slow path has to check them. Runs no Python code outside `work`.
    #[inline]
    pub(crate) fn with_step<R>(
        &mut self,
        call: Call<'_, '_>,
        lanes: usize,
        many: bool,
        work: impl FnOnce(&Step<'_>) -> R,
    ) -> Option<R> {
        let (names, values) = call.keywords()?;
        if !self.site.as_ref().is_some_and(|site| site.is_of(names)) {
            self.site = Some(CallSite::new(names, &self.columns));
        }
        let keywords = self.site.as_ref()?.keywords.as_deref()?;
        let mut given: [Option<&Borrowed<'_, '_, PyAny>>; MOST_COLUMNS] = [None; MOST_COLUMNS];
        let (mut terminated, mut truncated, mut next) = (None, None, None);
        for (keyword, value) in keywords.iter().zip(values) {
            match *keyword {
                Keyword::Column(at) => *given.get_mut(at)? = Some(value),
                Keyword::Terminated => terminated = Some(value),
                Keyword::Truncated => truncated = Some(value),
                Keyword::NextObs => next = Some(value).filter(|value| !value.is_none()),
                // Needed only if a lane ends, which is left to the slow path.
                Keyword::FinalObs => {}
            }
        }
        let leading =
            if many { self.flag.steps(terminated?, lanes)? } else { LeadingAxes::Lanes(lanes) };
        let mut ends = false;
        for (flags, given) in [(&mut self.terminated, terminated), (&mut self.truncated, truncated)]
        {
            ends |= self.flag.read_flags(given?, leading, flags)?;
        }
        if ends && keywords.contains(&Keyword::FinalObs) {
            return None;
        }
        let mut scalars = [[0; 8]; MOST_COLUMNS];
        let mut rows: [&[u8]; MOST_COLUMNS] = [&[]; MOST_COLUMNS];
        let places = rows.iter_mut().zip(&mut scalars).zip(&given);
        for (expected, ((row, scalar), value)) in self.columns.iter().zip(places) {
            *row = expected.read((*value)?, leading, scalar)?;
        }
        let mut scalar = [0; 8];
        let next = match next {
            None => None,
            Some(next) => {
                Some([self.columns.get(self.only_obs?)?.read(next, leading, &mut scalar)?])
            }
        };
        let step = Step {
            schema: &self.schema,
            columns: rows.get(..self.columns.len())?,
            terminated: &self.terminated,
            truncated: &self.truncated,
            next_obs: next.as_ref().map(|next| &next[..]),
            final_obs: None,
        };
        Some(work(&step))
    }
}

impl CallSite {
    fn new(names: Borrowed<'_, '_, PyTuple>, columns: &[FastColumn]) -> Self {
        let keyword = |name: Borrowed<'_, '_, PyAny>| {
            let name = name.extract::<&str>().ok()?;
            Some(match name {
                "terminated" => Keyword::Terminated,
                "truncated" => Keyword::Truncated,
                "next_obs" => Keyword::NextObs,
                "final_obs" => Keyword::FinalObs,
                _ => Keyword::Column(columns.iter().position(|column| column.name == name)?),
            })
        };
        let keywords = names.iter_borrowed().map(keyword).collect();
        Self { names: names.to_owned().unbind(), keywords }
    }

    /// Returns whether these are the names of this call site. A call with `**dict` may pass the
    /// same strings in a new tuple.
    #[inline]
    fn is_of(&self, names: Borrowed<'_, '_, PyTuple>) -> bool {
        let held = self.names.bind_borrowed(names.py());
        let same = |(a, b): (Borrowed<'_, '_, PyAny>, Borrowed<'_, '_, PyAny>)| a.is(b);
        held.is(names)
            || held.len() == names.len()
                && held.iter_borrowed().zip(names.iter_borrowed()).all(same)
    }
}

impl FastColumn {
    fn new(py: Python<'_>, name: &str, dtype: DType, shape: &[u32]) -> PyResult<Self> {
        let shape = shape.iter().map(|&axis| axis as usize).collect();
        let plain = PlainDtype::new(&descr(py, dtype)?)?;
        Ok(Self { name: name.to_owned(), dtype, plain, shape })
    }

    /// Returns the bytes of an array of exactly the column's dtype and shape. For a scalar column
    /// of one lane, also those of a number of the column's kind.
    #[inline]
    fn read<'a>(
        &self,
        value: &'a Bound<'_, PyAny>,
        leading: LeadingAxes,
        scalar: &'a mut [u8; 8],
    ) -> Option<&'a [u8]> {
        let fits = |shape: &[usize]| leading.fits(shape, &self.shape);
        if let Some(bytes) = self.plain.array_bytes(value, fits) {
            return Some(bytes);
        }
        if leading != LeadingAxes::Lanes(1) || !self.shape.is_empty() {
            return None;
        }
        self.read_scalar(value, scalar)
    }

    /// Returns the leading axes of an array of flags, whose first axis is the number of steps.
    fn steps(&self, value: &Bound<'_, PyAny>, lanes: usize) -> Option<LeadingAxes> {
        let mut steps = None;
        self.plain.array_bytes(value, |shape| {
            steps = shape.first().map(|steps| LeadingAxes::Steps(*steps, lanes));
            steps.is_some_and(|leading| leading.fits(shape, &self.shape))
        })?;
        steps
    }

    #[inline]
    fn read_scalar<'a>(&self, value: &Bound<'_, PyAny>, out: &'a mut [u8; 8]) -> Option<&'a [u8]> {
        if self.plain.scalar_bytes(value, out) {
            return out.get(..self.dtype.size());
        }
        match self.dtype {
            DType::F64 if value.is_exact_instance_of::<PyFloat>() => {
                put(out, value.extract::<f64>().ok()?.to_ne_bytes())
            }
            DType::F32 if value.is_exact_instance_of::<PyFloat>() => {
                let exact: f64 = value.extract().ok()?;
                #[expect(clippy::cast_possible_truncation, reason = "rounded as NumPy does")]
                let rounded = exact as f32;
                // The slow path handles overflows.
                let overflow = rounded.is_infinite() && exact.is_finite();
                if overflow { None } else { put(out, rounded.to_ne_bytes()) }
            }
            DType::Bool => put(out, [u8::from(truth(value)?)]),
            DType::I32 if value.is_exact_instance_of::<PyInt>() => {
                put(out, value.extract::<i32>().ok()?.to_ne_bytes())
            }
            DType::I64 if value.is_exact_instance_of::<PyInt>() => {
                put(out, value.extract::<i64>().ok()?.to_ne_bytes())
            }
            _ => None,
        }
    }

    /// Reads one boolean per row, and returns whether any is set.
    #[inline]
    fn read_flags(
        &self,
        value: &Bound<'_, PyAny>,
        leading: LeadingAxes,
        flags: &mut Vec<bool>,
    ) -> Option<bool> {
        // The usual case of a loop over one environment.
        if leading == LeadingAxes::Lanes(1)
            && let Some(flag) = truth(value)
        {
            flags.resize(1, flag);
            flags.fill(flag);
            return Some(flag);
        }
        let mut scalar = [0; 8];
        let bytes = self.read(value, leading, &mut scalar)?;
        flags.resize(bytes.len(), false);
        let mut any = false;
        for (flag, &byte) in flags.iter_mut().zip(bytes) {
            *flag = byte != 0;
            any |= *flag;
        }
        Some(any)
    }
}

/// Returns the value of Python's `True` or `False`.
#[inline]
fn truth(value: &Bound<'_, PyAny>) -> Option<bool> {
    [true, false].into_iter().find(|truth| value.is(PyBool::new(value.py(), *truth)))
}

/// Stores the bytes of a number and returns them.
fn put<const N: usize>(out: &mut [u8; 8], number: [u8; N]) -> Option<&[u8]> {
    let place = out.first_chunk_mut()?;
    *place = number;
    Some(place)
}
