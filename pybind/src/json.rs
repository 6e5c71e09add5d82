//! Lossless conversion of plain Python values to JSON and back. Values that JSON cannot hold
//! exactly are refused. A tuple becomes a list, and a NumPy scalar becomes a Python value.
//!
//! Other JSON readers, and `serde_json`, read an integer of more than 64 bits as a float. So it is
//! written as `{"$int": "0x..."}`, and a dict that looks like that as `{"$dict": ...}`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::argument::{shown, wrong_type};
use crate::error::{ErrorClass, Failure};

/// Largest nesting depth. Deeper values are usually circular.
const DEEPEST: usize = 64;
const WANTED: &str = "None, a bool, an int, a float, a str, or lists and dicts of such";

/// Only key of an object that represents an integer of more than 64 bits, in hexadecimal digits.
const INT: &str = "$int";
/// Only key of an object that represents a dict with just one of these two keys.
const DICT: &str = "$dict";

/// Converts a value to JSON; errors call it `what`.
pub(crate) fn from_python(given: &Bound<'_, PyAny>, what: &str) -> Result<Value, Failure> {
    value(given, what, 0)
}

fn value(given: &Bound<'_, PyAny>, at: &str, depth: usize) -> Result<Value, Failure> {
    if depth > DEEPEST {
        return Err(Failure::new(
            ErrorClass::Argument,
            format!("{at} lies more than {DEEPEST} levels deep; give flatter data"),
        ));
    }
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Value::Bool(truth.is_true()));
    }
    if given.is_instance_of::<PyInt>() {
        return whole(given);
    }
    if given.is_instance_of::<PyFloat>() {
        let number: f64 = given.extract()?;
        return Number::from_f64(number).map(Value::Number).ok_or_else(|| {
            let message =
                format!("{at} is {number}, which JSON does not have; give None or a str for it");
            Failure::new(ErrorClass::Argument, message)
        });
    }
    if let Ok(text) = given.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Ok(Value::String(text.to_owned())),
            Err(_) => Err(other(given, at)),
        };
    }
    if let Ok(items) = given.cast::<PyDict>() {
        let mut map = Map::new();
        for (key, item) in items.iter() {
            let Ok(key) = key.extract::<String>() else {
                let key = shown(&key)?;
                return Err(Failure::new(
                    ErrorClass::ArgumentType,
                    format!("{at} has the key {key}; give keys that are str"),
                ));
            };
            let item = value(&item, &format!("{at}[{key:?}]"), depth + 1)?;
            map.insert(key, item);
        }
        let alike = [INT, DICT].iter().any(|key| map.len() == 1 && map.contains_key(*key));
        return Ok(if alike { only(DICT, Value::Object(map)) } else { Value::Object(map) });
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let mut items = Vec::new();
        for (number, item) in given.try_iter()?.enumerate() {
            items.push(value(&item?, &format!("{at}[{number}]"), depth + 1)?);
        }
        return Ok(Value::Array(items));
    }
    // The value may be a NumPy scalar.
    let numpy = given.py().import("numpy")?;
    if given.is_instance(&numpy.getattr("generic")?)? {
        let item = given.call_method0("item")?;
        if !item.is_instance(&numpy.getattr("generic")?)? {
            return value(&item, at, depth + 1);
        }
    }
    Err(other(given, at))
}

fn whole(given: &Bound<'_, PyAny>) -> Result<Value, Failure> {
    if let Ok(number) = given.extract::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(number.into());
    }
    // Python converts hexadecimal numbers of any length in linear time.
    let digits = given.py().import("builtins")?.call_method1("hex", (given,))?;
    Ok(only(INT, Value::String(digits.extract()?)))
}

fn only(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn other(given: &Bound<'_, PyAny>, at: &str) -> Failure {
    wrong_type(given, at, WANTED)
}

/// Converts JSON to the value that Python's `json.loads` would return, except that objects with the
/// key [`INT`] or [`DICT`] become the integer or dict that they represent.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(items) => {
            if let Some(number) = large(py, items) {
                return Ok(number);
            }
            let inner = items.get(DICT).filter(|_| items.len() == 1).and_then(Value::as_object);
            let items = inner.unwrap_or(items);
            let dict = PyDict::new(py);
            for (key, item) in items {
                dict.set_item(key, to_python(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

/// Returns the integer of more than 64 bits that an object represents, if it represents one.
fn large<'py>(py: Python<'py>, items: &Map<String, Value>) -> Option<Bound<'py, PyAny>> {
    let digits = items.get(INT).filter(|_| items.len() == 1).and_then(Value::as_str)?;
    // Text that is no number comes from a file of another program. Its object stays a dict.
    py.get_type::<PyInt>().call1((digits, 16)).ok()
}
