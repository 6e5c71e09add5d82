//! Converts the bytes of columns to Arrow arrays and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray};
use arrow_schema::{DataType, Field};
use backcast_core::{Column, DType};
use backcast_files::{arrow_field, arrow_item, arrow_length, arrow_type};
use bytemuck::Pod;

/// Calls a generic function with the Arrow type of a numeric `dtype`. For booleans, evaluates
/// `$bool` instead.
macro_rules! of_number {
    ($dtype:expr, $call:ident($($argument:expr),*), $bool:expr) => {
        match $dtype {
            DType::Bool => $bool,
            DType::U8 => $call::<UInt8Type>($($argument),*),
            DType::U16 | DType::BF16 => $call::<UInt16Type>($($argument),*),
            DType::U32 => $call::<UInt32Type>($($argument),*),
            DType::U64 => $call::<UInt64Type>($($argument),*),
            DType::I8 => $call::<Int8Type>($($argument),*),
            DType::I16 => $call::<Int16Type>($($argument),*),
            DType::I32 => $call::<Int32Type>($($argument),*),
            DType::I64 => $call::<Int64Type>($($argument),*),
            DType::F16 => $call::<Float16Type>($($argument),*),
            DType::F32 => $call::<Float32Type>($($argument),*),
            DType::F64 => $call::<Float64Type>($($argument),*),
        }
    };
}

/// Returns the field of a column: a scalar, or a fixed-size list with the shape in its metadata.
pub(crate) fn field(column: &Column) -> Field {
    arrow_field(column.name(), column.dtype(), column.shape())
}

/// Makes an array of a column's rows, given in C order.
pub(crate) fn array(dtype: DType, shape: &[u32], bytes: &[u8]) -> ArrayRef {
    let elements: ArrayRef = of_number!(dtype, numbers(bytes), {
        Arc::new(bytes.iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>())
    });
    list(dtype, shape, elements)
}

/// Groups elements into rows of a shape.
fn list(dtype: DType, shape: &[u32], elements: ArrayRef) -> ArrayRef {
    if shape.is_empty() {
        return elements;
    }
    let empty =
        || Arc::new(FixedSizeListArray::new_null(arrow_item(dtype), arrow_length(shape), 0));
    // Fails only if the elements do not fill whole rows; callers pass whole rows.
    FixedSizeListArray::try_new(arrow_item(dtype), arrow_length(shape), elements, None)
        .map_or_else(|_| empty() as ArrayRef, |list| Arc::new(list))
}

fn numbers<T: ArrowPrimitiveType<Native: Pod>>(bytes: &[u8]) -> ArrayRef {
    let numbers: Vec<T::Native> = bytemuck::allocation::pod_collect_to_vec(bytes);
    Arc::new(PrimitiveArray::<T>::new(numbers.into(), None))
}

/// Mismatch between an array and a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArrayMismatch {
    /// The elements have another type.
    Type(DataType),
    /// First row that is null or has a null element.
    Null(usize),
    /// A row has another number of elements.
    Length { row: usize, elements: usize },
}

/// Appends the rows of an array to a column's bytes in C order. Any kind of list is accepted,
/// nested or not, if each row has `items` elements and none is null.
pub(crate) fn append_bytes(
    array: &dyn Array,
    dtype: DType,
    items: usize,
    scalar: bool,
    out: &mut Vec<u8>,
) -> Result<(), ArrayMismatch> {
    let rows = array.len();
    let elements = elements_of(array, if scalar { 1 } else { items })?;
    if elements.data_type() != &arrow_type(dtype) {
        return Err(ArrayMismatch::Type(elements.data_type().clone()));
    }
    if let Some(at) = (elements.null_count() > 0)
        .then(|| (0..elements.len()).find(|at| elements.is_null(*at)))
        .flatten()
    {
        return Err(ArrayMismatch::Null(at / items.max(1)));
    }
    if elements.len() != rows * items {
        return Err(ArrayMismatch::Length { row: 0, elements: elements.len() / rows.max(1) });
    }
    of_number!(dtype, append_numbers(&elements, out), {
        out.extend(elements.as_boolean().values().iter().map(u8::from));
    });
    Ok(())
}

fn append_numbers<T: ArrowPrimitiveType<Native: Pod>>(array: &ArrayRef, out: &mut Vec<u8>) {
    out.extend_from_slice(bytemuck::cast_slice(array.as_primitive::<T>().values()));
}

