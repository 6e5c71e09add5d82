//! Where the rows go that are read from a file: into a ring that nobody sees yet. What is there is known
//! by its hash, so that a later call can tell whether it still is.

use std::collections::BTreeMap;
use std::mem;
use std::ops::{ControlFlow, Range};

use backcast_core::{Column, Filling, Schema};
use backcast_files::{OnProgress, Progress};
use serde::{Deserialize, Serialize};

use crate::error::ImportError;

/// Bytes of a row of each built-in column.
const BUILT_IN: [usize; 4] = [8, 8, 4, 4];
/// Bytes of rows that are read back at a time: they are still in a cache when they are few.
const PIECE_BYTES: u64 = 2 << 20;

/// Rows that were stored together, of whole parts of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unit {
    /// Parts that are done with it, from the first one on.
    pub(crate) parts: u64,
    /// Where the rows are: lane, first row, and one past the last. In the order of the hash.
    places: Vec<(u32, u64, u64)>,
    /// Of what stands there, column by column.
    hash: String,
}

impl Unit {
    pub(crate) fn rows(&self) -> u64 {
        self.places.iter().map(|(_, from, to)| to.saturating_sub(*from)).sum()
    }
}

/// A ring that is being filled, and how far it is.
pub(crate) struct Sink<'f, 'r, 'p> {
    filling: &'f mut Filling<'r>,
    on_progress: &'f mut Option<OnProgress<'p>>,
    progress: Progress,
    row_bytes: u64,
    /// Of the unit that is being stored; `None` if nobody will ask for units.
    hash: Option<RowsHash>,
    places: Vec<(u32, u64, u64)>,
    /// Rows of the unit that are stored, and not in its hash yet.
    pending: BTreeMap<u32, Range<u64>>,
    pending_rows: u64,
    unit_rows: u64,
}

impl<'f, 'r, 'p> Sink<'f, 'r, 'p> {
    /// For lanes that have begun and get `rows` rows together.
    pub(crate) fn new(
        filling: &'f mut Filling<'r>,
        schema: &Schema,
        rows: u64,
        on_progress: &'f mut Option<OnProgress<'p>>,
    ) -> Self {
        let row_bytes = (schema.row_bytes() as u64).max(1);
        let total_bytes = rows.saturating_mul(row_bytes);
        let progress = Progress { total_rows: rows, total_bytes, ..Progress::default() };
        let (hash, places, pending) = (None, Vec::new(), BTreeMap::new());
        let (pending_rows, unit_rows) = (0, 0);
        Self {
            filling,
            on_progress,
            progress,
            row_bytes,
            hash,
            places,
            pending,
            pending_rows,
            unit_rows,
        }
    }

    /// The same, of which units are asked for.
    pub(crate) fn in_units(self, schema: &Schema) -> Self {
        Self { hash: Some(RowsHash::new(schema)), ..self }
    }

    /// Stores the next rows of a lane: a buffer per column, the built-in ones first.
    pub(crate) fn rows(
        &mut self,
        lane: u32,
        rows: u64,
        columns: &[&[u8]],
    ) -> Result<(), ImportError> {
        let from = self.next(lane);
        self.filling.rows(lane, rows, columns)?;
        self.count(rows);
        if rows > 0 && self.hash.is_some() {
            self.pending.entry(lane).or_insert(from..from).end = from + rows;
            self.pending_rows += rows;
            self.unit_rows += rows;
        }
        Ok(())
    }

    /// The next row of a lane.
    pub(crate) fn next(&self, lane: u32) -> u64 {
        self.filling.missing(lane).ok().flatten().map_or(0, |missing| missing.start)
    }

    /// Says how far it is. An error if somebody asks to stop.
    pub(crate) fn step(&mut self) -> Result<(), ImportError> {
        if self.pending_rows.saturating_mul(self.row_bytes) >= PIECE_BYTES {
            self.settle();
        }
        match self.on_progress.as_mut().map(|on_progress| on_progress(&self.progress)) {
            Some(ControlFlow::Break(())) => Err(ImportError::Interrupted { partial: None }),
            _ => Ok(()),
        }
    }

    /// Whether the unit has as many rows as fit so many bytes: a row group of ours is one, though its rows
    /// have a little less.
    pub(crate) fn unit_is_full(&self, bytes: u64) -> bool {
        self.unit_rows > 0 && (self.unit_rows + 1).saturating_mul(self.row_bytes) > bytes
    }

