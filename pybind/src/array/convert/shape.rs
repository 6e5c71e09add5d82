//! Shapes of arguments: a row's axes behind those of steps and lanes.

use std::fmt::{self, Display};

use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;

use super::Target;
use crate::error::Failure;

/// Refuses an array whose shape is not `[*leading, *shape]`.
pub(crate) fn check_shape(
    array: &Bound<'_, PyUntypedArray>,
    leading: LeadingAxes,
    shape: &[u32],
    target: Target<'_>,
) -> Result<(), Failure> {
    let rows: Vec<usize> = shape.iter().map(|&axis| axis as usize).collect();
    if leading.fits(array.shape(), &rows) {
        return Ok(());
    }
    let with = |axes: &[usize]| -> Vec<usize> { axes.iter().chain(&rows).copied().collect() };
    let got = ShapeText(array.shape());
    Err(target.refuse(match leading {
        LeadingAxes::Lanes(1) => {
            let (all, rows) = (with(&[1]), ShapeText(&rows));
            format!("got shape {got}; give {rows}, or {} with the one lane first", ShapeText(&all))
        }
        LeadingAxes::Lanes(lanes) => {
            format!("got shape {got}; give {}, the {lanes} lanes first", ShapeText(&with(&[lanes])))
        }
        LeadingAxes::Steps(steps, lanes) => {
            let all = with(&[steps, lanes]);
            let short = if lanes == 1 {
                format!(" or {}", ShapeText(&with(&[steps])))
            } else {
                String::new()
            };
            format!(
                "got shape {got}; give {}{short}: the steps first, as many as `terminated` has, \
                 then the lanes",
                ShapeText(&all)
            )
        }
    }))
}

/// Leading axes, before those of a row. The axis of a single lane may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeadingAxes {
    Lanes(usize),
    /// Steps, then lanes.
    Steps(usize, usize),
}

impl LeadingAxes {
    /// Returns an array with these axes, filled with the number of an array without axes.
    pub(crate) fn filled_with<'py>(
        self,
        number: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let numpy = number.py().import("numpy")?;
        let filled = match self {
            LeadingAxes::Lanes(lanes) => numpy.call_method1("full", (lanes, number))?,
            LeadingAxes::Steps(steps, lanes) => {
                numpy.call_method1("full", ((steps, lanes), number))?
            }
        };
        Ok(filled.cast_into()?)
    }

    /// Returns whether `shape` has these leading axes, and then the axes `row`.
    #[inline]
    pub(crate) fn fits(self, shape: &[usize], row: &[usize]) -> bool {
        // Compares in a loop: for few axes, calling `memcmp` costs more.
        let is_row = |axes: &[usize]| axes.len() == row.len() && axes.iter().eq(row);
        let of_lanes = |axes: &[usize], lanes: usize| match axes {
            [first, rest @ ..] if *first == lanes && is_row(rest) => true,
            whole => lanes == 1 && is_row(whole),
        };
        match (self, shape) {
            (LeadingAxes::Lanes(lanes), shape) => of_lanes(shape, lanes),
            (LeadingAxes::Steps(steps, lanes), [first, rest @ ..]) => {
                *first == steps && of_lanes(rest, lanes)
            }
            (LeadingAxes::Steps(..), []) => false,
        }
    }
}

/// Shape in Python's notation.
pub(crate) struct ShapeText<'a>(pub(crate) &'a [usize]);

impl Display for ShapeText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [only] => write!(out, "({only},)"),
            axes => {
                let text: Vec<String> = axes.iter().map(ToString::to_string).collect();
                write!(out, "({})", text.join(", "))
            }
        }
    }
}