/// Flattens an array of lists with `items` elements per row. Refuses null lists, and lists of
/// different lengths.
fn elements_of(array: &dyn Array, items: usize) -> Result<ArrayRef, ArrayMismatch> {
    let mut array = array.slice(0, array.len());
    // The values of all lists of one level are the array of the next level.
    let rows = array.len();
    loop {
        if matches!(
            array.data_type(),
            DataType::FixedSizeList(..) | DataType::List(_) | DataType::LargeList(_)
        ) && array.null_count() > 0
        {
            let at = (0..array.len()).find(|at| array.is_null(*at)).unwrap_or(0);
            return Err(ArrayMismatch::Null(at * rows / array.len().max(1)));
        }
        array = match array.data_type() {
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                let length = usize::try_from(list.value_length()).unwrap_or(0);
                list.values().slice(list.offset() * length, list.len() * length)
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets();
                let (from, to) = ends(offsets.first().copied(), offsets.last().copied());
                same_lengths(offsets.windows(2).map(|pair| pair[1] - pair[0]), items)?;
                list.values().slice(from, to - from)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let offsets = list.value_offsets();
                let (from, to) = ends(offsets.first().copied(), offsets.last().copied());
                same_lengths(offsets.windows(2).map(|pair| pair[1] - pair[0]), items)?;
                list.values().slice(from, to - from)
            }
            // The Parquet reader returns a single leaf wrapped in its enclosing structs.
            DataType::Struct(fields) if fields.len() == 1 && array.null_count() == 0 => {
                Arc::clone(array.as_struct().column(0))
            }
            _ => return Ok(array),
        };
    }
}

fn ends<N: TryInto<usize>>(first: Option<N>, last: Option<N>) -> (usize, usize) {
    let at = |n: Option<N>| n.and_then(|n| n.try_into().ok()).unwrap_or(0);
    (at(first), at(last))
}

/// Checks that all lists have the length of the first one, at most `items`.
fn same_lengths<N: TryInto<usize>>(
    lengths: impl Iterator<Item = N>,
    items: usize,
) -> Result<(), ArrayMismatch> {
    let mut first = None;
    for (row, length) in lengths.enumerate() {
        let length = length.try_into().unwrap_or(usize::MAX);
        if length > items || *first.get_or_insert(length) != length {
            return Err(ArrayMismatch::Length { row, elements: length });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Float32Type;
    use arrow_array::{Int32Array, ListArray, StringArray};

    fn bytes(array: &dyn Array, dtype: DType, items: usize) -> Result<Vec<u8>, ArrayMismatch> {
        let mut out = Vec::new();
        append_bytes(array, dtype, items, items == 1, &mut out).map(|()| out)
    }

    #[test]
    fn every_type_and_shape_comes_back_also_from_a_slice() {
        for dtype in DType::ALL {
            for shape in [&[][..], &[1], &[5], &[2, 3]] {
                let items = shape.iter().product::<u32>() as usize;
                let count = u8::try_from(4 * items * dtype.size()).unwrap();
                let limit = if dtype == DType::Bool { 2 } else { 255 };
                let given: Vec<u8> = (0..count).map(|byte| byte % limit).collect();
                let made = array(dtype, shape, &given);
                assert_eq!(made.len(), 4);
                let mut out = Vec::new();
                let scalar = shape.is_empty();
                append_bytes(made.as_ref(), dtype, items, scalar, &mut out).unwrap();
                assert_eq!(out, given, "{dtype} {shape:?}");
                let row = items * dtype.size();
                let part = made.slice(1, 2);
                out.clear();
                append_bytes(part.as_ref(), dtype, items, scalar, &mut out).unwrap();
                assert_eq!(out, given[row..3 * row], "{dtype} {shape:?}");
                let field = arrow_field("x", dtype, shape);
                assert_eq!(field.data_type(), made.data_type());
            }
        }
    }

    #[test]
    fn lists_of_lists_are_arrays_if_every_row_has_the_same() {
        let even = ListArray::from_iter_primitive::<Float32Type, _, _>(
            [[1.0, 2.0], [3.0, 4.0]].map(|row| Some(row.map(Some))),
        );
        assert_eq!(
            bytes(&even, DType::F32, 2).unwrap(),
            bytemuck::cast_slice::<f32, u8>(&[1., 2., 3., 4.])
        );
        assert_eq!(bytes(&even, DType::F64, 2), Err(ArrayMismatch::Type(DataType::Float32)));
        assert_eq!(bytes(&even, DType::F32, 3), Err(ArrayMismatch::Length { row: 0, elements: 2 }));
        let odd = ListArray::from_iter_primitive::<Float32Type, _, _>([
            Some(vec![Some(1.0), Some(2.0)]),
            Some(vec![Some(1.0)]),
        ]);
        assert_eq!(bytes(&odd, DType::F32, 2), Err(ArrayMismatch::Length { row: 1, elements: 1 }));
        let holes = ListArray::from_iter_primitive::<Float32Type, _, _>([
            Some(vec![Some(1.0), Some(2.0)]),
            Some(vec![Some(1.0), None]),
        ]);
        assert_eq!(bytes(&holes, DType::F32, 2), Err(ArrayMismatch::Null(1)));
        let gone = ListArray::from_iter_primitive::<Float32Type, _, _>([
            Some(vec![Some(1.0)]),
            None::<Vec<Option<f32>>>,
        ]);
        assert_eq!(bytes(&gone, DType::F32, 1), Err(ArrayMismatch::Null(1)));
        let texts = StringArray::from(vec!["a"]);
        assert_eq!(bytes(&texts, DType::F32, 1), Err(ArrayMismatch::Type(DataType::Utf8)));
        let numbers = Int32Array::from(vec![Some(1), None]);
        assert_eq!(bytes(&numbers, DType::I32, 1), Err(ArrayMismatch::Null(1)));
    }
}
