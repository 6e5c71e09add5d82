//! One step of the lanes of a writer: borrowed columns, leading axis = lanes.

use backcast_layout::{DType, Role};

use crate::element::Element;
use crate::error::AppendError;
use crate::schema::Schema;
use crate::writer::rows::end_flags;

/// Borrowed bytes of one step of every lane, or of several steps for
/// [`Writer::extend`](crate::Writer::extend): C order, native byte order. [`StepColumns`] makes one
/// of typed columns by name.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Schema whose column order the slices have. A writer takes steps of its ring's schema, and
    /// refuses all others.
    pub schema: &'a Schema,
    /// One slice per user column, in schema order; `steps * lanes * width` bytes each.
    pub columns: &'a [&'a [u8]],
    /// Whether the action ended the episode, per lane.
    pub terminated: &'a [bool],
    /// Whether something outside the episode ended it, per lane.
    pub truncated: &'a [bool],
    /// Observations that the step led to: one slice per column of role obs, in schema order, as
    /// large as those of `columns`. The next step of an episode that goes on must begin with them.
    /// In disabled mode they stand in for missing `final_obs`.
    pub next_obs: Option<&'a [&'a [u8]]>,
    /// Final observations: one slice per column of role obs, in schema order. Required when a lane
    /// ended: in same-step mode, and in disabled mode unless there is `next_obs`. Refused in
    /// next-step mode. Only the rows of those lanes are read.
    pub final_obs: Option<&'a [&'a [u8]]>,
}

impl Step<'_> {
    /// Returns the flags that row `i` of the step has because of its end, or 0.
    pub(super) fn ends(&self, i: usize) -> u32 {
        let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
        end_flags(flag(self.terminated), flag(self.truncated))
    }
}

/// Borrowed bytes of the observation columns of one row: C order, native byte order.
#[derive(Clone, Copy, Debug)]
pub struct ObsBytes<'a> {
    /// Schema whose column order the slices have, as in a [`Step`].
    pub schema: &'a Schema,
    /// One slice per column of role obs, in schema order.
    pub columns: &'a [&'a [u8]],
}

/// Returns the error for a name and dtype that no column of the schema has.
#[cold]
pub(super) fn wrong_column(schema: &Schema, name: &str, got: DType) -> AppendError {
    let name = name.to_owned();
    if let Some(column) = schema.column(&name) {
        return AppendError::WrongDType { name, expected: column.dtype(), got };
    }
    let known = schema.columns().iter().map(|column| column.name().to_owned()).collect();
    AppendError::UnknownColumn { name, known }
}

/// Collects typed columns by name into a [`TypedStep`]. It borrows the values: bind computed ones
/// with `let` first, since only constants live longer than their expression.
///
/// ```
/// use backcast_core::{DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
///
/// let schema = Schema::builder().column("obs", DType::F32, &[2]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..10_u8 {
///     let obs = [f32::from(t), 0.5];
///     let mut step = StepColumns::of(&schema).with("obs", &obs)?;
///     let last = [f32::from(t) + 1.0, 0.5];
///     if t == 9 {
///         step = step.with_final("obs", &last)?;
///     }
///     writer.append(&step.step(&[t == 9], &[false])?)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StepColumns<'a> {
    schema: &'a Schema,
    columns: Vec<Option<&'a [u8]>>,
    next_obs: Vec<&'a [u8]>,
    final_obs: Vec<&'a [u8]>,
}

impl<'a> StepColumns<'a> {
    /// Returns a step without columns.
    #[must_use]
    pub fn of(schema: &'a Schema) -> Self {
        let columns = vec![None; schema.columns().len()];
        Self { schema, columns, next_obs: Vec::new(), final_obs: Vec::new() }
    }

    /// Sets a column: all lanes' rows, one after the other.
    pub fn with<T: Element>(mut self, name: &str, rows: &'a [T]) -> Result<Self, AppendError> {
        let bytes = self.typed(name, rows)?;
        let place = self.schema.columns().iter().position(|c| c.name() == name);
        if let Some(column) = place.and_then(|at| self.columns.get_mut(at)) {
            *column = Some(bytes);
        }
        Ok(self)
    }

