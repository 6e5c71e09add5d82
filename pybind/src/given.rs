//! Arguments as Python gave them, judged where their name is known: errors can then say it.
//!
//! `PyO3` refuses arguments before our code runs, with a bare `TypeError` that knows neither limits
//! nor what was meant. So calls take [`Given`] values, which any object converts to, and collect
//! the arguments that they do not have for [`refuse_strangers`].

use std::path::PathBuf;

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple};
use pyo3::{Borrowed, PyTypeInfo};

use crate::error::{Failure, Kind, bad_argument, is_of_a_value};

/// What stands in place of an argument.
pub(crate) enum Given<T> {
    Value(T),
    /// Nothing, where something is needed.
    Missing,
    /// A value of another type. It is shown when an error needs it: its `repr` may be anybody's code.
    Other(Py<PyAny>),
    /// Something that ends a program, such as Ctrl-C, came while the value was asked what it is.
    Ended(PyErr),
}

impl<T> Given<T> {
    /// The value, or an error that names the argument and says what to give.
    pub(crate) fn get(self, what: &str, wanted: &str) -> Result<T, Failure> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Missing => {
                Err(Failure::new(Kind::ArgumentType, format!("{what} is missing; give {wanted}")))
            }
            Self::Other(value) => {
                Err(Python::attach(|py| of_another_type(value.bind(py), what, wanted)))
            }
            Self::Ended(raised) => Err(raised.into()),
        }
    }
}

impl<T> Given<T> {
    /// Whether something was given, of whatever type.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self, Self::Missing)
    }

    /// The same with a value in place of nothing.
    pub(crate) fn or(self, default: impl Into<Self>) -> Self {
        match self {
            Self::Missing => default.into(),
            given => given,
        }
    }
}

impl<T> From<T> for Given<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for Given<String> {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

/// A word that names a choice, or a member of an enum of Python that means it: `AutoresetMode.NEXT_STEP` of
/// Gymnasium is `next_step`.
pub(crate) struct Word(pub(crate) String);

impl From<&str> for Given<Word> {
    fn from(value: &str) -> Self {
        Self::Value(Word(value.to_owned()))
    }
}

impl From<i64> for Given<i128> {
    fn from(value: i64) -> Self {
        Self::Value(value.into())
    }
}

/// A type that arguments have.
pub(crate) trait Argument: Sized {
    /// The value, if it is of this type; an error that ends the program, if that came meanwhile.
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>>;
}

/// What was found, or nothing where it is of another type.
pub(crate) fn found<T, E: Into<PyErr>>(
    py: Python<'_>,
    extracted: Result<T, E>,
) -> PyResult<Option<T>> {
    match extracted.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(raised) if is_of_a_value(py, &raised) => Ok(None),
        Err(raised) => Err(raised),
    }
}

impl<'a, 'py, T: Argument> FromPyObject<'a, 'py> for Given<T> {
    type Error = std::convert::Infallible;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(match T::read(value) {
            Ok(Some(value)) => Self::Value(value),
            Ok(None) => Self::Other(value.to_owned().unbind()),
            Err(raised) => Self::Ended(raised),
        })
    }
}

/// Whether it is True or False, Python's or NumPy's: a slip where a number is asked for, which
/// Python would read as 1 or 0.
fn is_bool(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>() {
        return Ok(false);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(true);
    }
    // Other libraries call other things so: a dtype of torch has no kind.
    let kind = || {
        let dtype = value.getattr_opt(intern!(py, "dtype"))?;
        let kind = dtype.map(|dtype| dtype.getattr_opt(intern!(py, "kind"))).transpose()?;
        kind.flatten().map(|kind| kind.extract::<String>()).transpose()
    };
    Ok(found(py, kind())?.flatten().as_deref() == Some("b"))
}

/// Whole numbers, NumPy's too.
impl Argument for i128 {
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

impl Argument for f64 {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if is_bool(&value)? { Ok(None) } else { found(value.py(), value.extract()) }
    }
}

