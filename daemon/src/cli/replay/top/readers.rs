//! Readers of rings, one line each: the ages of what they drew.

use serde::Serialize;

use super::columns;
use super::reading::RingReading;
use crate::cli::console::printable;
use crate::objects::reader_ages::{AgeBinReport, ages_in_words};

/// JSON of a reader that has drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ReaderFrame {
    pub(crate) slot: u32,
    pub(crate) pid: u64,
    /// Ages of drawn transitions, of every 64th batch.
    pub(crate) ages: Vec<AgeBinReport>,
}

impl ReaderFrame {
    /// Returns those readers of a ring that have counted ages, in the order of their slots.
    pub(crate) fn all_of(seen: &RingReading) -> Vec<Self> {
        let readers = seen.stats.iter().flat_map(|stats| &stats.readers);
        let counted = readers.filter(|reader| !reader.ages.is_empty());
        counted
            .map(|reader| Self {
                slot: reader.slot,
                pid: reader.pid,
                ages: AgeBinReport::all_of(&reader.ages),
            })
            .collect()
    }

    /// Describes the reader of a ring in a line.
    pub(crate) fn line(&self, ring: &str) -> String {
        let ring = columns::shortened(&printable(ring), columns::LONGEST_NAME);
        let Self { slot, pid, ages } = self;
        let (reader, ages) = (format!("reader {slot} (pid {pid}) of {ring}"), ages_in_words(ages));
        format!("{reader}: ages of drawn rows, in newer rows of the lane: {ages}")
    }
}

#[cfg(test)]
mod tests {
    use backcast_core::AgeBin;

    use super::super::frame::made_up::{reader, ring};
    use super::*;

    #[test]
    fn a_line_says_how_old_the_drawn_rows_were() {
        let mut seen = ring("pong", 50);
        let mut learner = reader(3, 4_242, 10);
        learner.ages = vec![AgeBin { from: 0, rows: 1 }, AgeBin { from: 1, rows: 3 }];
        seen.stats.as_mut().unwrap().readers = vec![reader(0, 1, 0), learner];
        let shown = ReaderFrame::all_of(&seen);
        assert_eq!(shown.len(), 1, "a reader that drew nothing has no line");
        assert_eq!(
            shown[0].line("pong"),
            "reader 3 (pid 4242) of pong: ages of drawn rows, in newer rows of the lane: \
             half <= 1, 90% <= 1, all <= 1"
        );
        seen.stats = None;
        assert_eq!(ReaderFrame::all_of(&seen), []);
    }
}
