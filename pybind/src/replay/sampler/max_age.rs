//! Limits to the age of rows: `max_age`, a number of rows or a dict by key of a batch.

use backcast_core::SamplerOptions;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, found, whole, wrong_type};
use crate::error::{ErrorClass, Failure};

/// Key of a batch whose numbers count newer rows.
const AGE: &str = "age";
/// Key of a batch whose numbers count newer versions of the policy.
const POLICY_AGE: &str = "policy_age";

/// Limits to the age of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AgeArgument {
    pub(super) rows: Option<u64>,
    pub(super) versions: Option<u64>,
}

impl AgeArgument {
    /// Reads `max_age`. A number limits `age`.
    pub(super) fn read(given: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let Ok(by_key) = given.cast::<PyDict>() else {
            return Ok(Self { rows: Some(limit_of(given, "max_age")?), versions: None });
        };
        let mut limits = Self::default();
        for (key, most) in by_key {
            let name = found(key.py(), key.extract::<String>())?;
            let what = format!("max_age[{:?}]", name.as_deref().unwrap_or_default());
            match name.as_deref() {
                Some(AGE) => limits.rows = Some(limit_of(&most, &what)?),
                Some(POLICY_AGE) => limits.versions = Some(limit_of(&most, &what)?),
                _ => return Err(wrong_type(&key, "a key of max_age", "\"age\" or \"policy_age\"")),
            }
        }
        if limits == Self::default() {
            let message = "max_age names no key of a batch; give a number of rows, or a dict with \
                           \"age\" or \"policy_age\"";
            return Err(Failure::new(ErrorClass::Sample, message));
        }
        Ok(limits)
    }

    /// Sets the limits of a sampler.
    pub(super) fn limit(self, options: SamplerOptions) -> SamplerOptions {
        let options = match self.rows {
            Some(rows) => options.max_age(rows),
            None => options,
        };
        match self.versions {
            Some(versions) => options.max_policy_age(versions),
            None => options,
        }
    }

    /// Returns the limits as Python gives them; `None` without any.
    pub(super) fn in_python(self, py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
        let limits = PyDict::new(py);
        match self {
            Self { rows: None, versions: None } => return Ok(None),
            Self { rows: Some(rows), versions: None } => {
                return Ok(Some(rows.into_pyobject(py)?.into_any()));
            }
            Self { rows, versions: Some(versions) } => {
                rows.map(|rows| limits.set_item(AGE, rows)).transpose()?;
                limits.set_item(POLICY_AGE, versions)?;
            }
        }
        Ok(Some(limits.into_any()))
    }

    /// Describes the limits for a repr.
    pub(super) fn in_words(self) -> String {
        let limits = [(AGE, self.rows), (POLICY_AGE, self.versions)];
        let words =
            limits.map(|(key, most)| most.map_or(String::new(), |n| format!(", {key} <= {n}")));
        words.concat()
    }
}

fn limit_of(given: &Bound<'_, PyAny>, what: &str) -> Result<u64, Failure> {
    let Ok(limit) = given.extract::<Argument<i128>>();
    whole(limit, what, "a whole number from 0 up", ErrorClass::Sample)
}
