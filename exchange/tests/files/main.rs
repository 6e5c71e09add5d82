//! Rings as files of other programs, and back.

mod damage;
mod datasets;
mod foreign_datasets;
mod made;
mod paths;
mod plain_steps;
mod running;
mod table;
