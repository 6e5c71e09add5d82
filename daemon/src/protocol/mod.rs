//! Protocol between clients and the daemon: messages, their lines, and how a daemon is found.

mod column_spec;
mod holder;
pub(crate) mod lines;
mod messages;

pub(crate) use column_spec::{
    ColumnSpec, ColumnSpecError, SchemaFileError, read_schema_file, schema,
};
pub(crate) use holder::Holder;
pub(crate) use messages::{
    Answer, Ask, CreateAsk, LoadAsk, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, PROTOCOL, Refusal,
    Request, ResizeAsk, SaveAsk, WORKING_EVERY,
};
pub use messages::{
    Code, Gone, Granted, Grown, ListedObject, NameTaken, OverBudget, Pong, SaveOutcome,
    StoredSnapshot,
};
