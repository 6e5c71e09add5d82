//! Reads rows of a ring while writers append, and stores rows in a new ring.

mod episodes;
mod reader;
mod sink;

pub(crate) use episodes::{EpisodeRows, EpisodeSteps, part};
pub(crate) use reader::RowReader;
pub(crate) use sink::Sink;
