//! `backcast._native.FlatParams`: parameters as lists of arrays. `backcast.Params` nests them.

mod view;

use std::path::PathBuf;

use backcast_core::{
    Base, BatchBuffers, DType, MAX_READER_SLOTS, Params as CoreParams, ParamsArray, ParamsOptions,
};
use backcast_pybind_macros::exact_arguments;
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

pub(crate) use self::view::{FlatParamsView, PinHold};
use crate::argument::{Argument, count_in, no_constructor, timeout_of, whole, wrong_type};
use crate::array::convert::{descr, dtype_of, is_of};
use crate::array::view::{FreshArray, LendError, LentArrays, bytes_of};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::location::{base_at, base_of, exist_of, name_of, persistent_of, reduce_by_name};

/// Maximum of versions kept, and of spare slots. The core limits their sum to 64.
const MAX_SLOTS: u32 = 63;

/// Parameters as flat lists of arrays, in the order given at creation. Used by :class:`Params`.
#[pyclass(module = "backcast._native", name = "FlatParams", frozen)]
pub(crate) struct FlatParams {
    params: Handle<CoreParams>,
    name: Option<String>,
    path: Option<PathBuf>,
    arrays: Vec<ParamsArray>,
}

impl FlatParams {
    pub(crate) fn of(params: CoreParams) -> Self {
        let name = params.name().map(str::to_owned);
        let label = name.as_ref().map(|name| format!("parameters '{name}'"));
        let label = label.unwrap_or_else(|| "private parameters".to_owned());
        Self {
            path: params.path().map(ToOwned::to_owned),
            arrays: params.shape().arrays().to_vec(),
            params: Handle::new(label, "attach or create them again", params),
            name,
        }
    }

