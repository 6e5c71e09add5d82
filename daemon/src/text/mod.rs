//! Text of numbers: formatting for people, and parsing of what they type.

pub(crate) mod parse;
pub(crate) mod units;
