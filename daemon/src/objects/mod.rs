//! Objects of a base directory: finding them, and their state as reports that serialise to JSON.

pub(crate) mod catalogue;
pub(crate) mod evicted;
pub(crate) mod find;
pub(crate) mod fleet;
pub(crate) mod geometry;
pub(crate) mod holders;
pub(crate) mod listed;
pub(crate) mod numbered;
pub(crate) mod panel_facts;
pub(crate) mod persist;
pub(crate) mod reader_ages;
pub(crate) mod ring_report;
pub(crate) mod table_distributions;
pub(crate) mod waits;
