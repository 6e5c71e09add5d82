//! The `next_obs` and `final_obs` of an append, in every form that environments return them.

use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::convert::{LeadingAxes, Target, array_of, check_shape};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::replay::writer::columns::{AppendColumn, AppendColumns, group_of};

/// Observations of one column: an array of all lanes, or collected rows.
pub(crate) enum ObservationColumn<'py> {
    Array(Bound<'py, PyUntypedArray>),
    Rows(Vec<u8>),
}

impl ObservationColumn<'_> {
    /// Returns the values in C order. In final observations, rows of lanes that did not end have no
    /// meaning.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Array(array) => bytes_of(array).unwrap_or_default(),
            Self::Rows(rows) => rows,
        }
    }
}

/// Reads final observations: an array, a (nested) dict of arrays, or `None` or an observation per
/// lane, as in Gymnasium's object array. Ignores unknown keys, because an observation may hold more
/// than the ring does.
pub(crate) fn final_columns<'py>(
    columns: &AppendColumns,
    given: &Bound<'py, PyAny>,
    ended: &[bool],
) -> Result<Vec<ObservationColumn<'py>>, Failure> {
    let whole = Whole::of(columns, "final_obs");
    columns
        .observations()
        .map(|column| {
            if is_per_lane(given, ended.len())? {
                return from_lanes(column, given, ended, |row| whole.part(column, row));
            }
            let found = whole.part(column, given)?;
            if is_per_lane(&found, ended.len())? {
                return from_lanes(column, &found, ended, |row| Ok(row.clone()));
            }
            let what = format!("final_obs of column `{}`", column.name);
            let target = Target { what: &what, ..column.target() };
            let array = array_of(&found, target)?;
            check_shape(&array, LeadingAxes::Lanes(ended.len()), &column.shape, target)?;
            Ok(ObservationColumn::Array(array))
        })
        .collect()
}

/// Reads observations `[*leading, ...]` of all lanes or steps, from an array or a (nested) dict of
/// arrays. Errors call them `name`.
pub(crate) fn observation_columns<'py>(
    columns: &AppendColumns,
    name: &'static str,
    given: &Bound<'py, PyAny>,
    leading: LeadingAxes,
) -> Result<Vec<ObservationColumn<'py>>, Failure> {
    if columns.observations().next().is_none() {
        return Err(Failure::new(
            ErrorClass::Append,
            format!(
                "{name} is given, but the ring has no column of observations; leave it out, or \
                 create the ring with one, such as `obs`"
            ),
        ));
    }
    let whole = Whole::of(columns, name);
    columns
        .observations()
        .map(|column| {
            let what = format!("{name} of column `{}`", column.name);
            let target = Target { what: &what, ..column.target() };
            let array = array_of(&whole.part(column, given)?, target)?;
            check_shape(&array, leading, &column.shape, target)?;
            Ok(ObservationColumn::Array(array))
        })
        .collect()
}

/// Lookup of the observation columns in an observation.
struct Whole<'a> {
    columns: &'a AppendColumns,
    /// Name of the argument in errors.
    name: &'static str,
    /// Whether there is a single column, without a group: then a bare array is the whole
    /// observation.
    bare: bool,
    /// Group that all grouped columns share. Keys may leave it out.
    top: Option<&'a str>,
}

impl<'a> Whole<'a> {
    fn of(columns: &'a AppendColumns, name: &'static str) -> Self {
        let names = || columns.observations().map(|column| column.name.as_str());
        let mut tops = names().filter_map(|name| Some(name.split_once('/')?.0));
        let top = tops.next().filter(|top| tops.all(|other| other == *top));
        let bare = names().count() == 1 && top.is_none();
        Self { columns, name, bare, top }
    }

    /// Returns a column's part of an observation: the entry of a dict under the column's full name,
    /// or under its name below the shared group. A bare array is the part of a single column.
    fn part<'py>(
        &self,
        column: &AppendColumn,
        observation: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let below = |top: &str| column.name.strip_prefix(top)?.strip_prefix('/');
        let short = self.top.and_then(below);
        // For a single column, a tuple is converted to an array.
        let entries = if self.bare {
            observation.cast::<PyDict>().ok().cloned()
        } else {
            group_of(observation)?
        };
        let found = match entries {
            Some(entries) => match (in_dict(&entries, &column.name)?, short) {
                (None, Some(below)) => in_dict(&entries, below)?,
                (found, _) => found,
            },
            None => self.bare.then(|| observation.clone()),
        };
        found.ok_or_else(|| {
            Failure::new(
                ErrorClass::Append,
                format!(
                    "{} lacks column `{}`; give a dict with `{}` (nested dicts at each /){}",
                    self.name,
                    column.name,
                    short.unwrap_or(&column.name),
                    self.roles()
                ),
            )
        })
    }

    /// Explains, if the observation columns share no group, how a column becomes an observation:
    /// by its role or only by its name.
    #[cold]
    fn roles(&self) -> String {
        if self.bare || self.top.is_some() {
            return String::new();
        }
        let names: Vec<&str> =
            self.columns.observations().map(|column| column.name.as_str()).collect();
        format!(
            "; the observation has {}, by their role or by a name such as `state`: the role \
             \"step\" takes a column out of it",
            names.join(", ")
        )
    }
}

/// Returns the entry of a full name, by that name or nested at each `/`.
fn in_dict<'py>(entries: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(found) = entries.get_item(name)? {
        return Ok(Some(found));
    }
    match name.split_once('/') {
        Some((group, below)) => match entries.get_item(group)? {
            Some(group) => group_of(&group)?.map_or(Ok(None), |group| in_dict(&group, below)),
            None => Ok(None),
        },
        None => Ok(None),
    }
}

/// Returns whether a value has one entry per lane: an object array, or a list or tuple in which
/// some entry is `None` or a dict.
fn is_per_lane(value: &Bound<'_, PyAny>, lanes: usize) -> PyResult<bool> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(array.dtype().has_object() && array.shape() == [lanes]);
    }
    if !(value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>())
        || value.len()? != lanes
    {
        return Ok(false);
    }
    for entry in value.try_iter()? {
        let entry = entry?;
        if entry.is_none() || entry.is_instance_of::<PyDict>() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn from_lanes<'py>(
    column: &AppendColumn,
    lanes: &Bound<'py, PyAny>,
    ended: &[bool],
    find: impl Fn(&Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure>,
) -> Result<ObservationColumn<'py>, Failure> {
    let mut rows = vec![0; ended.len() * column.width];
    for (lane, row) in rows.chunks_exact_mut(column.width).enumerate() {
        if !ended[lane] {
            continue;
        }
        let observation = lanes.get_item(lane)?;
        if observation.is_none() {
            return Err(Failure::new(
                ErrorClass::Append,
                format!(
                    "final_obs[{lane}] is None, but lane {lane} of the {} lanes ended; \
                     give the last observation of its episode",
                    ended.len()
                ),
            ));
        }
        let what = format!("final_obs[{lane}] of column `{}`", column.name);
        let target = Target { what: &what, ..column.target() };
        let array = array_of(&find(&observation)?, target)?;
        check_shape(&array, LeadingAxes::Lanes(1), &column.shape, target)?;
        row.copy_from_slice(bytes_of(&array).unwrap_or_default());
    }
    Ok(ObservationColumn::Rows(rows))
}
