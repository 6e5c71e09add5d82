//! The Rust blocks of README and docs, run as doctests: a page with such a block is listed here.

/// The README.
#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
pub struct Readme;

/// The page about learners in Rust.
#[doc = include_str!("../../docs/howto/rust.md")]
#[cfg(doctest)]
pub struct HowToRust;
