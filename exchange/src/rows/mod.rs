//! Rows of a ring: read beside its writers, and stored in a new one.

mod episodes;
mod reader;
mod sink;

pub(crate) use episodes::{EpisodeRows, EpisodeSteps, part};
pub(crate) use reader::RowReader;
pub(crate) use sink::Sink;
