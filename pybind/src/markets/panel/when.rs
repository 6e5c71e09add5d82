//! Days and instants as Python has them: texts, dates, datetimes and NumPy's datetimes.

use backcast_market::Calendar;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

/// Returns the text of a day or an instant, as a panel looks it up; `None` for other objects.
///
/// NumPy's datetimes have no zone. They are in UTC, as ``Panel.timestamps`` has them.
pub(crate) fn when_of(given: &Bound<'_, PyAny>, calendar: Calendar) -> PyResult<Option<String>> {
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Some(text.to_cow()?.into_owned()));
    }
    if given.get_type().name()?.to_cow()? == "datetime64" {
        let mut text: String = given.str()?.extract()?;
        if text.contains('T') && text != "NaT" {
            // NumPy writes hours without minutes.
            text += if text.contains(':') { "" } else { ":00" };
            text += if calendar == Calendar::Bars { "Z" } else { "" };
        }
        return Ok(Some(text));
    }
    if given.hasattr(intern!(py, "isoformat"))? {
        return given.call_method0(intern!(py, "isoformat"))?.extract().map(Some);
    }
    Ok(None)
}
