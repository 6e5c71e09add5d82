//! Rings as files of other programs, and back.

mod damage;
mod datasets;
mod made;
mod paths;
mod plain_steps;
mod table;
