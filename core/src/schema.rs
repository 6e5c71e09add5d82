//! Columns of a row: the built-in ones, then those of the user.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use backcast_layout::{Column, DType, Role};

use crate::batch_key::{POLICY_AGE, POLICY_VERSION, first_part, is_never_a_column, is_reserved};
use crate::error::SchemaError;
use crate::row_header::{self, PARTS, RowHeader};

/// Number of the first user column in the file of a lane, after the headers.
pub(crate) const USER: usize = 1;

/// Names that environments and learners give to observations.
const OBSERVATIONS: [&str; 5] = ["obs", "observation", "observations", "state", "states"];

/// Returns the role that the name of a column implies. `obs`, `observation`, `observations`,
/// `state` and `states`, and names below one of them with `/`, belong to the observation; all
/// others belong to the step.
fn role_of_name(name: &str) -> Role {
    if OBSERVATIONS.contains(&first_part(name)) { Role::Obs } else { Role::Step }
}

/// Columns of a row. Two schemas are equal when their columns are, in order: names, element types,
/// shapes and roles. A clone shares them, so it costs one reference count.
///
/// ```
/// use backcast_core::{DType, Role, Schema};
/// let schema = Schema::builder()
///     .column("obs/pixels", DType::U8, &[84, 84])
///     .column_as("day", DType::I32, &[], Role::Obs)
///     .column("reward", DType::F32, &[])
///     .build()?;
/// assert_eq!(schema.column("obs/pixels").map(|c| c.role()), Some(Role::Obs));
/// assert_eq!(schema.row_bytes(), 84 * 84 + 4 + 4 + 24);
/// # Ok::<(), backcast_core::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Hash of the columns, compared by every append. It is compared only within a process: other
    /// builds may compute another one.
    fingerprint: u64,
    columns: Arc<SchemaColumns>,
}

#[derive(Debug, PartialEq, Eq)]
struct SchemaColumns {
    /// Columns of the file: the headers, then those of the user.
    stored: Vec<Column>,
    /// Columns that readers see: the parts of the headers, then those of the user.
    all: Vec<Column>,
}

impl Schema {
    /// Returns a builder.
    #[must_use]
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder { columns: Vec::new() }
    }

    /// Returns the user columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        self.stored().get(USER..).unwrap_or_default()
    }

    /// Returns a user column by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns().iter().find(|c| c.name() == name)
    }

    /// Returns the place among the [`columns`](Self::columns) of the one that says which version of
    /// the policy made a row: `policy_version`, one whole number of a step. A column of that name
    /// in a ring of an earlier version may be another, or stand beside a column `policy_age`; it is
    /// a column like all others then.
    pub(crate) fn policy_version(&self) -> Option<usize> {
        let mut columns = self.columns().iter();
        let has_ages = columns.clone().any(|of| first_part(of.name()) == POLICY_AGE);
        let is_version = |of: &Column| of.name() == POLICY_VERSION && is_whole_number(of);
        columns.position(is_version).filter(|_| !has_ages)
    }

    /// Returns the bytes of one row, built-in columns (24 bytes) included.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.stored().iter().map(Column::width).sum()
    }

    /// Returns the columns of the file of a lane, in its order: the headers, then those of the
    /// user.
    pub(crate) fn stored(&self) -> &[Column] {
        &self.columns.stored
    }

    /// Returns the built-in columns, then those of the user.
    pub(crate) fn all(&self) -> &[Column] {
        &self.columns.all
    }

    /// Returns the hash of the columns. Equal schemas have equal hashes within a process.
    #[inline]
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the first place at which the columns of another schema differ, with its column and
    /// this schema's, in words. `None` if the schemas are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<(usize, String, String)> {
        let describe = |of: &Self, at: usize| match of.columns().get(at) {
            None => "no column".to_owned(),
            Some(column) => {
                let (name, dtype, shape) = (column.name(), column.dtype(), column.shape());
                format!("`{name}` ({dtype}{shape:?}, role {})", column.role().as_str())
            }
        };
        let differs = |at: &usize| self.columns().get(*at) != other.columns().get(*at);
        let mut places = 0..self.columns().len().max(other.columns().len());
        let at = places.find(differs)?;
        Some((at, describe(other, at), describe(self, at)))
    }

    /// Builds the schema that a segment states. Checks it like
    /// [`build_existing`](SchemaBuilder::build_existing).
    pub(crate) fn from_columns(columns: &[Column]) -> Result<Self, SchemaError> {
        if columns.first() != Some(&RowHeader::column().map_err(SchemaError::Column)?) {
            return Err(SchemaError::NotOurs);
        }
        let user = columns.get(USER..).unwrap_or_default().to_vec();
        SchemaBuilder { columns: user.into_iter().map(Ok).collect() }.build_existing()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, column) in self.columns().iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}{:?}", column.name(), column.dtype(), column.shape())?;
        }
        Ok(())
    }
}

