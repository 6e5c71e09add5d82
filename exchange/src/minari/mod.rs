//! Minari datasets in the layout of Minari's `parquet` storage. Each episode has a folder with a
//! Parquet file of its steps; one JSON file is about all of them.
//!
//! ```text
//! walk/data/metadata.json        spaces, number of episodes and steps
//! walk/data/0/part-0.parquet     observations [n + 1], actions, rewards, terminations, truncations
//! walk/data/0/metadata.json      number of its steps
//! ```

mod columns;
mod episode_file;
mod foreign;
mod notes;
mod parts;
mod read;
mod space;
mod write;

pub(crate) use foreign::foreign_entry;
pub(crate) use read::read;
pub(crate) use write::{check, write};

/// Folder of the episodes and the metadata.
const DATA: &str = "data";
const METADATA: &str = "metadata.json";
const EPISODE: &str = "part-0.parquet";
/// Minari's names of the columns.
const OBSERVATIONS: &str = "observations";
const ACTIONS: &str = "actions";
const REWARDS: &str = "rewards";
const TERMINATIONS: &str = "terminations";
const TRUNCATIONS: &str = "truncations";
const INFOS: &str = "infos";
/// Key of Backcast's description of the columns in the metadata.
const NOTES: &str = "backcast";
