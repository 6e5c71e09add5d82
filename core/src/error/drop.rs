//! Errors of dropping rows of a ring.

use std::io;
use std::path::PathBuf;

use backcast_layout::SegmentError;
use thiserror::Error;

/// Error of dropping rows. No row was dropped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DropError {
    /// A snapshot, whose rows stay.
    #[error("a snapshot keeps its rows; load it into a ring, and drop rows there")]
    Snapshot,
    /// A lane that the ring lacks.
    #[error("there is no lane {lane}; the ring has lanes 0 to {}", lanes.saturating_sub(1))]
    NoSuchLane {
        lane: u32,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// An episode of which the lane holds no row.
    #[error(
        "lane {lane} holds no row of episode {episode}, {}; the column `episode` has their numbers",
        held(*.kept)
    )]
    NoSuchEpisode { lane: u32, episode: u64, kept: Option<(u64, u64)> },
    /// An episode with older ones before it.
    #[error(
        "episode {episode} of lane {lane} has older ones before it, from episode {oldest} on, and \
         rows are dropped from the oldest on; drop those first, or drop them too with `older`"
    )]
    NotOldest { lane: u32, episode: u64, oldest: u64 },
    /// An episode that has not ended.
    #[error(
        "episode {episode} of lane {lane} has not ended at its row {newest}, and its later rows \
         would stay; wait until it ends, or drop every row so far with `clear`"
    )]
    Unfinished { lane: u32, episode: u64, newest: u64 },
    /// A writer overwrote the rows during every attempt to find the episode.
    #[error(
        "a writer overwrote lane {lane} during {attempts} attempts to find the end of the episode; \
         try again, or create the ring with a larger capacity"
    )]
    Outrun { lane: u32, attempts: u32 },
    /// A file of marks that this process may not write.
    #[error(
        "this process may not write {}, so it may not drop rows: {source}; run it as the owner of \
         the ring, or let it write that file",
        path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// Error of the file of the marks.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

fn held(kept: Option<(u64, u64)>) -> String {
    match kept {
        Some((oldest, newest)) => format!("but those of episodes {oldest} to {newest}"),
        None => "and none at all".to_owned(),
    }
}
