//! Keeps an observation of a lane, to compare the next append with it.

use backcast_layout::Role;

use crate::schema::Schema;
use crate::writer::row;

/// A column of role obs: its place in the schema, and the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::writer) struct ObsColumn {
    pub(in crate::writer) at: usize,
    pub(in crate::writer) width: usize,
}

/// Returns the schema's columns of role obs, in order.
pub(in crate::writer) fn obs_columns(schema: &Schema) -> Box<[ObsColumn]> {
    let columns = schema.columns().iter().enumerate();
    let obs = columns.filter(|(_, column)| column.role() == Role::Obs);
    obs.map(|(at, column)| ObsColumn { at, width: column.width() }).collect()
}

/// Meaning of a kept observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeptKind {
    /// No observation is kept. The default.
    #[default]
    Nothing,
    /// `next_obs` of the newest row: the next row must hold the same observation.
    Next,
    /// Observation of the FINAL row. The next episode should begin with another one.
    Final,
}

/// An observation: the bytes of the columns of role obs, one after the other.
#[derive(Debug, Default)]
pub(in crate::writer) struct KeptObservation {
    kind: KeptKind,
    bytes: Vec<u8>,
}

impl KeptObservation {
    #[inline]
    pub(in crate::writer) fn kind(&self) -> KeptKind {
        self.kind
    }

    /// Drops the observation; its memory is used again.
    pub(in crate::writer) fn forget(&mut self) {
        self.kind = KeptKind::Nothing;
    }

    /// Keeps row `i` of the columns of role obs.
    #[inline]
    pub(in crate::writer) fn keep(
        &mut self,
        kind: KeptKind,
        obs: &[ObsColumn],
        columns: &[&[u8]],
        i: usize,
    ) {
        // Without columns of role obs there is nothing to compare: all would be equal.
        self.kind = if obs.is_empty() { KeptKind::Nothing } else { kind };
        if let ([column], [bytes]) = (obs, columns)
            && self.bytes.len() == column.width
        {
            self.bytes.copy_from_slice(row(bytes, column.width, i));
            return;
        }
        self.bytes.clear();
        for (column, bytes) in obs.iter().zip(columns) {
            self.bytes.extend_from_slice(row(bytes, column.width, i));
        }
    }

    /// Returns whether row `i` of a step with all columns of the schema holds the same observation.
    #[inline]
    pub(in crate::writer) fn is_row(&self, obs: &[ObsColumn], columns: &[&[u8]], i: usize) -> bool {
        self.rows(obs).zip(obs).all(|(kept, column)| {
            columns.get(column.at).is_some_and(|bytes| row(bytes, column.width, i) == kept)
        })
    }

    /// Returns the observation, column by column.
    #[inline]
    pub(in crate::writer) fn rows<'a>(
        &'a self,
        obs: &'a [ObsColumn],
    ) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = &*self.bytes;
        obs.iter().map_while(move |column| {
            let (row, after) = rest.split_at_checked(column.width)?;
            rest = after;
            Some(row)
        })
    }
}
