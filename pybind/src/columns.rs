//! The keyword columns of an append, found, checked and put in the schema's order.

use std::collections::{HashMap, HashSet};

use backcast_core::{DType, Role, Schema};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::coerce::{Leading, Target, array_of, check_shape};
use crate::error::{Failure, Kind};
use crate::given::closest;

/// A column as `append` looks for it.
pub(crate) struct Wanted {
    pub(crate) name: String,
    /// How errors call it.
    what: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u32>,
    /// Bytes of one row.
    pub(crate) width: usize,
    pub(crate) role: Role,
}

impl Wanted {
    pub(crate) fn target(&self) -> Target<'_> {
        Target { what: &self.what, kind: Kind::Append, dtype: self.dtype }
    }
}

/// Every column that an append must bring, and where nested dictionaries may be.
pub(crate) struct WantedColumns {
    columns: Vec<Wanted>,
    places: HashMap<String, usize>,
    /// `a` and `a/b` for a column `a/b/c`.
    groups: HashSet<String>,
}

impl WantedColumns {
    pub(crate) fn of(schema: &Schema) -> Self {
        let columns: Vec<Wanted> = schema
            .columns()
            .iter()
            .map(|column| Wanted {
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

    /// The observation columns, in the schema's order.
    pub(crate) fn observations(&self) -> impl Iterator<Item = &Wanted> {
        self.columns.iter().filter(|column| column.role == Role::Obs)
    }

    /// Takes `next_NAME` of observations with a name of their own out of the keywords: a dict of those,
    /// which stands for `next_obs`.
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
                    Kind::Append,
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

    /// The names without what follows their first `/`, in the schema's order.
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

    /// Whether a column has that name, or several have it before a `/`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name) || self.groups.contains(name)
    }

    /// A value for every column, and for no other name. Errors speak of the method `call`, and of those of
    /// `ends` that are missing too.
    pub(crate) fn find<'py>(
        &self,
        given: Option<&Bound<'py, PyDict>>,
        call: &str,
        ends: [(&'static str, bool); 2],
    ) -> Result<Found<'_, 'py>, Failure> {
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
                Kind::Append,
                format!("{several} missing: {}; {call} takes {}", missing.join(", "), self.names()),
            ));
        }
        Ok(Found { columns: &self.columns, values: found.into_iter().flatten().collect() })
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
                    Kind::Append,
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
                        Kind::Append,
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
            Kind::Append,
            format!("`{name}` stands for several columns; give a dict with {}", keys.join(", ")),
        )
    }

    fn unknown(&self, name: &str, call: &str) -> Failure {
        let known = self.columns.iter().map(|c| c.name.as_str()).chain(STEP_ENDS);
        let hint = match (closest(name, known), name) {
            (_, "done" | "terminal" | "dones") => {
                "say how it ended with terminated= and truncated=".to_owned()
            }
            (Some(known), _) => format!("did you mean `{known}`?"),
            (None, _) => format!("{call} takes {}", self.names()),
        };
        Failure::new(Kind::Append, format!("the ring has no column `{name}`; {hint}"))
    }

    fn names(&self) -> String {
        let names: Vec<&str> =
            self.columns.iter().map(|c| c.name.as_str()).chain(STEP_ENDS).collect();
        names.join(", ")
    }
}

/// What was given for every column, in the schema's order.
pub(crate) struct Found<'a, 'py> {
    columns: &'a [Wanted],
    values: Vec<Bound<'py, PyAny>>,
}

impl<'py> Found<'_, 'py> {
    /// One array per column, each `[*leading, *shape]` and C-contiguous.
    pub(crate) fn arrays(
        &self,
        leading: Leading,
    ) -> Result<Vec<Bound<'py, PyUntypedArray>>, Failure> {
        self.columns
            .iter()
            .zip(&self.values)
            .map(|(column, value)| {
                let array = array_of(value, column.target())?;
                check_shape(&array, leading, &column.shape, column.target())?;
                Ok(array)
            })
            .collect()
    }
}

/// What may stand for several columns: a dict, or a tuple, whose parts are called 0, 1, ...
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

/// Keywords of every append, whatever the schema.
const STEP_ENDS: [&str; 4] = ["terminated", "truncated", "next_obs", "final_obs"];
