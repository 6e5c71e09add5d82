//! Meaning of the bytes of a segment: headers, columns, sizes and names, and the memory of a lane.
//!
//! `docs/layout.md` has the byte tables. [`lane::Lane`] copies rows out of a lane,
//! [`claimed_lane::ClaimedLane`] copies them in.

#![expect(unsafe_code, reason = "a lane's counters and rows are reached by address")]

pub(crate) mod claim_table;
pub(crate) mod claimed_lane;
pub(crate) mod column;
#[cfg(test)]
pub(crate) mod counted;
pub(crate) mod geometry;
pub(crate) mod lane;
pub(crate) mod lane_alias;
pub(crate) mod lane_header;
pub(crate) mod lane_policy;
pub(crate) mod lane_shape;
pub(crate) mod leaf_values;
pub(crate) mod learned_table;
pub(crate) mod limiter_table;
pub(crate) mod low_marks;
pub(crate) mod names;
pub(crate) mod origin;
pub(crate) mod params_shape;
pub(crate) mod params_table;
pub(crate) mod priority_table;
pub(crate) mod reader_table;
pub(crate) mod sealed_header;
pub(crate) mod superblock;
pub(crate) mod table_header;
pub(crate) mod tables;
pub(crate) mod tree_shape;
pub(crate) mod window_set;
