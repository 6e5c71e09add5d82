//! Rust types that stand for element types of columns.

use backcast_layout::DType;
use bytemuck::{CheckedBitPattern, NoUninit};

/// A Rust type with the bytes of one element of a column.
pub trait Element: CheckedBitPattern + NoUninit {
    /// The column type it stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),+ $(,)?) => {
        $(impl Element for $ty { const DTYPE: DType = DType::$dtype; })+
    };
}

elements! {
    bool => Bool, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    half::f16 => F16, f32 => F32, f64 => F64,
}
