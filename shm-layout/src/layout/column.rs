//! Columns: names, element types, shapes, and the 128-byte record that describes one in a file.

use std::fmt;
use std::str::FromStr;

use bytemuck::{Pod, Zeroable};
use thiserror::Error;

use crate::kernels::racy_copy::Word;

/// Longest column name, in bytes.
pub(crate) const MAX_COLUMN_NAME_BYTES: usize = 48;
/// Maximum axes of one row of a column.
pub(crate) const MAX_AXES: usize = 6;
/// Widest row of a column, in bytes.
pub(crate) const MAX_COLUMN_WIDTH_BYTES: usize = 1 << 30;

/// Element type of a column. Numbers are little-endian; a `bool` is one byte, 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[repr(u8)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool = 1,
    /// Unsigned, 1 byte.
    U8 = 2,
    /// Unsigned, 2 bytes.
    U16 = 3,
    /// Unsigned, 4 bytes.
    U32 = 4,
    /// Unsigned, 8 bytes.
    U64 = 5,
    /// Signed, 1 byte.
    I8 = 6,
    /// Signed, 2 bytes.
    I16 = 7,
    /// Signed, 4 bytes.
    I32 = 8,
    /// Signed, 8 bytes.
    I64 = 9,
    /// IEEE half precision.
    F16 = 10,
    /// IEEE single precision.
    F32 = 11,
    /// IEEE double precision.
    F64 = 12,
    /// Upper half of an IEEE single: 8 bits of exponent, 7 of fraction.
    BF16 = 13,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::BF16,
    ];

    /// Returns NumPy's short code: `"bool"`, `"u1"` … `"f8"`. Returns `"bfloat16"` for the type
    /// for which NumPy has no code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u1",
            DType::U16 => "u2",
            DType::U32 => "u4",
            DType::U64 => "u8",
            DType::I8 => "i1",
            DType::I16 => "i2",
            DType::I32 => "i4",
            DType::I64 => "i8",
            DType::F16 => "f2",
            DType::F32 => "f4",
            DType::F64 => "f8",
            DType::BF16 => "bfloat16",
        }
    }

    /// Returns NumPy's long name: `"bool"`, `"uint8"` … `"float64"`, `"bfloat16"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::BF16 => "bfloat16",
        }
    }

    /// Returns the bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for DType {
    type Err = ColumnError;

    /// Reads NumPy's short codes and long names, and `"?"` and `"b1"` for `bool`.
    ///
    /// ```
    /// use backcast_layout::DType;
    /// assert_eq!("f4".parse(), Ok(DType::F32));
    /// assert_eq!("uint8".parse(), Ok(DType::U8));
    /// assert_eq!("bfloat16".parse(), Ok(DType::BF16));
    /// assert!("complex64".parse::<DType>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, ColumnError> {
        if matches!(text, "?" | "b1") {
            return Ok(DType::Bool);
        }
        let named = |d: &&DType| d.code() == text || d.name() == text;
        DType::ALL
            .iter()
            .find(named)
            .copied()
            .ok_or_else(|| ColumnError::UnknownDType { asked: text.to_owned() })
    }
}

/// Whether a column belongs to the observation or to the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Part of the observation: known before the action, present in a FINAL row, and given as
    /// `next_...` in batches.
    Obs = 1,
    /// Part of the step: the action or a result of it; zero in a FINAL row.
    Step = 2,
}

impl Role {
    /// Returns `"obs"` or `"step"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Obs => "obs",
            Role::Step => "step",
        }
    }
}

impl FromStr for Role {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Self, ColumnError> {
        match text {
            "obs" => Ok(Role::Obs),
            "step" => Ok(Role::Step),
            other => Err(ColumnError::UnknownRole { asked: other.to_owned() }),
        }
    }
}

