//! Bytes of NumPy arrays as Rust slices, and arrays over Rust's memory.
#![expect(
    unsafe_code,
    reason = "NumPy gives the bytes of an array of any dtype as a raw pointer and no other way"
)]

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ptr, slice};

use backcast_core::{ArenaBlock, BatchBuffers};
use numpy::npyffi::{
    _PyArray_GET_ITEM_DATA, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_OWNDATA, NPY_ARRAY_WRITEABLE,
    NpyTypes, PY_ARRAY_API, get_type_object, npy_intp,
};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::array::pool::{MAX_ARRAYS, PerArray, per_array};
use crate::error::{ErrorClass, Failure};
use crate::handle::forks;

/// Maximum axes of a shape that needs no allocation.
const FEW_AXES: usize = 8;

/// Flags of a writable, C-contiguous array that owns its memory.
const AS_MADE: c_int = NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS;

/// C-contiguous array that no other code has a reference to, so that its bytes may be written.
pub(crate) struct FreshArray<'py>(Bound<'py, PyUntypedArray>);

impl<'py> FreshArray<'py> {
    /// Allocates an array with arbitrary contents. The caller must write all of it.
    pub(crate) fn allocate(
        py: Python<'py>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<Self> {
        // An observation has many small arrays, so short shapes are kept on the stack.
        let (mut few, mut many) = ([0; FEW_AXES], Vec::new());
        let dims = if shape.len() > FEW_AXES {
            many.resize(shape.len(), 0);
            &mut many[..]
        } else {
            &mut few[..shape.len()]
        };
        for (dim, axis) in dims.iter_mut().zip(shape) {
            *dim = npy_intp::try_from(*axis)?;
        }
        let axes = c_int::try_from(dims.len())?;
        let dtype = dtype.clone().into_dtype_ptr();
        // SAFETY:
        // - `dims` holds `axes` non-negative extents and outlives the call (this function); NumPy
        //   copies them, checks their product, and allocates, as it is given no memory.
        // - `dtype` is a descriptor of a plain numeric dtype, and the call steals
        //   the reference that `into_dtype_ptr` gave up.
        // - The interpreter is attached: `py` is its token.
        let array = unsafe {
            let made = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                get_type_object(py, NpyTypes::PyArray_Type),
                dtype,
                axes,
                dims.as_mut_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
                ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, made)?
        };
        Ok(Self(array.cast_into()?))
    }

    /// Returns the array for reuse. Returns `None` if anything but the caller refers to it, even
    /// weakly, or if its memory, dtype, shape or flags have changed.
    #[inline]
    pub(crate) fn again(
        array: &Bound<'py, PyUntypedArray>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> Option<Self> {
        // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
        let (references, flags, as_made) = unsafe {
            let fields = &*_PyArray_GET_ITEM_DATA(array.as_array_ptr());
            let as_made = fields.descr.cast() == dtype.as_ptr()
                && fields.base.is_null()
                && fields.weakreflist.is_null();
            (pyo3::ffi::Py_REFCNT(array.as_ptr()), fields.flags, as_made)
        };
        // Compares in a loop, since there are few axes.
        let same = array.shape().iter().eq(shape);
        let as_made = as_made && flags & AS_MADE == AS_MADE && same;
        (references == 1 && as_made).then(|| Self(array.clone()))
    }

    /// Returns every byte, in C order.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len() * self.0.dtype().itemsize();
        // SAFETY:
        // - Alone: `allocate` made the array, or `again` found that only its caller refers to it
        //   (a view would be another reference). Only `into_array`, which consumes `self`, gives
        //   the array away. Until then no Python code and no view can reach its memory. The
        //   `&mut self` keeps a second slice from existing.
        // - In bounds: NumPy allocated `len` C-contiguous bytes, or one where that is 0, which live
        //   as long as the array, which `self` holds for the returned borrow.
        // - Initialised: the allocation comes from foreign code, and every byte is a valid `u8`.
        unsafe {
            let data = (*_PyArray_GET_ITEM_DATA(self.0.as_array_ptr())).data;
            slice::from_raw_parts_mut(data.cast(), len)
        }
    }

    /// Hands the array to Python.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.0
    }
}

