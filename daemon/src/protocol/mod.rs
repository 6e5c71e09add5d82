//! Protocol between clients and the daemon: messages, their lines, and how a daemon is found.

mod column_spec;
mod holder;
pub(crate) mod lines;
mod messages;
mod outcomes;
mod refusal;

pub(crate) use column_spec::{
    ColumnSpec, ColumnSpecError, SchemaFileError, read_schema_file, schema,
};
pub(crate) use holder::Holder;
pub(crate) use messages::{
    Answer, Ask, CreateAsk, LoadAsk, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, PROTOCOL, Request,
    ResizeAsk, SaveAsk, WORKING_EVERY,
};
pub use outcomes::{
    Gone, Granted, Grown, LeftOut, ListedObject, Pong, SaveOutcome, StoredSnapshot,
};
pub(crate) use refusal::Refusal;
pub use refusal::{Code, NameTaken, OverBudget};