/// Error of a refused column.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ColumnError {
    /// No such element type.
    #[error(
        "unknown dtype `{asked}`; use bool, u1 u2 u4 u8, i1 i2 i4 i8, f2 f4 f8, bfloat16 \
         or their long names (uint8 … float64)"
    )]
    UnknownDType { asked: String },
    /// No such role.
    #[error("unknown role `{asked}`; use \"obs\" or \"step\"")]
    UnknownRole { asked: String },
    /// The name breaks a rule.
    #[error(
        "column name `{name}` is refused: {reason}; use at most {MAX_COLUMN_NAME_BYTES} bytes of \
         A-Z a-z 0-9 _ - . with `/` between the keys of nested groups"
    )]
    BadName { name: String, reason: &'static str },
    /// Too many axes.
    #[error("column `{name}` has {axes} axes, the limit is {MAX_AXES}; flatten some of them")]
    TooManyAxes { name: String, axes: usize },
    /// An axis of length zero, or a row wider than the limit.
    #[error(
        "column `{name}` of shape {shape:?} is {width} bytes a row, the limits are 1 and \
         {MAX_COLUMN_WIDTH_BYTES}; use positive axes and split what is wider"
    )]
    BadWidth { name: String, shape: Vec<u32>, width: u64 },
}

/// One column: a fixed-size array per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: String,
    dtype: DType,
    shape: Vec<u32>,
    role: Role,
    /// Bytes of one row. Cached, since every append reads it for every column.
    width: usize,
}

impl Column {
    /// Checks and makes a column. `shape` is that of one row; empty for a scalar.
    pub fn new(name: &str, dtype: DType, shape: &[u32], role: Role) -> Result<Self, ColumnError> {
        let refuse = |reason| Err(ColumnError::BadName { name: name.to_owned(), reason });
        if name.is_empty() || name.split('/').any(str::is_empty) {
            return refuse("it, or a part between slashes, is empty");
        }
        if name.len() > MAX_COLUMN_NAME_BYTES {
            return refuse("it is too long");
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b)) {
            return refuse("it has a character outside the allowed ones");
        }
        if shape.len() > MAX_AXES {
            return Err(ColumnError::TooManyAxes { name: name.to_owned(), axes: shape.len() });
        }
        let width = shape
            .iter()
            .fold(dtype.size() as u64, |width, axis| width.saturating_mul(u64::from(*axis)));
        let (name, shape) = (name.to_owned(), shape.to_owned());
        match usize::try_from(width) {
            Ok(width @ 1..=MAX_COLUMN_WIDTH_BYTES) => Ok(Self { name, dtype, shape, role, width }),
            _ => Err(ColumnError::BadWidth { name, shape, width }),
        }
    }

    /// Returns the name; `/` separates the keys of nested dicts.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape of one row; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// Returns the role: observation or step.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the number of elements in one row.
    #[must_use]
    pub fn items(&self) -> usize {
        self.shape.iter().map(|axis| *axis as usize).product()
    }

    /// Returns the bytes of one row.
    #[must_use]
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }
}

/// A column in the schema block of `ring.ctl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ColumnRecord {
    /// UTF-8, padded with zeros.
    pub name: [u8; MAX_COLUMN_NAME_BYTES],
    /// [`DType`] as a number.
    pub dtype: u8,
    /// Access size in bytes: 1, 2, 4 or 8.
    pub word: u8,
    /// Axes used in `shape`.
    pub axes: u8,
    /// [`Role`] as a number.
    pub role: u8,
    /// Shape of one row, padded with zeros.
    pub shape: [u32; MAX_AXES],
    /// Bytes of one row.
    pub width_bytes: u32,
    /// First byte of the column in `lane-NNNN.dat`.
    pub offset_bytes: u64,
    /// Bytes of the column in `lane-NNNN.dat`.
    pub length_bytes: u64,
    /// Zero.
    pub unused: [u8; 32],
}

const _: () = assert!(size_of::<ColumnRecord>() == 128);