impl Argument for bool {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

impl Argument for String {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

impl Argument for Word {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(word) = value.extract() {
            return Ok(Some(Self(word)));
        }
        // The package of the enum need not be installed: a member is known by what every enum's members have.
        let py = value.py();
        let name = || {
            let members = value.get_type().getattr_opt(intern!(py, "__members__"))?;
            let name = members.map(|_| value.getattr_opt(intern!(py, "name"))).transpose()?;
            name.flatten().map(|name| name.extract::<String>()).transpose()
        };
        Ok(found(py, name())?.flatten().map(|name| Self(name.to_lowercase())))
    }
}

impl Argument for PathBuf {
    fn read(value: Borrowed<'_, '_, PyAny>) -> PyResult<Option<Self>> {
        found(value.py(), value.extract())
    }
}

/// The error of an argument that is of another type than `wanted`.
pub(crate) fn of_another_type(value: &Bound<'_, PyAny>, what: &str, wanted: &str) -> Failure {
    match shown(value) {
        Ok(shown) => Failure::new(Kind::ArgumentType, format!("{what} is {shown}; give {wanted}")),
        Err(raised) => raised.into(),
    }
}

/// The value of an argument of any type that converts.
pub(crate) fn read<'py, T>(
    value: &Bound<'py, PyAny>,
    what: &str,
    wanted: &str,
) -> Result<T, Failure>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    found(value.py(), value.extract())?.ok_or_else(|| of_another_type(value, what, wanted))
}

/// A value as errors show it: short, with its type where that does not show.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    const LONGEST: usize = 60;
    let class = text_of(value.get_type().name()?.as_any())?;
    let text = repr_of(value)?;
    if value.is_none() || value.is_exact_instance_of::<PyInt>() {
        return Ok(text);
    }
    let article = if class.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) {
        "an"
    } else {
        "a"
    };
    let plain = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyFloat>()
        || text.chars().count() <= LONGEST;
    if text.is_empty() || !plain || text.contains('\n') {
        return Ok(format!("{article} {class}"));
    }
    Ok(format!("{text}, {article} {class}"))
}

/// What `repr` makes of a value, or nothing where it fails, which is no news. What ends a program meanwhile is.
pub(crate) fn repr_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.repr() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        Err(raised) if raised.is_instance_of::<PyException>(value.py()) => Ok(String::new()),
        Err(raised) => Err(raised),
    }
}

/// What `str` makes of a value. Formatting it with `{}` makes the same of it, but keeps what is raised meanwhile to
/// itself: of a Ctrl-C that comes then nothing would be left.
pub(crate) fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_string_lossy().into_owned())
}

/// Refuse arguments that a call does not have, with the one that was probably meant.
///
/// `extra` are those by position beyond the last, `unknown` those by names it does not know;
/// `call` finds the callable, whose text signature says what it takes.
pub(crate) fn refuse_strangers<'py>(
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
    call: impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)>,
) -> Result<(), Failure> {
    let unknown = unknown.filter(|unknown| !unknown.is_empty());
    if extra.is_empty() && unknown.is_none() {
        return Ok(());
    }
    let (name, callable) = call(extra.py())?;
    let signature: String = callable.getattr("__text_signature__")?.extract()?;
    let signature = ["$self", "$cls"].iter().fold(signature, |text, object| {
        text.replacen(&format!("({object}, "), "(", 1).replacen(&format!("({object})"), "()", 1)
    });
    let takes = Takes::parse(&signature);
    let refuse = |message| Err(Failure::new(Kind::ArgumentType, message));
    if let Some(key) = unknown.and_then(|unknown| unknown.keys().into_iter().next()) {
        let key: String = key.extract()?;
        let hint = closest(&key, takes.all().copied())
            .map_or_else(|| "it".to_owned(), |near| format!("did you mean `{near}`? It"));
        return refuse(format!("{name}() has no argument `{key}`; {hint} takes {signature}"));
    }
    let (most, got) = (takes.by_position.len(), takes.by_position.len() + extra.len());
    refuse(format!(
        "{name}() takes {} by position, got {got}; {}",
        match most {
            0 => "no arguments".to_owned(),
            1 => "1 argument".to_owned(),
            _ => format!("{most} arguments"),
        },
        if takes.by_name.is_empty() {
            format!("it takes {signature}")
        } else {
            format!(
                "give {} by name: {}",
                if most == 0 { "them" } else { "the others" },
                takes.by_name.join(", ")
            )
        }
    ))
}

