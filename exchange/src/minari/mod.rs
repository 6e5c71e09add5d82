//! A Minari dataset: a folder per episode with a Parquet file of its steps, and one file of words about
//! all of them, in the layout of Minari's `parquet` storage.
//!
//! ```text
//! walk/data/metadata.json        spaces, number of episodes and steps
//! walk/data/0/part-0.parquet     observations [n + 1], actions, rewards, terminations, truncations
//! walk/data/0/metadata.json      number of its steps
//! ```

mod columns;
mod episode_file;
mod notes;
mod parts;
mod read;
mod space;
mod stranger;
mod write;

pub(crate) use read::read;
pub(crate) use stranger::stranger;
pub(crate) use write::{check, read_back, write};

/// The folder that has everything.
const DATA: &str = "data";
const METADATA: &str = "metadata.json";
const EPISODE: &str = "part-0.parquet";
/// What Minari calls the columns.
const OBSERVATIONS: &str = "observations";
const ACTIONS: &str = "actions";
const REWARDS: &str = "rewards";
const TERMINATIONS: &str = "terminations";
const TRUNCATIONS: &str = "truncations";
const INFOS: &str = "infos";
/// What Backcast adds to the words about the dataset.
const NOTES: &str = "backcast";
