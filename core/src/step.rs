//! One step of a writer's lanes: borrowed columns, leading axis = lanes.

use backcast_layout::Role;

use crate::element::Element;
use crate::error::AppendError;
use crate::schema::Schema;

/// Borrowed bytes of one step, C order, native little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// One slice per user's column, in schema order; `lanes * width` bytes each.
    pub columns: &'a [&'a [u8]],
    /// The step's action ended the episode, per lane.
    pub terminated: &'a [bool],
    /// Something outside the episode ended it, per lane.
    pub truncated: &'a [bool],
    /// Final observations: one slice per column of role obs, in schema order. Required in
    /// same-step and disabled mode when a lane ended; only the rows of those lanes are read.
    pub final_obs: Option<&'a [&'a [u8]]>,
}

/// Collects typed columns by name into a [`Step`].
#[derive(Clone, Debug)]
pub struct StepColumns<'a> {
    schema: &'a Schema,
    columns: Vec<Option<&'a [u8]>>,
    bytes: Vec<&'a [u8]>,
    final_obs: Vec<&'a [u8]>,
}

impl<'a> StepColumns<'a> {
    /// No column set yet.
    #[must_use]
    pub fn of(schema: &'a Schema) -> Self {
        let columns = vec![None; schema.columns().len()];
        Self { schema, columns, bytes: Vec::new(), final_obs: Vec::new() }
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

    /// Adds a final observation column. Give all of role obs, in schema order.
    pub fn with_final<T: Element>(
        mut self,
        name: &str,
        rows: &'a [T],
    ) -> Result<Self, AppendError> {
        let bytes = self.typed(name, rows)?;
        let mut obs = self.schema.columns().iter().filter(|c| c.role() == Role::Obs);
        if obs.nth(self.final_obs.len()).is_none_or(|c| c.name() != name) {
            let known = self.schema.columns().iter().filter(|c| c.role() == Role::Obs);
            let known = known.map(|c| format!("final_obs/{}", c.name())).collect();
            return Err(AppendError::UnknownColumn { name: format!("final_obs/{name}"), known });
        }
        self.final_obs.push(bytes);
        Ok(self)
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

    /// The step, once every column is set.
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
        let final_obs = (!self.final_obs.is_empty()).then_some(&*self.final_obs);
        Ok(Step { columns: &self.bytes, terminated, truncated, final_obs })
    }
}
