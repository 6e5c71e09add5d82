//! `backcast.Schema`: the columns of a ring, from and to dicts.

use backcast_core::{Column, Role, Schema as CoreSchema};
use backcast_pybind_macros::exact_arguments;
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::argument::{axes_of, repr_of, required, wrong_type};
use crate::array::convert::{OR_TUPLE, ShapeText, dtype_of};
use crate::error::{ErrorClass, Failure};

/// Columns of a ring, with their names, dtypes, shapes and roles.
///
/// Parameters
/// ----------
/// columns : dict
///     Name to ``dtype``, ``(dtype, shape)`` or ``(dtype, shape, role)``. A dtype is a code
///     (``"bool"``, ``"u1"`` to ``"u8"``, ``"i1"`` to ``"i8"``, ``"f2"``, ``"f4"``, ``"f8"``,
///     ``"bfloat16"``) or anything ``np.dtype`` takes. A shape is a tuple of ints or one int. A
///     nested dict names columns below it: ``{"obs": {"image": ("u1", (84, 84))}}`` has the column
///     ``obs/image``. The role is ``"obs"`` or ``"step"``. Left out, a column called ``obs``,
///     ``observation``, ``observations``, ``state`` or ``states``, or below one of them, is an
///     observation, every other one belongs to the step. Observations get a ``next_`` counterpart,
///     and a ``next_obs`` that an append gives must have all of them. The role ``"step"`` excepts a
///     column from that: ``{"state": ("f4", (8,), "step")}``.
///
/// Raises
/// ------
/// SchemaError
///     If a dtype, shape, role or name is not possible, or a name is reserved.
///
/// Examples
/// --------
/// >>> import backcast as bc
/// >>> bc.Schema({"obs": ("u1", (84, 84)), "reward": "f4"})
/// Schema({'obs': ('u1', (84, 84), 'obs'), 'reward': ('f4', (), 'step')})
#[pyclass(module = "backcast", name = "Schema", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct Schema(pub(crate) CoreSchema);

/// Column of the reward, or its default.
enum Reward<'py> {
    Single,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Reward<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(value.to_owned()))
    }
}

#[exact_arguments]
#[pymethods]
impl Schema {
    #[new]
    #[pyo3(signature = (columns=None), text_signature = "(columns)")]
    fn new(columns: Option<&Bound<'_, PyAny>>) -> Result<Self, Failure> {
        Ok(Self(schema_of(columns)?))
    }

    /// Make a schema for the transitions of an environment from its Gymnasium spaces.
    ///
    /// The observation becomes ``obs``, the action ``action``, each in the dtype and shape of its
    /// space. The parts of ``Dict`` and ``Tuple`` spaces become columns below them, ``obs/camera``
    /// or ``action/0``. So a row holds observations and actions without conversion.
    ///
    /// Parameters
    /// ----------
    /// observation_space, action_space : gymnasium.Space
    ///     Spaces of one environment; a vector environment has them as ``single_observation_space``
    ///     and ``single_action_space``. ``Box``, ``Discrete``, ``MultiBinary``, ``MultiDiscrete``,
    ///     and ``Dict`` and ``Tuple`` of such.
    /// reward : dtype, (dtype, shape) or None, default "f4"
    ///     The column ``reward``; None leaves it out.
    /// extra : dict, optional
    ///     Further columns, as :class:`Schema` takes them: ``{"log_prob": "f4"}``.
    ///
    /// Returns
    /// -------
    /// Schema
    ///
    /// Raises
    /// ------
    /// SchemaError
    ///     If a space has no array of one shape (``Text``, ``Graph``, ``Sequence``, ``OneOf``), or
    ///     its name or dtype cannot be that of a column. The message names the place and a way out.
    /// MissingExtraError
    ///     If Gymnasium is not installed.
    ///
    /// Examples
    /// --------
    /// >>> from gymnasium.spaces import Box, Discrete
    /// >>> bc.Schema.from_spaces(Box(-1, 1, (3,)), Discrete(4), reward=None)
    /// Schema({'obs': ('f4', (3,), 'obs'), 'action': ('i8', (), 'step')})
    #[staticmethod]
    #[pyo3(signature = (
        observation_space=None, action_space=None, *, reward=Reward::Single, extra=None
    ))]
    #[pyo3(text_signature = "(observation_space, action_space, *, reward='f4', extra=None)")]
    fn from_spaces<'py>(
        py: Python<'py>,
        observation_space: Option<&Bound<'py, PyAny>>,
        action_space: Option<&Bound<'py, PyAny>>,
        reward: Reward<'py>,
        extra: Option<&Bound<'py, PyAny>>,
    ) -> Result<Self, Failure> {
        let wanted = "the gymnasium.Space of one environment";
        let observation_space = required(observation_space, "observation_space", wanted)?;
        let action_space = required(action_space, "action_space", wanted)?;
        if let Some(given) = extra.filter(|extra| !extra.is_instance_of::<PyDict>()) {
            return Err(wrong_type(given, "extra", "a dict of columns"));
        }
        let reward = match reward {
            Reward::Single => PyString::new(py, "f4").into_any(),
            Reward::Given(reward) => reward,
        };
        let columns = py
            .import("backcast._spaces")?
            .call_method1("columns", (observation_space, action_space, reward, extra))?;
        Ok(Self(built(columns.cast::<PyDict>().map_err(PyErr::from)?)?))
    }

    /// Name to ``(dtype code, shape, role)`` of every column, in the order of the schema.
    ///
    /// Nested columns appear under their full name, ``obs/image``. Built-in columns
    /// (``terminated``, ``truncated`` and the bookkeeping ones) are not among them.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for column in self.0.columns() {
            columns.set_item(column.name(), entry(py, column)?)?;
        }
        Ok(columns)
    }

    /// Bytes that one row takes, built-in columns included.
    #[getter]
    fn row_bytes(&self) -> usize {
        self.0.row_bytes()
    }

    fn __repr__(&self) -> String {
        let columns: Vec<String> = self
            .0
            .columns()
            .iter()
            .map(|column| {
                let shape: Vec<usize> = column.shape().iter().map(|&axis| axis as usize).collect();
                format!(
                    "'{}': ('{}', {}, '{}')",
                    column.name(),
                    column.dtype().code(),
                    ShapeText(&shape),
                    role_name(column.role())
                )
            })
            .collect();
        format!("Schema({{{}}})", columns.join(", "))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyDict>,))> {
        Ok((slf.get_type(), (slf.get().columns(slf.py())?,)))
    }
}