/// Arrays that Python holds and that every call of their owner fills, one call at a time.
///
/// Python code that passes one of them as `out=` to another call meanwhile corrupts its own data.
pub(crate) struct ReusedArrays {
    /// Arrays with their sizes in bytes.
    arrays: Vec<(Py<PyUntypedArray>, usize)>,
    busy: AtomicBool,
}

/// Guard of the call that fills the arrays.
pub(crate) struct FillGuard<'a> {
    busy: &'a AtomicBool,
    places: PerArray<(*mut u8, usize)>,
}

impl ReusedArrays {
    /// Takes over the arrays that calls will fill.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_ARRAYS`].
    pub(crate) fn new<'py>(arrays: impl IntoIterator<Item = FreshArray<'py>>) -> Self {
        let counted = |mut array: FreshArray<'py>| {
            let bytes = array.bytes_mut().len();
            (array.into_array().unbind(), bytes)
        };
        let arrays: Vec<_> = arrays.into_iter().map(counted).collect();
        assert!(arrays.len() <= MAX_ARRAYS, "{} arrays", arrays.len());
        Self { arrays, busy: AtomicBool::new(false) }
    }

    pub(crate) fn arrays<'py>(&self, py: Python<'py>) -> PerArray<Bound<'py, PyUntypedArray>> {
        per_array(self.arrays.iter().map(|(array, _)| array.bind(py).clone()))
    }

    /// Claims the arrays for filling. Fails if another call fills them, or if they were made
    /// read-only or resized. Errors call them `what`.
    pub(crate) fn fill(&self, py: Python<'_>, what: &str) -> Result<FillGuard<'_>, Failure> {
        self.try_fill(py).map_err(|why| reuse_failure(what, why))
    }

    fn try_fill(&self, py: Python<'_>) -> Result<FillGuard<'_>, LendError> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(LendError::Busy);
        }
        let mut filling = FillGuard { busy: &self.busy, places: PerArray::default() };
        for (place, (array, bytes)) in filling.places.iter_mut().zip(&self.arrays) {
            let array = array.bind(py);
            // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
            let (flags, data) = unsafe {
                let fields = &*_PyArray_GET_ITEM_DATA(array.as_array_ptr());
                (fields.flags, fields.data)
            };
            if flags & NPY_ARRAY_WRITEABLE == 0 {
                return Err(LendError::ReadOnly);
            }
            if flags & AS_MADE != AS_MADE {
                return Err(LendError::NotContiguous);
            }
            if array.len() * array.dtype().itemsize() != *bytes {
                return Err(LendError::Size);
            }
            *place = Some((data.cast(), *bytes));
        }
        Ok(filling)
    }
}

impl FillGuard<'_> {
    pub(crate) fn buffers(&mut self) -> PerArray<&mut [u8]> {
        let slice = |(place, bytes)| {
            // SAFETY:
            // - In bounds, alive: `ReusedArrays::try_fill` checked that the array has `bytes`
            //   contiguous bytes of its own. The `ReusedArrays`, which `busy` borrows, keeps the
            //   array. NumPy does not resize an array with other references, unless `refcheck` is
            //   off, which is the Python caller's responsibility.
            // - Alone: `FreshArray` made each of the arrays with memory of its own, `busy` keeps
            //   every other call from filling them, and `self` is borrowed for the slices.
            // - Every byte is a valid `u8`, whatever wrote it.
            unsafe { slice::from_raw_parts_mut(place, bytes) }
        };
        self.places.map(|place| place.map(slice))
    }
}

impl Drop for FillGuard<'_> {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Returns the error of arrays of `copy=False` that cannot be filled.
pub(crate) fn reuse_failure(what: &str, why: LendError) -> Failure {
    let why = match why {
        LendError::ReadOnly => "read-only now; leave its arrays writable",
        LendError::Busy => {
            "being written to by another thread; let one thread at a time use the environment"
        }
        LendError::NotContiguous | LendError::Size | LendError::Overlapping => {
            "of another size or layout now; leave its arrays as they were made"
        }
    };
    let otherwise = "or ask for fresh ones with copy=True";
    Failure::new(ErrorClass::Env, format!("the reused {what} is {why}, {otherwise}"))
}

