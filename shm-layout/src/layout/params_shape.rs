//! Arrays of an object of parameters: names, element types, shapes, places, and the record that
//! describes one in a file.

use bytemuck::{Pod, Zeroable};
use thiserror::Error;

use crate::layout::column::DType;
use crate::layout::geometry::MAX_READER_SLOTS;
use crate::layout::params_table::{MAX_PARAMS_SLOTS, PARAMS_BLOCKS_AT};

/// Longest name of an array, in bytes.
pub const MAX_ARRAY_NAME_BYTES: usize = 256;
/// Maximum axes of an array.
pub const MAX_ARRAY_AXES: usize = 8;
/// Maximum arrays of an object of parameters.
pub const MAX_ARRAYS: usize = 1 << 16;
/// Maximum bytes of the arrays in all slots together.
pub const MAX_PARAMS_BYTES: u64 = 1 << 40;
/// Alignment of arrays in a block, in bytes: a cache line.
const ALIGN: usize = 64;
/// Alignment of blocks, in bytes.
const BLOCK_ALIGN: usize = 4096;

/// Record of an array in `params.ctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ParamsArrayRecord {
    /// Name in UTF-8, filled up with zeros.
    pub name: [u8; MAX_ARRAY_NAME_BYTES],
    /// Element type.
    pub dtype: u8,
    /// Axes used of `shape`.
    pub axes: u8,
    /// Zero.
    pub unused1: [u8; 6],
    /// Extents, filled up with zeros.
    pub shape: [u64; MAX_ARRAY_AXES],
    /// First byte of the array in a block.
    pub offset_bytes: u64,
    /// Bytes of the array.
    pub length_bytes: u64,
    /// Zero.
    pub unused2: [u8; 8],
}

const _: () = assert!(size_of::<ParamsArrayRecord>() == 352);

/// An array of an object of parameters: its name, element type, shape and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsArray {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    offset: usize,
    bytes: usize,
}

impl ParamsArray {
    /// Describes an array. An empty `shape` is a single number.
    ///
    /// ```
    /// use backcast_layout::{DType, ParamsArray};
    /// let weight = ParamsArray::new("body/0.weight", DType::F32, &[64, 4])?;
    /// assert_eq!(weight.bytes(), 1_024);
    /// # Ok::<(), backcast_layout::ParamsShapeError>(())
    /// ```
    pub fn new(name: &str, dtype: DType, shape: &[u64]) -> Result<Self, ParamsShapeError> {
        let bad = |reason| ParamsShapeError::BadName { name: name.to_owned(), reason };
        if name.len() > MAX_ARRAY_NAME_BYTES {
            return Err(bad("it is too long"));
        }
        if name.split('/').any(str::is_empty) {
            return Err(bad("it is empty before, after or between slashes"));
        }
        if name.chars().any(char::is_control) {
            return Err(bad("it has a control character"));
        }
        if shape.len() > MAX_ARRAY_AXES {
            let (name, axes) = (name.to_owned(), shape.len());
            return Err(ParamsShapeError::TooManyAxes { name, axes });
        }
        let bytes = shape.iter().try_fold(dtype.size() as u64, |n, axis| n.checked_mul(*axis));
        let bytes = bytes.filter(|bytes| *bytes <= MAX_PARAMS_BYTES);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| ParamsShapeError::TooLarge { name: name.to_owned() })?;
        Ok(Self { name: name.to_owned(), dtype, shape: shape.to_vec(), offset: 0, bytes })
    }

    /// Returns the name. Parts of a nested name are joined by `/`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the extents. Empty for a single number.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the first byte in a slot's block.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns whether another array has the same name, element type and shape.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.dtype, &self.shape) == (&other.name, other.dtype, &other.shape)
    }

    fn record(&self) -> ParamsArrayRecord {
        let mut record = ParamsArrayRecord::zeroed();
        record.name.iter_mut().zip(self.name.bytes()).for_each(|(to, byte)| *to = byte);
        record.dtype = self.dtype as u8;
        record.axes = u8::try_from(self.shape.len()).unwrap_or(u8::MAX);
        record.shape.iter_mut().zip(&self.shape).for_each(|(to, axis)| *to = *axis);
        record.offset_bytes = self.offset as u64;
        record.length_bytes = self.bytes as u64;
        record
    }

    /// Reads a record without its place. Returns `None` if its name,
    /// element type or shape is not valid.
    fn of_record(record: &ParamsArrayRecord) -> Option<Self> {
        let end = record.name.iter().position(|byte| *byte == 0).unwrap_or(record.name.len());
        let name = std::str::from_utf8(record.name.get(..end)?).ok()?;
        let dtype = DType::ALL.into_iter().find(|dtype| *dtype as u8 == record.dtype)?;
        Self::new(name, dtype, record.shape.get(..usize::from(record.axes))?).ok()
    }
}

