//! `Writer.append` as the interpreter calls it: the fast path, and the arguments of the slow one.

use std::mem;
use std::ops::RangeInclusive;

use backcast_core::{AppendError, RowIndex};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::Writer;
use crate::array::view::FreshArray;
use crate::error::Failure;
use crate::fastcall::{Call, FastMethod};
use crate::replay::writer::state::WriterState;

/// Row sizes whose memory is prefetched one append ahead. Shorter rows wait for less time than a
/// prefetch takes. Longer ones have more cache lines than a processor can request at a time.
const PREFETCH_BYTES: RangeInclusive<usize> = 192..=4_096;

/// Appends of more bytes release the interpreter. Fewer bytes take a few microseconds.
const DETACH_BYTES: usize = 32 << 10;

impl Writer {
    /// Appends on the fast path. Returns `None` if nothing was appended and the slow path has to
    /// check.
    #[inline]
    fn append_fast<'py>(&self, call: Call<'_, 'py>) -> Option<Result<Bound<'py, PyAny>, Failure>> {
        let (py, lanes, dtype) = (call.py(), self.lanes.len(), self.index.bind(call.py()));
        let appended =
            self.handle.try_with(|WriterState { writer, fast_arguments, spare, .. }| {
                let appended = fast_arguments.as_mut()?.with_step(call, lanes, false, |step| {
                    // Boxed, because a result is as large as its largest error, and is moved often.
                    let mut append = || writer.try_append(step).map(|_| ()).map_err(Box::new);
                    let bytes: usize = step.columns.iter().map(|rows| rows.len()).sum();
                    let appended = if bytes > DETACH_BYTES { py.detach(append) } else { append() };
                    if PREFETCH_BYTES.contains(&bytes) {
                        writer.ask_ahead();
                    }
                    appended
                })?;
                Some(appended.map(|()| {
                    let again = spare.as_ref().and_then(|spare| {
                        let mut again = FreshArray::again(spare.bind(py), dtype, &[lanes])?;
                        put_indices(again.bytes_mut(), writer.appended());
                        Some(again.into_array())
                    });
                    // Allocates only after the writer is unlocked: the allocation may run Python
                    // code, which may append.
                    let indices = again.ok_or_else(|| writer.appended().to_vec());
                    (indices, writer.has_warnings())
                }))
            })??;
        let (indices, has_warnings) = match appended {
            Ok(appended) => appended,
            // Waiting is left to the slow path, which releases the interpreter.
            Err(error) if matches!(*error, AppendError::WouldWait) => return None,
            Err(error) => return Some(Err((*error).into())),
        };
        let told = if has_warnings { self.warn_pending(py) } else { Ok(()) };
        let indices = match indices {
            Ok(again) => Ok(again),
            Err(rows) => self.first_indices(py, &rows),
        };
        Some(told.and(indices).map(Bound::into_any))
    }

    /// Returns the indices of an append in a new array, which the next append may reuse.
    #[cold]
    fn first_indices<'py>(
        &self,
        py: Python<'py>,
        rows: &[RowIndex],
    ) -> Result<Bound<'py, PyUntypedArray>, Failure> {
        let mut indices = FreshArray::allocate(py, self.index.bind(py), &[rows.len()])?;
        put_indices(indices.bytes_mut(), rows);
        let indices = indices.into_array();
        let spare = Some(indices.clone().unbind());
        // The previous array is dropped after the writer is unlocked.
        drop(self.handle.try_with(|pen| mem::replace(&mut pen.spare, spare)));
        Ok(indices)
    }
}

/// Writes row indices to the bytes of an int64 array.
fn put_indices(bytes: &mut [u8], rows: &[RowIndex]) {
    for (place, row) in bytes.chunks_exact_mut(size_of::<i64>()).zip(rows) {
        place.copy_from_slice(&row.0.to_ne_bytes());
    }
}

/// `Writer.append` as the interpreter calls it.
pub(crate) struct Append;

impl FastMethod for Append {
    type Class = Writer;
    const NAME: &'static str = "append";

    fn call<'py>(writer: &Writer, call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(done) = writer.append_fast(call) {
            return Ok(done?);
        }
        let SplitArguments { extra, ends, named } = SplitArguments::of(call)?;
        let [terminated, truncated, next_obs, final_obs] = ends.each_ref().map(Option::as_ref);
        let named = Some(&named);
        let indices =
            writer.append(call.py(), &extra, terminated, truncated, next_obs, final_obs, named)?;
        Ok(indices.into_any())
    }
}

/// Arguments of an append, split into end flags, observations and columns.
pub(crate) struct SplitArguments<'py> {
    pub(crate) extra: Bound<'py, PyTuple>,
    /// `terminated`, `truncated`, `next_obs` and `final_obs`.
    pub(crate) ends: [Option<Bound<'py, PyAny>>; 4],
    /// All other keywords: columns, and `next_NAME` of observation columns.
    pub(crate) named: Bound<'py, PyDict>,
}

impl<'py> SplitArguments<'py> {
    pub(crate) fn of(call: Call<'_, 'py>) -> PyResult<Self> {
        let (extra, named) = call.unpack()?;
        let take = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
            let value = named.get_item(name)?;
            if value.is_some() {
                named.del_item(name)?;
            }
            Ok(value.filter(|value| !value.is_none()))
        };
        let ends = [take("terminated")?, take("truncated")?, take("next_obs")?, take("final_obs")?];
        Ok(Self { extra, ends, named })
    }
}
