//! Name and columns of a table of learned columns.

use backcast_layout::{Column, DType, LearnedColumn, MAX_LEARNED_COLUMNS};

use super::SET;
use crate::batch_key::{POLICY_VERSION, first_part, is_reserved};
use crate::error::LearnedError;
use crate::schema::Schema;

/// Name and columns of a table of values that learners attach to rows, such as a value estimate,
/// the step of its computation, or a cluster.
///
/// A value is one element of at most 4 bytes. It and the generation of its row are one atomic word:
/// a process that is killed leaves the old value or the new one, and a value of a row that was
/// overwritten is the value of no other row. Values of one row in several columns are set one after
/// the other.
///
/// ```
/// use backcast_core::{
///     DType, LearnedOptions, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
///     WriterOptions,
/// };
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..20_u8 {
///     let obs = [f32::from(t)];
///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
/// }
/// let online = LearnedOptions::new("online").column("value", DType::F32);
/// let learned = ring.learned(&online)?;
/// assert_eq!(learned.update("value", &[3, 4], &[0.5_f32, 0.25])?, 0);
/// let batch = ring.sampler(SamplerOptions::seeded(7).learned(online))?.gather(&[3, 5])?;
/// assert_eq!(batch.column::<f32>("value")?.as_slice(), Some(&[0.5, 0.0][..]));
/// assert_eq!(batch.column::<bool>("value_set")?.as_slice(), Some(&[true, false][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LearnedOptions {
    name: String,
    columns: Vec<LearnedColumn>,
}

impl LearnedOptions {
    /// Returns the options of a table, without columns yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), columns: Vec::new() }
    }

    /// Adds a column. Its name is an identifier of at most 40 ASCII letters, digits and `_`; its
    /// element type has at most 4 bytes.
    #[must_use]
    pub fn column(mut self, name: &str, dtype: DType) -> Self {
        self.columns.push(LearnedColumn { name: name.to_owned(), dtype });
        self
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[LearnedColumn] {
        &self.columns
    }

    /// Refuses columns that no table can have, or whose keys are taken in batches of a ring.
    pub(crate) fn check(&self, schema: &Schema) -> Result<(), LearnedError> {
        let Self { name, columns } = self;
        if !(1..=MAX_LEARNED_COLUMNS).contains(&columns.len()) {
            let (table, columns) = (name.clone(), columns.len());
            return Err(LearnedError::BadCount { table, columns });
        }
        for (at, column) in columns.iter().enumerate() {
            let name = column.name.clone();
            if let Some(problem) = column.problem() {
                return Err(LearnedError::BadColumn { column: name, problem });
            }
            let earlier = columns.get(..at).unwrap_or_default();
            if let Some(taken) = taken(&name, earlier, schema) {
                return Err(LearnedError::Taken { column: name, taken });
            }
        }
        Ok(())
    }
}

/// Describes what else has a key of a column, if anything has.
fn taken(name: &str, earlier: &[LearnedColumn], schema: &Schema) -> Option<String> {
    let set = format!("{name}{SET}");
    for key in [name, &set] {
        if is_reserved(key) || key == POLICY_VERSION {
            return Some(format!("`{key}` is a key of every ring"));
        }
        let has_key = |column: &&Column| first_part(column.name()) == key;
        if let Some(column) = schema.columns().iter().find(has_key) {
            return Some(format!("the ring has a column `{}`", column.name()));
        }
        let other = |other: &&LearnedColumn| {
            other.name == key || key.strip_suffix(SET) == Some(other.name.as_str())
        };
        if let Some(other) = earlier.iter().find(other) {
            return Some(format!("the column `{}` of the table has one of them", other.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_cannot_be_are_refused_and_the_message_says_why() {
        let schema =
            Schema::builder().column("obs/x", DType::F32, &[]).column("td", DType::F32, &[]);
        let schema = schema.build().unwrap();
        let with = |names: &[(&str, DType)]| {
            let options = LearnedOptions::new("t");
            names.iter().fold(options, |options, (name, dtype)| options.column(name, *dtype))
        };
        assert!(with(&[("value", DType::F32), ("age", DType::Bool)]).check(&schema).is_err());
        assert!(with(&[("value", DType::F32), ("made", DType::Bool)]).check(&schema).is_ok());
        let many = (0..17).fold(LearnedOptions::new("t"), |options, n| {
            options.column(&format!("c{n}"), DType::F32)
        });
        for (options, count) in [(with(&[]), 0), (many, 17)] {
            let error = options.check(&schema).unwrap_err();
            let LearnedError::BadCount { columns, .. } = error else { panic!("{error}") };
            assert_eq!(columns, count);
        }
        for (name, dtype, value) in [("value", DType::F64, "8"), ("a b", DType::F32, "a b")] {
            let error = with(&[(name, dtype)]).check(&schema).unwrap_err();
            let LearnedError::BadColumn { column, .. } = &error else { panic!("{error}") };
            assert!(column == name && error.to_string().contains(value), "{error}");
        }
        for (names, by) in [
            (&["td"][..], "td"),
            (&["obs"], "obs/x"),
            (&["weight"], "weight"),
            (&["index"], "index"),
            (&["next_obs"], "next_obs"),
            (&["v", "v"], "v"),
            (&["v", "v_set"], "v"),
            (&["v_set", "v"], "v_set"),
        ] {
            let columns: Vec<_> = names.iter().map(|name| (*name, DType::F32)).collect();
            let error = with(&columns).check(&schema).unwrap_err();
            let LearnedError::Taken { column, taken } = &error else { panic!("{error}") };
            assert_eq!(Some(&&**column), names.last(), "{error}");
            assert!(taken.contains(&format!("`{by}`")), "{taken} does not name {by}");
        }
    }
}
