//! Rings as files of other programs, and back.

mod datasets;
mod made;
mod paths;
mod plain_steps;
mod table;
