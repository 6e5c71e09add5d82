//! The bytes of NumPy arrays as Rust slices.
#![expect(
    unsafe_code,
    reason = "NumPy gives the bytes of an array of any dtype as a raw pointer and no other way"
)]

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ptr, slice};

use backcast_core::{Block, Memory};
use numpy::npyffi::{
    _PyArray_GET_ITEM_DATA, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_OWNDATA, NPY_ARRAY_WRITEABLE,
    NpyTypes, PY_ARRAY_API, get_type_object, npy_intp,
};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::error::{Failure, Kind};
use crate::handle::forks;
use crate::spares::{Few, MOST, few};

/// Axes that nearly all arrays have at most.
const FEW_AXES: usize = 8;

/// Flags of an array of its own memory, in C order and writable.
const AS_MADE: c_int = NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS;

/// A C-contiguous array made here and not yet seen by anybody else: its bytes may be filled.
pub(crate) struct FreshArray<'py>(Bound<'py, PyUntypedArray>);

impl<'py> FreshArray<'py> {
    /// An array whose bytes are whatever the allocator left: only for callers that fill all of it.
    pub(crate) fn for_filling(
        py: Python<'py>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<Self> {
        // Observations are made of many small arrays: what has few axes needs no memory for them.
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
        // - `dtype` is a descriptor of one of the twelve plain numeric dtypes, and the call steals
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

    /// An array made here before, for filling once more: if nobody but its caller refers to it, weakly
    /// neither, and if whoever had it left its memory, dtype, shape and flags as they were.
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
        // One by one: they are few, and were written just now.
        let same = array.shape().iter().eq(shape);
        let as_made = as_made && flags & AS_MADE == AS_MADE && same;
        (references == 1 && as_made).then(|| Self(array.clone()))
    }

    /// Every byte, in C order.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len() * self.0.dtype().itemsize();
        // SAFETY:
        // - Alone: `for_filling` made the array, or `again` found the only other reference to it in its
        //   caller's hands (views would hold one more), and only `into_array`, which consumes `self`, gives it away, so
        //   until then no Python code and no other view can reach its memory. The
        //   `&mut self` keeps a second slice from existing.
        // - In bounds: NumPy allocated `len` C-contiguous bytes, or one where that is 0, which live as long as
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

/// Arrays that Python has, and that the calls of their owner fill again and again: one call at a time.
///
/// Python code that gives one of them to a call of something else as `out=` meanwhile breaks its own data.
pub(crate) struct Reused {
    /// With the bytes of each.
    arrays: Vec<(Py<PyUntypedArray>, usize)>,
    busy: AtomicBool,
}

/// A call's turn to fill them.
pub(crate) struct Filling<'a> {
    busy: &'a AtomicBool,
    places: Few<(*mut u8, usize)>,
}

impl Reused {
    /// # Panics
    ///
    /// If they are more than a call has arrays.
    pub(crate) fn new<'py>(arrays: impl IntoIterator<Item = FreshArray<'py>>) -> Self {
        let counted = |mut array: FreshArray<'py>| {
            let bytes = array.bytes_mut().len();
            (array.into_array().unbind(), bytes)
        };
        let arrays: Vec<_> = arrays.into_iter().map(counted).collect();
        assert!(arrays.len() <= MOST, "{} arrays", arrays.len());
        Self { arrays, busy: AtomicBool::new(false) }
    }

    pub(crate) fn arrays<'py>(&self, py: Python<'py>) -> Few<Bound<'py, PyUntypedArray>> {
        few(self.arrays.iter().map(|(array, _)| array.bind(py).clone()))
    }

    /// Begin to fill them, if no other call does, and if whoever has them left them as long as they were and
    /// writable. `what`: what errors call them.
    pub(crate) fn fill(&self, py: Python<'_>, what: &str) -> Result<Filling<'_>, Failure> {
        self.try_fill(py).map_err(|why| not_reused(what, why))
    }

    fn try_fill(&self, py: Python<'_>) -> Result<Filling<'_>, NotLent> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(NotLent::Busy);
        }
        let mut filling = Filling { busy: &self.busy, places: Few::default() };
        for (place, (array, bytes)) in filling.places.iter_mut().zip(&self.arrays) {
            let array = array.bind(py);
            // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
            let (flags, data) = unsafe {
                let fields = &*_PyArray_GET_ITEM_DATA(array.as_array_ptr());
                (fields.flags, fields.data)
            };
            if flags & NPY_ARRAY_WRITEABLE == 0 {
                return Err(NotLent::ReadOnly);
            }
            if flags & AS_MADE != AS_MADE {
                return Err(NotLent::Scattered);
            }
            if array.len() * array.dtype().itemsize() != *bytes {
                return Err(NotLent::Size);
            }
            *place = Some((data.cast(), *bytes));
        }
        Ok(filling)
    }
}

