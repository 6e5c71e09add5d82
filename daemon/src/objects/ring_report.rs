//! Everything about one ring, as `backcast stat` and the daemon report it.

use backcast_core::{
    ClaimStats, InitialPriority, LearnedColumn, LearnedTableInfo, LimiterSideStats, LimiterStats,
    PriorityOptions, PriorityOrder, RingStats,
};
use serde::Serialize;

use super::catalogue::ObjectState;
use super::geometry::GeometryReport;
use super::persist::PersistReport;
use super::reader_ages::AgeBinReport;
use super::table_distributions::{
    LockedReport, PrioritiesReport, TableDistributions, TimesReport, UnreadableReport,
};

/// JSON of a ring.
#[derive(Debug, Serialize)]
pub(crate) struct RingReport {
    #[serde(flatten)]
    pub(crate) geometry: GeometryReport,
    pub(crate) state: ObjectState,
    /// Processes that hold the ring, as far as this user can see them.
    pub(crate) holder_pids: Vec<u32>,
    pub(crate) created_unix_ns: u64,
    pub(crate) rows: u64,
    pub(crate) rows_published: u64,
    pub(crate) transitions: u64,
    pub(crate) lanes: Vec<LaneReport>,
    pub(crate) readers: Vec<ReaderReport>,
    pub(crate) pins: Vec<PinReport>,
    /// `None` if the ring has no rate limiter.
    pub(crate) limiter: Option<LimiterReport>,
    pub(crate) tables: Vec<TableReport>,
    pub(crate) claims: Vec<ClaimReport>,
    pub(crate) learned: Vec<LearnedReport>,
    pub(crate) locked_tables: Vec<LockedReport>,
    pub(crate) unreadable_tables: Vec<UnreadableReport>,
    /// `None` if the ring is not persisted.
    pub(crate) persist: Option<PersistReport>,
}

/// JSON of one lane.
#[derive(Debug, Serialize)]
pub(crate) struct LaneReport {
    pub(crate) lane: u32,
    pub(crate) head_seq: u64,
    pub(crate) first_kept_seq: u64,
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
    /// Ages of drawn transitions, of every 64th batch.
    pub(crate) ages: Vec<AgeBinReport>,
}

/// JSON of the rows that a reader has leased on a lane.
#[derive(Debug, Serialize)]
pub(crate) struct PinReport {
    pub(crate) slot: u32,
    pub(crate) pid: u64,
    pub(crate) lane: u32,
    pub(crate) start_seq: u64,
}

/// JSON of the rate limiter of a ring. The limits are null if their bytes are damaged.
#[derive(Debug, Serialize)]
pub(crate) struct LimiterReport {
    pub(crate) enabled: Option<bool>,
    pub(crate) samples_per_insert: Option<f64>,
    pub(crate) min_size: Option<u64>,
    /// Lower end of the error band; null if the band has no lower end.
    pub(crate) min_diff: Option<f64>,
    /// Upper end of the error band; null if the band has no upper end.
    pub(crate) max_diff: Option<f64>,
    pub(crate) no_learner: Option<&'static str>,
    pub(crate) no_writer: Option<&'static str>,
    pub(crate) inserts: u64,
    pub(crate) samples: u64,
    pub(crate) deletes: u64,
    /// Count of inserts at which writers stop; null without a ceiling.
    pub(crate) ceiling: Option<u64>,
    /// Transitions that may be inserted now; null for any number.
    pub(crate) may_insert: Option<u64>,
    /// Items that may be drawn now; null for any number.
    pub(crate) may_sample: Option<u64>,
    pub(crate) has_sampler: bool,
    pub(crate) has_writer: bool,
    pub(crate) writers: LimiterSideReport,
    pub(crate) samplers: LimiterSideReport,
    pub(crate) waiters: Vec<WaiterReport>,
    /// Limits in words.
    #[serde(skip)]
    pub(crate) words: String,
}

/// JSON of the writers or the samplers of a ring with a rate limiter.
#[derive(Debug, Serialize)]
pub(crate) struct LimiterSideReport {
    pub(crate) waiting: u64,
    pub(crate) waits: u64,
    pub(crate) waited_s: f64,
}

/// JSON of a process that waits for the rate limiter.
#[derive(Debug, Serialize)]
pub(crate) struct WaiterReport {
    pub(crate) pid: u64,
    /// First lane of a writer.
    pub(crate) lane: Option<u32>,
    /// Reader slot of a sampler.
    pub(crate) slot: Option<u32>,
    pub(crate) wanted: u64,
    pub(crate) needed: u64,
    pub(crate) since_unix_ms: u64,
}