/// Returns a read-only array over memory that `hold` keeps while the array or a view of it lives.
/// `axes` are extents, and strides in bytes.
///
/// The memory that the axes reach from `address` must belong to `hold`. It is one of these: rows of
/// its lease from [`Lease::address`](backcast_core::Lease::address) on, blocks of its
/// [`MirroredBlocks`](backcast_core::plumbing::MirroredBlocks), or an array of its pinned version
/// of parameters.
pub(crate) fn read_only_view<'py>(
    hold: &Bound<'py, PyAny>,
    address: *const u8,
    dtype: &Bound<'py, PyArrayDescr>,
    axes: &[(usize, usize)],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = hold.py();
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
    // - The memory: `axes` cover what is mapped while `hold` lives. `lease` computes them from the
    //   lease's own length and widths, `portfolio/history.rs` from what its arena was made for, and
    //   `params/view.rs` from the shapes of the arrays. `hold` becomes the base object, and the
    //   second call steals the reference to it. So `hold` lives as long as the array, and NumPy
    //   gives views of the array the same base.
    // - Written meanwhile: leased rows and pinned versions are never overwritten. An arena is
    //   written by its environment's next call, as are all arrays that are filled again. Rust code
    //   then reads the array's bytes only in a call that has the array as an argument.
    // - Read-only: no flag allows writing, and NumPy refuses to set it on memory whose base object
    //   is not a writable buffer. Besides, the pages of a shared ring are mapped for reading only.
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

/// Returns a writable array over a row of a window. `memory` keeps it mapped while the array or a
/// view of it lives.
///
/// `address` must come from [`Reserved::place`](backcast_core::Reserved::place) for the window that
/// `memory` owns and for a column of that dtype and shape.
pub(crate) fn row_view<'py>(
    memory: &Bound<'py, PyAny>,
    address: usize,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = memory.py();
    let (mut dims, axes) = npy_dims(shape)?;
    // SAFETY:
    // - `dims` holds `axes` extents and outlives the call, which copies them; the descriptor is of
    //   a plain numeric dtype, and the call steals the reference given up.
    // - The memory: a row of the column, by the caller, of as many bytes as dtype and shape say. It
    //   stays mapped while `memory` lives. `memory` becomes the base object, and the second call
    //   steals the reference to it. So `memory` lives as long as the array and all views of it.
    // - Written by NumPy: the row is announced and not published. Before the row is published, its
    //   window is detached, unless no reference to the array is left (`writer/reserved_row`). No
    //   Rust reference to the row exists.
    // - Aligned: columns begin on multiples of 8, and an element's size divides a row's.
    // - The interpreter is attached: `py` is its token.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            axes,
            dims.as_mut_ptr(),
            ptr::null_mut(),
            ptr::with_exposed_provenance_mut(address),
            NPY_ARRAY_WRITEABLE,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?.cast_into::<PyUntypedArray>()?;
        let base = memory.clone().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), base) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Returns a view with an axis and the next one swapped, as the method `swapaxes` does.
pub(crate) fn swap_axes<'py>(
    array: &Bound<'py, PyUntypedArray>,
    axis: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, first) = (array.py(), c_int::try_from(axis)?);
    // SAFETY: the array is alive and the interpreter attached: `array` is bound to it. NumPy checks
    // the axes, and gives a new reference or sets an error.
    unsafe {
        let view = PY_ARRAY_API.PyArray_SwapAxes(py, array.as_array_ptr(), first, first + 1);
        Ok(Bound::from_owned_ptr_or_err(py, view)?.cast_into::<PyUntypedArray>()?)
    }
}

/// Returns whether the caller has the only reference to an array. A view of the array is a
/// reference too.
pub(crate) fn is_unshared(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
    unsafe { pyo3::ffi::Py_REFCNT(array.as_ptr()) == 1 }
}