impl ColumnRecord {
    pub(crate) fn new(column: &Column, offset: u64, length: u64) -> Self {
        let mut name = [0; MAX_COLUMN_NAME_BYTES];
        name.iter_mut().zip(column.name.bytes()).for_each(|(to, from)| *to = from);
        let mut shape = [0; MAX_AXES];
        shape.iter_mut().zip(&column.shape).for_each(|(to, from)| *to = *from);
        Self {
            name,
            dtype: column.dtype as u8,
            word: Word::of_width(column.width()) as u8,
            axes: u8::try_from(column.shape.len()).unwrap_or(u8::MAX),
            role: column.role as u8,
            shape,
            width_bytes: u32::try_from(column.width()).unwrap_or(u32::MAX),
            offset_bytes: offset,
            length_bytes: length,
            unused: [0; 32],
        }
    }

    /// Returns the column that a record describes. Returns `None` if its dtype, role, name or shape
    /// is not valid.
    pub(crate) fn column(&self) -> Option<Column> {
        let dtype = DType::ALL.into_iter().find(|d| *d as u8 == self.dtype)?;
        let role = [Role::Obs, Role::Step].into_iter().find(|r| *r as u8 == self.role)?;
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        let name = std::str::from_utf8(self.name.get(..end)?).ok()?;
        let shape = self.shape.get(..usize::from(self.axes))?;
        Column::new(name, dtype, shape, role).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_its_column() {
        for (dtype, shape) in
            [(DType::U8, vec![84, 84]), (DType::BF16, vec![]), (DType::Bool, vec![3])]
        {
            let column = Column::new("obs/pixels", dtype, &shape, Role::Obs).unwrap();
            let record = ColumnRecord::new(&column, 4096, 8192);
            assert_eq!(record.column(), Some(column));
        }
    }

    #[test]
    fn element_types_keep_the_numbers_that_files_have() {
        let codes = DType::ALL.map(|dtype| (dtype as u8, dtype.code()));
        let known = [
            (1, "bool"),
            (2, "u1"),
            (3, "u2"),
            (4, "u4"),
            (5, "u8"),
            (6, "i1"),
            (7, "i2"),
            (8, "i4"),
            (9, "i8"),
            (10, "f2"),
            (11, "f4"),
            (12, "f8"),
            (13, "bfloat16"),
        ];
        assert_eq!(codes, known);
    }

    #[test]
    fn invalid_records_are_refused() {
        let good =
            ColumnRecord::new(&Column::new("a", DType::F32, &[2], Role::Step).unwrap(), 0, 0);
        let bad = |change: fn(&mut ColumnRecord)| {
            let mut record = good;
            change(&mut record);
            record.column()
        };
        assert_eq!(bad(|r| r.dtype = 99), None);
        assert_eq!(bad(|r| r.role = 0), None);
        assert_eq!(bad(|r| r.axes = 7), None);
        assert_eq!(bad(|r| r.shape = [0; MAX_AXES]), None);
        assert_eq!(bad(|r| r.name = [0xff; 48]), None);
        assert_eq!(bad(|r| r.name = [0; 48]), None);
    }

    #[test]
    fn bad_columns_name_the_value_and_the_limit() {
        let make = |name: &str, shape: &[u32]| {
            Column::new(name, DType::F64, shape, Role::Step).unwrap_err()
        };
        for bad in ["", "a//b", &"x".repeat(49), "naïve"] {
            let error = make(bad, &[]);
            let ColumnError::BadName { name, .. } = &error else { panic!("{error}") };
            assert_eq!(name, bad);
        }
        assert!(make(&"x".repeat(49), &[]).to_string().contains("48"));
        let axes = make("a", &[1; 7]);
        assert_eq!(axes, ColumnError::TooManyAxes { name: "a".to_owned(), axes: 7 });
        let empty = make("a", &[0]);
        assert!(matches!(empty, ColumnError::BadWidth { width: 0, .. }), "{empty}");
        let wide = make("a", &[u32::MAX; 3]);
        assert!(matches!(wide, ColumnError::BadWidth { .. }), "{wide}");
        assert!(wide.to_string().contains("1073741824"), "{wide}");
    }
}