/// Collects columns. [`build`](Self::build) reports the first mistake.
#[derive(Clone, Debug)]
pub struct SchemaBuilder {
    columns: Vec<Result<Column, SchemaError>>,
}

impl SchemaBuilder {
    /// Adds a column whose role follows from its name. `obs`, `observation`, `observations`,
    /// `state` and `states`, and names below one of them with `/`, belong to the observation; all
    /// others belong to the step. `shape` is that of one row.
    #[must_use]
    pub fn column(self, name: &str, dtype: DType, shape: &[u32]) -> Self {
        self.column_as(name, dtype, shape, role_of_name(name))
    }

    /// Adds a column with the given role.
    #[must_use]
    pub fn column_as(mut self, name: &str, dtype: DType, shape: &[u32], role: Role) -> Self {
        self.columns.push(Column::new(name, dtype, shape, role).map_err(SchemaError::Column));
        self
    }

    /// Checks the columns together, for a new ring.
    pub fn build(self) -> Result<Schema, SchemaError> {
        let schema = self.checked(is_reserved)?;
        let is_bad = |of: &&Column| first_part(of.name()) == POLICY_VERSION;
        match schema.columns().iter().filter(|_| schema.policy_version().is_none()).find(is_bad) {
            None => Ok(schema),
            Some(of) => {
                let (dtype, shape, role) = (of.dtype(), of.shape(), of.role().as_str());
                let (name, found) =
                    (of.name().to_owned(), format!("{dtype}{shape:?}, role {role}"));
                Err(SchemaError::BadPolicyVersion { name, found })
            }
        }
    }

    /// Checks the columns of a ring that exists, in a file or a snapshot. Takes names that were
    /// reserved for batches only after rings with them were made: `weight`, `relabelled`, `length`,
    /// `offsets`, `found` and `policy_age`. A sampler whose batches would have two arrays under
    /// such a key refuses the column. Takes a `policy_version` of any type, too.
    pub fn build_existing(self) -> Result<Schema, SchemaError> {
        self.checked(is_never_a_column)
    }