/// Error of arrays that cannot be an object of parameters.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ParamsShapeError {
    /// The name cannot be stored.
    #[error(
        "`{name}` cannot name an array: {reason}; use 1 to {} bytes, and `/` only between the \
         parts of a nested name",
        MAX_ARRAY_NAME_BYTES
    )]
    BadName { name: String, reason: &'static str },
    /// Two arrays have one name, or one lies inside another.
    #[error("{} cannot both be arrays; give each a path of its own", clash_of(.name, .other))]
    Clash { name: String, other: String },
    /// The array has too many axes.
    #[error("array `{name}` has {axes} axes, the limit is {}; reshape it", MAX_ARRAY_AXES)]
    TooManyAxes { name: String, axes: usize },
    /// The array makes all slots together larger than [`MAX_PARAMS_BYTES`].
    #[error(
        "array `{name}` makes the parameters larger than the limit of {} bytes; split them into \
         several objects",
        MAX_PARAMS_BYTES
    )]
    TooLarge { name: String },
    /// There are no arrays, or too many.
    #[error("{count} arrays are given, the limits are 1 and {}; stack small ones", MAX_ARRAYS)]
    Count { count: usize },
    /// A number of versions, slots or readers is outside its limits.
    #[error("{what} is {value}, the limits are {least} and {most}; {remedy}")]
    Limit { what: &'static str, value: u32, least: u32, most: u32, remedy: &'static str },
}

/// Arrays with their places in a block, and the number of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsShape {
    arrays: Vec<ParamsArray>,
    versions_kept: u32,
    spare_slots: u32,
    reader_slots: u32,
    block_bytes: usize,
}

