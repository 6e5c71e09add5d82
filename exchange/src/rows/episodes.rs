//! Plain steps as rows: an episode of n steps becomes n rows, and a FINAL row if its final
//! observation is given.

use backcast_core::{Column, FINAL, GAP, Role, Schema, TERMINATED, TRUNCATED};

use super::Sink;
use crate::error::ImportError;

/// Consecutive steps of one episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpisodeSteps<'a> {
    pub(crate) steps: usize,
    /// Bytes of the steps by column of the schema, in C order.
    pub(crate) columns: &'a [&'a [u8]],
    /// Final observation by column of role obs. `None` if unknown: the episode has no FINAL row.
    pub(crate) final_obs: Option<&'a [&'a [u8]]>,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    /// Whether the row before has no successor: the final observation of its episode is unknown.
    pub(crate) after_gap: bool,
}

impl EpisodeSteps<'_> {
    /// Returns the number of rows of the episode.
    pub(crate) fn rows(&self) -> u64 {
        self.steps as u64 + u64::from(self.final_obs.is_some())
    }
}

/// Writer of episodes to the first lane of a ring.
#[derive(Debug)]
pub(crate) struct EpisodeRows<'a> {
    schema: &'a Schema,
    /// Reused buffers of one episode's rows: built-in columns, then the schema's.
    buffers: Vec<Vec<u8>>,
}

impl<'a> EpisodeRows<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Self {
        let buffers = vec![Vec::new(); BUILT_IN + schema.columns().len()];
        Self { schema, buffers }
    }

    /// Appends the rows of episode number `episode_number`.
    pub(crate) fn put(
        &mut self,
        episode_number: u64,
        episode: &EpisodeSteps<'_>,
        sink: &mut Sink<'_, '_, '_>,
    ) -> Result<(), ImportError> {
        let (rows, first) = (episode.rows(), sink.next(0));
        self.buffers.iter_mut().for_each(Vec::clear);
        let [seq, number, t, flags, user @ ..] = &mut *self.buffers else { return Ok(()) };
        for row in 0..rows {
            let is_final = row == episode.steps as u64;
            let is_last = row + 1 == episode.steps as u64;
            let mut ends = if is_final {
                FINAL
            } else if is_last {
                u32::from(episode.terminated) * TERMINATED
                    + u32::from(episode.truncated) * TRUNCATED
            } else {
                0
            };
            if row == 0 && episode.after_gap {
                ends |= GAP;
            }
            seq.extend_from_slice(&(first + row).to_ne_bytes());
            number.extend_from_slice(&episode_number.to_ne_bytes());
            t.extend_from_slice(&u32::try_from(row).unwrap_or(u32::MAX).to_ne_bytes());
            flags.extend_from_slice(&ends.to_ne_bytes());
        }
        let mut finals = episode.final_obs.into_iter().flatten();
        for ((column, bytes), buffer) in self.schema.columns().iter().zip(episode.columns).zip(user)
        {
            buffer.extend_from_slice(bytes);
            if episode.final_obs.is_none() {
                continue;
            }
            match column.role() {
                Role::Obs => buffer.extend_from_slice(finals.next().copied().unwrap_or_default()),
                Role::Step => buffer.resize(buffer.len() + column.width(), 0),
            }
        }
        let buffers: Vec<&[u8]> = self.buffers.iter().map(Vec::as_slice).collect();
        sink.rows(0, rows, &buffers)
    }
}

/// Number of built-in columns of a row: `seq`, `episode`, `t` and `flags`.
const BUILT_IN: usize = 4;

/// Returns the bytes of rows `from..to` of a column.
pub(crate) fn part<'a>(column: &Column, bytes: &'a [u8], from: usize, to: usize) -> &'a [u8] {
    let width = column.width();
    bytes.get(from * width..to * width).unwrap_or_default()
}
