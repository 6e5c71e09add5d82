//! A ring, and a list of the rows that it should hold.

use std::ops::Range;

use crate::{AutoresetMode, DType, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions};

/// Lane and sequence number.
pub(super) type Row = (usize, u64);

/// A ring on the heap, and whether a transition starts at each of its rows.
pub(super) struct ListedRing {
    pub(super) ring: Ring,
    writers: Vec<Writer>,
    /// Whether each published row is not FINAL, by lane.
    starts: Vec<Vec<bool>>,
    ended: Vec<bool>,
    /// First row of each lane that is not evicted.
    first: Vec<u64>,
}

impl ListedRing {
    pub(super) fn new(capacity: u64, lanes: u32) -> Self {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(capacity).lanes(lanes)).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
        let writers = (0..lanes).map(|_| ring.writer(options).unwrap()).collect();
        let lanes = lanes as usize;
        let (starts, ended) = (vec![Vec::new(); lanes], vec![false; lanes]);
        Self { ring, writers, starts, ended, first: vec![0; lanes] }
    }

    pub(super) fn lanes(&self) -> usize {
        self.starts.len()
    }

    /// Appends a row to a lane. It may evict the lane's oldest one.
    pub(super) fn append(&mut self, lane: usize, ends: bool) {
        let (row, schema) = (self.starts[lane].len() as u64, self.ring.schema().clone());
        // The row after an end is FINAL, and its flags are dropped.
        let (is_final, ends) = (self.ended[lane], ends && !self.ended[lane]);
        let obs = [row];
        let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        self.writers[lane].append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
        self.starts[lane].push(!is_final);
        self.ended[lane] = ends;
        self.evict(lane, (row + 1).saturating_sub(self.ring.lane_capacity()));
    }

    /// Removes the rows of a lane before `first` from the list.
    fn evict(&mut self, lane: usize, first: u64) {
        self.first[lane] = self.first[lane].max(first);
    }

    /// Returns the rows of each lane that may start a transition: all but the newest.
    pub(super) fn candidates(&self) -> Vec<Range<u64>> {
        let of = |(starts, first): (&Vec<bool>, &u64)| {
            *first..(starts.len() as u64).saturating_sub(1).max(*first)
        };
        self.starts.iter().zip(&self.first).map(of).collect()
    }

    /// Returns the transitions, by lane and row.
    pub(super) fn transitions(&self) -> Vec<Row> {
        let rows = self.candidates().into_iter().enumerate();
        let rows = rows.flat_map(|(lane, rows)| rows.map(move |seq| (lane, seq)));
        rows.filter(|row| self.starts_at(*row)).collect()
    }

    /// Returns whether a readable transition starts at a row.
    pub(super) fn holds(&self, row: Row) -> bool {
        self.candidates()[row.0].contains(&row.1) && self.starts_at(row)
    }

    fn starts_at(&self, (lane, seq): Row) -> bool {
        usize::try_from(seq).is_ok_and(|seq| self.starts[lane][seq])
    }
}
