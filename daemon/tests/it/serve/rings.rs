//! Rings of a test: the request, its bytes, and rows for it.

use std::time::Duration;

use backcast_core::{Ring, RingOptions, StepColumns, Writer};

use crate::shelf::{Shelf, schema};

/// Rows of a ring before any resize.
pub(crate) const ROWS: u64 = 20_000;
/// Longer than any step of a test takes.
pub(crate) const LONG: Duration = backcast_budget::WATCHDOG;

pub(crate) fn options(shelf: &Shelf) -> RingOptions {
    RingOptions::with_capacity(ROWS).base(shelf.base()).persistent(true)
}

/// Returns the bytes of a ring of `rows` rows.
pub(crate) fn bytes(shelf: &Shelf, rows: u64) -> u64 {
    Ring::planned_bytes(&schema(), &options(shelf).capacity(rows)).unwrap()
}

/// Appends rows of one episode, which does not end.
pub(crate) fn append(writer: &mut Writer, rows: u64) {
    let schema = writer.schema().clone();
    for row in 0..rows {
        let (obs, action) = ([0.5_f32; 6], [i32::try_from(row).unwrap()]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}
