//! The bytes of NumPy arrays as Rust slices: the one file of the Python face with unsafe code.
#![expect(
    unsafe_code,
    reason = "NumPy gives the bytes of an array of any dtype as a raw pointer and no other way"
)]

use std::ffi::c_int;
use std::{ptr, slice};

use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::PyAny;

/// A C-contiguous array made here and not yet seen by anybody else: its bytes may be filled.
pub(crate) struct FreshArray<'py>(Bound<'py, PyUntypedArray>);

impl<'py> FreshArray<'py> {
    /// An array whose bytes are whatever the allocator left: only for callers that fill all of it.
    pub(crate) fn for_filling(
        py: Python<'py>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<Self> {
        let mut dims = Vec::with_capacity(shape.len());
        for &axis in shape {
            dims.push(npy_intp::try_from(axis)?);
        }
        let axes = c_int::try_from(dims.len())?;
        let dtype = dtype.clone().into_dtype_ptr();
        // SAFETY:
        // - `dims` holds `axes` non-negative extents and outlives the call (this function); NumPy
        //   copies them and checks their product.
        // - `dtype` is a descriptor of one of the twelve plain numeric dtypes, and the call steals
        //   the reference that `into_dtype_ptr` gave up.
        // - The interpreter is attached: `py` is its token.
        let array = unsafe {
            let made = PY_ARRAY_API.PyArray_Empty(py, axes, dims.as_mut_ptr(), dtype, 0);
            Bound::from_owned_ptr_or_err(py, made)?
        };
        Ok(Self(array.cast_into()?))
    }

    /// Every byte, in C order.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len() * self.0.dtype().itemsize();
        if len == 0 {
            return &mut [];
        }
        // SAFETY:
        // - Alone: `for_filling` made the array and only `into_array`, which consumes `self`, gives
        //   it away, so until then no Python code and no other view can reach its memory. The
        //   `&mut self` keeps a second slice from existing.
        // - In bounds: `PyArray_Empty` allocated `len` C-contiguous bytes, which live as long as
        //   the array, which `self` holds for the returned borrow.
        // - Initialised: the allocation comes from foreign code, and every byte is a valid `u8`.
        unsafe {
            let data = (*_PyArray_GET_ITEM_DATA(self.0.as_array_ptr())).data;
            slice::from_raw_parts_mut(data.cast(), len)
        }
    }

    /// Give the array to Python.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.0
    }
}

/// A read-only array over leased memory, which `hold` keeps frozen for as long as the array or a
/// view of it lives. `axes` are extents and strides in bytes.
///
/// `address` must come from [`Lease::address`](backcast_core::Lease::address) of the lease that
/// `hold` owns, and the axes must stay within its rows.
pub(crate) fn leased<'py>(
    py: Python<'py>,
    hold: &Bound<'py, PyAny>,
    address: *const u8,
    dtype: &Bound<'py, PyArrayDescr>,
    axes: &[(usize, usize)],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut dims = Vec::with_capacity(axes.len());
    let mut strides = Vec::with_capacity(axes.len());
    for &(extent, stride) in axes {
        dims.push(npy_intp::try_from(extent)?);
        strides.push(npy_intp::try_from(stride)?);
    }
    let count = c_int::try_from(axes.len())?;
    // SAFETY:
    // - `dims` and `strides` hold `count` elements and outlive the call; NumPy copies them.
    // - The descriptor is of a plain numeric dtype, and the call steals the reference given up.
    // - The memory: `axes` cover rows that the lease of `hold` freezes (the caller: `lease.rs`
    //   computes them from the lease's own length and widths). They stay mapped and unwritten while
    //   `hold` lives; it becomes the base object, whose reference the second call steals, so it
    //   lives as long as the array, and NumPy gives views of the array the same base.
    // - Read-only: no flag allows writing, NumPy refuses to set it on memory whose base object is
    //   not a writable buffer, and the pages of a shared ring are mapped for reading only.
    // - The interpreter is attached: `py` is its token.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            count,
            dims.as_mut_ptr(),
            strides.as_mut_ptr(),
            address.cast_mut().cast(),
            0,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?.cast_into::<PyUntypedArray>()?;
        let base = hold.clone().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), base) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Every byte of an array in C order, or `None` where they do not lie in one contiguous piece.
///
/// The caller's Python threads can write to the array while Rust reads it, as they can under any
/// NumPy operation that releases the interpreter lock: the bytes read are then a mixture.
pub(crate) fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Option<&'a [u8]> {
    let dtype = array.dtype();
    if !array.is_c_contiguous() || dtype.has_object() {
        return None;
    }
    let len = array.len() * dtype.itemsize();
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY:
    // - In bounds: the array is C-contiguous (checked above), so its `len` bytes follow one another
    //   from `data`; they live as long as the array, which the caller's `Bound` holds for `'a`.
    //   NumPy does not resize an array that somebody else refers to, unless told to ignore that
    //   (`resize(refcheck=False)`), which is the Python caller's to answer for.
    // - Plain bytes: no Python objects among them (checked above), and any byte is a valid `u8`.
    // - Not written meanwhile: no Rust code writes to an array that it was lent (this module has no
    //   other way to a mutable slice than `FreshArray`); Python code that writes to it while a call
    //   that it is an argument of runs breaks its own data (documented at `Writer.append`), and the
    //   slice is only ever copied from, never interpreted.
    Some(unsafe {
        let data = (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data;
        slice::from_raw_parts(data.cast_const().cast(), len)
    })
}