    /// Checks that an array of the right dtype and shape is given for each name.
    fn check(&self, given: &[Bound<'_, PyUntypedArray>]) -> Result<(), Failure> {
        let refuse = |why: String| Err(Failure::new(ErrorClass::Schema, why));
        if given.len() != self.arrays.len() {
            let (given, has) = (given.len(), self.arrays.len());
            return refuse(format!("{given} arrays are given, {} has {has}", self.params.label()));
        }
        for (array, given) in self.arrays.iter().zip(given) {
            let name = array.name();
            if !is_of(&given.dtype(), array.dtype())? {
                let (found, wanted) = (given.dtype(), array.dtype().name());
                return refuse(match array.dtype() {
                    DType::BF16 => format!(
                        "`{name}` is {found}, not {wanted}; give uint16 arrays of its bits, or \
                         bfloat16 of ml_dtypes: array.astype(ml_dtypes.bfloat16)"
                    ),
                    dtype => format!(
                        "`{name}` is {found}, not {wanted}; give array.astype(\"{}\")",
                        dtype.code()
                    ),
                });
            }
            if !given.shape().iter().map(|axis| *axis as u64).eq(array.shape().iter().copied()) {
                let (found, wanted) = (given.shape(), array.shape());
                return refuse(format!(
                    "`{name}` has shape {found:?}, not {wanted:?}; reshape it, or create \
                     parameters of that shape"
                ));
            }
        }
        Ok(())
    }

    /// Claims arrays of the caller for filling.
    fn lend(&self, out: &[Bound<'_, PyUntypedArray>]) -> Result<LentArrays, Failure> {
        self.check(out)?;
        let sized: Vec<_> =
            out.iter().cloned().zip(self.arrays.iter().map(ParamsArray::bytes)).collect();
        LentArrays::of(&sized).map_err(|(at, why)| {
            let name = self.arrays.get(at).map_or("?", ParamsArray::name);
            let why = match why {
                LendError::ReadOnly => "is read-only; give an array that can be written to",
                LendError::NotContiguous => "is not C-contiguous; give a new array",
                LendError::Size => "was resized meanwhile; give a new array",
                LendError::Overlapping => "shares memory with another one; give each its own",
                LendError::Busy => "is being filled by another call; give each thread its own",
            };
            Failure::new(ErrorClass::Schema, format!("out: `{name}` {why}"))
        })
    }

    /// Allocates an array for each name and runs `read` on their bytes. Returns the result of
    /// `read` and the arrays.
    fn fresh<'py, R: Send>(
        &self,
        py: Python<'py>,
        read: impl FnOnce(&mut CoreParams, &mut [&mut [u8]]) -> Result<R, Failure> + Send,
    ) -> Result<(R, Bound<'py, PyList>), Failure> {
        let mut made = Vec::with_capacity(self.arrays.len());
        for array in &self.arrays {
            made.push(FreshArray::allocate(py, &descr(py, array.dtype())?, &axes(array))?);
        }
        let mut out: Vec<&mut [u8]> = made.iter_mut().map(FreshArray::bytes_mut).collect();
        let done = py.detach(|| self.params.with(|params| read(params, &mut out)))?;
        let arrays = made.into_iter().map(FreshArray::into_array);
        Ok((done, PyList::new(py, arrays)?))
    }
}

/// Returns the extents of an array.
fn axes(array: &ParamsArray) -> Vec<usize> {
    array.shape().iter().map(|axis| usize::try_from(*axis).unwrap_or(usize::MAX)).collect()
}

#[exact_arguments]
#[pymethods]
impl FlatParams {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("FlatParams", "call Params.create(name, like) or Params.attach(name)"))
    }

    /// Create parameters of ``(name, dtype, shape)`` triples, or attach as ``exist`` says.
    #[staticmethod]
    #[pyo3(signature = (
        name, arrays, *, exist="error".into(), persistent=false.into(), versions_kept=1_i64.into(),
        spare_slots=2_i64.into(), reader_slots=64_i64.into(), dir=None
    ))]
    #[pyo3(text_signature = "(name, arrays, *, exist='error', persistent=False, versions_kept=1, \
                             spare_slots=2, reader_slots=64, dir=None)")]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn create(
        py: Python<'_>,
        name: Option<Argument<String>>,
        arrays: Vec<(String, Bound<'_, PyAny>, Vec<u64>)>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        versions_kept: Argument<i128>,
        spare_slots: Argument<i128>,
        reader_slots: Argument<i128>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let wanted = "the name, a str, or None for private memory";
        let name = name.map(|name| name.get("name", wanted)).transpose()?;
        let persistent = persistent_of(persistent, name.is_some(), "set of parameters")?;
        let slots = |given, what| count_in(given, what, 1..=MAX_SLOTS, ErrorClass::Argument);
        let readers = 1..=MAX_READER_SLOTS;
        let options = ParamsOptions::default()
            .exist(exist_of(exist)?)
            .persistent(persistent)
            .versions_kept(slots(versions_kept, "versions_kept")?)
            .spare_slots(slots(spare_slots, "spare_slots")?)
            .reader_slots(count_in(reader_slots, "reader_slots", readers, ErrorClass::Argument)?)
            .base(base_of(dir)?);
        let mut described = Vec::with_capacity(arrays.len());
        for (array, dtype, shape) in arrays {
            let dtype = dtype_of(&array, &dtype, "")?;
            let array = ParamsArray::new(&array, dtype, &shape);
            described.push(array.map_err(|error| Failure::of(ErrorClass::Schema, error))?);
        }
        let params = py.detach(|| match &name {
            Some(name) => CoreParams::create(name, described, options),
            None => CoreParams::heap(described, &options),
        })?;
        Ok(Self::of(params))
    }

    /// Attach to the parameters of that name.
    #[staticmethod]
    #[pyo3(signature = (name=Argument::Missing, *, dir=None))]
    #[pyo3(text_signature = "(name, *, dir=None)")]
    fn attach(
        py: Python<'_>,
        name: Argument<String>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        let (name, base) = (name_of(name)?, base_of(dir)?);
        Ok(Self::of(py.detach(|| CoreParams::attach_in(&base, &name))?))
    }

    /// Name, dtype and shape of every array, in order.
    #[getter]
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for array in &self.arrays {
            let shape = PyTuple::new(py, array.shape())?;
            list.append((array.name(), array.dtype().name(), shape))?;
        }
        Ok(list)
    }

    /// Return new arrays of zeros, one for each name.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn zeros<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>, Failure> {
        let zero = |_: &mut CoreParams, out: &mut [&mut [u8]]| {
            for bytes in out.iter_mut() {
                bytes.fill(0);
            }
            Ok(())
        };
        Ok(self.fresh(py, zero)?.1)
    }

    /// Publish C-contiguous arrays, one for each name.
    #[expect(clippy::needless_pass_by_value, reason = "an argument of the Python call")]
    #[pyo3(signature = (arrays, version=None), text_signature = "($self, arrays, version=None)")]
    fn publish(
        &self,
        py: Python<'_>,
        arrays: Vec<Bound<'_, PyUntypedArray>>,
        version: Option<Argument<i128>>,
    ) -> Result<u64, Failure> {
        let version = version
            .map(|given| whole(given, "version", "a version from 1 up", ErrorClass::Argument))
            .transpose()?;
        self.check(&arrays)?;
        let bytes: Option<Vec<&[u8]>> = arrays.iter().map(bytes_of).collect();
        let bytes = bytes.ok_or_else(|| {
            Failure::new(ErrorClass::Schema, "an array is not C-contiguous; give a copy of it")
        })?;
        py.detach(|| self.params.with(|params| Ok(params.publish_bytes(&bytes, version)?)))
    }

    /// Become the publisher, and return the newest version.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn claim(&self, py: Python<'_>) -> Result<u64, Failure> {
        py.detach(|| self.params.with(|params| Ok(params.claim()?)))
    }

    /// Return whether a version above :attr:`pulled` is published.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn is_new(&self) -> Result<bool, Failure> {
        self.params.with(|params| Ok(params.version() > params.pulled()))
    }

    /// Copy the newest version into writable arrays if :meth:`is_new`; return it, or None.
    #[expect(clippy::needless_pass_by_value, reason = "an argument of the Python call")]
    #[pyo3(signature = (out), text_signature = "($self, out)")]
    fn pull(
        &self,
        py: Python<'_>,
        out: Vec<Bound<'_, PyUntypedArray>>,
    ) -> Result<Option<u64>, Failure> {
        let mut lent = self.lend(&out)?;
        py.detach(|| self.params.with(|params| Ok(params.pull_bytes(&mut lent.buffers())?)))
    }

    /// Copy the newest version, or one that is kept, into fresh arrays.
    #[pyo3(signature = (version=None), text_signature = "($self, version=None)")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        version: Option<Argument<i128>>,
    ) -> Result<(u64, Bound<'py, PyList>), Failure> {
        let version = version_of(version)?;
        self.fresh(py, |params, out| match version {
            None => Ok(params.read_bytes(out)?),
            Some(version) => {
                params.read_version_bytes(version, out)?;
                Ok(version)
            }
        })
    }

    /// Pin the newest version, or one that is kept.
    #[pyo3(signature = (version=None), text_signature = "($self, version=None)")]
    fn view(
        &self,
        py: Python<'_>,
        version: Option<Argument<i128>>,
    ) -> Result<FlatParamsView, Failure> {
        let version = version_of(version)?;
        let view = py.detach(|| {
            self.params.with(|params| {
                Ok(match version {
                    None => params.view()?,
                    Some(version) => params.view_version(version)?,
                })
            })
        })?;
        Ok(FlatParamsView::new(self.params.label(), view))
    }

    /// Wait until ``version`` or a later one is published, and return the newest version.
    #[pyo3(signature = (version=Argument::Missing, timeout=None))]
    #[pyo3(text_signature = "($self, version, timeout=None)")]
    fn wait(
        &self,
        py: Python<'_>,
        version: Argument<i128>,
        timeout: Option<Argument<f64>>,
    ) -> Result<u64, Failure> {
        let version =
            whole(version, "version", "the version to wait for, from 0 up", ErrorClass::Argument)?;
        let timeout = timeout_of(timeout)?;
        let params = self.params.with(|params| Ok(params.another()))?;
        let interrupt = self.params.closing().interrupt();
        let params = params.interrupted_by(interrupt);
        Ok(py.detach(|| params.wait(version, timeout))?)
    }

    /// The newest version; 0 before the first one.
    #[getter]
    fn version(&self) -> Result<u64, Failure> {
        self.params.with(|params| Ok(params.version()))
    }

    /// The newest version that this handle pulled or read as newest; 0 before the first one.
    #[getter]
    fn pulled(&self) -> Result<u64, Failure> {
        self.params.with(|params| Ok(params.pulled()))
    }

    /// The versions that can be read, oldest first.
    #[getter]
    fn versions(&self) -> Result<Vec<u64>, Failure> {
        self.params.with(|params| Ok(params.versions()))
    }

    /// The name, or None.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Name in messages.
    #[getter]
    fn label(&self) -> &str {
        self.params.label()
    }

    /// Whether the handle is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.params.is_closed()
    }

    /// Whether the parameters were removed or replaced.
    #[getter]
    fn unlinked(&self, py: Python<'_>) -> Result<bool, Failure> {
        py.detach(|| self.params.with(|params| Ok(params.is_unlinked())))
    }

    /// Return properties and counters.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let stats = py.detach(|| self.params.with(|params| Ok(params.stats())))?;
        let dict = PyDict::new(py);
        dict.set_item("version", stats.version)?;
        dict.set_item("versions", stats.versions)?;
        dict.set_item("published_unix_ns", stats.published_unix_ns)?;
        dict.set_item("created_unix_ns", stats.created_unix_ns)?;
        dict.set_item("arrays", stats.arrays)?;
        dict.set_item("array_bytes", stats.array_bytes)?;
        dict.set_item("bytes", stats.bytes)?;
        dict.set_item("versions_kept", stats.versions_kept)?;
        dict.set_item("spare_slots", stats.spare_slots)?;
        dict.set_item("persistent", stats.persistent)?;
        dict.set_item("has_publisher", stats.has_publisher)?;
        dict.set_item("published", stats.counters.published)?;
        dict.set_item("refused", stats.counters.refused)?;
        dict.set_item("publishers", stats.counters.generation)?;
        dict.set_item("pulls", stats.counters.pulls)?;
        dict.set_item("retries", stats.counters.retries)?;
        dict.set_item("viewers", stats.viewers)?;
        Ok(dict)
    }

    /// Close the handle.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.params.close())
    }

    /// Remove the name.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.params.with(|params| Ok(params.unlink()?)))
    }

    fn __repr__(&self) -> String {
        let state = self.params.describe(|params| format!("version {}", params.version()));
        format!("<backcast.FlatParams: {}, {state}>", self.params.label())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let (name, path) = (self.name.as_deref(), self.path.as_deref());
        let by_name = reduce_by_name(py, "a set of parameters", "_attach_params", name, path)?;
        Ok(by_name.into_pyobject(py)?.into_any())
    }
}

