//! Errors of a writer that claims lanes.

use backcast_layout::SegmentError;
use backcast_layout::protocol::ImpossibleCounters;
use thiserror::Error;

/// A lane that another writer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLane {
    /// The lane.
    pub lane: u32,
    /// Process that holds the lane if the system reports it, otherwise the process of its writer.
    pub pid: u64,
    /// Process that claims to be the writer. Differs from `pid` if the writer ended and a child
    /// that it forked lives.
    pub writer: u64,
}

impl HeldLane {
    /// Lists at most eight of the processes that hold lanes, each once.
    #[must_use]
    pub fn names(held: &[HeldLane]) -> String {
        let mut pids: Vec<(u64, u64)> = held.iter().map(|held| (held.pid, held.writer)).collect();
        pids.sort_unstable();
        pids.dedup();
        let name = |(pid, writer): &(u64, u64)| {
            if pid == writer {
                pid.to_string()
            } else {
                format!("{pid} (forked from {writer}, which has ended)")
            }
        };
        let named: Vec<String> = pids.iter().take(8).map(name).collect();
        let more = if pids.len() > 8 { ", …" } else { "" };
        format!("process {}{more}", named.join(", "))
    }
}

/// Error of creating a writer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriterError {
    /// A writer of no lanes.
    #[error(
        "a writer needs at least 1 lane, but 0 were asked for; use one lane per sub-environment"
    )]
    NoLanes,
    /// Several lanes without an autoreset mode.
    #[error(
        "a writer of {lanes} lanes needs to know how its environments reset: give autoreset_mode \
         \"next_step\" (the step after an end resets, as Gymnasium's vector environments do by \
         default), \"same_step\" (the step that ends resets) or \"disabled\" (the caller resets, \
         or next_obs holds the final observation, as in SB3)"
    )]
    ModeNotSaid { lanes: u32 },
    /// A snapshot, which has no writers.
    #[error(
        "{name} is a snapshot, which is read-only; load it under another name, and write to that \
         ring"
    )]
    Snapshot { name: String },
    /// More lanes than the ring has.
    #[error(
        "asked for {asked} lanes, the ring has {lanes}; create it with {asked} lanes or more \
         (one per sub-environment over all workers)"
    )]
    TooManyLanes { asked: u32, lanes: u32 },
    /// Too few lanes are free.
    #[error(
        "asked for {asked} lane(s), only {free} of {lanes} are free; {}; \
         stop a holder (the kernel frees its lanes at once), or create the ring with more lanes",
        holders(.held)
    )]
    LanesTaken { asked: u32, free: u32, lanes: u32, held: Vec<HeldLane> },
    /// Too few lanes could be adopted, since some are damaged.
    #[error("lane {lane} cannot be adopted: {source}")]
    Damaged { lane: u32, source: ImpossibleCounters },
    /// Error of the lane's files.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

fn holders(held: &[HeldLane]) -> String {
    format!("{} are held by {}", held.len(), HeldLane::names(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_eight_processes_are_named_once_and_more_are_hinted_at() {
        let held = |count: u32| -> Vec<HeldLane> {
            let of =
                |lane| HeldLane { lane, pid: u64::from(lane / 2), writer: u64::from(lane / 2) };
            (0..2 * count).map(of).collect()
        };
        assert_eq!(HeldLane::names(&held(1)), "process 0");
        assert_eq!(HeldLane::names(&held(8)), "process 0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(HeldLane::names(&held(9)), "process 0, 1, 2, 3, 4, 5, 6, 7, …");
        let orphan = [HeldLane { lane: 0, pid: 7, writer: 5 }];
        assert!(HeldLane::names(&orphan).starts_with("process 7 (forked from 5"));
    }
}
