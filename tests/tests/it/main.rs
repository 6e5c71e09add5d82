//! Whole-system tests whose processes need no limits of their own.
//!
//! One binary, which is linked once. Storms, and tests that limit memory or system calls, have
//! binaries of their own.

mod churn;
mod cross_language;
/// Runs the unit tests of a module of the extension, whose own crate can have none: only an
/// interpreter loads it.
#[path = "../../../pybind/src/error/words.rs"]
mod error_words;
mod laps;
mod programs;
#[cfg(target_os = "linux")]
mod rate_limiter;
mod refusals;
