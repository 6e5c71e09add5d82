//! Named objects and the files of rings: created, opened, kept, relocated and removed.

#![forbid(unsafe_code)]

pub(crate) mod base_lock;
pub(crate) mod claim_state;
pub(crate) mod claim_table;
pub(crate) mod learned_table;
pub(crate) mod mapped_lanes;
pub(crate) mod memfd;
pub(crate) mod object;
pub(crate) mod params_files;
pub(crate) mod params_pins;
pub(crate) mod params_store;
pub(crate) mod reader_pins;
pub(crate) mod relocation;
pub(crate) mod ring_creation;
pub(crate) mod ring_files;
pub(crate) mod ring_store;
pub(crate) mod sealed_segment;
pub(crate) mod table;
pub(crate) mod table_file;
pub(crate) mod table_removal;
pub(crate) mod table_view;
pub(crate) mod unnamed_ring;
