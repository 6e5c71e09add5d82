//! Claims lanes for a writer: free ones, each where its last writer left it.

use std::process;
use std::sync::Arc;

use backcast_layout::protocol::{ImpossibleCounters, LaneWriter};
use backcast_layout::{ClaimedLane, Column};

use super::notices::FollowedNotices;
use super::rows::kept::{KeptObservation, obs_columns};
use super::rows::{Continuation, EpisodeClock};
use super::warnings::WriterWarnings;
use super::{OwnLane, Writer};
use crate::error::{HeldLane, WriterError};
use crate::limiter::gate::InsertGate;
use crate::ring::Ring;
use crate::row_header::RowHeader;
use crate::writer::lease_backoff::LeaseBackoff;
use crate::writer::options::WriterOptions;

impl Ring {
    /// Claims lanes and returns their writer. The kernel releases them if this process dies. Waits
    /// up to 5 s for each lane that another process relocates after a resize.
    pub fn writer(&self, options: WriterOptions) -> Result<Writer, WriterError> {
        Writer::claim(self, options)
    }
}

impl Writer {
    fn claim(ring: &Ring, options: WriterOptions) -> Result<Self, WriterError> {
        let asked = options.lanes;
        let count = ring.lanes();
        if asked == 0 {
            return Err(WriterError::NoLanes);
        }
        if ring.is_snapshot() {
            let name = ring.name().map_or("this ring".to_owned(), |name| format!("`{name}`"));
            return Err(WriterError::Snapshot { name });
        }
        if asked > count {
            return Err(WriterError::TooManyLanes { asked, lanes: count });
        }
        let mode = options.mode().ok_or(WriterError::ModeNotSaid { lanes: asked })?;
        // Read the notices first: the claims then follow every resize that the notices count.
        let notices = FollowedNotices::of(ring);
        // Check first, so that a refused writer raises no generation of a lane.
        let taken = |lane: &u32| ring.store().lane_held(*lane);
        let held: Vec<u32> = (0..count).filter(taken).collect();
        let free = count - u32::try_from(held.len()).unwrap_or(count);
        let lanes_taken = |free, held: &[u32]| {
            let held = holders(ring, held);
            WriterError::LanesTaken { asked, free, lanes: count, held }
        };
        if free < asked {
            return Err(lanes_taken(free, &held));
        }
        let mut lanes = Vec::with_capacity(asked as usize);
        let mut numbers = Vec::with_capacity(asked as usize);
        let mut held = Vec::new();
        let mut damaged = None;
        for number in 0..count {
            if numbers.len() == asked as usize {
                break;
            }
            // Probing is cheap and opens no file.
            let free = !ring.store().lane_held(number);
            let claimed = if free { ring.store().claim_lane(number)? } else { None };
            let Some(claimed) = claimed else {
                held.push(number);
                continue;
            };
            match OwnLane::adopt(claimed, ring.store().spec().reserve_chunk.into()) {
                Ok(lane) => {
                    lanes.push(lane);
                    numbers.push(number);
                }
                Err(source) => damaged = Some(WriterError::Damaged { lane: number, source }),
            }
        }
        if numbers.len() < asked as usize {
            let free = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            return Err(match damaged {
                Some(damaged) if held.is_empty() => damaged,
                _ => lanes_taken(free, &held),
            });
        }
        let widest = ring.schema().columns().iter().map(Column::width).max().unwrap_or(0);
        let columns = ring.schema().columns();
        let reward = columns.iter().position(|column| column.name() == "reward");
        let first = numbers.first().copied().unwrap_or(0);
        let gate = InsertGate::of(ring.store(), first, options.timeout).map(Box::new);
        Ok(Self {
            fingerprint: ring.schema().fingerprint(),
            gate,
            ring: ring.clone(),
            mode,
            planned: Vec::with_capacity(lanes.len()),
            indices: Vec::with_capacity(lanes.len()),
            zeros: vec![0; widest],
            scratch: vec![0; widest],
            asked: Vec::new(),
            numbers,
            lanes,
            rows_written: 0,
            counts: Arc::default(),
            stall: None,
            warnings: WriterWarnings::of(ring),
            has_warnings: false,
            notices,
            obs: obs_columns(ring.schema()),
            reward: reward.and_then(|at| Some((at, columns.get(at)?.dtype()))),
            pid: process::id(),
        })
    }
}

impl OwnLane {
    fn adopt(lane: ClaimedLane, chunk: u64) -> Result<Self, ImpossibleCounters> {
        let memory = LaneWriter::adopt(lane, chunk)?;
        let clock = match memory.head() {
            0 => EpisodeClock::fresh(),
            head => EpisodeClock::after(RowHeader::read(memory.lane(), head - 1).episode),
        };
        let (backoff, kept) = (LeaseBackoff::default(), KeptObservation::default());
        Ok(Self { memory, clock, backoff, kept, continuation: Continuation::Plain })
    }
}

/// Returns some lanes with the processes that hold them.
fn holders(ring: &Ring, lanes: &[u32]) -> Vec<HeldLane> {
    let pids = ring.holders(lanes);
    lanes
        .iter()
        .zip(pids)
        .map(|(lane, (pid, writer))| HeldLane { lane: *lane, pid, writer })
        .collect()
}
