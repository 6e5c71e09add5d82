//! Replay of recorded order books: message files of one stock and day, and orders against them.
//!
//! Modules from the bottom up: `error`, `message` (one line of a message file), `lines` (bounded
//! reading), `row` (one line of an order book file), `book` (the recorded orders), `file` (reads
//! and checks whole files), `queue` (places of an agent's orders) and `replay` (the cursor and the
//! agent's account).

mod book;
mod error;
mod file;
mod lines;
mod message;
mod queue;
mod replay;
mod row;

pub use book::{HistoricBook, HistoricLevel};
pub use error::{HistoryError, HistoryFile, MessageReject};
pub use file::{Differences, History, HistoryCounts};
pub use message::{HistoryPrice, Message, MessageKind, NANOS_PER_SECOND};
pub use queue::OwnOrder;
pub use replay::{OwnFill, Replay, ReplayAccount, ReplayReject, ReplayRules};