    fn checked(self, is_reserved: fn(&str) -> bool) -> Result<Schema, SchemaError> {
        let mut stored = vec![RowHeader::column().map_err(SchemaError::Column)?];
        if self.columns.is_empty() {
            return Err(SchemaError::Empty);
        }
        let limit = backcast_layout::MAX_COLUMNS - USER;
        if self.columns.len() > limit {
            return Err(SchemaError::TooManyColumns { asked: self.columns.len(), limit });
        }
        for column in self.columns {
            let column = column?;
            let name = column.name();
            let first = first_part(name);
            if first == row_header::NAME || is_reserved(first) {
                return Err(SchemaError::Reserved { name: name.to_owned() });
            }
            let inside = |outer: &str, inner: &str| {
                inner
                    .strip_prefix(outer)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if let Some(other) =
                stored.iter().map(Column::name).find(|o| inside(o, name) || inside(name, o))
            {
                let (name, other) = (name.to_owned(), other.to_owned());
                return Err(SchemaError::Conflict { name, other });
            }
            stored.push(column);
        }
        let built_in = PARTS.map(|part| Column::new(part.name, part.dtype, &[], Role::Step));
        let built_in = built_in.into_iter().collect::<Result<Vec<_>, _>>();
        let user = stored.iter().skip(USER).cloned();
        let all = built_in.map_err(SchemaError::Column)?.into_iter().chain(user).collect();
        let fingerprint = fingerprint(&stored);
        Ok(Schema { fingerprint, columns: Arc::new(SchemaColumns { stored, all }) })
    }
}

/// Returns whether a column is one whole number of a step.
fn is_whole_number(column: &Column) -> bool {
    use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
    let is_whole = matches!(column.dtype(), I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64);
    is_whole && column.shape().is_empty() && column.role() == Role::Step
}

/// Hashes everything by which two columns differ.
fn fingerprint(columns: &[Column]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for column in columns {
        (column.name(), column.dtype(), column.shape(), column.role()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_schemas_say_what_is_wrong() {
        let build = |names: &[&str]| {
            let builder = Schema::builder();
            let builder = names.iter().fold(builder, |b, n| b.column(n, DType::F32, &[]));
            builder.build().unwrap_err()
        };
        assert_eq!(build(&[]), SchemaError::Empty);
        for name in ["seq", row_header::NAME, "future/reward", "next_obs"] {
            assert_eq!(build(&[name]), SchemaError::Reserved { name: name.to_owned() });
        }
        for names in [["a", "a"], ["obs", "obs/x"], ["obs/x", "obs"]] {
            let error = build(&names);
            let SchemaError::Conflict { name, other } = &error else { panic!("{error}") };
            let mut found = [name, other];
            found.sort_unstable();
            let mut expected = names;
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        let many: Vec<String> = (0..256).map(|i| format!("c{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(build(&many), SchemaError::TooManyColumns { asked: 256, limit: 255 });
    }

    #[test]
    fn names_reserved_later_are_taken_of_a_ring_that_exists_and_no_others() {
        let built = |name: &str| {
            let builder = || Schema::builder().column("obs", DType::F32, &[]);
            let new = builder().column(name, DType::F32, &[]).build();
            let below = builder().column(&format!("{name}/x"), DType::F32, &[]).build();
            assert_eq!(new.is_ok(), below.is_ok(), "{name}");
            (new, builder().column(name, DType::F32, &[]).build_existing())
        };
        for name in crate::batch_key::reserved().split(", ") {
            let (new, existing) = built(name);
            let refused = new.unwrap_err();
            assert_eq!(refused, SchemaError::Reserved { name: name.to_owned() });
            let later = ["weight", "relabelled", "length", "offsets", "found"].contains(&name)
                || name == "policy_age";
            match existing {
                Ok(schema) => assert_eq!(Schema::from_columns(schema.stored()), Ok(schema)),
                Err(error) => assert_eq!(error, refused),
            }
            assert_eq!(built(name).1.is_ok(), later, "{name}");
        }
        for name in ["next_obs", "next_action", "n_next_obs", row_header::NAME] {
            let (new, existing) = built(name);
            assert!(new.is_err() && existing.is_err(), "{name}");
        }
        for name in ["weights", "lengths", "foundling", "policy", "n_trades", "nextone"] {
            let (new, existing) = built(name);
            assert!(new.is_ok() && existing == new, "{name}");
        }
    }

    #[test]
    fn a_version_of_the_policy_is_one_whole_number_of_a_step() {
        let of = |name: &str, dtype, shape: &[u32], role| {
            let plain = Schema::builder().column("obs", DType::F32, &[]);
            plain.column_as(name, dtype, shape, role)
        };
        for dtype in DType::ALL {
            let column = of("policy_version", dtype, &[], Role::Step);
            let is_whole = dtype != DType::Bool && !dtype.code().contains(['f', 'l']);
            assert_eq!(column.clone().build().is_ok(), is_whole, "{dtype}");
            assert_eq!(column.build_existing().unwrap().policy_version().is_some(), is_whole);
        }
        for column in [
            of("policy_version", DType::I64, &[2], Role::Step),
            of("policy_version", DType::I64, &[], Role::Obs),
            of("policy_version/x", DType::I64, &[], Role::Step),
        ] {
            let refused = column.clone().build().unwrap_err();
            assert!(matches!(refused, SchemaError::BadPolicyVersion { .. }), "{refused}");
            assert_eq!(column.build_existing().unwrap().policy_version(), None);
        }
        let both = of("policy_version", DType::I64, &[], Role::Step);
        let both = both.column("policy_age", DType::I64, &[]).build_existing().unwrap();
        assert_eq!(both.policy_version(), None, "the column of the ring is shown");
    }

    #[test]
    fn names_of_observations_have_their_role() {
        let role = |name: &str| {
            let schema = Schema::builder().column(name, DType::F32, &[]).build().unwrap();
            schema.columns()[0].role()
        };
        for name in ["obs", "observation", "observations", "state", "states"] {
            assert_eq!(role(name), Role::Obs, "{name}");
            assert_eq!(role(&format!("{name}/pixels")), Role::Obs, "below {name}");
            assert_eq!(role(&format!("{name}_raw")), Role::Step, "like {name}");
            assert_eq!(role(&format!("info/{name}")), Role::Step, "{name} below another");
        }
        let chosen = Schema::builder().column_as("state", DType::F32, &[], Role::Step);
        assert_eq!(chosen.build().unwrap().columns()[0].role(), Role::Step);
    }

    #[test]
    fn schemas_that_differ_in_anything_have_other_fingerprints_and_say_where() {
        let build = |columns: &[(&str, DType, &[u32], Role)]| {
            let mut builder = Schema::builder();
            for (name, dtype, shape, role) in columns {
                builder = builder.column_as(name, *dtype, shape, *role);
            }
            builder.build().unwrap()
        };
        let obs = ("obs", DType::F32, &[2][..], Role::Obs);
        let reward = ("reward", DType::F32, &[][..], Role::Step);
        let schema = build(&[obs, reward]);
        assert_eq!(schema.fingerprint(), build(&[obs, reward]).fingerprint());
        assert_eq!(schema.difference(&build(&[obs, reward])), None);
        let others = [
            (vec![reward, obs], 0, "`reward` (f4[], role step)"),
            (vec![obs, ("reward", DType::I32, &[][..], Role::Step)], 1, "`reward` (i4[]"),
            (vec![("obs", DType::F32, &[1, 2][..], Role::Obs), reward], 0, "f4[1, 2]"),
            (vec![("obs", DType::F32, &[2][..], Role::Step), reward], 0, "role step"),
            (vec![("obz", DType::F32, &[2][..], Role::Obs), reward], 0, "`obz`"),
            (vec![obs], 1, ""),
            (vec![obs, reward, ("action", DType::I32, &[][..], Role::Step)], 2, "`action`"),
        ];
        for (columns, place, says) in others {
            let other = build(&columns);
            assert_ne!(other.fingerprint(), schema.fingerprint(), "{says}");
            let (at, theirs, ours) = schema.difference(&other).unwrap();
            assert!(at == place && theirs.contains(says) && theirs != ours, "{at} {theirs} {ours}");
        }
    }

    #[test]
    fn names_that_only_begin_alike_do_not_conflict() {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[])
            .column("obs_raw", DType::F32, &[])
            .column("n_trades", DType::I32, &[])
            .build()
            .unwrap();
        assert_eq!(schema.column("obs_raw").map(Column::role), Some(Role::Step));
        assert_eq!(Schema::from_columns(schema.stored()), Ok(schema));
    }
}
