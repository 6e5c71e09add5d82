//! Columns that a schema refuses.

use backcast_core::{DType, Role, Schema};

use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row("a schema without columns", |_| columns(&[]), "Empty", &["no column", "at least one"]),
    row("a doubled column", |_| columns(&["a", "a"]), "Conflict", &["`a`", "once", "rename"]),
    row(
        "a column that is array and dict",
        |_| columns(&["obs", "obs/x"]),
        "Conflict",
        &["`obs/x`", "`obs`", "rename"],
    ),
    row("a reserved name", |_| columns(&["seq"]), "Reserved", &["`seq`", "choose another name"]),
    row(
        "a name of whole episodes",
        |_| columns(&["obs", "length"]),
        "Reserved",
        &["`length`", "offsets", "choose another name"],
    ),
    row(
        "a name that batches make",
        |_| columns(&["next_obs"]),
        "Reserved",
        &["`next_obs`", "next_", "choose another name"],
    ),
    row(
        "more columns than a ring has",
        |_| {
            let names: Vec<String> = (0..256).map(|i| format!("c{i}")).collect();
            columns(&names.iter().map(String::as_str).collect::<Vec<_>>())
        },
        "TooManyColumns",
        &["256", "255", "merge"],
    ),
    row("an empty column name", |_| columns(&[""]), "Column(BadName", &["``", "empty", "48 bytes"]),
    row("a column name with a blank", |_| columns(&["a b"]), "Column(BadName", &["`a b`", "A-Z"]),
    row(
        "a column name too long",
        |_| columns(&["x".repeat(49).as_str()]),
        "Column(BadName",
        &["xxx", "48"],
    ),
    row("an axis of nothing", |_| shaped(&[3, 0]), "Column(BadWidth", &["[3, 0]", "positive axes"]),
    row("too many axes", |_| shaped(&[1; 7]), "Column(TooManyAxes", &["7 axes", "6", "flatten"]),
    row(
        "a row too wide",
        |_| shaped(&[1 << 20, 1 << 20]),
        "Column(BadWidth",
        &["1073741824", "split"],
    ),
    row(
        "a dtype nobody has",
        |_| refusal("float".parse::<DType>()),
        "UnknownDType",
        &["`float`", "f4"],
    ),
    row("a third role", |_| refusal("info".parse::<Role>()), "UnknownRole", &["`info`", "step"]),
];

fn columns(names: &[&str]) -> Option<Refusal> {
    let builder = names.iter().fold(Schema::builder(), |b, name| b.column(name, DType::F32, &[]));
    refusal(builder.build())
}

fn shaped(shape: &[u32]) -> Option<Refusal> {
    refusal(Schema::builder().column("x", DType::F32, shape).build())
}
