//! Methods in the interpreter's fastest calling convention: values in an array, and keyword names
//! in a tuple. The tuple is the same object for every call from one place in Python code.
//!
//! `PyO3` builds a dict for a method that takes any keyword. That takes longer than an append.
#![expect(unsafe_code, reason = "the convention hands over raw pointers, which are wrapped here")]

use std::ffi::CString;
use std::panic::{self, AssertUnwindSafe};
use std::{ptr, slice};

use pyo3::PyTypeInfo;
use pyo3::exceptions::PySystemError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{Borrowed, PyClass, ffi};

/// Arguments of one call, borrowed for its duration.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a, 'py> {
    py: Python<'py>,
    /// Values of the arguments, the positional ones first.
    values: &'a [Borrowed<'a, 'py, PyAny>],
    names: Option<Borrowed<'a, 'py, PyTuple>>,
}

impl<'a, 'py> Call<'a, 'py> {
    pub(crate) fn py(self) -> Python<'py> {
        self.py
    }

    /// Returns the keywords and their values, if there are keywords and no positional arguments.
    #[inline]
    pub(crate) fn keywords(
        self,
    ) -> Option<(Borrowed<'a, 'py, PyTuple>, &'a [Borrowed<'a, 'py, PyAny>])> {
        let names = self.names?;
        (names.len() == self.values.len()).then_some((names, self.values))
    }

    /// Returns the arguments as `*args` and `**kwargs`.
    pub(crate) fn unpack(self) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let keywords = self.names.map_or(0, |names| names.len());
        let (positional, values) = self.values.split_at(self.values.len().saturating_sub(keywords));
        let dict = PyDict::new(self.py);
        if let Some(names) = self.names {
            for (name, value) in names.iter_borrowed().zip(values) {
                dict.set_item(name, value)?;
            }
        }
        Ok((PyTuple::new(self.py, positional)?, dict))
    }
}

/// Method in this calling convention.
pub(crate) trait FastMethod {
    type Class: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync;
    const NAME: &'static str;

    fn call<'py>(class: &Self::Class, call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>>;
}

/// Replaces a method that `PyO3` made by a faster one, with the same documentation and signature.
pub(crate) fn install<M: FastMethod>(py: Python<'_>) -> PyResult<()> {
    let class = M::Class::type_object(py);
    let before = class.getattr(M::NAME)?;
    let signature: String = before.getattr("__text_signature__")?.extract()?;
    let doc: String = before.getattr("__doc__")?.extract()?;
    let doc = CString::new(format!("{}{signature}\n--\n\n{doc}", M::NAME))?;
    let definition = ffi::PyMethodDef {
        ml_name: CString::new(M::NAME)?.into_raw().cast_const(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampoline::<M> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.into_raw().cast_const(),
    };
    // The definition is leaked, because the class refers to it until the process ends.
    let definition = Box::leak(Box::new(definition));
    // SAFETY: `class` is a type object, and the definition lives for ever and names a function of
    // the convention that its flags say. The call returns a new reference or an error.
    let method = unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyDescr_NewMethod(class.as_type_ptr(), ptr::from_mut(definition)),
        )?
    };
    class.setattr(M::NAME, method)
}

/// Entry point that the interpreter calls.
unsafe extern "C" fn trampoline<M: FastMethod>(
    object: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY:
    // - The interpreter calls us attached, with `object` of the class that the descriptor was made
    //   for (it checks), `names` null or a tuple, and as many values as `positional` and the names
    //   together; all are alive until we return.
    // - `Borrowed` is a transparent wrapper of a non-null pointer, and no value is null.
    let (py, object, call) = unsafe {
        let py = Python::assume_attached();
        let object = Borrowed::from_ptr(py, object);
        let names = Borrowed::from_ptr_or_opt(py, names).map(|names| names.cast_unchecked());
        let keywords = names.map_or(0, |names: Borrowed<'_, '_, PyTuple>| names.len());
        let count = usize::try_from(positional).unwrap_or(0) + keywords;
        let values = if count == 0 { &[] } else { slice::from_raw_parts(values.cast(), count) };
        (py, object, Call { py, values, names })
    };
    // A panic must not unwind into C.
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        M::call(object.cast::<M::Class>().map_err(PyErr::from)?.get(), call)
    }));
    let result = result.unwrap_or_else(|_| {
        Err(PySystemError::new_err(format!("{} panicked; this is a defect of backcast", M::NAME)))
    });
    match result {
        Ok(value) => value.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}
