//! Converts columns of a ring to Gymnasium spaces in Minari's JSON, and back.

use backcast_core::{Column, DType};
use half::bf16;
use serde_json::{Map, Value, json};

/// Maximum nesting of spaces.
const MAX_DEPTH: usize = 8;

/// One array of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpaceLeaf {
    /// Keys of dicts and positions in tuples, from the root; empty if the space is one array.
    pub(crate) path: Vec<String>,
    /// Type and shape, or the reason why no column can hold them.
    pub(crate) holds: Result<(DType, Vec<u32>), String>,
}

/// First choice and largest value of an integer column, for a Discrete space. The first choice is
/// 0, or the smallest value if that is negative. `None` before the first value.
pub(crate) type Choices = Option<(i64, i64)>;

/// Maximum choices of a space, which Gymnasium counts in signed 64 bits.
pub(crate) const MAX_CHOICES: u64 = i64::MAX as u64;

/// Extends the range by a value; a new range begins at 0 or below. Returns `None` if a space cannot
/// have that many choices.
pub(crate) fn with_choice(choices: Choices, value: i128) -> Option<(i64, i64)> {
    let (least, most) =
        choices.map_or((0, value), |(least, most)| (i128::from(least), i128::from(most)));
    let (least, most) = (least.min(value), most.max(value));
    let fits = most - least < i128::from(MAX_CHOICES);
    if fits { Some((i64::try_from(least).ok()?, i64::try_from(most).ok()?)) } else { None }
}

/// Returns the space of columns; names below `root` are paths in a dict.
pub(crate) fn of_columns(root: &str, columns: &[(&Column, Choices)]) -> Value {
    if let [(column, choices)] = columns
        && column.name() == root
    {
        return of_column(column, *choices);
    }
    let mut spaces = Map::new();
    for (column, choices) in columns {
        let path: Vec<&str> = column.name().split('/').skip(1).collect();
        insert(&mut spaces, &path, of_column(column, *choices));
    }
    json!({ "type": "Dict", "subspaces": spaces })
}

fn insert(spaces: &mut Map<String, Value>, path: &[&str], space: Value) {
    match path {
        [] => {}
        [last] => {
            spaces.insert((*last).to_owned(), space);
        }
        [first, rest @ ..] => {
            let inner = spaces
                .entry((*first).to_owned())
                .or_insert_with(|| json!({ "type": "Dict", "subspaces": {} }));
            if let Some(Value::Object(inner)) = inner.get_mut("subspaces") {
                insert(inner, rest, space);
            }
        }
    }
}

fn of_column(column: &Column, choices: Choices) -> Value {
    let (dtype, shape) = (column.dtype(), column.shape());
    if let (Some((least, most)), true) = (choices, shape.is_empty()) {
        let n = i128::from(most) - i128::from(least) + 1;
        let n = u64::try_from(n).unwrap_or(MAX_CHOICES);
        return json!({ "type": "Discrete", "dtype": "int64", "start": least, "n": n });
    }
    let (low, high) = bounds(dtype);
    let full = |value: &Value| {
        shape.iter().rev().fold(value.clone(), |inner, axis| {
            Value::Array(vec![inner; usize::try_from(*axis).unwrap_or(0)])
        })
    };
    json!({
        "type": "Box", "dtype": dtype.name(), "shape": shape,
        "low": full(&low), "high": full(&high),
    })
}

/// Returns the bounds of the type. A ring has no other bounds.
fn bounds(dtype: DType) -> (Value, Value) {
    match dtype {
        DType::Bool => (json!(false), json!(true)),
        DType::U8 => (json!(0), json!(u8::MAX)),
        DType::U16 => (json!(0), json!(u16::MAX)),
        DType::U32 => (json!(0), json!(u32::MAX)),
        DType::U64 => (json!(0), json!(u64::MAX)),
        DType::I8 => (json!(i8::MIN), json!(i8::MAX)),
        DType::I16 => (json!(i16::MIN), json!(i16::MAX)),
        DType::I32 => (json!(i32::MIN), json!(i32::MAX)),
        DType::I64 => (json!(i64::MIN), json!(i64::MAX)),
        DType::F16 => (json!(-65504.0), json!(65504.0)),
        DType::BF16 => (json!(f32::from(bf16::MIN)), json!(f32::from(bf16::MAX))),
        DType::F32 => (json!(f32::MIN), json!(f32::MAX)),
        DType::F64 => (json!(f64::MIN), json!(f64::MAX)),
    }
}

/// Lists the arrays of a space by path.
pub(crate) fn leaves(space: &Value) -> Result<Vec<SpaceLeaf>, String> {
    let mut found = Vec::new();
    visit(space, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn visit(space: &Value, path: &mut Vec<String>, found: &mut Vec<SpaceLeaf>) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Err(format!("a space that is more than {MAX_DEPTH} levels deep"));
    }
    let kind = space.get("type").and_then(Value::as_str).ok_or("a space without a type")?;
    match kind {
        "Dict" => {
            let inner = space.get("subspaces").and_then(Value::as_object);
            for (key, space) in inner.ok_or("a Dict without subspaces")? {
                path.push(key.clone());
                visit(space, path, found)?;
                path.pop();
            }
        }
        "Tuple" => {
            let inner = space.get("subspaces").and_then(Value::as_array);
            for (at, space) in inner.ok_or("a Tuple without subspaces")?.iter().enumerate() {
                path.push(at.to_string());
                visit(space, path, found)?;
                path.pop();
            }
        }
        kind => found.push(SpaceLeaf { path: path.clone(), holds: array_of(kind, space) }),
    }
    Ok(())
}

