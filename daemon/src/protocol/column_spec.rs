//! Parses columns: `NAME:DTYPE[:SHAPE[:ROLE]]` on the command line, or a JSON file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use backcast_core::{DType, Role, Schema, SchemaError};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

/// A requested column. Without a role, the name decides the role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnSpec {
    name: String,
    dtype: DType,
    shape: Vec<u32>,
    role: Option<Role>,
}

/// Error of a column's text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ColumnSpecError {
    #[error(
        "column `{text}` has {parts} part(s); write NAME:DTYPE, NAME:DTYPE:SHAPE or \
         NAME:DTYPE:SHAPE:ROLE, for example obs:u1:84x84"
    )]
    Parts { text: String, parts: usize },
    #[error("column `{text}` has no name; write NAME:DTYPE, for example action:i4")]
    NoName { text: String },
    #[error(
        "column `{column}` has dtype `{dtype}`; use bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 or \
         bfloat16"
    )]
    DType { column: String, dtype: String },
    #[error(
        "column `{column}` has shape `{shape}`; write sizes of at least 1 with x between them, \
         for example 84x84, and nothing for a scalar"
    )]
    Shape { column: String, shape: String },
    #[error("column `{column}` has role `{role}`; use obs or step")]
    Role { column: String, role: String },
}

/// Error of a `--schema` file.
#[derive(Debug, Error)]
pub(crate) enum SchemaFileError {
    #[error("cannot read schema file {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "schema file {} is not understood: {source}; write {{\"obs\": [\"u1\", [84, 84]], \
         \"action\": \"i4\", \"day\": [\"i4\", [], \"obs\"]}}",
        path.display()
    )]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Column(#[from] ColumnSpecError),
}

impl FromStr for ColumnSpec {
    type Err = ColumnSpecError;

    fn from_str(text: &str) -> Result<Self, ColumnSpecError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (name, dtype, shape, role) = match parts[..] {
            [name, dtype] => (name, dtype, "", ""),
            [name, dtype, shape] => (name, dtype, shape, ""),
            [name, dtype, shape, role] => (name, dtype, shape, role),
            _ => return Err(ColumnSpecError::Parts { text: text.to_owned(), parts: parts.len() }),
        };
        if name.is_empty() {
            return Err(ColumnSpecError::NoName { text: text.to_owned() });
        }
        let sizes: Result<Vec<u32>, _> =
            shape.split('x').filter(|_| !shape.is_empty()).map(str::parse::<u32>).collect();
        let shape = match sizes {
            Ok(sizes) if !sizes.contains(&0) => sizes,
            _ => {
                return Err(ColumnSpecError::Shape {
                    column: name.to_owned(),
                    shape: shape.to_owned(),
                });
            }
        };
        Self::new(name, dtype, shape, (!role.is_empty()).then_some(role))
    }
}

impl ColumnSpec {
    pub(crate) fn new(
        name: &str,
        dtype: &str,
        shape: Vec<u32>,
        role: Option<&str>,
    ) -> Result<Self, ColumnSpecError> {
        let column = || name.to_owned();
        let role = match role {
            None => None,
            Some("obs") => Some(Role::Obs),
            Some("step") => Some(Role::Step),
            Some(other) => {
                return Err(ColumnSpecError::Role { column: column(), role: other.to_owned() });
            }
        };
        let dtype = DType::from_str(dtype)
            .map_err(|_| ColumnSpecError::DType { column: column(), dtype: dtype.to_owned() })?;
        Ok(Self { name: column(), dtype, shape, role })
    }
}

/// Reads the columns of a `--schema` file in the file's order.
pub(crate) fn read_schema_file(path: &Path) -> Result<Vec<ColumnSpec>, SchemaFileError> {
    let text = fs::read_to_string(path)
        .map_err(|source| SchemaFileError::Read { path: path.to_owned(), source })?;
    let tree: Group = serde_json::from_str(&text)
        .map_err(|source| SchemaFileError::Parse { path: path.to_owned(), source })?;
    let mut columns = Vec::new();
    flatten(tree, "", &mut columns)?;
    Ok(columns)
}

/// Builds a schema from columns.
pub(crate) fn schema(columns: &[ColumnSpec]) -> Result<Schema, SchemaError> {
    let mut builder = Schema::builder();
    for ColumnSpec { name, dtype, shape, role } in columns {
        builder = match role {
            None => builder.column(name, *dtype, shape),
            Some(role) => builder.column_as(name, *dtype, shape, *role),
        };
    }
    builder.build()
}

