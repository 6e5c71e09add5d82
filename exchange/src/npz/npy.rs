//! Reads one array in NumPy's `.npy` format: a header and the numbers.

use std::io::Read;

use backcast_core::DType;

/// Maximum bytes of a header.
const MAX_HEADER: usize = 1 << 16;

/// Error of reading an array.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NpyError {
    /// The data is cut or not an array.
    Damaged(String),
    /// The array is valid, but cannot be imported: its type fits no column, or memory is too short.
    Unfit(String),
}

/// Content of a header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    /// Whether the first axis is the contiguous one.
    fortran_order: bool,
    shape: Vec<u64>,
}

/// Reads type, shape and numbers of an array in versions 1 to 3 of the format. Returns the numbers
/// in native byte order and C order. Refuses more than `limit` bytes of them.
pub(super) fn read(
    input: &mut impl Read,
    limit: u64,
) -> Result<(DType, Vec<u64>, Vec<u8>), NpyError> {
    let cut = |error: std::io::Error| NpyError::Damaged(error.to_string());
    let mut lead = [0; 8];
    input.read_exact(&mut lead).map_err(cut)?;
    if lead[..6] != *b"\x93NUMPY" {
        return Err(NpyError::Damaged(
            "it does not begin with the signature of a NumPy array".to_owned(),
        ));
    }
    let mut length = [0; 4];
    let width = if lead[6] == 1 { 2 } else { 4 };
    input.read_exact(&mut length[..width]).map_err(cut)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        let what = format!("its header has {length} bytes; the limit is {MAX_HEADER}");
        return Err(NpyError::Damaged(what));
    }
    let mut header = vec![0; length];
    input.read_exact(&mut header).map_err(cut)?;
    let header = String::from_utf8(header)
        .map_err(|_| NpyError::Damaged("its header is not UTF-8".to_owned()))?;
    let Header { dtype, big_endian, fortran_order, shape } = parse(&header)?;
    let bytes = shape.iter().try_fold(dtype.size() as u64, |bytes, axis| bytes.checked_mul(*axis));
    let bytes = bytes.filter(|bytes| *bytes <= limit).ok_or_else(|| {
        let what = format!("the shape {shape:?} of {dtype} unpacks to more than {limit} bytes");
        NpyError::Damaged(what)
    })?;
    let mut numbers = Vec::new();
    // The vector grows with the data, not with the claimed size.
    input.take(bytes).read_to_end(&mut numbers).map_err(cut)?;
    if numbers.len() as u64 != bytes {
        let what = format!("it has {} bytes of numbers, not {bytes}", numbers.len());
        return Err(NpyError::Damaged(what));
    }
    if dtype == DType::Bool {
        for byte in &mut numbers {
            *byte = u8::from(*byte != 0);
        }
    }
    if big_endian {
        numbers.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    if fortran_order {
        numbers = in_c_order(&numbers, dtype.size(), &shape).ok_or_else(|| {
            NpyError::Unfit("cannot be reordered for lack of memory; save it in C order".to_owned())
        })?;
    }
    Ok((dtype, shape, numbers))
}

/// Copies elements of `size` bytes from Fortran order to C order. Returns `None` if there is not
/// enough memory.
fn in_c_order(numbers: &[u8], size: usize, shape: &[u64]) -> Option<Vec<u8>> {
    // Walks the elements in C order. `place` is the index of the next element along each axis.
    // `from` is its offset in `numbers`, in elements: the sum of the indices times the strides of
    // Fortran order.
    let axes: Vec<usize> =
        shape.iter().map(|axis| usize::try_from(*axis).ok()).collect::<Option<_>>()?;
    let mut strides = Vec::with_capacity(axes.len());
    let mut stride = 1_usize;
    for axis in &axes {
        strides.push(stride);
        stride = stride.saturating_mul(*axis);
    }
    let mut turned = Vec::new();
    turned.try_reserve_exact(numbers.len()).ok()?;
    let (mut place, mut from) = (vec![0_usize; axes.len()], 0_usize);
    for _ in 0..numbers.len() / size {
        turned.extend_from_slice(numbers.get(from * size..(from + 1) * size)?);
        for ((index, axis), stride) in place.iter_mut().zip(&axes).zip(&strides).rev() {
            *index += 1;
            from += stride;
            if *index < *axis {
                break;
            }
            from -= stride * axis;
            *index = 0;
        }
    }
    Some(turned)
}

/// Parses a header such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse(header: &str) -> Result<Header, NpyError> {
    let after = |key: &str| {
        let at = header.find(&format!("'{key}'"))? + key.len() + 2;
        Some(header.get(at..)?.trim_start().strip_prefix(':')?.trim_start())
    };
    let lacks =
        |key: &str| NpyError::Damaged(format!("its header lacks `{key}`: {}", header.trim()));
    let descr = after("descr").ok_or_else(|| lacks("descr"))?;
    let descr = descr.strip_prefix('\'').and_then(|text| text.split('\'').next());
    let records =
        || NpyError::Unfit("is an array of records; give one array per column".to_owned());
    let descr = descr.ok_or_else(records)?;
    let order = after("fortran_order").ok_or_else(|| lacks("fortran_order"))?;
    let shape = after("shape").ok_or_else(|| lacks("shape"))?;
    let shape = shape.strip_prefix('(').and_then(|text| text.split(')').next());
    let shape: Option<Vec<u64>> =
        shape.map(|text| text.split(',').map(str::trim)).and_then(|axes| {
            axes.filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok()).collect()
        });
    let shape = shape.ok_or_else(|| lacks("shape"))?;
    let fortran_order = order.starts_with("True") && shape.len() > 1;
    let (byte_order, dtype) = match descr {
        "|b1" | "?" => ("|", Some(DType::Bool)),
        code => match code.split_at_checked(1) {
            Some((order @ ("<" | ">" | "=" | "|"), code)) => (order, code.parse().ok()),
            _ => ("", code.parse().ok()),
        },
    };
    let dtype = dtype.ok_or_else(|| {
        // NumPy writes the bfloat16 of `ml_dtypes` as two bytes without a meaning.
        let bits = if matches!(descr, "<V2" | "|V2") {
            ", or the bits of bfloat16 as `array.view(\"u2\")`"
        } else {
            ""
        };
        NpyError::Unfit(format!(
            "has elements of the type {descr}, which no column can hold; save numbers or \
             flags{bits}"
        ))
    })?;
    let big_endian = byte_order == ">" && dtype.size() > 1;
    Ok(Header { dtype, big_endian, fortran_order, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_fortran_order_are_turned() {
        let turned = |numbers: &[u8], shape: &[u64]| in_c_order(numbers, 1, shape).unwrap();
        assert_eq!(turned(&[1, 4, 2, 5, 3, 6], &[2, 3]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(turned(&[0, 4, 2, 6, 1, 5, 3, 7], &[2, 2, 2]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(turned(&[7, 8], &[2, 1]), [7, 8]);
        assert!(turned(&[], &[0, 3]).is_empty());
        let wide = [1_u16, 3, 2, 4].map(u16::to_ne_bytes).concat();
        let expected = [1_u16, 2, 3, 4].map(u16::to_ne_bytes).concat();
        assert_eq!(in_c_order(&wide, 2, &[2, 2]).unwrap(), expected);
    }
}
