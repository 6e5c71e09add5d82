//! Rows that Rust and Python both compute: every value follows from lane and sequence number by the
//! rules of `tests/python/peer.py`.

use backcast_core::{DType, FINAL, GAP, Rows, Schema, SchemaError};
use half::{bf16, f16};

/// Returns a schema with one column of each element type, an observation of two columns, and a
/// reward.
pub fn schema() -> Result<Schema, SchemaError> {
    let obs = Schema::builder().column("obs/x", DType::F32, &[3]).column("obs/n", DType::U64, &[]);
    let every = DType::ALL
        .into_iter()
        .fold(obs, |schema, dtype| schema.column(&format!("every/{dtype}"), dtype, &[]));
    every.column("reward", DType::F32, &[]).build()
}

/// Returns the number that every value of a row follows from.
#[must_use]
pub fn number(lane: u32, seq: u64) -> u64 {
    u64::from(lane) * 1_000_003 + seq * 31
}

/// Returns the bytes of one row of a column. A FINAL row has zeros in its step columns.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "remainders that fit their types exactly, and an f64 rounded as Python rounds it"
)]
pub fn value(column: &str, lane: u32, seq: u64) -> Vec<u8> {
    let n = number(lane, seq);
    let scrambled = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let signed = (n % 251).cast_signed();
    match column {
        "obs/x" => {
            let first = (n % (1 << 20)) as f32;
            [first, first + 1.0, first + 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect()
        }
        "obs/n" => n.to_ne_bytes().to_vec(),
        "every/bool" => vec![u8::from(n % 2 == 1)],
        "every/u1" => vec![(n % 251) as u8],
        "every/u2" => ((n % 65_521) as u16).to_ne_bytes().to_vec(),
        "every/u4" => ((scrambled % 4_294_967_291) as u32).to_ne_bytes().to_vec(),
        "every/u8" => scrambled.to_ne_bytes().to_vec(),
        "every/i1" => ((signed - 125) as i8).to_ne_bytes().to_vec(),
        "every/i2" => (((n % 65_521).cast_signed() - 32_760) as i16).to_ne_bytes().to_vec(),
        "every/i4" => {
            (((scrambled % (1 << 31)).cast_signed() - (1 << 30)) as i32).to_ne_bytes().to_vec()
        }
        "every/i8" => scrambled.cast_signed().to_ne_bytes().to_vec(),
        "every/f2" => f16::from_f64((n % 2_048) as f64 / 8.0).to_ne_bytes().to_vec(),
        "every/f4" => ((n % (1 << 24)) as f32 / 16.0).to_ne_bytes().to_vec(),
        "every/f8" => (n as f64 / 3.0).to_ne_bytes().to_vec(),
        "every/bfloat16" => bf16::from_f32((n % 256) as f32 / 8.0).to_ne_bytes().to_vec(),
        _ => ((n % 1000 + 1) as f32).to_ne_bytes().to_vec(), // reward
    }
}

/// Compares rows with the expected ones.
pub fn check(rows: &Rows) -> Result<(), String> {
    let (lane, range) = rows.place();
    let column = |name| rows.column::<u32>(name).map_err(|e| e.to_string());
    let (steps, flags) = (column("t")?, column("flags")?);
    let episodes = rows.column::<u64>("episode").map_err(|e| e.to_string())?;
    for (i, seq) in range.clone().enumerate() {
        let is_final = flags[i] & FINAL != 0;
        for column in rows.columns().iter().skip(4) {
            let mut expected = value(column.name(), lane, seq);
            if is_final && !column.name().starts_with("obs/") {
                expected.fill(0);
            }
            let bytes = rows.bytes(column.name()).unwrap_or_default();
            let width = column.width();
            let found = bytes.get(i * width..(i + 1) * width).unwrap_or_default();
            if found != expected {
                let name = column.name();
                return Err(format!("lane {lane}, row {seq}, {name}: {found:?}, not {expected:?}"));
            }
        }
        let Some(before) = i.checked_sub(1) else { continue };
        let begins = flags[before] & FINAL != 0 || flags[i] & GAP != 0;
        let (t, episode) =
            if begins { (0, episodes[before] + 1) } else { (steps[before] + 1, episodes[before]) };
        if (steps[i], episodes[i]) != (t, episode) {
            return Err(format!("lane {lane}, row {seq}: step {} of {}", steps[i], episodes[i]));
        }
    }
    Ok(())
}