impl ParamsShape {
    /// Places the arrays, in their order, in a block.
    ///
    /// `versions_kept` versions stay readable while another is written into one of `spare_slots`.
    pub fn new(
        arrays: Vec<ParamsArray>,
        versions_kept: u32,
        spare_slots: u32,
        reader_slots: u32,
    ) -> Result<Self, ParamsShapeError> {
        let limit = |what, value, least, most, remedy| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(ParamsShapeError::Limit { what, value, least, most, remedy })
        };
        if !(1..=MAX_ARRAYS).contains(&arrays.len()) {
            return Err(ParamsShapeError::Count { count: arrays.len() });
        }
        limit("versions_kept", versions_kept, 1, MAX_PARAMS_SLOTS - 1, "keep fewer versions")?;
        let most = MAX_PARAMS_SLOTS - versions_kept;
        limit("spare_slots", spare_slots, 1, most, "keep fewer versions, or give fewer slots")?;
        limit("reader_slots", reader_slots, 1, MAX_READER_SLOTS, "give a number between them")?;
        check_names(&arrays)?;
        let mut shape = Self { arrays, versions_kept, spare_slots, reader_slots, block_bytes: 0 };
        let slots = u64::from(shape.slots());
        let mut at = 0_usize;
        for array in &mut shape.arrays {
            array.offset = at;
            let end = at.checked_add(array.bytes).and_then(|n| n.checked_next_multiple_of(ALIGN));
            let fits = |end: &usize| (*end as u64).saturating_mul(slots) <= MAX_PARAMS_BYTES;
            let end = end.filter(fits);
            at = end.ok_or_else(|| ParamsShapeError::TooLarge { name: array.name.clone() })?;
        }
        shape.block_bytes = at.max(1).next_multiple_of(BLOCK_ALIGN);
        Ok(shape)
    }

    /// Returns the arrays, in the order in which they were given.
    #[must_use]
    pub fn arrays(&self) -> &[ParamsArray] {
        &self.arrays
    }

    /// Returns the versions that stay readable while another is written.
    #[must_use]
    pub fn versions_kept(&self) -> u32 {
        self.versions_kept
    }

    /// Returns the slots beyond those of the versions kept.
    #[must_use]
    pub fn spare_slots(&self) -> u32 {
        self.spare_slots
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.versions_kept + self.spare_slots
    }

    /// Returns the number of handles that can have views at the same time.
    #[must_use]
    pub fn reader_slots(&self) -> u32 {
        self.reader_slots
    }

    /// Returns the bytes of all arrays, without the gaps between them.
    #[must_use]
    pub fn array_bytes(&self) -> usize {
        self.arrays.iter().map(ParamsArray::bytes).sum()
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the bytes of `params.dat`.
    pub(crate) fn data_bytes(&self) -> u64 {
        PARAMS_BLOCKS_AT + u64::from(self.slots()) * self.block_bytes as u64
    }

    /// Returns the records of the arrays.
    pub(crate) fn records(&self) -> Vec<u8> {
        let records: Vec<_> = self.arrays.iter().map(ParamsArray::record).collect();
        bytemuck::cast_slice(&records).to_vec()
    }

    /// Reads the records of a shape. Returns `None` if one is invalid, or differs in any byte from
    /// the record that the shape would write.
    pub(crate) fn of_records(
        records: &[u8],
        versions_kept: u32,
        slots: u32,
        reader_slots: u32,
    ) -> Option<Self> {
        let arrays = records
            .chunks_exact(size_of::<ParamsArrayRecord>())
            .map(|bytes| ParamsArray::of_record(&bytemuck::pod_read_unaligned(bytes)))
            .collect::<Option<Vec<_>>>()?;
        let spare_slots = slots.checked_sub(versions_kept)?;
        let shape = Self::new(arrays, versions_kept, spare_slots, reader_slots).ok()?;
        (shape.records() == records).then_some(shape)
    }

    /// Describes the first difference from the shape that was requested, if there is one.
    pub(crate) fn difference(&self, asked: &Self) -> Option<String> {
        let (there, here) = (self.arrays.len(), asked.arrays.len());
        if there != here {
            return Some(format!("it has {there} arrays, but {here} were requested"));
        }
        let show =
            |array: &ParamsArray| format!("`{}` ({}{:?})", array.name, array.dtype, array.shape);
        for (there, here) in self.arrays.iter().zip(&asked.arrays) {
            if there != here {
                let (there, here) = (show(there), show(here));
                return Some(format!("it has the array {there}, but {here} was requested"));
            }
        }
        for (what, there, here) in [
            ("versions_kept", self.versions_kept, asked.versions_kept),
            ("spare_slots", self.spare_slots, asked.spare_slots),
            ("reader_slots", self.reader_slots, asked.reader_slots),
        ] {
            if there != here {
                return Some(format!("its {what} is {there}, but {here} was requested"));
            }
        }
        None
    }
}

/// Names the two arrays of a clash.
fn clash_of(name: &str, other: &str) -> String {
    if name == other {
        format!("two of the name `{name}`")
    } else {
        format!("`{name}` and `{other}`")
    }
}