/// A method and what errors call it, for [`refuse_strangers`].
pub(crate) fn method<'py, T: PyTypeInfo>(
    name: &'static str,
) -> impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
    move |py| Ok((name.to_owned(), py.get_type::<T>().getattr(name)?))
}

/// A class and its name, for [`refuse_strangers`].
pub(crate) fn class<T: PyTypeInfo>(py: Python<'_>) -> PyResult<(String, Bound<'_, PyAny>)> {
    let class = py.get_type::<T>();
    Ok((text_of(class.name()?.as_any())?, class.into_any()))
}

/// A function of the module and its name, for [`refuse_strangers`].
pub(crate) fn function<'py>(
    name: &'static str,
) -> impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
    move |py| Ok((name.to_owned(), py.import("backcast._native")?.getattr(name)?))
}

/// The path of a file, which an empty one is not: what the system says of it would not name it.
pub(crate) fn file_of(given: Given<PathBuf>, what: &str, wanted: &str) -> Result<PathBuf, Failure> {
    let path = given.get(what, wanted)?;
    if path.as_os_str().is_empty() {
        return Err(bad_argument(format!("{what} is ''; give {wanted}")));
    }
    Ok(path)
}

/// The axes of a shape: a number, or a sequence of numbers. None of anything else.
pub(crate) fn axes_of<T: TryFrom<i128>>(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    let Ok(lone) = given.extract::<Given<i128>>();
    let numbers: Option<Vec<Given<i128>>> = match lone {
        Given::Other(_) => found(given.py(), given.extract())?,
        lone => Some(vec![lone]),
    };
    let Some(numbers) = numbers else { return Ok(None) };
    let axes = numbers.into_iter().map(|number| match number {
        Given::Value(number) => Ok(number.try_into().ok()),
        Given::Ended(raised) => Err(raised),
        Given::Missing | Given::Other(_) => Ok(None),
    });
    Ok(axes.collect::<PyResult<Vec<Option<T>>>>()?.into_iter().collect())
}

/// An argument that must be there, of any type.
pub(crate) fn needed<'a, 'py>(
    given: Option<&'a Bound<'py, PyAny>>,
    what: &str,
    wanted: &str,
) -> Result<&'a Bound<'py, PyAny>, Failure> {
    given.ok_or_else(|| {
        Failure::new(Kind::ArgumentType, format!("{what} is missing; give {wanted}"))
    })
}

/// The answer to calling a class whose objects are made in another way.
pub(crate) fn not_called(class: &str, instead: &str) -> Failure {
    Failure::new(
        Kind::ArgumentType,
        format!("{class} objects are not made by calling the class; {instead}"),
    )
}

/// The names in a text signature.
struct Takes<'a> {
    by_position: Vec<&'a str>,
    by_name: Vec<&'a str>,
}

impl<'a> Takes<'a> {
    fn parse(signature: &'a str) -> Self {
        let inside = signature.trim_start_matches('(').trim_end_matches(')');
        let mut takes = Self { by_position: Vec::new(), by_name: Vec::new() };
        let mut named = false;
        for part in inside.split(", ") {
            match part.split('=').next().unwrap_or(part) {
                "*" => named = true,
                "" | "/" => {}
                name if named => takes.by_name.push(name),
                name => takes.by_position.push(name),
            }
        }
        takes
    }

    fn all(&self) -> impl Iterator<Item = &&'a str> {
        self.by_position.iter().chain(&self.by_name)
    }
}

/// The known name that was probably meant: spelt nearly alike, or the beginning of the other.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let begins = |long: &str, short: &str| short.len() > 2 && long.starts_with(short);
    known
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .filter(|(edits, known)| {
            let few = *edits <= 2.max(known.len() / 3) && *edits < known.len();
            few || begins(name, known) || begins(known, name)
        })
        .min()
        .map(|(_, known)| known)
}