/// Returns `(dtype code, shape, role)` of a column.
pub(crate) fn entry<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyTuple>> {
    let shape = PyTuple::new(py, column.shape())?;
    (column.dtype().code(), shape, role_name(column.role())).into_pyobject(py)
}

/// Reads a `Schema` or a dict of columns.
pub(crate) fn schema_of(value: Option<&Bound<'_, PyAny>>) -> Result<CoreSchema, Failure> {
    let wanted =
        "a dict of columns, such as {\"obs\": (\"f4\", (3,)), \"reward\": \"f4\"}, or a Schema";
    let value = required(value, "schema", wanted)?;
    if let Ok(schema) = value.cast::<Schema>() {
        return Ok(schema.get().0.clone());
    }
    match value.cast::<PyDict>() {
        Ok(columns) => built(columns),
        Err(_) => Err(wrong_type(value, "schema", wanted)),
    }
}

/// Builds a schema from a dict of columns.
fn built(columns: &Bound<'_, PyDict>) -> Result<CoreSchema, Failure> {
    let mut entries = Vec::new();
    collect("", columns, &mut entries)?;
    let mut builder = CoreSchema::builder();
    for (name, value) in &entries {
        let (dtype, shape, role) = describe(name, value)?;
        builder = match role {
            Some(role) => builder.column_as(name, dtype, &shape, role),
            None => builder.column(name, dtype, &shape),
        };
    }
    Ok(builder.build()?)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Obs => "obs",
        Role::Step => "step",
    }
}

/// Flattens nested dicts into full names, in order.
fn collect<'py>(
    prefix: &str,
    columns: &Bound<'py, PyDict>,
    entries: &mut Vec<(String, Bound<'py, PyAny>)>,
) -> Result<(), Failure> {
    for (key, value) in columns {
        let Ok(key) = key.cast::<PyString>() else {
            let shown = repr_of(key.as_any())?;
            return Err(Failure::new(
                ErrorClass::Schema,
                format!("column name {shown} is not a string; name columns by strings"),
            ));
        };
        let name = format!("{prefix}{}", key.to_str()?);
        match value.cast::<PyDict>() {
            Ok(below) if below.is_empty() => {
                return Err(Failure::new(
                    ErrorClass::Schema,
                    format!("column `{name}`: an empty dict names no columns; leave it out"),
                ));
            }
            Ok(below) => collect(&format!("{name}/"), below, entries)?,
            Err(_) => entries.push((name, value)),
        }
    }
    Ok(())
}

type Description = (backcast_core::DType, Vec<u32>, Option<Role>);

/// Splits `dtype`, `(dtype, shape)` or `(dtype, shape, role)`.
fn describe(name: &str, value: &Bound<'_, PyAny>) -> Result<Description, Failure> {
    let Ok(parts) = value.cast::<PyTuple>() else {
        return Ok((dtype_of(name, value, OR_TUPLE)?, Vec::new(), None));
    };
    if !matches!(parts.len(), 1..=3) {
        return Err(Failure::new(
            ErrorClass::Schema,
            format!(
                "column `{name}`: a tuple of {} parts; write (dtype,), (dtype, shape) or \
                 (dtype, shape, role)",
                parts.len()
            ),
        ));
    }
    let dtype = dtype_of(name, &parts.get_item(0)?, OR_TUPLE)?;
    let shape = if parts.len() > 1 { shape_of(name, &parts.get_item(1)?)? } else { Vec::new() };
    let role = if parts.len() > 2 { Some(role_of(name, &parts.get_item(2)?)?) } else { None };
    Ok((dtype, shape, role))
}

fn shape_of(name: &str, value: &Bound<'_, PyAny>) -> Result<Vec<u32>, Failure> {
    if let Some(shape) = axes_of(value)? {
        return Ok(shape);
    }
    Err(Failure::new(
        ErrorClass::Schema,
        format!(
            "column `{name}`: {} is not a shape; write a tuple of whole numbers from 1 to {}, () \
             for a number per row",
            repr_of(value)?,
            u32::MAX
        ),
    ))
}

fn role_of(name: &str, value: &Bound<'_, PyAny>) -> Result<Role, Failure> {
    match value.extract::<&str>() {
        Ok("obs") => Ok(Role::Obs),
        Ok("step") => Ok(Role::Step),
        _ => Err(Failure::new(
            ErrorClass::Schema,
            format!(
                "column `{name}`: {} is not a role; write \"obs\" (seen before acting, has a \
                 next_ counterpart) or \"step\"",
                repr_of(value)?
            ),
        )),
    }
}
