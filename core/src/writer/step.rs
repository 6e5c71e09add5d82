//! One step of the lanes of a writer: borrowed columns, leading axis = lanes.

use backcast_layout::Role;

use crate::element::Element;
use crate::error::AppendError;
use crate::schema::Schema;

/// Borrowed bytes of one step, C order, native little-endian. [`StepColumns`] makes one of typed
/// columns by name.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Schema that the slices are in the order of. A writer takes steps of its ring's schema, and
    /// refuses all others.
    pub schema: &'a Schema,
    /// One slice per user column, in schema order; `lanes * width` bytes each.
    pub columns: &'a [&'a [u8]],
    /// Whether the action ended the episode, per lane.
    pub terminated: &'a [bool],
    /// Whether something outside the episode ended it, per lane.
    pub truncated: &'a [bool],
    /// Observations that the step led to: one slice per column of role obs, in schema order, as
    /// large as those of `columns`. The next step must begin with them. In disabled mode they end
    /// the lanes that ended.
    pub next_obs: Option<&'a [&'a [u8]]>,
    /// Final observations: one slice per column of role obs, in schema order. Required when a lane
    /// ended: in same-step mode, and in disabled mode unless there is `next_obs`. Only the rows of
    /// those lanes are read.
    pub final_obs: Option<&'a [&'a [u8]]>,
}

/// Borrowed bytes of the observation columns of one row, C order, native little-endian.
#[derive(Clone, Copy, Debug)]
pub struct ObsBytes<'a> {
    /// Schema that the slices are in the order of, as in a [`Step`].
    pub schema: &'a Schema,
    /// One slice per column of role obs, in schema order.
    pub columns: &'a [&'a [u8]],
}

/// Collects typed columns by name into a [`Step`].
#[derive(Clone, Debug)]
pub struct StepColumns<'a> {
    schema: &'a Schema,
    columns: Vec<Option<&'a [u8]>>,
    bytes: Vec<&'a [u8]>,
    next_obs: Vec<&'a [u8]>,
    final_obs: Vec<&'a [u8]>,
}

impl<'a> StepColumns<'a> {
    /// Returns a step without columns.
    #[must_use]
    pub fn of(schema: &'a Schema) -> Self {
        let columns = vec![None; schema.columns().len()];
        let [bytes, next_obs, final_obs] = [const { Vec::new() }; 3];
        Self { schema, columns, bytes, next_obs, final_obs }
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

    /// Adds a column of the observation that the step led to. Give all of role obs, in schema
    /// order.
    pub fn with_next<T: Element>(mut self, name: &str, rows: &'a [T]) -> Result<Self, AppendError> {
        let bytes = self.typed_obs("next_obs", name, rows, self.next_obs.len())?;
        self.next_obs.push(bytes);
        Ok(self)
    }

    /// Adds a final observation column. Give all of role obs, in schema order.
    pub fn with_final<T: Element>(
        mut self,
        name: &str,
        rows: &'a [T],
    ) -> Result<Self, AppendError> {
        let bytes = self.typed_obs("final_obs", name, rows, self.final_obs.len())?;
        self.final_obs.push(bytes);
        Ok(self)
    }

    /// Returns the bytes of the column of role obs with number `at` among those.
    fn typed_obs<T: Element>(
        &self,
        what: &str,
        name: &str,
        rows: &'a [T],
        at: usize,
    ) -> Result<&'a [u8], AppendError> {
        let bytes = self.typed(name, rows)?;
        let mut obs = self.schema.columns().iter().filter(|c| c.role() == Role::Obs);
        if obs.nth(at).is_none_or(|c| c.name() != name) {
            let known = self.schema.columns().iter().filter(|c| c.role() == Role::Obs);
            let known = known.map(|c| format!("{what}/{}", c.name())).collect();
            return Err(AppendError::UnknownColumn { name: format!("{what}/{name}"), known });
        }
        Ok(bytes)
    }

    fn typed<T: Element>(&self, name: &str, rows: &'a [T]) -> Result<&'a [u8], AppendError> {
        let Some(column) = self.schema.column(name) else {
            let known = self.schema.columns().iter().map(|c| c.name().to_owned()).collect();
            return Err(AppendError::UnknownColumn { name: name.to_owned(), known });
        };
        if column.dtype() != T::DTYPE {
            return Err(AppendError::WrongDType {
                name: name.to_owned(),
                expected: column.dtype(),
                got: T::DTYPE,
            });
        }
        Ok(bytemuck::cast_slice(rows))
    }

    /// Returns the step, if every column is set.
    pub fn step<'b>(
        &'b mut self,
        terminated: &'b [bool],
        truncated: &'b [bool],
    ) -> Result<Step<'b>, AppendError> {
        self.bytes.clear();
        for (column, bytes) in self.schema.columns().iter().zip(&self.columns) {
            let Some(bytes) = bytes else {
                return Err(AppendError::MissingColumn { name: column.name().to_owned() });
            };
            self.bytes.push(bytes);
        }
        let next_obs = (!self.next_obs.is_empty()).then_some(&*self.next_obs);
        let final_obs = (!self.final_obs.is_empty()).then_some(&*self.final_obs);
        let (schema, columns) = (self.schema, &*self.bytes);
        Ok(Step { schema, columns, terminated, truncated, next_obs, final_obs })
    }
}
