//! Columns of the ring that is made from a dataset: one for each array of the dataset's spaces, and
//! for each other array in its files.

use std::path::Path;

use backcast_core::{DType, Role, Schema};
use serde_json::Value;

use super::episode_file::SHAPE;
use super::notes::RingColumns;
use super::space::{self, SpaceLeaf};
use super::{ACTIONS, NOTES, OBSERVATIONS, REWARDS, TERMINATIONS, TRUNCATIONS};
use crate::columns::{FileLeaf, UntrustedParquet};
use crate::error::ImportError;
use crate::leave_out::{self, LeaveOut};

/// Column with the episode's number in some files of Minari.
const EPISODE_ID: &str = "episode_id";

const OBSERVATION_SPACE: &str = "observation_space";
const ACTION_SPACE: &str = "action_space";

/// Place of a ring's column in the files of episodes.
#[derive(Clone, Debug)]
pub(super) struct ColumnSource {
    pub(super) path: Vec<String>,
    /// Type of the elements in the files.
    pub(super) stored: DType,
}

/// A column to find in the files.
struct ExpectedColumn {
    name: String,
    path: Vec<String>,
    role: Role,
    /// Type and shape, or the reason why no column can hold them. `None` takes the type and the
    /// shape from the files.
    holds: Option<Result<(DType, Vec<u32>), String>>,
    /// Whether the ring has the type of `holds` rather than that of the files.
    exact: bool,
}

/// Columns of a dataset, in its files and in the ring.
#[derive(Debug)]
pub(super) struct DatasetColumns {
    pub(super) schema: Schema,
    /// Sources by column of the schema.
    pub(super) sources: Vec<ColumnSource>,
    /// Arrays of the first file, which all other files must have.
    expected: Vec<FileLeaf>,
    leave_out: LeaveOut,
}

impl DatasetColumns {
    /// Finds the columns of a dataset. `metadata` is the content of the file `about`; `first` is
    /// the file of the first episode, `None` for a dataset without episodes.
    pub(super) fn of(
        about: &Path,
        metadata: &Value,
        first: Option<&UntrustedParquet>,
        leave_out: &LeaveOut,
    ) -> Result<Self, ImportError> {
        let bad = |what: String| ImportError::Damaged {
            path: about.to_owned(),
            part: "the dataset's metadata".to_owned(),
            what,
        };
        let leaves = first.map(|file| file.leaves(SHAPE)).transpose()?.unwrap_or_default();
        let notes = metadata.get(NOTES).map(RingColumns::parse).transpose().map_err(bad)?.flatten();
        let mut wanted = if let Some(notes) = notes {
            noted(notes).map_err(|source| ImportError::Schema { path: about.to_owned(), source })?
        } else {
            for key in [OBSERVATION_SPACE, ACTION_SPACE] {
                if !metadata.get(key).is_some_and(Value::is_string) {
                    let what = format!(
                        "it has no {key}; write the dataset again with Minari 0.5 or later"
                    );
                    return Err(ImportError::NotRead { path: about.to_owned(), what });
                }
            }
            of_spaces(metadata).map_err(bad)?
        };
        let unknown = |leaf: &&FileLeaf| {
            let known = [TERMINATIONS, TRUNCATIONS, EPISODE_ID];
            !known.iter().any(|known| leaf.path == [*known])
                && !wanted.iter().any(|wanted| wanted.path == leaf.path)
        };
        let more: Vec<ExpectedColumn> =
            leaves.iter().filter(unknown).map(unknown_to_spaces).collect();
        wanted.extend(more);
        let names: Vec<String> = wanted.iter().map(|wanted| wanted.name.clone()).collect();
        leave_out.check(about, &names)?;
        wanted.retain(|wanted| !leave_out.has(&[&*wanted.name]));
        let (mut builder, mut sources) = (Schema::builder(), Vec::new());
        for wanted in wanted {
            let leaf = match first {
                Some(file) => Some(find(file, &leaves, &wanted.path)?),
                None => None,
            };
            let refused = |what: String| ImportError::Array {
                path: about.to_owned(),
                name: wanted.name.clone(),
                what,
            };
            let (dtype, shape, stored) = wanted.resolve(leaf).map_err(refused)?;
            builder = builder.column_as(&wanted.name, dtype, &shape, wanted.role);
            sources.push(ColumnSource { path: wanted.path, stored });
        }
        let schema = builder
            .build()
            .map_err(|source| ImportError::Schema { path: about.to_owned(), source })?;
        let (expected, leave_out) = (leaves, leave_out.clone());
        Ok(Self { schema, sources, expected, leave_out })
    }

