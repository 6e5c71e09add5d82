//! Writes the rows that an export reads from a ring as a Parquet table, and restores the ring from
//! it, exact to the bit.

mod description;
mod read;
mod rows_hash;
mod write;

use arrow_schema::{Field, Schema as ArrowSchema};
use backcast_core::{DType, Schema};
use backcast_files::arrow_field;

use crate::columns::field;

pub(crate) use read::read;
pub(crate) use write::write;

/// Built-in columns of a table, before the ring's.
const BUILT_IN: [(&str, DType); 5] = [
    ("lane", DType::U32),
    ("seq", DType::U64),
    ("episode", DType::U64),
    ("t", DType::U32),
    ("flags", DType::U32),
];

/// Returns the columns of the table of a ring.
fn schema(of: &Schema) -> ArrowSchema {
    let built_in = BUILT_IN.iter().map(|(name, dtype)| arrow_field(name, *dtype, &[]));
    let fields: Vec<Field> = built_in.chain(of.columns().iter().map(field)).collect();
    ArrowSchema::new(fields)
}
