//! Comparison of docs/layout.md with the code: every field of every table, its offset and its size.

use std::collections::{BTreeMap, BTreeSet};

use backcast_layout::{Field, tables};

/// Offset and size of a field, by table and name.
type Fields = BTreeMap<(String, String), (usize, usize)>;

/// Parses rows of the form `` | 0x080 | 8 | `reserved` | ... | `` below a heading
/// `` ### `Table` ``.
fn documented(text: &str) -> Fields {
    let mut table = String::new();
    let mut fields = Fields::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### `") {
            heading.split('`').next().unwrap_or_default().clone_into(&mut table);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, offset, size, field, ..] = cells.as_slice() else { continue };
        let Some(offset) = offset.strip_prefix("0x") else { continue };
        let offset = usize::from_str_radix(offset, 16).expect("an offset in hex");
        let size = size.parse().expect("a size in bytes");
        let field = field.trim_matches('`').to_owned();
        let twice = fields.insert((table.clone(), field), (offset, size));
        assert!(twice.is_none(), "a field stands twice: {line}");
    }
    fields
}

#[test]
fn the_byte_tables_of_the_documentation_are_those_of_the_code() {
    let text = include_str!("../../docs/layout.md");
    let in_code: Fields = tables()
        .into_iter()
        .map(|Field { table, field, offset, size }| ((table.into(), field.into()), (offset, size)))
        .collect();
    let in_docs = documented(text);
    for (name, place) in &in_code {
        assert_eq!(in_docs.get(name), Some(place), "{name:?} in docs/layout.md");
    }
    for name in in_docs.keys() {
        assert!(in_code.contains_key(name), "{name:?} is in docs/layout.md and not in the code");
    }
}

#[test]
fn the_constants_of_the_documentation_are_those_of_the_code() {
    let text = include_str!("../../docs/layout.md");
    let version = format!("Layout version {}.", backcast_layout::LAYOUT_VERSION);
    assert!(text.contains(&version), "docs/layout.md lacks `{version}`");
    let magics = [
        ("ring.ctl", backcast_layout::MAGIC),
        ("lane-NNNN.dat", backcast_layout::LANE_MAGIC),
        ("ring.rdr", backcast_layout::READERS_MAGIC),
        ("ring.lim", backcast_layout::LIMITER_MAGIC),
        ("ring.low", backcast_layout::LOW_MAGIC),
        ("table-NAME.dat", backcast_layout::TABLE_MAGIC),
        ("panel.dat", backcast_layout::SEALED_MAGIC),
        ("params.ctl", backcast_layout::PARAMS_MAGIC),
        ("params.dat", backcast_layout::PARAMS_DATA_MAGIC),
    ];
    let different: BTreeSet<[u8; 8]> = magics.iter().map(|(_, magic)| *magic).collect();
    assert_eq!(different.len(), magics.len(), "two kinds of file begin alike");
    for (name, magic) in magics {
        let hex: Vec<String> = magic.iter().map(|b| format!("{b:02x}")).collect();
        let row = format!("| `{name}` | `{}` |", hex.join(" "));
        assert!(text.contains(&row), "docs/layout.md lacks {row}");
    }
}