/// Reads the `version` argument of a read.
fn version_of(given: Option<Argument<i128>>) -> Result<Option<u64>, Failure> {
    let wanted = "a version from 1 up, or None for the newest";
    given.map(|given| whole(given, "version", wanted, ErrorClass::Argument)).transpose()
}

/// Returns a new handle on each of the given parameters: a `Params`, a name in `base`, or a list or
/// tuple of these.
pub(crate) fn named_params(
    given: &Bound<'_, PyAny>,
    base: &Base,
) -> Result<Vec<CoreParams>, Failure> {
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let mut found = Vec::new();
        for item in given.try_iter()? {
            found.push(one_named(&item?, base)?);
        }
        return Ok(found);
    }
    Ok(vec![one_named(given, base)?])
}

fn one_named(given: &Bound<'_, PyAny>, base: &Base) -> Result<CoreParams, Failure> {
    if let Ok(name) = given.extract::<String>() {
        return Ok(given.py().detach(|| CoreParams::attach_in(base, &name))?);
    }
    let flat = given.getattr_opt("_native")?;
    match flat.as_ref().and_then(|flat| flat.cast::<FlatParams>().ok()) {
        Some(flat) => flat.get().params.with(|params| Ok(params.another())),
        None => Err(wrong_type(given, "params", "a Params or its name, or a list of these")),
    }
}

/// Attaches to the parameters of a pickled handle.
#[pyfunction]
#[pyo3(signature = (name, dir=None))]
pub(crate) fn _attach_params(
    py: Python<'_>,
    name: &str,
    dir: Option<PathBuf>,
) -> Result<FlatParams, Failure> {
    Ok(FlatParams::of(py.detach(|| CoreParams::attach_in(&base_at(dir), name))?))
}