impl From<LimiterSideStats> for LimiterSideReport {
    fn from(side: LimiterSideStats) -> Self {
        let LimiterSideStats { waiting, waits, waited, .. } = side;
        Self { waiting, waits, waited_s: waited.as_secs_f64() }
    }
}

impl From<&LimiterStats> for LimiterReport {
    fn from(stats: &LimiterStats) -> Self {
        let limits = stats.limits;
        let finite = |end: f64| Some(end).filter(|end| end.is_finite());
        Self {
            enabled: limits.map(|limits| limits.is_enabled()),
            samples_per_insert: limits.map(|limits| limits.samples_per_insert()),
            min_size: limits.map(|limits| limits.min_size_to_sample()),
            min_diff: limits.and_then(|limits| finite(limits.error_band().0)),
            max_diff: limits.and_then(|limits| finite(limits.error_band().1)),
            no_learner: limits.map(|limits| limits.no_learner_choice().as_str()),
            no_writer: limits.map(|limits| limits.no_writer_choice().as_str()),
            inserts: stats.counts.inserts,
            samples: stats.counts.samples,
            deletes: stats.counts.deletes,
            ceiling: stats.ceiling,
            may_insert: stats.may_insert,
            may_sample: stats.may_sample,
            has_sampler: stats.has_sampler,
            has_writer: stats.has_writer,
            writers: stats.writers.into(),
            samplers: stats.samplers.into(),
            waiters: stats
                .waiters
                .iter()
                .map(|waiter| WaiterReport {
                    pid: waiter.pid,
                    lane: waiter.lane,
                    slot: waiter.slot,
                    wanted: waiter.wanted,
                    needed: waiter.needed,
                    since_unix_ms: waiter.since_unix_ms,
                })
                .collect(),
            words: limits.map_or_else(|| "damaged".to_owned(), |limits| limits.to_string()),
        }
    }
}

impl LimiterReport {
    /// Returns the limits, the counts and the waiting processes, in words.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { inserts, samples, .. } = self;
        let unlimited = |most: Option<u64>| {
            most.map_or_else(|| "any number".to_owned(), |most| most.to_string())
        };
        let (may_insert, may_sample) = (unlimited(self.may_insert), unlimited(self.may_sample));
        let waiters = self.waiters.iter().map(|waiter| {
            let WaiterReport { pid, wanted, needed, .. } = waiter;
            match waiter.lane {
                Some(lane) => format!(
                    "writer of lane {lane} (pid {pid}) to insert {wanted}, needs {needed} samples"
                ),
                None => format!("sampler (pid {pid}) to draw {wanted}, needs {needed} inserts"),
            }
        });
        let waiters: Vec<String> = waiters.collect();
        let ceiling = self.ceiling.map_or_else(String::new, |at| format!(", ceiling {at}"));
        let waits = |side: &LimiterSideReport| format!("{} ({:.1} s)", side.waits, side.waited_s);
        vec![
            ("limiter", self.words.clone()),
            (
                "limited",
                format!(
                    "{inserts} inserts, {samples} samples{ceiling}; may insert {may_insert}, draw \
                     {may_sample}"
                ),
            ),
            (
                "waits",
                format!("writers {}, samplers {}", waits(&self.writers), waits(&self.samplers)),
            ),
            ("waiting", if waiters.is_empty() { "none".into() } else { waiters.join("; ") }),
        ]
    }
}

/// JSON of a table of priorities.
#[derive(Debug, Serialize)]
pub(crate) struct TableReport {
    pub(crate) name: String,
    pub(crate) exponent: f64,
    pub(crate) eps: f64,
    /// Whether the exponent can change.
    pub(crate) keeps_priorities: bool,
    pub(crate) by: &'static str,
    pub(crate) initial: &'static str,
    /// `None` if only the first transition of an episode has a priority.
    pub(crate) stride: Option<u32>,
    pub(crate) size_bytes: u64,
    pub(crate) lane_rows: u64,
    pub(crate) entered_rows: u64,
    pub(crate) updated_priorities: u64,
    pub(crate) stale_priorities: u64,
    pub(crate) repairs: u64,
    /// `None` if the table could not be read.
    pub(crate) priorities: Option<PrioritiesReport>,
}

