//! Makes rings of any schema to save, and compares them row by row.

use std::ops::Range;

use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions,
};
use tempfile::TempDir;

/// Every row of a ring: per lane the range, and per column the bytes.
pub(crate) type Content = Vec<(Range<u64>, Vec<Vec<u8>>)>;

/// A folder for rings and a store, removed at the end of the test.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        // Use memory if possible: the tests make thousands of rings.
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        Self { dir: dir.expect("a temporary directory") }
    }

    pub(crate) fn base(&self) -> Base {
        Base::at(self.dir.path())
    }

    pub(crate) fn store(&self) -> backcast_persist::Store {
        backcast_persist::Store::at(self.dir.path().join("store"))
    }
}

/// Returns a schema with one column of every kind that files store differently.
pub(crate) fn schema() -> Schema {
    Schema::builder()
        .column("obs/pixels", DType::U8, &[3, 2])
        .column("obs/near", DType::Bool, &[5])
        .column("action", DType::I32, &[])
        .column("half", DType::F16, &[])
        .column("safe", DType::Bool, &[])
        .column("reward", DType::F64, &[])
        .build()
        .expect("a good schema")
}

pub(crate) fn heap(schema: &Schema, lanes: u32, capacity: u64) -> Ring {
    Ring::heap(schema, RingOptions::with_capacity(capacity).lanes(lanes)).expect("a ring")
}

/// Returns a writer of all lanes.
pub(crate) fn writer(ring: &Ring) -> Writer {
    let options = WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::NextStep);
    ring.writer(options).expect("free lanes")
}

/// Numbers of one column for one step of all lanes.
enum Numbers {
    Bool(Vec<bool>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F16(Vec<half::f16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    BF16(Vec<half::bf16>),
}

/// Appends steps whose numbers follow from `seed`; about one in nine ends an episode.
pub(crate) fn append(writer: &mut Writer, schema: &Schema, lanes: u32, steps: u64, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..steps {
        let numbers: Vec<Numbers> = schema
            .columns()
            .iter()
            .map(|column| {
                let mut bytes = |width: usize| -> Vec<[u8; 8]> {
                    let _ = width;
                    (0..column.items() * lanes as usize).map(|_| next().to_le_bytes()).collect()
                };
                macro_rules! of {
                    ($variant:ident, $ty:ty) => {
                        Numbers::$variant(
                            bytes(size_of::<$ty>())
                                .iter()
                                .map(|b| {
                                    <$ty>::from_le_bytes(
                                        b[..size_of::<$ty>()].try_into().expect("as many"),
                                    )
                                })
                                .collect(),
                        )
                    };
                }
                match column.dtype() {
                    DType::Bool => Numbers::Bool(bytes(1).iter().map(|b| b[0] & 1 == 1).collect()),
                    DType::U8 => of!(U8, u8),
                    DType::U16 => of!(U16, u16),
                    DType::U32 => of!(U32, u32),
                    DType::U64 => of!(U64, u64),
                    DType::I8 => of!(I8, i8),
                    DType::I16 => of!(I16, i16),
                    DType::I32 => of!(I32, i32),
                    DType::I64 => of!(I64, i64),
                    DType::F16 => of!(F16, half::f16),
                    DType::F32 => of!(F32, f32),
                    DType::F64 => of!(F64, f64),
                    DType::BF16 => of!(BF16, half::bf16),
                }
            })
            .collect();
        let mut columns = StepColumns::of(schema);
        for (column, numbers) in schema.columns().iter().zip(&numbers) {
            let name = column.name();
            columns = match numbers {
                Numbers::Bool(v) => columns.with(name, v),
                Numbers::U8(v) => columns.with(name, v),
                Numbers::U16(v) => columns.with(name, v),
                Numbers::U32(v) => columns.with(name, v),
                Numbers::U64(v) => columns.with(name, v),
                Numbers::I8(v) => columns.with(name, v),
                Numbers::I16(v) => columns.with(name, v),
                Numbers::I32(v) => columns.with(name, v),
                Numbers::I64(v) => columns.with(name, v),
                Numbers::F16(v) => columns.with(name, v),
                Numbers::F32(v) => columns.with(name, v),
                Numbers::F64(v) => columns.with(name, v),
                Numbers::BF16(v) => columns.with(name, v),
            }
            .expect("the column fits");
        }
        let ends: Vec<bool> = (0..lanes).map(|_| next() % 9 == 0).collect();
        let cuts: Vec<bool> = (0..lanes).map(|_| next() % 31 == 0).collect();
        let step = columns.step(&ends, &cuts).expect("a whole step");
        writer.append(&step).expect("appended");
    }
}

/// Returns every readable row.
pub(crate) fn content(ring: &Ring) -> Content {
    (0..ring.lanes()).map(|lane| rows(ring, lane, ring.lane_span(lane).expect("a lane"))).collect()
}

/// Returns the rows of one lane.
pub(crate) fn rows(ring: &Ring, lane: u32, range: Range<u64>) -> (Range<u64>, Vec<Vec<u8>>) {
    let rows = ring.rows(lane, range.clone()).expect("readable rows");
    let columns = rows.columns().iter();
    (range, columns.map(|c| rows.bytes(c.name()).expect("a column").to_vec()).collect())
}