/// Returns the type and shape of a space that is one array.
fn array_of(kind: &str, space: &Value) -> Result<(DType, Vec<u32>), String> {
    let dtype = || {
        let name = space.get("dtype").and_then(Value::as_str).unwrap_or_default();
        let known = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| format!("is a {kind} of {name:?}"))
    };
    let axes = |key: &str| {
        let axis = |axis: &Value| axis.as_u64().and_then(|axis| u32::try_from(axis).ok());
        let listed = space.get(key).and_then(Value::as_array);
        let shape: Option<Vec<u32>> = listed.and_then(|listed| listed.iter().map(axis).collect());
        shape.ok_or_else(|| format!("is a {kind} whose {key} is {:?}", space.get(key)))
    };
    match kind {
        "Box" => Ok((dtype()?, axes("shape")?)),
        "Discrete" => Ok((DType::I64, Vec::new())),
        "MultiDiscrete" => {
            // `nvec` has the number of choices of each element, in the shape of the array.
            let (mut shape, mut nvec) = (Vec::new(), space.get("nvec"));
            while let Some(Value::Array(inner)) = nvec.filter(|_| shape.len() <= MAX_DEPTH) {
                shape.push(u32::try_from(inner.len()).unwrap_or(u32::MAX));
                nvec = inner.first();
            }
            Ok((dtype()?, shape))
        }
        "MultiBinary" => match space.get("n") {
            Some(Value::Number(n)) => {
                let bits = n.as_u64().and_then(|n| u32::try_from(n).ok());
                Ok((DType::I8, vec![bits.ok_or_else(|| format!("is a {kind} whose n is {n}"))?]))
            }
            _ => Ok((DType::I8, axes("n")?)),
        },
        other => Err(format!("is a space of type {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::Schema;

    #[test]
    fn a_space_written_down_is_the_columns_it_was_made_of() {
        let schema = Schema::builder()
            .column("obs/pixels", DType::U8, &[4, 4])
            .column("obs/inner/speed", DType::F32, &[])
            .column("action", DType::I32, &[])
            .build()
            .unwrap();
        let columns = schema.columns();
        let obs = of_columns("obs", &[(&columns[0], None), (&columns[1], None)]);
        let leaf = |path: &[&str], dtype, shape: &[u32]| {
            let path = path.iter().map(|&name| name.to_owned()).collect();
            SpaceLeaf { path, holds: Ok((dtype, shape.to_vec())) }
        };
        assert_eq!(
            leaves(&obs).unwrap(),
            [leaf(&["inner", "speed"], DType::F32, &[]), leaf(&["pixels"], DType::U8, &[4, 4])]
        );
        let action = of_columns("action", &[(&columns[2], Some((0, 3)))]);
        assert_eq!(action, json!({"type": "Discrete", "dtype": "int64", "start": 0, "n": 4}));
        assert_eq!(leaves(&action).unwrap(), [leaf(&[], DType::I64, &[])]);
    }

    #[test]
    fn arrays_have_the_shapes_of_their_spaces() {
        let holds = |space: Value| leaves(&space).unwrap().remove(0).holds.unwrap();
        for (space, dtype, shape) in [
            (json!({"type": "Box", "dtype": "bool", "shape": []}), DType::Bool, &[][..]),
            (json!({"type": "Box", "dtype": "float32", "shape": [2, 3]}), DType::F32, &[2, 3]),
            (json!({"type": "MultiBinary", "n": 4}), DType::I8, &[4]),
            (json!({"type": "MultiBinary", "n": [2, 3]}), DType::I8, &[2, 3]),
            (json!({"type": "MultiDiscrete", "dtype": "int64", "nvec": [2, 3]}), DType::I64, &[2]),
            (
                json!({"type": "MultiDiscrete", "dtype": "int32", "nvec": [[2, 3, 4], [4, 5, 6]]}),
                DType::I32,
                &[2, 3],
            ),
        ] {
            assert_eq!(holds(space.clone()), (dtype, shape.to_vec()), "{space}");
        }
    }

    #[test]
    fn spaces_that_no_column_holds_say_so() {
        for (space, part) in [
            (json!({"type": "Text", "max_length": 3}), "Text"),
            (json!({"type": "Box", "dtype": "complex64", "shape": [1]}), "complex64"),
            (json!({"type": "Box", "dtype": "float32", "shape": [-1]}), "shape"),
            (json!({"type": "MultiBinary", "n": -1}), "-1"),
        ] {
            let reason = leaves(&space).unwrap().remove(0).holds.unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
        let mut deep = json!({"type": "Box", "dtype": "float32", "shape": [1]});
        for _ in 0..20 {
            deep = json!({"type": "Dict", "subspaces": {"x": deep}});
        }
        for (space, part) in
            [(json!({"type": "Dict"}), "subspaces"), (json!(3), "type"), (deep, "")]
        {
            let error = leaves(&space).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
