//! The command line and the daemon in real processes.
//!
//! One binary, which is linked once. Each test has a directory of its own ([`shelf::Shelf`]).

mod ages;
mod bench;
mod contract;
#[cfg(target_os = "linux")]
mod denied;
mod doctor;
#[cfg(target_os = "linux")]
mod few_descriptors;
mod files;
mod life;
mod manual;
mod panel;
mod record;
mod refusals;
mod schemas;
mod serve;
mod shelf;
mod sim_replay;
mod sim_watch;
mod snapshots;
mod stat;
mod streams;
mod top;

/// A role; see [`shelf::Holder`].
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_holds_a_ring() {
    shelf::Holder::role();
}
