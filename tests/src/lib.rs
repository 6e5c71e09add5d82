//! Code that the whole-system tests and their child processes share.

pub mod certified;
pub mod fuzz;
#[cfg(target_os = "linux")]
pub mod last_call;
pub mod limits;
pub mod orders;
pub mod pages;
pub mod peer;
pub mod steps;
pub mod storm;
pub mod versions;
pub mod victim;
