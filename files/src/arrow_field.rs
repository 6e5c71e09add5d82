//! Arrow's types and fields for columns of a ring, the same in tables and in snapshots.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use backcast_core::DType;

/// Returns the Arrow type of an element.
#[must_use]
pub fn arrow_type(dtype: DType) -> DataType {
    match dtype {
        DType::Bool => DataType::Boolean,
        DType::U8 => DataType::UInt8,
        // Arrow has no type for the bits of bfloat16; the description of the file names it.
        DType::U16 | DType::BF16 => DataType::UInt16,
        DType::U32 => DataType::UInt32,
        DType::U64 => DataType::UInt64,
        DType::I8 => DataType::Int8,
        DType::I16 => DataType::Int16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::F16 => DataType::Float16,
        DType::F32 => DataType::Float32,
        DType::F64 => DataType::Float64,
    }
}

/// Returns the field of a column: a scalar, or a fixed-size list of [`arrow_item`] with the shape
/// in the metadata of Arrow's extension type `arrow.fixed_shape_tensor`. No value is null.
#[must_use]
pub fn arrow_field(name: &str, dtype: DType, shape: &[u32]) -> Field {
    if shape.is_empty() {
        return Field::new(name, arrow_type(dtype), false);
    }
    let list = DataType::FixedSizeList(arrow_item(dtype), arrow_length(shape));
    let shape: Vec<String> = shape.iter().map(u32::to_string).collect();
    Field::new(name, list, false).with_metadata(HashMap::from([
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), format!("{{\"shape\":[{}]}}", shape.join(","))),
    ]))
}

/// Returns the field of the elements of a list.
#[must_use]
pub fn arrow_item(dtype: DType) -> FieldRef {
    Arc::new(Field::new("item", arrow_type(dtype), false))
}

/// Returns the number of elements of a list of this shape. A column has at most 2³⁰, which fit.
#[must_use]
pub fn arrow_length(shape: &[u32]) -> i32 {
    let length = shape.iter().map(|axis| u64::from(*axis)).product::<u64>();
    i32::try_from(length).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_stands_in_the_type_and_in_the_metadata() {
        let scalar = arrow_field("reward", DType::F32, &[]);
        assert_eq!(scalar, Field::new("reward", DataType::Float32, false));
        let image = arrow_field("obs", DType::BF16, &[3, 84, 84]);
        let item = Arc::new(Field::new("item", DataType::UInt16, false));
        assert_eq!(image.data_type(), &DataType::FixedSizeList(item, 21_168));
        assert_eq!(image.metadata()["ARROW:extension:name"], "arrow.fixed_shape_tensor");
        assert_eq!(image.metadata()["ARROW:extension:metadata"], r#"{"shape":[3,84,84]}"#);
        let empty = arrow_field("none", DType::Bool, &[2, 0]);
        assert_eq!(empty.metadata()["ARROW:extension:metadata"], r#"{"shape":[2,0]}"#);
    }
}
