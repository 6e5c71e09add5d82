//! The arguments of an append without detours, for the calls that nearly all are: the same keywords
//! as the call before, values that need no conversion, and no episode that ends with an observation
//! of its own.
//!
//! Whatever else comes is left to [`WantedColumns`](crate::columns::WantedColumns), which knows every
//! form and has the words for what is wrong.

use backcast_core::{Column, DType, Role, Schema, Step};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use crate::coerce::{Leading, descr};
use crate::fastcall::Call;
use crate::plain::PlainDtype;

/// Columns that fit on the stack of a call.
const MOST_COLUMNS: usize = 16;

/// What the shortcut knows of a ring's columns, and of the last line of Python that called.
#[derive(Debug)]
pub(crate) struct Shortcut {
    columns: Box<[Expected]>,
    /// The column of role obs, if there is one and it does not lie below a `/`.
    only_obs: Option<usize>,
    flag: Expected,
    site: Option<Site>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

/// A column, as NumPy speaks of it.
#[derive(Debug)]
struct Expected {
    name: String,
    dtype: DType,
    plain: PlainDtype,
    shape: Vec<usize>,
}

/// The keywords of a line of Python.
#[derive(Debug)]
struct Site {
    /// The interpreter makes one tuple per line and keeps it; held here, it cannot become another.
    names: Py<PyTuple>,
    /// `None` where one of them is no column's full name.
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

impl Shortcut {
    /// `None` where the schema has more columns than the shortcut takes.
    pub(crate) fn of(py: Python<'_>, schema: &Schema) -> PyResult<Option<Self>> {
        if schema.columns().len() > MOST_COLUMNS {
            return Ok(None);
        }
        let mut obs = schema.columns().iter().enumerate().filter(|(_, c)| c.role() == Role::Obs);
        let only_obs = match (obs.next(), obs.next()) {
            (Some((at, column)), None) if !column.name().contains('/') => Some(at),
            _ => None,
        };
        let expected = |c: &Column| Expected::new(py, c.name(), c.dtype(), c.shape());
        Ok(Some(Self {
            columns: schema.columns().iter().map(expected).collect::<PyResult<_>>()?,
            only_obs,
            flag: Expected::new(py, "a flag", DType::Bool, &[])?,
            site: None,
            terminated: Vec::new(),
            truncated: Vec::new(),
        }))
    }

    /// Calls `work` with the step that the arguments are, or with `many` steps, or returns `None` where they have to be
    /// looked at more closely. Runs no Python code, except in `work`.
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
            self.site = Some(Site::new(names, &self.columns));
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
                // Read only when a lane ends.
                Keyword::FinalObs => {}
            }
        }
        let leading =
            if many { self.flag.steps(terminated?, lanes)? } else { Leading::Lanes(lanes) };
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
            columns: rows.get(..self.columns.len())?,
            terminated: &self.terminated,
            truncated: &self.truncated,
            next_obs: next.as_ref().map(|next| &next[..]),
            final_obs: None,
        };
        Some(work(&step))
    }
}

impl Site {
    fn new(names: Borrowed<'_, '_, PyTuple>, columns: &[Expected]) -> Self {
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

    /// Whether these are the names that it was made of. A call by `**dict` brings the same strings
    /// in a tuple of its own.
    #[inline]
    fn is_of(&self, names: Borrowed<'_, '_, PyTuple>) -> bool {
        let held = self.names.bind_borrowed(names.py());
        let same = |(a, b): (Borrowed<'_, '_, PyAny>, Borrowed<'_, '_, PyAny>)| a.is(b);
        held.is(names)
            || held.len() == names.len()
                && held.iter_borrowed().zip(names.iter_borrowed()).all(same)
    }
}

impl Expected {
    fn new(py: Python<'_>, name: &str, dtype: DType, shape: &[u32]) -> PyResult<Self> {
        let shape = shape.iter().map(|&axis| axis as usize).collect();
        let plain = PlainDtype::new(&descr(py, dtype)?)?;
        Ok(Self { name: name.to_owned(), dtype, plain, shape })
    }

    /// The bytes of a value that is an array of exactly the column's dtype and shape or, for a
    /// scalar of one lane, a number of the column's kind.
    #[inline]
    fn read<'a>(
        &self,
        value: &'a Bound<'_, PyAny>,
        leading: Leading,
        scalar: &'a mut [u8; 8],
    ) -> Option<&'a [u8]> {
        let fits = |shape: &[usize]| leading.fits(shape, &self.shape);
        if let Some(bytes) = self.plain.array_bytes(value, fits) {
            return Some(bytes);
        }
        if leading != Leading::Lanes(1) || !self.shape.is_empty() {
            return None;
        }
        self.read_scalar(value, scalar)
    }

    /// The steps and lanes that an array of flags is of.
    fn steps(&self, value: &Bound<'_, PyAny>, lanes: usize) -> Option<Leading> {
        let mut steps = None;
        self.plain.array_bytes(value, |shape| {
            steps = shape.first().map(|steps| Leading::Steps(*steps, lanes));
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
                // An overflow is NumPy's to warn of.
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

    /// One boolean per row, and whether any is set.
    #[inline]
    fn read_flags(
        &self,
        value: &Bound<'_, PyAny>,
        leading: Leading,
        flags: &mut Vec<bool>,
    ) -> Option<bool> {
        // What a loop over one environment says, nearly always.
        if leading == Leading::Lanes(1)
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

/// Python's own `True` or `False`.
#[inline]
fn truth(value: &Bound<'_, PyAny>) -> Option<bool> {
    [true, false].into_iter().find(|truth| value.is(PyBool::new(value.py(), *truth)))
}

/// The bytes of a number, kept.
fn put<const N: usize>(out: &mut [u8; 8], number: [u8; N]) -> Option<&[u8]> {
    let place = out.first_chunk_mut()?;
    *place = number;
    Some(place)
}
