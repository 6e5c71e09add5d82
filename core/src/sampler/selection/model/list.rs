//! A ring, and a list of the rows that it should hold.

use std::ops::Range;

use crate::{
    AutoresetMode, DType, DropError, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions,
};

/// Lane and sequence number.
pub(super) type Row = (usize, u64);

/// A ring on the heap, and the list of its rows.
pub(super) struct ListedRing {
    pub(super) ring: Ring,
    writers: Vec<Writer>,
    /// Whether each published row is not FINAL, by lane.
    starts: Vec<Vec<bool>>,
    ended: Vec<bool>,
    /// First row of each lane that is neither evicted nor dropped.
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
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        self.writers[lane].append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
        self.starts[lane].push(!is_final);
        self.ended[lane] = ends;
        self.evict(lane, (row + 1).saturating_sub(self.ring.lane_capacity()));
    }

    /// Drops every row of the ring and of the list, and compares the number of transitions. With
    /// `ignored` it keeps the list and compares nothing.
    pub(super) fn clear(&mut self, ignored: bool) -> Result<(), String> {
        let (dropped, expected) = (self.ring.clear().unwrap(), self.transitions().len() as u64);
        if !ignored {
            (0..self.lanes()).for_each(|lane| self.evict(lane, self.starts[lane].len() as u64));
        }
        (ignored || dropped == expected).then_some(()).ok_or_else(|| {
            format!(
                "{dropped} transitions were dropped of {expected}, {} of them left",
                self.ring.len()
            )
        })
    }

    /// Drops the oldest episode of a lane, or those up to `episode`, of the ring and of the list.
    /// Compares the number of transitions, or the error. With `ignored` it keeps the list and
    /// compares nothing.
    pub(super) fn drop_episode(
        &mut self,
        lane: usize,
        (episode, older): (Option<u64>, bool),
        ignored: bool,
    ) -> Result<(), String> {
        let number = u32::try_from(lane).unwrap();
        let dropped = self.ring.drop_episode(number, episode, older);
        let expected = self.end_of(lane, episode, older);
        let is_right = match (&dropped, &expected) {
            (Ok(dropped), Ok(end)) => {
                let before = |(of, seq): &&Row| *of == lane && seq < end;
                *dropped == self.transitions().iter().filter(before).count() as u64
            }
            (Err(DropError::NoSuchEpisode { .. }), Err("none"))
            | (Err(DropError::NotOldest { .. }), Err("newer"))
            | (Err(DropError::Unfinished { .. }), Err("unfinished")) => true,
            _ => false,
        };
        if let Ok(end) = expected
            && !ignored
        {
            self.evict(lane, end);
        }
        let what = || format!("dropping {episode:?} gave {dropped:?}, the list has {expected:?}");
        (ignored || is_right).then_some(()).ok_or_else(what)
    }

    /// Returns the number of the newest episode of a lane.
    pub(super) fn newest_episode(&self, lane: usize) -> u64 {
        self.episodes(lane).last().map_or(0, |(_, episode)| *episode)
    }

    /// Returns one past the last row of an episode of a lane, or why it cannot be dropped.
    fn end_of(&self, lane: usize, episode: Option<u64>, older: bool) -> Result<u64, &'static str> {
        let rows = self.episodes(lane);
        let oldest = rows.first().ok_or("none")?.1;
        let episode = episode.unwrap_or(oldest);
        let of_episode: Vec<u64> =
            rows.iter().filter(|row| row.1 == episode).map(|r| r.0).collect();
        let last = *of_episode.last().ok_or("none")?;
        if episode > oldest && !older {
            return Err("newer");
        }
        // An episode ends with a FINAL row, which starts nothing.
        if self.starts[lane][usize::try_from(last).unwrap()] {
            Err("unfinished")
        } else {
            Ok(last + 1)
        }
    }

    /// Returns the rows of a lane that are not evicted, each with the number of its episode.
    fn episodes(&self, lane: usize) -> Vec<(u64, u64)> {
        let mut episode = 0;
        let rows = (0_u64..).zip(&self.starts[lane]).map(|(seq, start)| {
            let row = (seq, episode);
            episode += u64::from(!start);
            row
        });
        rows.filter(|(seq, _)| *seq >= self.first[lane]).collect()
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