/// Refuses a name that occurs twice, and one that holds another array, such as `a` beside `a/b`.
fn check_names(arrays: &[ParamsArray]) -> Result<(), ParamsShapeError> {
    let names: std::collections::BTreeSet<&str> = arrays.iter().map(ParamsArray::name).collect();
    let clash = |name: &str, other: &str| ParamsShapeError::Clash {
        name: name.to_owned(),
        other: other.to_owned(),
    };
    let mut seen = std::collections::BTreeSet::new();
    for array in arrays {
        if !seen.insert(array.name()) {
            return Err(clash(array.name(), array.name()));
        }
        let inner = array.name().match_indices('/').map(|(at, _)| &array.name()[..at]);
        if let Some(outer) = inner.into_iter().find(|outer| names.contains(outer)) {
            return Err(clash(outer, array.name()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(name: &str, shape: &[u64]) -> ParamsArray {
        ParamsArray::new(name, DType::F32, shape).unwrap()
    }

    fn shape() -> ParamsShape {
        let arrays = vec![array("a/weight", &[3, 5]), array("a/bias", &[3]), array("step", &[])];
        ParamsShape::new(arrays, 2, 3, 4).unwrap()
    }

    #[test]
    fn arrays_lie_on_cache_lines_one_after_the_other() {
        let shape = shape();
        let places: Vec<_> = shape.arrays().iter().map(|a| (a.offset(), a.bytes())).collect();
        assert_eq!(places, [(0, 60), (64, 12), (128, 4)]);
        assert_eq!((shape.slots(), shape.block_bytes(), shape.data_bytes()), (5, 4096, 24_576));
    }

    #[test]
    fn records_read_back_as_the_shape_and_changed_ones_are_refused() {
        let shape = shape();
        let records = shape.records();
        assert_eq!(ParamsShape::of_records(&records, 2, 5, 4).as_ref(), Some(&shape));
        for at in [0, 256, 257, 258, 264, 328, 336, 344] {
            let mut changed = records.clone();
            changed[at] ^= 0x80;
            assert_eq!(ParamsShape::of_records(&changed, 2, 5, 4), None, "byte {at}");
        }
        assert_eq!(ParamsShape::of_records(&records, 2, 1, 4), None);
        assert_eq!(ParamsShape::of_records(&[], 2, 5, 4), None);
    }

    #[test]
    fn names_and_sizes_that_cannot_be_stored_are_refused() {
        let long = "x".repeat(257);
        for name in ["", "/a", "a/", "a//b", "a\n", long.as_str()] {
            let refused = ParamsArray::new(name, DType::F32, &[1]).unwrap_err();
            assert!(matches!(refused, ParamsShapeError::BadName { .. }), "{name}: {refused}");
        }
        let refuse = |arrays| ParamsShape::new(arrays, 1, 2, 4).unwrap_err();
        let twice = refuse(vec![array("a", &[1]), array("a", &[1])]);
        assert!(matches!(twice, ParamsShapeError::Clash { .. }), "{twice}");
        assert!(twice.to_string().contains("`a`"), "{twice}");
        let inside = refuse(vec![array("a/b", &[1]), array("a", &[1])]);
        assert!(matches!(inside, ParamsShapeError::Clash { .. }), "{inside}");
        assert!(matches!(refuse(vec![]), ParamsShapeError::Count { count: 0 }));
        let axes = ParamsArray::new("a", DType::F32, &[1; 9]).unwrap_err();
        assert!(matches!(axes, ParamsShapeError::TooManyAxes { axes: 9, .. }), "{axes}");
        for shape in [&[u64::MAX, 2][..], &[1 << 40]] {
            let large = ParamsArray::new("a", DType::F32, shape).unwrap_err();
            assert!(matches!(large, ParamsShapeError::TooLarge { .. }), "{large}");
        }
        let many = refuse(vec![array("a", &[1 << 37]), array("b", &[1 << 37])]);
        assert!(matches!(many, ParamsShapeError::TooLarge { .. }), "{many}");
        for (kept, spare, readers) in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (40, 25, 1), (64, 1, 1)] {
            let limit = ParamsShape::new(vec![array("a", &[1])], kept, spare, readers);
            assert!(matches!(limit, Err(ParamsShapeError::Limit { .. })), "{kept} {spare}");
        }
    }
}
