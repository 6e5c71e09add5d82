//! Columns of an append, from keywords to arrays in the schema's order.

use std::collections::{HashMap, HashSet};

use backcast_core::plumbing::closest_name;
use backcast_core::{DType, Role, Schema};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::array::convert::{LeadingAxes, Target, array_of, check_shape};
use crate::error::{ErrorClass, Failure};

/// Column that an append needs.
pub(crate) struct AppendColumn {
    pub(crate) name: String,
    /// Name in errors.
    what: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u32>,
    /// Bytes of one row.
    pub(crate) width: usize,
    pub(crate) role: Role,
}

impl AppendColumn {
    pub(crate) fn target(&self) -> Target<'_> {
        Target { what: &self.what, class: ErrorClass::Append, dtype: self.dtype }
    }
}

/// All columns that an append needs, and the groups that may be nested dicts.
pub(crate) struct AppendColumns {
    columns: Vec<AppendColumn>,
    places: HashMap<String, usize>,
    /// Groups of columns: `a` and `a/b` for a column `a/b/c`.
    groups: HashSet<String>,
}

impl AppendColumns {
    pub(crate) fn of(schema: &Schema) -> Self {
        let columns: Vec<AppendColumn> = schema
            .columns()
            .iter()
            .map(|column| AppendColumn {
                name: column.name().to_owned(),
                what: format!("column `{}`", column.name()),
                dtype: column.dtype(),
                shape: column.shape().to_vec(),
                width: column.width(),
                role: column.role(),
            })
            .collect();
        let places = columns.iter().enumerate().map(|(at, c)| (c.name.clone(), at)).collect();
        let groups = columns
            .iter()
            .flat_map(|c| c.name.match_indices('/').map(|(at, _)| c.name[..at].to_owned()))
            .collect();
        Self { columns, places, groups }
    }

    /// Returns the observation columns, in the schema's order.
    pub(crate) fn observations(&self) -> impl Iterator<Item = &AppendColumn> {
        self.columns.iter().filter(|column| column.role == Role::Obs)
    }