    /// Adds a column of the observation that the step led to. Give all columns of role obs, in
    /// schema order.
    pub fn with_next<T: Element>(mut self, name: &str, rows: &'a [T]) -> Result<Self, AppendError> {
        let bytes = self.typed_obs("next_obs", name, rows, self.next_obs.len())?;
        self.next_obs.push(bytes);
        Ok(self)
    }

    /// Adds a column of the final observation. Give all columns of role obs, in schema order. A
    /// step in which a lane ends needs them in same-step mode, and in disabled mode unless it has a
    /// `next_obs`. Other steps may have them in these modes. Only the rows of lanes that end are
    /// read.
    pub fn with_final<T: Element>(
        mut self,
        name: &str,
        rows: &'a [T],
    ) -> Result<Self, AppendError> {
        let bytes = self.typed_obs("final_obs", name, rows, self.final_obs.len())?;
        self.final_obs.push(bytes);
        Ok(self)
    }

    /// Returns the bytes of a column, which must have number `at` among those of role obs.
    fn typed_obs<T: Element>(
        &self,
        what: &str,
        name: &str,
        rows: &'a [T],
        at: usize,
    ) -> Result<&'a [u8], AppendError> {
        let bytes = self.typed(name, rows)?;
        let obs = || self.schema.columns().iter().filter(|c| c.role() == Role::Obs);
        if obs().nth(at).is_none_or(|c| c.name() != name) {
            let known = obs().map(|c| format!("{what}/{}", c.name())).collect();
            return Err(AppendError::UnknownColumn { name: format!("{what}/{name}"), known });
        }
        Ok(bytes)
    }

    fn typed<T: Element>(&self, name: &str, rows: &'a [T]) -> Result<&'a [u8], AppendError> {
        match self.schema.column(name) {
            Some(column) if column.dtype() == T::DTYPE => Ok(bytemuck::cast_slice(rows)),
            _ => Err(wrong_column(self.schema, name, T::DTYPE)),
        }
    }

    /// Returns the step, if every column is set.
    pub fn step(
        self,
        terminated: &'a [bool],
        truncated: &'a [bool],
    ) -> Result<TypedStep<'a>, AppendError> {
        let Self { schema, columns, next_obs, final_obs } = self;
        let named = schema.columns().iter().zip(columns);
        let columns = named.map(|(column, bytes)| {
            bytes.ok_or_else(|| AppendError::MissingColumn { name: column.name().to_owned() })
        });
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(TypedStep { schema, columns, terminated, truncated, next_obs, final_obs })
    }
}

/// A step of typed columns, made by [`StepColumns`]: `&step` is what a writer appends.
///
/// ```
/// use backcast_core::{DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
///
/// let schema = Schema::builder().column("obs", DType::F32, &[2]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// let step = StepColumns::of(&schema).with("obs", &[0.5_f32, 1.5])?.step(&[false], &[false])?;
/// writer.append(&step)?;
/// writer.append(&step)?;
/// assert_eq!(ring.len(), 1); // the second row completes the transition of the first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TypedStep<'a> {
    schema: &'a Schema,
    columns: Vec<&'a [u8]>,
    terminated: &'a [bool],
    truncated: &'a [bool],
    next_obs: Vec<&'a [u8]>,
    final_obs: Vec<&'a [u8]>,
}

impl<'s> From<&'s TypedStep<'_>> for Step<'s> {
    fn from(step: &'s TypedStep<'_>) -> Self {
        let TypedStep { schema, columns, terminated, truncated, next_obs, final_obs } = step;
        let given = |obs: &'s [&'s [u8]]| (!obs.is_empty()).then_some(obs);
        let (next_obs, final_obs) = (given(next_obs), given(final_obs));
        Self { schema, columns, terminated, truncated, next_obs, final_obs }
    }
}

impl<'s> From<&'s Step<'_>> for Step<'s> {
    #[inline]
    fn from(step: &'s Step<'_>) -> Self {
        *step
    }
}
