//! Arrays as JSON: the code of the element type, the shape, and the bytes in hexadecimal digits.

use std::fmt::Write;

use backcast_core::{Batch, Column, Element, Lease, Rows};
use serde_json::{Map, Value, json};

/// Returns the arrays of a batch by key.
pub(super) fn of_batch(batch: &Batch) -> Map<String, Value> {
    fn of<T: Element>(batch: &Batch, key: &str) -> Option<Value> {
        let (elements, shape) = batch.elements::<T>(key).ok()?;
        Some(json!([T::DTYPE.code(), shape, hex(bytemuck::cast_slice(&elements))]))
    }
    let array = |key: &str| {
        let real = of::<f32>(batch, key).or_else(|| of::<f64>(batch, key));
        let signed = real.or_else(|| of::<i64>(batch, key)).or_else(|| of::<i32>(batch, key));
        let small = signed.or_else(|| of::<i16>(batch, key)).or_else(|| of::<u16>(batch, key));
        small.or_else(|| of::<u8>(batch, key)).or_else(|| of::<bool>(batch, key))
    };
    batch.keys().map(|key| (key.to_owned(), array(key).unwrap_or_default())).collect()
}

/// Returns the columns of rows by name.
pub(super) fn of_rows(rows: &Rows) -> Map<String, Value> {
    let array = |column: &Column| of_column(column, rows.bytes(column.name()).unwrap_or_default());
    rows.columns().iter().map(|column| (column.name().to_owned(), array(column))).collect()
}

/// Returns the columns of leased rows by name.
pub(super) fn of_lease(lease: &Lease) -> Map<String, Value> {
    let array = |(at, column): (usize, &Column)| {
        let mut bytes = vec![0; column.width() * lease.len()];
        for (row, out) in bytes.chunks_exact_mut(column.width()).enumerate() {
            assert!(lease.copy_row(at, row, out), "row {row} of {}", column.name());
        }
        (column.name().to_owned(), of_column(column, &bytes))
    };
    lease.columns().iter().enumerate().map(array).collect()
}

fn of_column(column: &Column, bytes: &[u8]) -> Value {
    let mut shape = vec![bytes.len() / column.width()];
    shape.extend(column.shape().iter().map(|axis| *axis as usize));
    json!([column.dtype().code(), shape, hex(bytes)])
}

/// Returns an array of flags.
pub(super) fn of_flags(flags: &[bool]) -> Value {
    json!(["bool", [flags.len()], hex(bytemuck::cast_slice(flags))])
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of hexadecimal digits.
pub(super) fn bytes(digits: &Value) -> Vec<u8> {
    let digits = digits.as_str().unwrap_or_default().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(|pair| byte(pair).expect("hexadecimal digits")).collect()
}