    /// Refuses a file whose arrays differ from those of the first one.
    pub(super) fn check(&self, file: &UntrustedParquet) -> Result<(), ImportError> {
        let found = file.leaves(SHAPE)?;
        let same = |a: &FileLeaf, b: &FileLeaf| (&a.path, &a.dtype) == (&b.path, &b.dtype);
        let differs = |these: &[FileLeaf], those: &[FileLeaf]| {
            let lone = these.iter().find(|leaf| {
                !self.leave_out.has(&[&*name_of(&leaf.path)])
                    && !those.iter().any(|other| same(leaf, other))
            });
            lone.map(|leaf| name_of(&leaf.path))
        };
        let (name, what) = match (differs(&self.expected, &found), differs(&found, &self.expected))
        {
            (None, None) => return Ok(()),
            (Some(a), Some(b)) if a == b => (a, "is of another type than in the first episode"),
            (Some(name), _) => (name, "is in the first episode, but not here"),
            (None, Some(name)) => (name, "is here, but not in the first episode"),
        };
        let what = format!("{what}; {}", leave_out::remedy(&name));
        Err(ImportError::Array { path: file.path().to_owned(), name, what })
    }
}

impl ExpectedColumn {
    /// Returns the type and shape in the ring, and the type in the files. An error is the problem
    /// with its remedy.
    fn resolve(&self, leaf: Option<&FileLeaf>) -> Result<(DType, Vec<u32>, DType), String> {
        let remedy = || leave_out::remedy(&self.name);
        let unfit = |reason: &String| format!("{reason}, which no column can hold; {}", remedy());
        let asked = self.holds.as_ref().map(|holds| holds.as_ref().map_err(unfit)).transpose()?;
        let Some(leaf) = leaf else {
            // The dataset has no episode.
            let (dtype, shape) = asked.cloned().unwrap_or((DType::F64, Vec::new()));
            return Ok((dtype, shape, dtype));
        };
        let stored = leaf.dtype.as_ref().map_err(|found| {
            let packed = if found == "Binary" { " (images stored as JPEG are)" } else { "" };
            unfit(&format!("has elements of the type {found}{packed}"))
        })?;
        let Some((dtype, shape)) = asked else {
            let any_length = || {
                format!(
                    "has rows of different lengths, and rows of a column have one shape; {}",
                    remedy()
                )
            };
            return Ok((*stored, leaf.shape().ok_or_else(any_length)?, *stored));
        };
        if !self.exact {
            return Ok((*stored, shape.clone(), *stored));
        }
        let float = |dtype: &DType| {
            matches!(dtype, DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64)
        };
        // Choices are stored as 64-bit integers.
        let narrowed = *stored == DType::I64 && shape.is_empty() && !float(dtype);
        if stored == dtype || narrowed {
            return Ok((*dtype, shape.clone(), *stored));
        }
        Err(format!(
            "has elements of the type {stored}, but was exported from {dtype}; {}",
            remedy()
        ))
    }
}

/// Returns the array at a path. Refuses a file without one.
pub(super) fn find<'a>(
    file: &UntrustedParquet,
    leaves: &'a [FileLeaf],
    path: &[String],
) -> Result<&'a FileLeaf, ImportError> {
    let found = leaves.iter().find(|leaf| leaf.path == path);
    found.ok_or_else(|| file.damaged("the footer", format!("no column `{}`", path.join("/"))))
}

/// Returns the ring's name for the array at a path.
fn name_of(path: &[String]) -> String {
    let (first, rest) = path.split_first().map_or(("", path), |(first, rest)| (&**first, rest));
    let first = match first {
        OBSERVATIONS => "obs",
        ACTIONS => "action",
        REWARDS => "reward",
        other => other,
    };
    [&[first.to_owned()], rest].concat().join("/")
}

/// Returns the columns of an exported ring from its description.
fn noted(notes: RingColumns) -> Result<Vec<ExpectedColumn>, backcast_core::SchemaError> {
    let of = |noted: super::notes::RingColumn| {
        let column = noted.column;
        let wrong = backcast_core::SchemaError::Column;
        let dtype = column.dtype.parse().map_err(wrong)?;
        let role = column.role.parse().map_err(wrong)?;
        let holds = Some(Ok((dtype, column.shape)));
        Ok(ExpectedColumn { name: column.name, path: noted.path, role, holds, exact: true })
    };
    notes.columns.into_iter().map(of).collect()
}

/// Returns the columns of the spaces, and the reward.
fn of_spaces(metadata: &Value) -> Result<Vec<ExpectedColumn>, String> {
    let mut wanted = Vec::new();
    for (key, root, role) in
        [(OBSERVATION_SPACE, OBSERVATIONS, Role::Obs), (ACTION_SPACE, ACTIONS, Role::Step)]
    {
        let text = metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let space = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for SpaceLeaf { path, holds } in space::leaves(&space)? {
            let path = [&[root.to_owned()], &*path].concat();
            let (name, holds) = (name_of(&path), Some(holds));
            wanted.push(ExpectedColumn { name, path, role, holds, exact: false });
        }
    }
    let path = vec![REWARDS.to_owned()];
    wanted.push(ExpectedColumn {
        name: name_of(&path),
        path,
        role: Role::Step,
        holds: None,
        exact: false,
    });
    Ok(wanted)
}

/// Returns the column of an array outside the spaces, such as an info. Infos come with every
/// observation, the final one included.
fn unknown_to_spaces(leaf: &FileLeaf) -> ExpectedColumn {
    let path = leaf.path.clone();
    ExpectedColumn { name: name_of(&path), path, role: Role::Obs, holds: None, exact: false }
}
