//! Text of numbers: formatting, and parsing of typed input.

pub(crate) mod parse;
pub(crate) mod units;
