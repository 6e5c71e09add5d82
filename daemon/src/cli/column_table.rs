//! Table of a ring's or snapshot's columns.

use super::console::{Align, Console};
use crate::objects::geometry::ColumnRow;
use crate::text::units;

/// Prints the columns.
pub(crate) fn print_columns(columns: &[ColumnRow], console: &mut Console<'_>) {
    let rows: Vec<Vec<String>> = columns
        .iter()
        .map(|column| {
            let shape: Vec<String> = column.shape.iter().map(u32::to_string).collect();
            vec![
                column.name.clone(),
                column.dtype.to_owned(),
                if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") },
                column.role.to_owned(),
                units::bytes(column.row_bytes as u64),
            ]
        })
        .collect();
    console.table(
        &[
            ("COLUMN", Align::Left),
            ("DTYPE", Align::Left),
            ("SHAPE", Align::Left),
            ("ROLE", Align::Left),
            ("PER ROW", Align::Right),
        ],
        &rows,
    );
}
