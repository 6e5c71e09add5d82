//! Everything about one ring, as `backcast stat` and the daemon report it.

use backcast_core::RingStats;
use serde::Serialize;

use super::catalogue::ObjectState;
use super::geometry::GeometryReport;
use super::persist::PersistReport;

/// JSON of a ring.
#[derive(Debug, Serialize)]
pub(crate) struct RingReport {
    #[serde(flatten)]
    pub(crate) geometry: GeometryReport,
    pub(crate) state: ObjectState,
    pub(crate) created_unix_ns: u64,
    pub(crate) rows: u64,
    pub(crate) rows_published: u64,
    pub(crate) transitions: u64,
    pub(crate) lanes: Vec<LaneReport>,
    pub(crate) readers: Vec<ReaderReport>,
    pub(crate) pins: Vec<PinReport>,
    pub(crate) tables: Vec<TableReport>,
    /// `None` if the ring is not persisted.
    pub(crate) persist: Option<PersistReport>,
}

/// JSON of one lane.
#[derive(Debug, Serialize)]
pub(crate) struct LaneReport {
    pub(crate) lane: u32,
    pub(crate) head_seq: u64,
    pub(crate) reserved_seq: u64,
    pub(crate) rows: u64,
    pub(crate) transitions: u64,
    pub(crate) episodes: u64,
    pub(crate) generation: u64,
    pub(crate) held: bool,
    pub(crate) writer_pid: Option<u64>,
    pub(crate) dropped_rows: u64,
    pub(crate) stalls: u64,
}

/// JSON of one reader.
#[derive(Debug, Serialize)]
pub(crate) struct ReaderReport {
    pub(crate) slot: u32,
    pub(crate) pid: u64,
    pub(crate) sampled_rows: u64,
    pub(crate) sampled_batches: u64,
    pub(crate) lapped_reads: u64,
    pub(crate) leases: u64,
    pub(crate) stalls: u64,
}

/// JSON of the rows that a reader has leased on a lane.
#[derive(Debug, Serialize)]
pub(crate) struct PinReport {
    pub(crate) slot: u32,
    pub(crate) pid: u64,
    pub(crate) lane: u32,
    pub(crate) start_seq: u64,
}

/// JSON of a table of priorities.
#[derive(Debug, Serialize)]
pub(crate) struct TableReport {
    pub(crate) name: String,
    pub(crate) exponent: f64,
    pub(crate) eps: f64,
    pub(crate) size_bytes: u64,
    pub(crate) lane_rows: u64,
    pub(crate) entered_rows: u64,
    pub(crate) updated_priorities: u64,
    pub(crate) stale_priorities: u64,
    pub(crate) repairs: u64,
}

impl RingReport {
    pub(crate) fn new(
        ring: &RingStats,
        state: ObjectState,
        persist: Option<PersistReport>,
    ) -> Self {
        Self {
            geometry: GeometryReport::from(ring),
            state,
            created_unix_ns: ring.created_unix_ns,
            rows: ring.lane_stats.iter().map(|lane| lane.rows).sum(),
            rows_published: ring.rows_published,
            transitions: ring.transitions,
            lanes: ring
                .lane_stats
                .iter()
                .map(|lane| LaneReport {
                    lane: lane.lane,
                    head_seq: lane.head,
                    reserved_seq: lane.reserved,
                    rows: lane.rows,
                    transitions: lane.transitions,
                    episodes: lane.episodes,
                    generation: lane.generation,
                    held: lane.held,
                    writer_pid: lane.pid.filter(|_| lane.held),
                    dropped_rows: lane.dropped,
                    stalls: lane.stalls,
                })
                .collect(),
            readers: ring
                .readers
                .iter()
                .map(|reader| ReaderReport {
                    slot: reader.slot,
                    pid: reader.pid,
                    sampled_rows: reader.sampled_rows,
                    sampled_batches: reader.sampled_batches,
                    lapped_reads: reader.lapped,
                    leases: reader.leases,
                    stalls: reader.stalls,
                })
                .collect(),
            pins: ring
                .pins
                .iter()
                .map(|pin| PinReport {
                    slot: pin.slot,
                    pid: pin.pid,
                    lane: pin.lane,
                    start_seq: pin.start,
                })
                .collect(),
            tables: ring
                .tables
                .iter()
                .map(|table| TableReport {
                    name: table.name.clone(),
                    exponent: table.settings.exponent,
                    eps: table.settings.eps,
                    size_bytes: table.bytes,
                    lane_rows: table.lane_leaves,
                    entered_rows: table.counters.entered,
                    updated_priorities: table.counters.updated,
                    stale_priorities: table.counters.stale,
                    repairs: table.counters.repairs,
                })
                .collect(),
            persist,
        }
    }
}