fn npy_dims(shape: &[usize]) -> PyResult<(Vec<npy_intp>, c_int)> {
    let dims: Result<Vec<_>, _> = shape.iter().map(|axis| npy_intp::try_from(*axis)).collect();
    let dims = dims?;
    let axes = c_int::try_from(dims.len())?;
    Ok((dims, axes))
}

/// Owner of the memory of a batch's array. NumPy keeps it as the array's base, so that the memory
/// returns to its sampler when the last array over it is dropped.
#[pyclass(module = "backcast._native", name = "BlockOwner", frozen)]
struct BlockOwner {
    #[expect(dead_code, reason = "held for its drop; the array has the address")]
    block: ArenaBlock,
}

/// Returns a writable array over a block. The array and its views keep the block alive.
pub(crate) fn array_over<'py>(
    py: Python<'py>,
    mut block: ArenaBlock,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (mut dims, axes) = npy_dims(shape)?;
    let required = shape.iter().try_fold(dtype.itemsize(), |bytes, axis| bytes.checked_mul(*axis));
    assert_eq!(required, Some(block.bytes().len()), "the block is one arena of that shape");
    let data = block.bytes_mut().as_mut_ptr();
    let owner = Py::new(py, BlockOwner { block })?.into_any();
    let dtype = dtype.clone().into_dtype_ptr();
    // SAFETY:
    // - `dims` holds `axes` non-negative extents and outlives the call, which copies them; `dtype`
    //   is a descriptor of a plain numeric dtype, and the call steals the reference.
    // - In bounds and initialised: the block has as many bytes as dtype and shape say (checked
    //   above), all of them written when it was made, and begins on a cache line.
    // - Alive: the block's bytes lie on the heap, so that moving it into `owner` left them where
    //   they are; `owner` is the array's base, and NumPy drops a base after its array. No Rust code
    //   touches them through `owner`, whose field is never read.
    // - The interpreter is attached: `py` is its token.
    unsafe {
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            dtype,
            axes,
            dims.as_mut_ptr(),
            ptr::null_mut(),
            data.cast(),
            NPY_ARRAY_WRITEABLE,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        // Steals the reference to `owner` even if it fails.
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array.cast_into_unchecked())
    }
}

/// Reason why an array cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LendError {
    ReadOnly,
    NotContiguous,
    Size,
    /// The array shares memory with another array of the same call.
    Overlapping,
    /// A call of another thread or an iterator is filling it.
    Busy,
}

/// Returns the error of an array of a batch that cannot be filled.
pub(crate) fn lend_failure(key: &str, why: LendError) -> Failure {
    let message = match why {
        LendError::ReadOnly => "is read-only; give an array that can be written to",
        LendError::NotContiguous => {
            "is not C-contiguous; give np.ascontiguousarray of it, or a new array"
        }
        LendError::Size => "was reshaped or resized since it was drawn; draw a new batch",
        LendError::Overlapping => "shares memory with another of its arrays; give each key its own",
        LendError::Busy => {
            "is being filled by another call or by an iterator of reused batches; \
             give every thread a batch of its own"
        }
    };
    Failure::new(ErrorClass::Sample, format!("out[{key:?}] {message}"))
}

/// Address ranges that are being filled, with the number of forks at which they were noted.
///
/// Threads lock it only while they are attached to the interpreter, so that a fork never copies it
/// in the locked state.
static FILLED: Mutex<(u64, Vec<Range<usize>>)> = Mutex::new((0, Vec::new()));

fn filled() -> MutexGuard<'static, (u64, Vec<Range<usize>>)> {
    let mut filled = FILLED.lock().unwrap_or_else(PoisonError::into_inner);
    if filled.0 != forks() {
        // The ranges belong to threads of the parent.
        *filled = (forks(), Vec::new());
    }
    filled
}

/// Arrays visible to Python that one call, or an iterator's thread, fills exclusively.
///
/// Python code that reads them meanwhile reads a mixture of old and new, as with every NumPy
/// operation that releases the interpreter lock (documented where `out` and `reuse` are).
pub(crate) struct LentArrays {
    #[expect(dead_code, reason = "held for their memory")]
    arrays: Vec<Py<PyUntypedArray>>,
    places: Vec<(*mut u8, usize)>,
    /// Number of the batch in an iterator.
    pub(crate) number: usize,
}

