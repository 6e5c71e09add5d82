//! Arguments of Python calls, converted where their names and limits are known.
//!
//! `PyO3` refuses an argument before our code runs, with a bare `TypeError` that names neither the
//! limits nor the name that was probably meant. So calls take [`Argument`] values, which any object
//! converts to. `#[exact_arguments]` collects the arguments that a call does not have for
//! [`refuse_unexpected`].

mod number;
mod text;
mod unexpected;

use std::path::PathBuf;

use backcast_core::AutoresetMode;
use pyo3::Borrowed;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

pub(crate) use self::number::{count, count_in, seconds_of, timeout_of, whole};
pub(crate) use self::text::{_closest_name, repr_of, shown, text_of};
pub(crate) use self::unexpected::{class, function, method, refuse_unexpected};
use crate::error::{ErrorClass, Failure, bad_argument, refuses_value};

/// Converted argument of a call. [`get`](Self::get) returns its value or the error of the
/// conversion.
#[derive(Default)]
pub(crate) enum Argument<T> {
    Value(T),
    /// The caller left the argument out.
    #[default]
    Missing,
    /// Value of another type. Its `repr`, which may run any code, is taken only for an error.
    WrongType(Py<PyAny>),
    /// Exception, such as a Ctrl-C, that was raised while the value was converted.
    Raised(PyErr),
}

impl<T> Argument<T> {
    /// Returns the value, or an error that names the argument and the accepted values.
    pub(crate) fn get(self, what: &str, wanted: &str) -> Result<T, Failure> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Missing => Err(Failure::new(
                ErrorClass::ArgumentType,
                format!("{what} is missing; give {wanted}"),
            )),
            Self::WrongType(value) => {
                Err(Python::attach(|py| wrong_type(value.bind(py), what, wanted)))
            }
            Self::Raised(raised) => Err(raised.into()),
        }
    }
}

impl<T> Argument<T> {
    /// Returns whether the argument was given, of any type.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self, Self::Missing)
    }

    /// Returns the argument, or `default` if it was left out.
    pub(crate) fn or(self, default: impl Into<Self>) -> Self {
        match self {
            Self::Missing => default.into(),
            given => given,
        }
    }
}

impl<T> From<T> for Argument<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for Argument<String> {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

/// Name of a choice, read from a string or a member of a Python enum. `AutoresetMode.NEXT_STEP` of
/// Gymnasium becomes `next_step`.
pub(crate) struct ChoiceName(pub(crate) String);

impl From<&str> for Argument<ChoiceName> {
    fn from(value: &str) -> Self {
        Self::Value(ChoiceName(value.to_owned()))
    }
}

impl From<i64> for Argument<i128> {
    fn from(value: i64) -> Self {
        Self::Value(value.into())
    }
}

/// Type of the value of an [`Argument`].
pub(crate) trait FromArgument: Sized {
    /// Returns the value if it is of this type. Propagates exceptions that do not concern the
    /// value.
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>>;
}

/// Returns an extracted value, or `None` if Python refused it as a value of another type.
pub(crate) fn found<T, E: Into<PyErr>>(
    py: Python<'_>,
    extracted: Result<T, E>,
) -> PyResult<Option<T>> {
    match extracted.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(raised) if refuses_value(py, &raised) => Ok(None),
        Err(raised) => Err(raised),
    }
}

impl<'a, 'py, T: FromArgument> FromPyObject<'a, 'py> for Argument<T> {
    type Error = std::convert::Infallible;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(match T::read(value) {
            Ok(Some(value)) => Self::Value(value),
            Ok(None) => Self::WrongType(value.to_owned().unbind()),
            Err(raised) => Self::Raised(raised),
        })
    }
}

/// Returns whether a value is a bool of Python or NumPy. Python would read a bool as the number 1
/// or 0, but a bool in place of a number is probably a mistake.
fn is_bool(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>() {
        return Ok(false);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(true);
    }
    // Other libraries have a `dtype` too: that of torch has no `kind`.
    let kind = || {
        let dtype = value.getattr_opt(intern!(py, "dtype"))?;
        let kind = dtype.map(|dtype| dtype.getattr_opt(intern!(py, "kind"))).transpose()?;
        kind.flatten().map(|kind| kind.extract::<String>()).transpose()
    };
    Ok(found(py, kind())?.flatten().as_deref() == Some("b"))
}

/// Integers of Python and NumPy.
impl FromArgument for i128 {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if is_bool(&value)? {
            return Ok(None);
        }
        match found(value.py(), value.extract::<i64>())? {
            Some(number) => Ok(Some(number.into())),
            None => found(value.py(), value.extract()),
        }
    }
}

