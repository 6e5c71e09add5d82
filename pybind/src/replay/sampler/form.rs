//! The form of what a sampler draws, as an object of Python.

use backcast_core::{
    ColumnWindow, ColumnWindows, EpisodeLayout, Form, Rollout, Sequence, WholeEpisodes,
};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use crate::argument::{count, found, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::replay::sampler::options::Fields;

/// Module of the classes of forms.
const MODULE: &str = "backcast._form";

/// Reads `form`, and the columns of which a sequence has only the first value.
pub(super) fn read(form: &Bound<'_, PyAny>) -> Result<(Form, Vec<String>), Failure> {
    match Fields::of(form, MODULE, &["Sequence", "WholeEpisodes", "Rollout"])? {
        Some(("Sequence", fields)) => {
            let first = fields.any("first")?;
            let names = if first.is_instance_of::<PyString>() {
                None
            } else {
                found(form.py(), first.extract::<Vec<String>>())?
            };
            let Some(names) = names else {
                return Err(wrong_type(&first, "first", "a list of names of columns"));
            };
            Ok((Form::Sequence(sequence_of(&fields)?), names))
        }
        Some(("Rollout", fields)) => Ok((Form::Rollout(rollout_of(&fields)?), Vec::new())),
        Some((_, fields)) => Ok((Form::Episodes(episodes_of(&fields)?), Vec::new())),
        None => {
            let wanted =
                "bc.Sequence(80), bc.WholeEpisodes(), bc.Rollout(128), or None for transitions";
            Err(wrong_type(form, "form", wanted))
        }
    }
}

fn sequence_of(fields: &Fields<'_, '_>) -> Result<Sequence, Failure> {
    let length = count(fields.get("length")?, "length", 1, ErrorClass::Sample)?;
    let sequence = Sequence::new(length);
    if fields.any("stride")?.is_none() {
        return Ok(sequence);
    }
    Ok(sequence.stride(count(fields.get("stride")?, "stride", 1, ErrorClass::Sample)?))
}

fn rollout_of(fields: &Fields<'_, '_>) -> Result<Rollout, Failure> {
    let rollout = Rollout::new(count(fields.get("length")?, "length", 1, ErrorClass::Sample)?);
    if fields.any("lanes")?.is_none() {
        return Ok(rollout);
    }
    Ok(rollout.lanes(count(fields.get("lanes")?, "lanes", 1, ErrorClass::Sample)?))
}

fn episodes_of(fields: &Fields<'_, '_>) -> Result<WholeEpisodes, Failure> {
    let words = "\"padded\" or \"ragged\"";
    let word = fields.get::<String>("layout")?.get("layout", words)?;
    let Some(layout) = EpisodeLayout::named(&word) else {
        let message = format!("layout is {word:?}; give {words}");
        return Err(Failure::new(ErrorClass::Sample, message));
    };
    let by_length = fields.get::<bool>("by_length")?.get("by_length", "True or False")?;
    if fields.any("max_length")?.is_none() {
        return Ok(WholeEpisodes { layout, max_length: None, by_length });
    }
    let max_length = count(fields.get("max_length")?, "max_length", 1, ErrorClass::Sample)?;
    Ok(WholeEpisodes { layout, max_length: Some(max_length), by_length })
}

/// Adds columns of which a sequence has only the first value.
pub(super) fn with_first(
    columns: Option<ColumnWindows>,
    first: &[String],
) -> Option<ColumnWindows> {
    if first.is_empty() {
        return columns;
    }
    let columns = columns.unwrap_or_else(|| ColumnWindows::default().rest(ColumnWindow::Drawn));
    Some(first.iter().fold(columns, |of, name| of.column(name, ColumnWindow::First)))
}

/// Returns a form as an object of Python; `None` for transitions.
pub(super) fn in_python<'py>(
    py: Python<'py>,
    form: Form,
    columns: Option<&ColumnWindows>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let module = py.import(MODULE)?;
    match form {
        Form::Sequence(Sequence { length, stride, .. }) => {
            let named = columns.into_iter().flat_map(ColumnWindows::named);
            let first = named.filter(|(_, window)| *window == ColumnWindow::First);
            let first: Vec<&str> = first.map(|(name, _)| name).collect();
            module.getattr("Sequence")?.call1((length, stride, first)).map(Some)
        }
        Form::Episodes(WholeEpisodes { layout, max_length, by_length }) => {
            let class = module.getattr("WholeEpisodes")?;
            class.call1((layout.as_str(), max_length, by_length)).map(Some)
        }
        Form::Rollout(Rollout { length, lanes, .. }) => {
            module.getattr("Rollout")?.call1((length, lanes)).map(Some)
        }
        _ => Ok(None),
    }
}