impl Filling<'_> {
    pub(crate) fn buffers(&mut self) -> Few<&mut [u8]> {
        let slice = |(place, bytes)| {
            // SAFETY:
            // - In bounds, alive: `Reused::try_fill` checked that the array has so many bytes of its own in one piece, and
            //   its `Reused`, which `busy` borrows, keeps it; NumPy does not resize an array that somebody refers to,
            //   unless told to ignore that, which is the Python caller's to answer for.
            // - Alone: `FreshArray` made each of the arrays with memory of its own, `busy` keeps every other call from
            //   filling them, and this is borrowed for the slices.
            // - Every byte is a valid `u8`, whoever wrote it.
            unsafe { slice::from_raw_parts_mut(place, bytes) }
        };
        self.places.map(|place| place.map(slice))
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Why the arrays of `copy=False` cannot be filled.
pub(crate) fn not_reused(what: &str, why: NotLent) -> Failure {
    let why = match why {
        NotLent::ReadOnly => "read-only now; leave its arrays writable",
        NotLent::Busy => {
            "being written to by another thread; let one thread at a time use the environment"
        }
        NotLent::Scattered | NotLent::Size | NotLent::Doubled => {
            "of another size or layout now; leave its arrays as they were made"
        }
    };
    let otherwise = "or ask for fresh ones with copy=True";
    Failure::new(Kind::Env, format!("the reused {what} is {why}, {otherwise}"))
}

/// A read-only array over memory that `hold` keeps for as long as the array or a view of it lives. `axes` are extents
/// and strides in bytes.
///
/// The memory that the axes reach from `address` must be `hold`'s: rows of its lease, of which
/// [`Lease::address`](backcast_core::Lease::address) told the first, or as many blocks as there are of its
/// [`Looped`](backcast_core::Looped).
pub(crate) fn read_only<'py>(
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
    // - The memory: `axes` cover what is mapped while `hold` lives (the callers: `lease.rs` computes them from the lease's
    //   own length and widths, `histories.rs` from what its arena was made for). It becomes the base object, whose
    //   reference the second call steals, so it lives as long as the array, and NumPy gives views of the array the
    //   same base.
    // - Written meanwhile: leased rows by nobody. An arena by its environment's next call, as all arrays that are filled
    //   again; no Rust code reads the array's bytes then but in a call that the array is an argument of.
    // - Read-only: no flag allows writing, and NumPy refuses to set it on memory whose base object is not a writable
    //   buffer; the pages of a shared ring are mapped for reading only besides.
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

/// A writable array over a row of a window, which `memory` keeps mapped for as long as the array or a
/// view of it lives.
///
/// `address` must come from [`Reserved::place`](backcast_core::Reserved::place) for the window that
/// `memory` owns and for a column of that dtype and shape.
pub(crate) fn in_place<'py>(
    memory: &Bound<'py, PyAny>,
    address: usize,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = memory.py();
    let (mut dims, axes) = extents(shape)?;
    // SAFETY:
    // - `dims` holds `axes` extents and outlives the call, which copies them; the descriptor is of a
    //   plain numeric dtype, and the call steals the reference given up.
    // - The memory: a row of the column, by the caller, of as many bytes as dtype and shape say. It
    //   stays mapped while `memory` lives, which becomes the base object, whose reference the second
    //   call steals, so it lives as long as the array and all views of it.
    // - Written by NumPy: the row is announced and not published, and its window is detached before
    //   it is, unless nobody refers to the array any more (`row.rs`). No Rust reference to it exists.
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

/// A view of an array with an axis behind the next one, which lives in the array's memory: what its method `swapaxes`
/// gives, without a look for the method.
pub(crate) fn turned<'py>(
    array: &Bound<'py, PyUntypedArray>,
    axis: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, first) = (array.py(), c_int::try_from(axis)?);
    // SAFETY: the array is alive and the interpreter attached: `array` is bound to it. NumPy checks the axes, and gives
    // a new reference or sets an error.
    unsafe {
        let view = PY_ARRAY_API.PyArray_SwapAxes(py, array.as_array_ptr(), first, first + 1);
        Ok(Bound::from_owned_ptr_or_err(py, view)?.cast_into::<PyUntypedArray>()?)
    }
}

/// Whether nobody but the caller refers to an array, neither to itself nor to a view of it.
pub(crate) fn is_alone(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
    unsafe { pyo3::ffi::Py_REFCNT(array.as_ptr()) == 1 }
}

fn extents(shape: &[usize]) -> PyResult<(Vec<npy_intp>, c_int)> {
    let dims: Result<Vec<_>, _> = shape.iter().map(|axis| npy_intp::try_from(*axis)).collect();
    let dims = dims?;
    let axes = c_int::try_from(dims.len())?;
    Ok((dims, axes))
}

/// What owns the memory of an array of a batch: NumPy keeps it as the array's base, so that the
/// memory goes back to its sampler when the last array over it dies.
#[pyclass(module = "backcast._native", name = "BlockOwner", frozen)]
struct BlockOwner {
    #[expect(dead_code, reason = "held for its drop; the array has the address")]
    block: Block,
}

