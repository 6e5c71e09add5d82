//! The daemon in real processes: one per directory, started, asked, attacked, killed and ended.

#[path = "../shelf/mod.rs"]
mod shelf;

mod budget;
mod descriptors;
mod hostile;
mod life;
mod memfd;
mod metrics;
mod persist;
mod resize;
mod rings;
mod running;
mod snapshots;

/// A role; see [`shelf::Holder`].
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_holds_a_ring() {
    shelf::Holder::role();
}
