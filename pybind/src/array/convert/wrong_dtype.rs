//! The error for an array of a wrong dtype.

use backcast_core::DType;
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;

use super::values::{bool_among, check_range, is_whole, is_zero_or_one};
use super::{Target, descr};
use crate::argument::text_of;
use crate::error::{ErrorClass, Failure};

/// Returns an error if an array cannot become one of the target's dtype without loss, as
/// [`array_of`](super::array_of) says. `array` is what NumPy made of `value`.
pub(super) fn refuse_wrong_dtype(
    value: &Bound<'_, PyAny>,
    array: &Bound<'_, PyUntypedArray>,
    want: &Bound<'_, PyArrayDescr>,
    target: Target<'_>,
) -> Result<(), Failure> {
    let have = array.dtype();
    match (have.kind(), want.kind()) {
        (b'i' | b'u', b'i' | b'u') => {
            if target.class != ErrorClass::Append
                && let Some(found) = bool_among(value)?
            {
                let found = text_of(&found)?;
                let message = format!("got {found} among the numbers; give whole numbers only");
                return Err(target.refuse(message));
            }
            check_range(array, target)?;
        }
        // An empty list is float64 to NumPy, although no value of it could be wrong.
        _ if array.is_empty() && !value.is_instance_of::<PyUntypedArray>() => {}
        (b'b', b'i' | b'u') if target.class != ErrorClass::Append => {
            let message = "got a mask of bools; give numbers, such as np.flatnonzero(mask)";
            return Err(target.refuse(message));
        }
        (b'b', _) | (b'i' | b'u' | b'f', b'f') => {}
        (b'f', b'i' | b'u') if target.class == ErrorClass::Append && is_whole(array)? => {
            check_range(array, target)?;
        }
        (b'i' | b'u' | b'f', b'b') if is_zero_or_one(array)? => {}
        _ if is_bfloat16(&have)? => {
            let code = target.dtype.code();
            let or_bits = match target.dtype {
                DType::U16 => ", or array.view(\"u2\") for their bits",
                _ => "",
            };
            return Err(target.refuse(format!(
                "got bfloat16 values where {code} is wanted; give array.astype(\"{code}\"){or_bits}"
            )));
        }
        (_, wanted) => {
            let hint = match (have.kind(), wanted) {
                (_, b'b') => "pass booleans, or 0 and 1",
                (b'f', b'i' | b'u') if target.class == ErrorClass::Append => "pass whole numbers",
                _ => "convert them yourself if that is meant",
            };
            return Err(target.refuse(format!(
                "got {have} values, which cannot become {} without loss; {hint}",
                target.dtype.code()
            )));
        }
    }
    Ok(())
}

/// Returns whether a dtype is the bfloat16 of `ml_dtypes`, which is not taken for its bits.
fn is_bfloat16(have: &Bound<'_, PyArrayDescr>) -> PyResult<bool> {
    Ok(have.kind() != b'u' && have.is_equiv_to(&descr(have.py(), DType::BF16)?))
}