    /// Ends the unit, with which so many parts are done.
    pub(crate) fn end_unit(&mut self, parts: u64) -> Unit {
        self.settle();
        self.unit_rows = 0;
        let hash = self.hash.as_mut().map(RowsHash::finish).unwrap_or_default();
        Unit { parts, places: mem::take(&mut self.places), hash }
    }

    /// How many of these units are still true: all that it says is in its place.
    pub(crate) fn check(&mut self, units: &[Unit]) -> Result<usize, ImportError> {
        let (mut next, mut parts) = (BTreeMap::new(), 0);
        for (number, unit) in units.iter().enumerate() {
            if unit.parts < parts || !self.is_true(unit, &mut next) {
                return Ok(number);
            }
            parts = unit.parts;
            self.count(unit.rows());
            self.step()?;
        }
        Ok(units.len())
    }

    /// Takes the rows of units, which are true, as they are, after none or all of them were counted.
    pub(crate) fn keep(&mut self, units: &[Unit]) -> Result<(), ImportError> {
        for (lane, from, to) in units.iter().flat_map(|unit| &unit.places) {
            self.filling.keep(*lane, to.saturating_sub(*from))?;
        }
        self.progress.rows = 0;
        self.count(units.iter().map(Unit::rows).sum());
        Ok(())
    }

    fn is_true(&mut self, unit: &Unit, next: &mut BTreeMap<u32, u64>) -> bool {
        let Some(mut hash) = self.hash.take() else { return false };
        let stands = unit.places.iter().all(|(lane, from, to)| {
            let expected = next.entry(*lane).or_insert_with(|| self.next(*lane));
            let follows = from == expected && from < to;
            *expected = *to;
            follows && hash.add(self.filling, *lane, *from..*to).is_some()
        });
        let found = hash.finish();
        self.hash = Some(hash);
        stands && found == unit.hash
    }

    /// Reads what was stored since the last time, to take its hash.
    fn settle(&mut self) {
        let Some(hash) = &mut self.hash else { return };
        self.pending_rows = 0;
        for (lane, Range { start, end }) in mem::take(&mut self.pending) {
            // It was stored there just now. Could it not be read, its hash would be no row's.
            let _ = hash.add(self.filling, lane, start..end);
            match self.places.last_mut() {
                Some((last, _, to)) if *last == lane && *to == start => *to = end,
                _ => self.places.push((lane, start, end)),
            }
        }
    }

    fn count(&mut self, rows: u64) {
        self.progress.rows += rows;
        self.progress.bytes = self.progress.rows.saturating_mul(self.row_bytes);
    }
}

/// The hash of rows in their places, in the order in which they are added; into how many pieces they are
/// cut does not matter.
struct RowsHash {
    columns: Vec<blake3::Hasher>,
    widths: Vec<usize>,
    buffers: Vec<Vec<u8>>,
    piece_rows: u64,
}

impl RowsHash {
    fn new(schema: &Schema) -> Self {
        let widths = BUILT_IN.into_iter().chain(schema.columns().iter().map(Column::width));
        let widths: Vec<usize> = widths.collect();
        let row_bytes: usize = widths.iter().sum();
        Self {
            columns: vec![blake3::Hasher::new(); widths.len()],
            buffers: vec![Vec::new(); widths.len()],
            piece_rows: (PIECE_BYTES / (row_bytes as u64).max(1)).max(1),
            widths,
        }
    }

    /// `None`: there are no such rows.
    fn add(&mut self, filling: &Filling<'_>, lane: u32, rows: Range<u64>) -> Option<()> {
        let mut from = rows.start;
        while from < rows.end {
            let to = rows.end.min(from + self.piece_rows);
            let count = usize::try_from(to - from).ok()?;
            for (buffer, width) in self.buffers.iter_mut().zip(&self.widths) {
                buffer.resize(count * width, 0);
            }
            let mut out: Vec<&mut [u8]> = self.buffers.iter_mut().map(Vec::as_mut_slice).collect();
            filling.read_back(lane, from..to, &mut out).ok()?;
            for (column, buffer) in self.columns.iter_mut().zip(&self.buffers) {
                column.update(buffer);
            }
            from = to;
        }
        Some(())
    }

    /// The hash of all that were added, and begins the next one.
    fn finish(&mut self) -> String {
        let mut whole = blake3::Hasher::new();
        for column in &mut self.columns {
            whole.update(column.finalize().as_bytes());
            column.reset();
        }
        whole.finalize().to_hex().to_string()
    }
}
