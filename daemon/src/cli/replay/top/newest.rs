//! Formats the newest rows of a lane.

use backcast_core::{
    Base, Column, DType, FINAL, GAP, ReadError, Ring, Rows, TERMINATED, TRUNCATED,
};
use half::{bf16, f16};

/// Maximum numbers in a cell.
const SHOWN: usize = 4;
/// Maximum attempts to read rows that a writer laps.
const ATTEMPTS: u32 = 16;
/// Bits of the column `flags`, and the words that are shown for them.
const FLAGS: [(u32, &str); 4] =
    [(TERMINATED, "terminated"), (TRUNCATED, "truncated"), (FINAL, "final"), (GAP, "gap")];

/// Rows of a lane, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) titles: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Newest {
    /// Copies up to `count` of the newest rows and closes the ring. An error is a message.
    pub(crate) fn read(base: &Base, name: &str, lane: u32, count: u64) -> Result<Self, String> {
        let ring = Ring::attach_in(base, name).map_err(|error| error.to_string())?;
        let mut refusal = format!("ring `{name}` has no lane {lane}");
        for attempt in 0..ATTEMPTS {
            let Some(span) = ring.lane_span(lane) else { return Err(refusal) };
            // Fewer rows on every second attempt: a fast writer soon overwrites a short lane.
            let from = span.end.saturating_sub((count >> (attempt / 2)).max(1)).max(span.start);
            match ring.rows(lane, from..span.end) {
                Ok(rows) => return Ok(Self::of(&rows)),
                Err(error @ (ReadError::Lapped { .. } | ReadError::NotReadable { .. })) => {
                    refusal = error.to_string();
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(refusal)
    }

    fn of(rows: &Rows) -> Self {
        let columns = rows.columns();
        let bytes: Vec<&[u8]> =
            columns.iter().map(|column| rows.bytes(column.name()).unwrap_or_default()).collect();
        let cell = |at: usize, column: &Column, row: usize| {
            let width = column.width();
            let bytes = bytes.get(at).and_then(|all| all.get(row * width..(row + 1) * width));
            let bytes = bytes.unwrap_or_default();
            if column.name() == "flags" { flags(bytes) } else { numbers(column.dtype(), bytes) }
        };
        Self {
            titles: columns.iter().map(|column| column.name().to_owned()).collect(),
            rows: (0..rows.len())
                .rev()
                .map(|row| {
                    columns.iter().enumerate().map(|(at, column)| cell(at, column, row)).collect()
                })
                .collect(),
        }
    }
}

fn flags(bytes: &[u8]) -> String {
    let word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let set = FLAGS.iter().filter(|(bit, _)| word & bit != 0).map(|(_, name)| *name);
    let set: Vec<&str> = set.collect();
    if set.is_empty() { "-".to_owned() } else { set.join(" ") }
}

/// Formats a scalar, or the first elements of an array.
fn numbers(dtype: DType, bytes: &[u8]) -> String {
    let size = dtype.size();
    let all: Vec<&[u8]> = bytes.chunks_exact(size.max(1)).collect();
    let shown: Vec<String> = all.iter().take(SHOWN).map(|bytes| number(dtype, bytes)).collect();
    match all.len() {
        1 => shown.concat(),
        count if count <= SHOWN => format!("[{}]", shown.join(" ")),
        count => format!("[{} .. {} in all]", shown.join(" "), count),
    }
}

fn number(dtype: DType, bytes: &[u8]) -> String {
    macro_rules! read {
        ($of:ty) => {
            bytes
                .first_chunk()
                .map(|bytes| <$of>::from_le_bytes(*bytes).to_string())
                .unwrap_or_default()
        };
    }
    match dtype {
        DType::Bool => if bytes.first() == Some(&0) { "false" } else { "true" }.to_owned(),
        DType::U8 => read!(u8),
        DType::U16 => read!(u16),
        DType::U32 => read!(u32),
        DType::U64 => read!(u64),
        DType::I8 => read!(i8),
        DType::I16 => read!(i16),
        DType::I32 => read!(i32),
        DType::I64 => read!(i64),
        DType::F16 => bytes
            .first_chunk()
            .map_or_else(String::new, |bytes| float(f64::from(f16::from_le_bytes(*bytes)))),
        DType::BF16 => bytes
            .first_chunk()
            .map_or_else(String::new, |bytes| float(f64::from(bf16::from_le_bytes(*bytes)))),
        DType::F32 => bytes
            .first_chunk()
            .map_or_else(String::new, |bytes| float(f64::from(f32::from_le_bytes(*bytes)))),
        DType::F64 => {
            bytes.first_chunk().map_or_else(String::new, |bytes| float(f64::from_le_bytes(*bytes)))
        }
    }
}

/// Formats a number with at most four decimals, without trailing zeros. A magnitude below 0.001,
/// except 0, and one from 1e6 on have three decimals and an exponent.
fn float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.4}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::{AutoresetMode, RingOptions, Schema, StepColumns, WriterOptions};

    #[test]
    fn numbers_of_every_type_read_as_they_are() {
        for (dtype, bytes, text) in [
            (DType::Bool, &[1_u8][..], "true"),
            (DType::U8, &[255], "255"),
            (DType::I8, &[255], "-1"),
            (DType::U16, &[0, 1], "256"),
            (DType::I16, &[255, 255], "-1"),
            (DType::U32, &[1, 0, 0, 0], "1"),
            (DType::I32, &[255; 4], "-1"),
            (DType::U64, &[255; 8], "18446744073709551615"),
            (DType::I64, &[255; 8], "-1"),
            (DType::F16, &[0x00, 0x3e], "1.5"),
            (DType::BF16, &[0xc0, 0x3f], "1.5"),
            (DType::BF16, &[0x80, 0xff], "-inf"),
            (DType::F32, &0.1_f32.to_le_bytes(), "0.1"),
            (DType::F32, &1e9_f32.to_le_bytes(), "1.000e9"),
            (DType::F32, &f32::NAN.to_le_bytes(), "NaN"),
            (DType::F64, &(-2.0_f64).to_le_bytes(), "-2"),
            (DType::F64, &1e-9_f64.to_le_bytes(), "1.000e-9"),
            (DType::F64, &f64::INFINITY.to_le_bytes(), "inf"),
            (DType::U8, &[1, 2, 3], "[1 2 3]"),
            (DType::U8, &[1, 2, 3, 4, 5], "[1 2 3 4 .. 5 in all]"),
        ] {
            assert_eq!(numbers(dtype, bytes), text, "{dtype:?} {bytes:?}");
        }
    }

    #[test]
    fn the_newest_rows_come_first_with_their_flags() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let schema = Schema::builder().column("obs", DType::F32, &[2]).build().unwrap();
        let options = RingOptions::with_capacity(100_u64).base(base.clone());
        let ring = Ring::create("pong", &schema, options).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for t in 0..5_u8 {
            let obs = [f32::from(t), 0.5];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[t == 4], &[false]).unwrap()).unwrap();
        }
        let newest = Newest::read(&base, "pong", 0, 3).unwrap();
        assert_eq!(newest.titles, ["seq", "episode", "t", "flags", "obs"]);
        assert_eq!(newest.rows[0], ["4", "0", "4", "terminated", "[4 0.5]"]);
        assert_eq!(newest.rows[2], ["2", "0", "2", "-", "[2 0.5]"]);
        assert_eq!(newest.rows.len(), 3);
        assert_eq!(Newest::read(&base, "pong", 0, 99).unwrap().rows.len(), 5);
        assert!(Newest::read(&base, "pong", 1, 3).unwrap_err().contains("lane 1"));
        assert!(Newest::read(&base, "pang", 0, 3).unwrap_err().contains("pang"));
    }
}