fn flatten(
    group: Group,
    prefix: &str,
    columns: &mut Vec<ColumnSpec>,
) -> Result<(), ColumnSpecError> {
    for (key, node) in group.0 {
        let name = format!("{prefix}{key}");
        match node {
            Node::Column { dtype, shape, role } => {
                columns.push(ColumnSpec::new(&name, &dtype, shape, role.as_deref())?);
            }
            Node::Group(inner) => flatten(inner, &format!("{name}/"), columns)?,
        }
    }
    Ok(())
}

/// A JSON object in file order, which is the order of the columns.
struct Group(Vec<(String, Node)>);

enum Node {
    Column { dtype: String, shape: Vec<u32>, role: Option<String> },
    Group(Group),
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NodeVisitor).and_then(|node| match node {
            Node::Group(group) => Ok(group),
            Node::Column { .. } => Err(de::Error::custom("the outermost value must be an object")),
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a dtype such as \"i4\", or [dtype, shape, role]")
    }

    fn visit_str<E: de::Error>(self, dtype: &str) -> Result<Node, E> {
        Ok(Node::Column { dtype: dtype.to_owned(), shape: Vec::new(), role: None })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Node, A::Error> {
        let dtype = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let shape = parts.next_element()?.unwrap_or_default();
        let role = parts.next_element()?;
        if parts.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::invalid_length(4, &self));
        }
        Ok(Node::Column { dtype, shape, role })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut group: Vec<(String, Node)> = Vec::new();
        while let Some((key, node)) = entries.next_entry::<String, Node>()? {
            if group.iter().any(|(known, _)| *known == key) {
                return Err(de::Error::custom(format_args!("key \"{key}\" appears twice")));
            }
            group.push((key, node));
        }
        Ok(Node::Group(Group(group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_read_from_two_to_four_parts() {
        let spec = |name: &str, dtype, shape: &[u32], role| {
            Ok(ColumnSpec { name: name.to_owned(), dtype, shape: shape.to_vec(), role })
        };
        for (text, expected) in [
            ("action:i4", spec("action", DType::I32, &[], None)),
            ("state:bfloat16:2x512:step", spec("state", DType::BF16, &[2, 512], Some(Role::Step))),
            ("obs:u1:84x84", spec("obs", DType::U8, &[84, 84], None)),
            ("day:i4::obs", spec("day", DType::I32, &[], Some(Role::Obs))),
            ("obs/x:float32:3", spec("obs/x", DType::F32, &[3], None)),
            ("obs/x:f4:3:step", spec("obs/x", DType::F32, &[3], Some(Role::Step))),
        ] {
            assert_eq!(text.parse::<ColumnSpec>(), expected, "{text}");
        }
    }

    #[test]
    fn a_bad_column_is_refused_with_its_text_and_a_remedy() {
        for (text, value, remedy) in [
            ("action", "`action`", "NAME:DTYPE"),
            ("a:i4:1:obs:x", "5", "NAME:DTYPE"),
            (":i4", "`:i4`", "action:i4"),
            ("a:i5", "`i5`", "u1"),
            ("a:i4:0x2", "`0x2`", "1"),
            ("a:i4:84*84", "`84*84`", "84x84"),
            ("a:i4:-1", "`-1`", "1"),
            ("a:i4:99999999999", "`99999999999`", "84x84"),
            ("a:i4::observation", "`observation`", "step"),
        ] {
            let message = text.parse::<ColumnSpec>().unwrap_err().to_string();
            assert!(message.contains(value) && message.contains(remedy), "{text}: {message}");
        }
    }

    #[test]
    fn a_schema_file_keeps_its_order_and_nests_with_slashes() {
        let text = r#"{"reward": "f4", "obs": {"z": ["u1", [2, 3]], "a": "f4"},
                       "day": ["i4", [], "obs"]}"#;
        let mut columns = Vec::new();
        flatten(serde_json::from_str(text).unwrap(), "", &mut columns).unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["reward", "obs/z", "obs/a", "day"]);
        assert_eq!(columns[1].shape, [2, 3]);
        assert_eq!(columns[3].role, Some(Role::Obs));
    }

    #[test]
    fn a_schema_file_of_another_shape_is_refused() {
        for (text, why) in [
            ("[]", "object"),
            ("{\"a\": 3}", "dtype"),
            ("{\"a\": [\"i4\", [1], \"obs\", 4]}", "invalid length"),
            ("{\"a\": []}", "invalid length 0"),
            ("{\"a\": \"i4\", \"a\": \"i4\"}", "a"),
            ("{\"a\": ", "EOF"),
        ] {
            let Err(error) = serde_json::from_str::<Group>(text) else { panic!("{text}") };
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }
}
