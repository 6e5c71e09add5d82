//! The Rust blocks of README and docs, run as doctests: a page with such a block is listed here.

/// The first page a visitor sees.
#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
pub struct Readme;

/// How a learner is written in Rust.
#[doc = include_str!("../../docs/howto/rust.md")]
#[cfg(doctest)]
pub struct HowToRust;