// SAFETY: the pointers are to the arrays' own bytes, which the arrays keep alive wherever this
// goes, and which no other call fills, as `LentArrays::of` has checked.
unsafe impl Send for LentArrays {}

impl LentArrays {
    /// Claims arrays for filling, each with its size in bytes. Fails with the position of an array
    /// that cannot be filled, and the reason.
    pub(crate) fn of(
        arrays: &[(Bound<'_, PyUntypedArray>, usize)],
    ) -> Result<Self, (usize, LendError)> {
        let mut kept = Vec::with_capacity(arrays.len());
        let mut places = Vec::with_capacity(arrays.len());
        for (at, (array, bytes)) in arrays.iter().enumerate() {
            let refuse = |why| Err((at, why));
            if !array.is_c_contiguous() || array.dtype().has_object() {
                return refuse(LendError::NotContiguous);
            }
            if array.len() * array.dtype().itemsize() != *bytes {
                return refuse(LendError::Size);
            }
            // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
            let (flags, data) = unsafe {
                let fields = _PyArray_GET_ITEM_DATA(array.as_array_ptr());
                ((*fields).flags, (*fields).data)
            };
            if flags & NPY_ARRAY_WRITEABLE == 0 {
                return refuse(LendError::ReadOnly);
            }
            let place = data.cast::<u8>();
            let overlaps = |(other, len): &(*mut u8, usize)| {
                other.addr() < place.addr() + bytes && place.addr() < other.addr() + len
            };
            if places.iter().any(overlaps) {
                return refuse(LendError::Overlapping);
            }
            kept.push(array.clone().unbind());
            places.push((place, *bytes));
        }
        let mut filled = filled();
        let busy = places.iter().map(range).position(|mine| {
            filled.1.iter().any(|range| range.start < mine.end && mine.start < range.end)
        });
        if let Some(at) = busy {
            return Err((at, LendError::Busy));
        }
        filled.1.extend(places.iter().map(range));
        Ok(Self { arrays: kept, places, number: 0 })
    }
}

impl BatchBuffers for LentArrays {
    fn buffers(&mut self) -> Vec<&mut [u8]> {
        let slice = |(place, bytes): &(*mut u8, usize)| {
            // SAFETY:
            // - Valid: `of` checked that the array is contiguous and has `bytes` bytes; `arrays`
            //   keeps it. NumPy resizes an array with other references only with `refcheck=False`,
            //   which callers must not use.
            // - Exclusive: `of` checked by `FILLED` that no other `LentArrays` has any of these
            //   bytes. `self` is borrowed for the slices, which do not overlap. Rust reads arrays
            //   only through `bytes_of`, within calls that have the array as an argument.
            // - Every byte is a valid `u8`.
            unsafe { slice::from_raw_parts_mut(*place, *bytes) }
        };
        self.places.iter().map(slice).collect()
    }
}

impl Drop for LentArrays {
    fn drop(&mut self) {
        let mut filled = filled();
        for mine in self.places.iter().map(range) {
            if let Some(at) = filled.1.iter().position(|range| *range == mine) {
                filled.1.swap_remove(at);
            }
        }
    }
}

fn range((place, bytes): &(*mut u8, usize)) -> Range<usize> {
    place.addr()..place.addr() + bytes
}

/// Returns every byte of an array in C order, or `None` if they are not contiguous or the array
/// holds Python objects.
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
    //   NumPy does not resize an array with other references, unless `refcheck` is off
    //   (`resize(refcheck=False)`), which is the Python caller's responsibility.
    // - Plain bytes: no Python objects among them (checked above), and any byte is a valid `u8`.
    // - Not written meanwhile: no Rust code writes to an array that it was lent for reading; Python
    //   code that writes to it while a call that it is an argument of runs, itself or by having
    //   `out=` fill it in another thread, breaks its own data (documented at `Writer.append`), and
    //   the slice is only ever copied from, never interpreted.
    Some(unsafe {
        let data = (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data;
        slice::from_raw_parts(data.cast_const().cast(), len)
    })
}