/// JSON of a table of claims.
#[derive(Debug, Serialize)]
pub(crate) struct ClaimReport {
    pub(crate) name: String,
    pub(crate) selector: &'static str,
    pub(crate) max_times_sampled: u32,
    pub(crate) shuffled: bool,
    pub(crate) seed: u64,
    pub(crate) size_bytes: u64,
    pub(crate) passes: u64,
    pub(crate) drawn_transitions: u64,
    pub(crate) left_rows: u64,
    pub(crate) overwritten_rows: u64,
    /// `None` if the table could not be read.
    pub(crate) times_sampled: Option<Vec<TimesReport>>,
}

/// JSON of a table of learned columns.
#[derive(Debug, Serialize)]
pub(crate) struct LearnedReport {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) values: LearnedValuesReport,
}

/// JSON of the columns and the counters of a table of learned columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LearnedValuesReport {
    pub(crate) columns: Vec<LearnedColumnReport>,
    pub(crate) size_bytes: u64,
    pub(crate) lane_rows: u64,
    pub(crate) updated_values: u64,
    pub(crate) stale_values: u64,
}

/// JSON of a learned column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LearnedColumnReport {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
}

impl LearnedValuesReport {
    /// Describes the columns: `value f4, visits u2`.
    pub(crate) fn columns_in_words(&self) -> String {
        let column = |of: &LearnedColumnReport| format!("{} {}", of.name, of.dtype);
        self.columns.iter().map(column).collect::<Vec<_>>().join(", ")
    }
}

impl From<&LearnedTableInfo> for LearnedReport {
    fn from(table: &LearnedTableInfo) -> Self {
        Self { name: table.name.clone(), values: table.into() }
    }
}

impl From<&LearnedTableInfo> for LearnedValuesReport {
    fn from(table: &LearnedTableInfo) -> Self {
        let column = |of: &LearnedColumn| LearnedColumnReport {
            name: of.name.clone(),
            dtype: of.dtype.code(),
        };
        Self {
            columns: table.columns.iter().map(column).collect(),
            size_bytes: table.bytes,
            lane_rows: table.lane_rows,
            updated_values: table.counters.updated,
            stale_values: table.counters.stale,
        }
    }
}

impl ClaimReport {
    fn new(stats: &ClaimStats, distributions: &TableDistributions) -> Self {
        let table = &stats.table;
        let times = distributions.times_sampled.get(&table.name);
        Self {
            name: table.name.clone(),
            selector: if table.settings.renewed { "epoch" } else { "consume" },
            max_times_sampled: table.settings.times,
            shuffled: table.settings.shuffled,
            seed: table.settings.seed,
            size_bytes: table.bytes,
            passes: table.passes,
            drawn_transitions: table.drawn,
            left_rows: stats.left,
            overwritten_rows: stats.overwritten,
            times_sampled: times.map(|bins| bins.iter().map(TimesReport::from).collect()),
        }
    }
}

impl RingReport {
    /// Makes the report, without holders.
    pub(crate) fn new(
        ring: &RingStats,
        state: ObjectState,
        persist: Option<PersistReport>,
        distributions: &TableDistributions,
    ) -> Self {
        Self {
            geometry: GeometryReport::from(ring),
            state,
            holder_pids: Vec::new(),
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
                    first_kept_seq: lane.first_kept,
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
                    ages: AgeBinReport::all_of(&reader.ages),
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
            limiter: ring.limiter.as_ref().map(LimiterReport::from),
            tables: ring
                .tables
                .iter()
                .map(|table| TableReport {
                    name: table.name.clone(),
                    exponent: table.settings.exponent,
                    eps: table.settings.eps,
                    keeps_priorities: table.settings.keeps_priorities(),
                    by: PriorityOrder::of(&table.settings).as_str(),
                    initial: InitialPriority::of(&table.settings).as_str(),
                    stride: Some(table.settings.stride)
                        .filter(|stride| *stride != PriorityOptions::EPISODE_STARTS),
                    size_bytes: table.bytes,
                    lane_rows: table.lane_leaves,
                    entered_rows: table.counters.entered,
                    updated_priorities: table.counters.updated,
                    stale_priorities: table.counters.stale,
                    repairs: table.counters.repairs,
                    priorities: distributions.priorities.get(&table.name).map(Into::into),
                })
                .collect(),
            claims: ring
                .claim_tables
                .iter()
                .map(|table| ClaimReport::new(table, distributions))
                .collect(),
            learned: ring.learned_tables.iter().map(LearnedReport::from).collect(),
            locked_tables: distributions.locked.iter().map(LockedReport::from).collect(),
            unreadable_tables: distributions.unreadable.clone(),
            persist,
        }
    }
}