    /// Removes `next_NAME` of observation columns and their groups from the keywords. Returns them
    /// as a dict that stands for `next_obs`, or `next_obs` itself if there are none.
    pub(crate) fn take_next<'py>(
        &self,
        named: Option<&Bound<'py, PyDict>>,
        next_obs: Option<&Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let Some(named) = named else { return Ok(next_obs.cloned()) };
        let mut parts: Option<Bound<'py, PyDict>> = None;
        let is_obs = |name: &str| {
            let below =
                |column: &str| column.strip_prefix(name).is_some_and(|s| s.starts_with('/'));
            self.observations().any(|column| column.name == name || below(&column.name))
        };
        for key in named.keys() {
            let Ok(text) = key.extract::<String>() else { continue };
            let Some(name) = text.strip_prefix("next_").filter(|name| is_obs(name)) else {
                continue;
            };
            if next_obs.is_some() {
                return Err(Failure::new(
                    ErrorClass::Append,
                    format!("next_obs and {text} are both given; give one of them"),
                ));
            }
            let Some(value) = named.get_item(&key)? else { continue };
            named.del_item(&key)?;
            if !value.is_none() {
                parts.get_or_insert_with(|| PyDict::new(named.py())).set_item(name, value)?;
            }
        }
        Ok(parts.map(Bound::into_any).or_else(|| next_obs.cloned()))
    }

    /// Returns the names up to their first `/`, in the schema's order.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for column in &self.columns {
            let top = column.name.split('/').next().unwrap_or_default();
            if !keys.iter().any(|key| key == top) {
                keys.push(top.to_owned());
            }
        }
        keys
    }

    /// Returns whether a column or a group has that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name) || self.groups.contains(name)
    }

    /// Finds a value for every column, and refuses other names. Errors name the method `call`. If
    /// columns are missing, the error also lists the missing `ends`.
    pub(crate) fn find<'py>(
        &self,
        given: Option<&Bound<'py, PyDict>>,
        call: &str,
        ends: [(&'static str, bool); 2],
    ) -> Result<ColumnValues<'_, 'py>, Failure> {
        let mut found = vec![None; self.columns.len()];
        if let Some(given) = given {
            self.find_below("", given, &mut found, call)?;
        }
        let mut missing: Vec<&str> = self
            .columns
            .iter()
            .zip(&found)
            .filter(|(_, value)| value.is_none())
            .map(|(column, _)| column.name.as_str())
            .collect();
        if !missing.is_empty() {
            let several = if missing.len() == 1 { "a column is" } else { "columns are" };
            missing.extend(ends.iter().filter(|(_, given)| !given).map(|(name, _)| *name));
            return Err(Failure::new(
                ErrorClass::Append,
                format!("{several} missing: {}; {call} takes {}", missing.join(", "), self.names()),
            ));
        }
        Ok(ColumnValues { columns: &self.columns, values: found.into_iter().flatten().collect() })
    }

    fn find_below<'py>(
        &self,
        prefix: &str,
        given: &Bound<'py, PyDict>,
        found: &mut [Option<Bound<'py, PyAny>>],
        call: &str,
    ) -> Result<(), Failure> {
        for (key, value) in given {
            let key = key.cast::<PyString>().map_err(|_| {
                Failure::new(
                    ErrorClass::Append,
                    format!("a key below `{prefix}` is no string; columns are named by strings"),
                )
            })?;
            let key = key.to_str()?;
            let joined;
            let name = if prefix.is_empty() {
                key
            } else {
                joined = format!("{prefix}/{key}");
                &joined
            };
            if let Some(&at) = self.places.get(name) {
                if found[at].replace(value).is_some() {
                    return Err(Failure::new(
                        ErrorClass::Append,
                        format!(
                            "column `{name}` is given twice, nested and by full name; give it once"
                        ),
                    ));
                }
            } else if self.groups.contains(name) {
                let below = group_of(&value)?.ok_or_else(|| self.no_group(name))?;
                self.find_below(name, &below, found, call)?;
            } else {
                return Err(self.unknown(name, call));
            }
        }
        Ok(())
    }

    fn no_group(&self, name: &str) -> Failure {
        let below = format!("{name}/");
        let keys: Vec<&str> =
            self.columns.iter().filter_map(|c| c.name.strip_prefix(below.as_str())).collect();
        Failure::new(
            ErrorClass::Append,
            format!("`{name}` stands for several columns; give a dict with {}", keys.join(", ")),
        )
    }

    fn unknown(&self, name: &str, call: &str) -> Failure {
        let known = self.columns.iter().map(|c| c.name.as_str()).chain(STEP_ENDS);
        let hint = match (closest_name(name, known), name) {
            (_, "done" | "terminal" | "dones") => {
                "say how it ended with terminated= and truncated=".to_owned()
            }
            (Some(known), _) => format!("did you mean `{known}`?"),
            (None, _) => format!("{call} takes {}", self.names()),
        };
        Failure::new(ErrorClass::Append, format!("the ring has no column `{name}`; {hint}"))
    }

    fn names(&self) -> String {
        let names: Vec<&str> =
            self.columns.iter().map(|c| c.name.as_str()).chain(STEP_ENDS).collect();
        names.join(", ")
    }
}

/// Values of all columns, in the schema's order.
pub(crate) struct ColumnValues<'a, 'py> {
    columns: &'a [AppendColumn],
    values: Vec<Bound<'py, PyAny>>,
}

impl<'py> ColumnValues<'_, 'py> {
    /// Returns one C-contiguous array `[*leading, *shape]` per column.
    pub(crate) fn arrays(
        &self,
        leading: LeadingAxes,
    ) -> Result<Vec<Bound<'py, PyUntypedArray>>, Failure> {
        self.columns
            .iter()
            .zip(&self.values)
            .map(|(column, value)| {
                let mut array = array_of(value, column.target())?;
                if column.name == POLICY_VERSION && array.ndim() == 0 {
                    array = leading.filled_with(&array)?;
                }
                check_shape(&array, leading, &column.shape, column.target())?;
                Ok(array)
            })
            .collect()
    }
}

/// Returns a dict, or a tuple as a dict of its parts 0, 1, ..., which may stand for several
/// columns. Returns `None` for any other value.
pub(crate) fn group_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    let Ok(parts) = value.cast::<PyTuple>() else {
        return Ok(None);
    };
    let dict = PyDict::new(value.py());
    for (at, part) in parts.iter().enumerate() {
        dict.set_item(at.to_string(), part)?;
    }
    Ok(Some(dict))
}

/// Column of which one number stands for all lanes and steps: an actor has one policy.
const POLICY_VERSION: &str = "policy_version";

/// Keywords of every append, independent of the schema.
const STEP_ENDS: [&str; 4] = ["terminated", "truncated", "next_obs", "final_obs"];
