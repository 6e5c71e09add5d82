//! Arrays and scalars of NumPy's plain dtypes that an append can copy as they are. They are
//! recognised by comparing pointers.
#![expect(unsafe_code, reason = "the fields of NumPy's objects are read where its headers say")]

use std::{ptr, slice};

use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NPY_ARRAY_C_CONTIGUOUS, PY_ARRAY_API};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{PyTypeInfo, ffi};

/// Plain numeric dtype whose arrays and scalars are recognised by their pointers.
#[derive(Debug)]
pub(crate) struct PlainDtype {
    descr: Py<PyArrayDescr>,
    /// Class of the dtype's scalars.
    scalar: Py<PyType>,
    ndarray: Py<PyType>,
    itemsize: usize,
    /// Whether a scalar's value directly follows the object's header.
    direct: bool,
}

impl PlainDtype {
    /// Returns the dtype of `descr`, which must be a plain numeric one.
    pub(crate) fn new(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        let py = descr.py();
        let scalar = descr.typeobj();
        let one = scalar.call1((1,))?;
        let mut dtype = Self {
            descr: descr.clone().unbind(),
            scalar: scalar.unbind(),
            ndarray: PyUntypedArray::type_object(py).unbind(),
            itemsize: descr.itemsize(),
            direct: false,
        };
        let (mut asked, mut looked) = ([0; 8], [0; 8]);
        dtype.read_scalar(&one, &mut asked);
        dtype.direct = true;
        dtype.read_scalar(&one, &mut looked);
        dtype.direct = asked == looked;
        Ok(dtype)
    }

    /// Returns the bytes of a C-contiguous `ndarray` (no subclass) of this dtype whose shape
    /// `fits`. See [`bytes_of`](crate::array::view::bytes_of) for who may write to it.
    #[inline]
    pub(crate) fn array_bytes<'a>(
        &self,
        value: &'a Bound<'_, PyAny>,
        fits: impl FnOnce(&[usize]) -> bool,
    ) -> Option<&'a [u8]> {
        if value.get_type_ptr().cast() != self.ndarray.as_ptr() {
            return None;
        }
        // SAFETY:
        // - The object is an `ndarray`, whose fields NumPy's headers promise; `dimensions` points
        //   at `nd` extents, none negative, or at anything when `nd` is 0.
        // - The bytes: as in `bytes_of`, with the dtype compared by its pointer.
        unsafe {
            let fields = &*_PyArray_GET_ITEM_DATA(value.as_ptr().cast());
            let plain = fields.descr.cast() == self.descr.as_ptr()
                && fields.flags & NPY_ARRAY_C_CONTIGUOUS != 0;
            let axes = usize::try_from(fields.nd).ok()?;
            let shape: &[usize] = match axes {
                0 => &[],
                axes => slice::from_raw_parts(fields.dimensions.cast(), axes),
            };
            if !plain || !fits(shape) {
                return None;
            }
            let len = shape.iter().product::<usize>() * self.itemsize;
            if len == 0 {
                return Some(&[]);
            }
            Some(slice::from_raw_parts(fields.data.cast_const().cast(), len))
        }
    }

    /// Stores the bytes of a value that is a scalar of this dtype. Returns false for another value.
    #[inline]
    pub(crate) fn scalar_bytes(&self, value: &Bound<'_, PyAny>, out: &mut [u8; 8]) -> bool {
        let is_one = value.get_type_ptr().cast() == self.scalar.as_ptr();
        if is_one {
            self.read_scalar(value, out);
        }
        is_one
    }

    /// Reads a scalar, which must be of this dtype.
    #[inline]
    fn read_scalar(&self, value: &Bound<'_, PyAny>, out: &mut [u8; 8]) {
        let mut number = 0_u64;
        let place = ptr::from_mut(&mut number);
        // SAFETY:
        // - A scalar of at most eight bytes: `new` was told so, and the class was compared.
        // - If `direct`: the value follows the object's header, as NumPy's public headers say;
        //   `new` compares such a read with NumPy's own. Headers are multiples of eight bytes, so
        //   no padding comes between.
        // - Otherwise: NumPy stores the value at `place`, which is aligned for any of the dtypes.
        // - Attached: `value` is bound to the interpreter.
        unsafe {
            if self.direct {
                let header = size_of::<ffi::PyObject>();
                let from = value.as_ptr().cast::<u8>().add(header);
                match self.itemsize {
                    4 => ptr::copy_nonoverlapping(from, place.cast(), 4),
                    8 => ptr::copy_nonoverlapping(from, place.cast(), 8),
                    // Calls `memcpy`, which is slower than the cases above.
                    few => ptr::copy_nonoverlapping(from, place.cast(), few),
                }
            } else {
                PY_ARRAY_API.PyArray_ScalarAsCtype(value.py(), value.as_ptr(), place.cast());
            }
        }
        *out = number.to_ne_bytes();
    }
}