/// A writable array over a block, which it keeps alive.
pub(crate) fn array_over<'py>(
    py: Python<'py>,
    mut block: Block,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (mut dims, axes) = extents(shape)?;
    let needed = shape.iter().try_fold(dtype.itemsize(), |bytes, axis| bytes.checked_mul(*axis));
    assert_eq!(needed, Some(block.bytes().len()), "the block is one arena of that shape");
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
    //   touches them through `owner`, whose field is read by nobody.
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
        // Steals the reference to `owner`, also when it fails.
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array.cast_into_unchecked())
    }
}

/// Why an array cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLent {
    ReadOnly,
    Scattered,
    Size,
    /// It shares memory with another array of the same call.
    Doubled,
    /// A call of another thread, or an iterator, fills it now.
    Busy,
}

/// Where bytes are being filled, and after how many forks that was noted.
///
/// Locked only by threads that hold the interpreter, so that a fork never takes it along locked.
static FILLED: Mutex<(u64, Vec<Range<usize>>)> = Mutex::new((0, Vec::new()));

fn filled() -> MutexGuard<'static, (u64, Vec<Range<usize>>)> {
    let mut filled = FILLED.lock().unwrap_or_else(PoisonError::into_inner);
    if filled.0 != forks() {
        // Those were threads of the parent.
        *filled = (forks(), Vec::new());
    }
    filled
}

/// Arrays that Python can see and that a call, or an iterator's thread, fills: nobody else fills
/// them meanwhile.
///
/// Python code that reads them meanwhile reads a mixture of old and new, as with every NumPy
/// operation that releases the interpreter lock (documented where `out` and `reuse` are).
pub(crate) struct Lent {
    #[expect(dead_code, reason = "held for their memory")]
    arrays: Vec<Py<PyUntypedArray>>,
    places: Vec<(*mut u8, usize)>,
    /// Which of an iterator's batches this is.
    pub(crate) number: usize,
}

// SAFETY: the pointers are to the arrays' own bytes, which the arrays keep alive wherever this
// goes, and which `Lent::of` made sure nobody else fills.
unsafe impl Send for Lent {}

impl Lent {
    /// Reserve arrays for filling, each with the bytes that it must have; or which of them cannot
    /// be, and why.
    pub(crate) fn of(
        arrays: &[(Bound<'_, PyUntypedArray>, usize)],
    ) -> Result<Self, (usize, NotLent)> {
        let mut kept = Vec::with_capacity(arrays.len());
        let mut places = Vec::with_capacity(arrays.len());
        for (at, (array, bytes)) in arrays.iter().enumerate() {
            let refuse = |why| Err((at, why));
            if !array.is_c_contiguous() || array.dtype().has_object() {
                return refuse(NotLent::Scattered);
            }
            if array.len() * array.dtype().itemsize() != *bytes {
                return refuse(NotLent::Size);
            }
            // SAFETY: the array is alive and the interpreter attached: `array` is bound to it.
            let (flags, data) = unsafe {
                let fields = _PyArray_GET_ITEM_DATA(array.as_array_ptr());
                ((*fields).flags, (*fields).data)
            };
            if flags & NPY_ARRAY_WRITEABLE == 0 {
                return refuse(NotLent::ReadOnly);
            }
            let place = data.cast::<u8>();
            let overlaps = |(other, len): &(*mut u8, usize)| {
                other.addr() < place.addr() + bytes && place.addr() < other.addr() + len
            };
            if places.iter().any(overlaps) {
                return refuse(NotLent::Doubled);
            }
            kept.push(array.clone().unbind());
            places.push((place, *bytes));
        }
        let mut filled = filled();
        let busy = places.iter().map(range).position(|mine| {
            filled.1.iter().any(|range| range.start < mine.end && mine.start < range.end)
        });
        if let Some(at) = busy {
            return Err((at, NotLent::Busy));
        }
        filled.1.extend(places.iter().map(range));
        Ok(Self { arrays: kept, places, number: 0 })
    }
}

impl Memory for Lent {
    fn buffers(&mut self) -> Vec<&mut [u8]> {
        let slice = |(place, bytes): &(*mut u8, usize)| {
            // SAFETY:
            // - In bounds, alive: `of` checked that the array has `bytes` bytes in one piece, and
            //   `arrays` keeps it; NumPy does not resize an array that somebody refers to, unless
            //   told to ignore that, which is the Python caller's to answer for.
            // - Alone: no other `Lent` names any of these bytes (`FILLED`, checked by `of`), this
            //   one is borrowed for the slices, and they do not overlap one another. Rust reads
            //   arrays only through `bytes_of`, within calls that the array is an argument of.
            // - Every byte is a valid `u8`, whoever wrote it.
            unsafe { slice::from_raw_parts_mut(*place, *bytes) }
        };
        self.places.iter().map(slice).collect()
    }
}

impl Drop for Lent {
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
    // - Not written meanwhile: no Rust code writes to an array that it was lent for reading; Python
    //   code that writes to it while a call that it is an argument of runs, itself or by having
    //   `out=` fill it in another thread, breaks its own data (documented at `Writer.append`), and
    //   the slice is only ever copied from, never interpreted.
    Some(unsafe {
        let data = (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data;
        slice::from_raw_parts(data.cast_const().cast(), len)
    })
}
