//! Lists the arrays of a Parquet file's schema: the fields of structs, the elements of lists.

use arrow_schema::{DataType, Field, Schema};
use backcast_core::DType;
use backcast_files::arrow_type;

/// Maximum nesting of structs.
const MAX_DEPTH: usize = 16;

/// One array of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLeaf {
    /// Number of the array in the file.
    pub(crate) number: usize,
    /// Names of the structs around the array, then its own.
    pub(crate) path: Vec<String>,
    /// Type of its elements, or the name of a type that no column can hold.
    pub(crate) dtype: Result<DType, String>,
    /// Shape of one row, if all rows have the same.
    pub(crate) axes: Option<Vec<u32>>,
    /// Shape of one row in the file's metadata.
    pub(crate) noted: Option<Vec<u32>>,
}

impl FileLeaf {
    /// Returns the shape of one row if the file determines it.
    pub(crate) fn shape(&self) -> Option<Vec<u32>> {
        let axes = self.axes.clone()?;
        let items = |axes: &[u32]| axes.iter().map(|axis| u64::from(*axis)).product::<u64>();
        let noted = self.noted.clone().filter(|noted| items(noted) == items(&axes));
        Some(noted.unwrap_or(axes))
    }
}

/// Lists the arrays of a file by number.
pub(crate) fn leaves(schema: &Schema, shape_key: &str) -> Vec<FileLeaf> {
    let mut found = Vec::new();
    for field in schema.fields() {
        visit(field, &mut vec![field.name().clone()], Some(Vec::new()), shape_key, &mut found);
    }
    found
}

fn visit(
    field: &Field,
    path: &mut Vec<String>,
    axes: Option<Vec<u32>>,
    shape_key: &str,
    found: &mut Vec<FileLeaf>,
) {
    let noted = |field: &Field| {
        let text = field.metadata().get(shape_key)?;
        let axes = text.split(',').filter(|axis| !axis.is_empty()).map(str::parse);
        axes.collect::<Result<Vec<u32>, _>>().ok()
    };
    let (number, before) = (found.len(), path.len());
    match field.data_type() {
        DataType::Struct(fields) if before < MAX_DEPTH => {
            // Structs inside fixed-size lists are not supported: the shape of their fields stays
            // unknown.
            let axes = axes.filter(Vec::is_empty);
            for field in fields {
                path.push(field.name().clone());
                visit(field, path, axes.clone(), shape_key, found);
                path.pop();
            }
        }
        DataType::FixedSizeList(inner, length) => {
            let axes = axes.and_then(|mut axes| {
                axes.push(u32::try_from(*length).ok()?);
                Some(axes)
            });
            visit(inner, path, axes, shape_key, found);
        }
        DataType::List(inner) | DataType::LargeList(inner) | DataType::Map(inner, _) => {
            visit(inner, path, None, shape_key, found);
        }
        other => {
            let dtype = DType::ALL.into_iter().find(|dtype| arrow_type(*dtype) == *other);
            let dtype = dtype.ok_or_else(|| format!("{other}"));
            found.push(FileLeaf { number, path: path.clone(), dtype, axes, noted: None });
        }
    }
    if let (Some(noted), [only]) = (noted(field), found.get_mut(number..).unwrap_or_default()) {
        only.noted.get_or_insert(noted);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn arrays_are_found_with_their_paths_types_and_shapes() {
        let list = |field: Field, length| DataType::FixedSizeList(field.into(), length);
        let item = |of| Field::new("item", of, false);
        let noted = HashMap::from([("shape".to_owned(), "2,3".to_owned())]);
        let infos = vec![
            Field::new("image", list(item(DataType::UInt8), 6), false).with_metadata(noted),
            Field::new("goal", DataType::Utf8, true),
            Field::new("path", DataType::new_list(DataType::Float32, true), true),
        ];
        let schema = Schema::new(vec![
            Field::new("rewards", DataType::Float64, false),
            Field::new("infos", DataType::Struct(infos.into()), false),
            Field::new("grid", list(item(list(item(DataType::Int8), 3)), 2), false),
        ]);
        let found = leaves(&schema, "shape");
        let told: Vec<_> = found
            .iter()
            .map(|leaf| (leaf.number, leaf.path.join("/"), leaf.dtype.clone().ok(), leaf.shape()))
            .collect();
        assert_eq!(
            told,
            [
                (0, "rewards".to_owned(), Some(DType::F64), Some(vec![])),
                (1, "infos/image".to_owned(), Some(DType::U8), Some(vec![2, 3])),
                (2, "infos/goal".to_owned(), None, Some(vec![])),
                (3, "infos/path".to_owned(), Some(DType::F32), None),
                (4, "grid".to_owned(), Some(DType::I8), Some(vec![2, 3])),
            ]
        );
    }
}
