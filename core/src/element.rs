//! Rust types of the elements of columns.

use backcast_layout::DType;
use bytemuck::{CheckedBitPattern, NoUninit};

/// A Rust type with the same bytes as one element of a column.
pub trait Element: CheckedBitPattern + NoUninit {
    /// Element type of such columns.
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
    half::f16 => F16, f32 => F32, f64 => F64, half::bf16 => BF16,
}