impl FromArgument for f64 {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if is_bool(&value)? { Ok(None) } else { found(value.py(), value.extract()) }
    }
}

impl FromArgument for bool {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

impl FromArgument for String {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

impl FromArgument for ChoiceName {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(word) = value.extract() {
            return Ok(Some(Self(word)));
        }
        // Recognise a member without importing its enum: the package need not be installed.
        let py = value.py();
        let name = || {
            let members = value.get_type().getattr_opt(intern!(py, "__members__"))?;
            let name = members.map(|_| value.getattr_opt(intern!(py, "name"))).transpose()?;
            name.flatten().map(|name| name.extract::<String>()).transpose()
        };
        Ok(found(py, name())?.flatten().map(|name| Self(name.to_lowercase())))
    }
}

impl FromArgument for PathBuf {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

/// Returns the error of an argument that is of another type than `wanted`.
pub(crate) fn wrong_type(value: &Bound<'_, PyAny>, what: &str, wanted: &str) -> Failure {
    match shown(value) {
        Ok(shown) => {
            Failure::new(ErrorClass::ArgumentType, format!("{what} is {shown}; give {wanted}"))
        }
        Err(raised) => raised.into(),
    }
}

/// Extracts a value. Returns the error of [`wrong_type`] if Python refuses it.
pub(crate) fn read<'py, T>(
    value: &Bound<'py, PyAny>,
    what: &str,
    wanted: &str,
) -> Result<T, Failure>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    found(value.py(), value.extract())?.ok_or_else(|| wrong_type(value, what, wanted))
}

/// Reads the path of a file. An empty path is refused here, because the system's error would not
/// name it.
pub(crate) fn file_of(
    given: Argument<PathBuf>,
    what: &str,
    wanted: &str,
) -> Result<PathBuf, Failure> {
    let path = given.get(what, wanted)?;
    if path.as_os_str().is_empty() {
        return Err(bad_argument(format!("{what} is ''; give {wanted}")));
    }
    Ok(path)
}

/// Reads a sequence of names. A lone string is refused.
pub(crate) fn names_of(
    given: &Bound<'_, PyAny>,
    what: &str,
    example: &str,
) -> Result<Vec<String>, Failure> {
    let refused = || {
        let wanted = format!("a sequence of names, {example}");
        wrong_type(given, what, &wanted)
    };
    if given.is_instance_of::<PyString>() {
        return Err(refused());
    }
    found(given.py(), given.extract())?.ok_or_else(refused)
}

/// Reads the `autoreset_mode` argument.
pub(crate) fn autoreset_mode_of(
    given: Argument<ChoiceName>,
    class: ErrorClass,
) -> Result<AutoresetMode, Failure> {
    const CHOICE: &str = "\"next_step\", \"same_step\" or \"disabled\"";
    let ChoiceName(text) = given.get("autoreset_mode", CHOICE)?;
    text.parse()
        .map_err(|_| Failure::new(class, format!("autoreset_mode is '{text}'; give {CHOICE}")))
}

/// Reads the axes of a shape: an integer or a sequence of integers, each within the range of `T`.
/// Returns `None` for anything else.
pub(crate) fn axes_of<T: TryFrom<i128>>(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    let Ok(lone) = given.extract::<Argument<i128>>();
    let numbers: Option<Vec<Argument<i128>>> = match lone {
        Argument::WrongType(_) => found(given.py(), given.extract())?,
        lone => Some(vec![lone]),
    };
    let Some(numbers) = numbers else { return Ok(None) };
    let axes = numbers.into_iter().map(|number| match number {
        Argument::Value(number) => Ok(number.try_into().ok()),
        Argument::Raised(raised) => Err(raised),
        Argument::Missing | Argument::WrongType(_) => Ok(None),
    });
    Ok(axes.collect::<PyResult<Vec<Option<T>>>>()?.into_iter().collect())
}

/// Returns a required argument of any type, or the error that it is missing.
pub(crate) fn required<'a, 'py>(
    given: Option<&'a Bound<'py, PyAny>>,
    what: &str,
    wanted: &str,
) -> Result<&'a Bound<'py, PyAny>, Failure> {
    given.ok_or_else(|| {
        Failure::new(ErrorClass::ArgumentType, format!("{what} is missing; give {wanted}"))
    })
}

/// Returns the error of calling a class whose objects are made in another way.
pub(crate) fn no_constructor(class: &str, instead: &str) -> Failure {
    Failure::new(
        ErrorClass::ArgumentType,
        format!("{class} objects are not made by calling the class; {instead}"),
    )
}
