//! Amounts and rates from two readings of the rings.

use std::time::Duration;

use backcast_core::{LaneStats, ReaderStats, RingStats};
use serde::Serialize;

use super::columns;
use super::fleet::FleetFrame;
use super::params::ParamsFrame;
use super::readers::ReaderFrame;
use super::reading::{Reading, RingReading};
use super::tables::TableFrame;
use crate::cli::console::printable;
use crate::objects::catalogue::ObjectState;
use crate::objects::table_distributions::{LockedReport, UnreadableReport};
use crate::objects::waits;

/// JSON of one frame; rates are null until there are two readings of a ring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Frame {
    pub(crate) at_unix_ns: u64,
    /// Time between the two readings.
    pub(crate) interval_s: Option<f64>,
    pub(crate) limits: Vec<LimitFrame>,
    pub(crate) rings: Vec<RingFrame>,
    pub(crate) params: Vec<ParamsFrame>,
    pub(crate) fleets: Vec<FleetFrame>,
}

/// JSON of a limit of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LimitFrame {
    pub(crate) name: String,
    pub(crate) used_bytes: u64,
    pub(crate) limit_bytes: u64,
}

/// JSON of one ring. If the ring cannot be opened, `allocated_bytes` is the size of its files, and
/// other statistics are zero or null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RingFrame {
    pub(crate) name: String,
    pub(crate) state: ObjectState,
    pub(crate) error: Option<String>,
    pub(crate) allocated_bytes: u64,
    pub(crate) capacity_rows: u64,
    pub(crate) rows: u64,
    pub(crate) transitions: u64,
    /// Filled fraction of the capacity, 0 to 1.
    pub(crate) fill: f64,
    pub(crate) publish_rate_per_s: Option<f64>,
    pub(crate) batch_rate_per_s: Option<f64>,
    pub(crate) sample_rate_per_s: Option<f64>,
    /// Estimated age of the oldest row at the present rates. With one lane, the mean age of a
    /// uniform draw is half of it.
    pub(crate) oldest_row_age_s: Option<f64>,
    pub(crate) readers: u64,
    pub(crate) pins: u64,
    pub(crate) rows_awaited: bool,
    pub(crate) release_awaited: bool,
    /// Writers that the rate limiter holds back; null without a limiter.
    pub(crate) limited_writers: Option<u64>,
    /// Samplers that the rate limiter holds back; null without a limiter.
    pub(crate) limited_samplers: Option<u64>,
    /// Sentences on who waits for whom. Waits for the rate limiter begin to count after a second.
    pub(crate) waits: Vec<String>,
    pub(crate) stalls: u64,
    pub(crate) dropped_rows: u64,
    /// Rows published and not on disk; null if the ring is not persisted.
    pub(crate) persist_behind_rows: Option<u64>,
    /// Maximum age of the rows that are not on disk.
    pub(crate) persist_behind_s: Option<f64>,
    /// Error that keeps rows from being persisted at the moment.
    pub(crate) persist_error: Option<String>,
    /// Tables of priorities, of claims and of learned columns. A ring of over 2^22 rows shows only
    /// its tables of learned columns.
    pub(crate) tables: Vec<TableFrame>,
    /// Tables that a process keeps locked.
    pub(crate) locked_tables: Vec<LockedReport>,
    /// Tables that cannot be opened.
    pub(crate) unreadable_tables: Vec<UnreadableReport>,
    /// Readers that have drawn.
    pub(crate) reader_ages: Vec<ReaderFrame>,
    pub(crate) lanes: Vec<LaneFrame>,
}

/// JSON of one lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LaneFrame {
    pub(crate) lane: u32,
    pub(crate) head_seq: u64,
    pub(crate) rows: u64,
    pub(crate) publish_rate_per_s: Option<f64>,
    pub(crate) episodes: u64,
    pub(crate) held: bool,
    pub(crate) writer_pid: Option<u64>,
    pub(crate) stalls: u64,
    pub(crate) dropped_rows: u64,
}

impl Frame {
    /// Makes a frame of the newer reading with rates since the older one.
    pub(crate) fn of(now: &Reading, before: Option<&Reading>) -> Self {
        let apart = before.map(|before| now.at.saturating_sub(before.at));
        let apart = apart.filter(|apart| !apart.is_zero());
        let row = |seen: &RingReading| {
            let earlier = before.and_then(|before| same(before, seen));
            RingFrame::of(seen, now.unix_ns / 1_000_000, earlier.zip(apart))
        };
        Self {
            at_unix_ns: now.unix_ns,
            interval_s: apart.map(|apart| apart.as_secs_f64()),
            limits: now
                .limits
                .iter()
                .map(|limit| LimitFrame {
                    name: limit.name.clone(),
                    used_bytes: limit.used,
                    limit_bytes: limit.most,
                })
                .collect(),
            rings: now.rings.iter().map(row).collect(),
            params: now
                .params
                .iter()
                .map(|seen| ParamsFrame::of(seen, now.unix_ns, before.zip(apart)))
                .collect(),
            fleets: now.rings.iter().filter_map(FleetFrame::of).collect(),
        }
    }

    /// Returns a line for each wait and each table that cannot be opened.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        let of_ring = |ring: &'_ RingFrame| -> Vec<String> {
            let name = columns::shortened(&printable(&ring.name), columns::LONGEST_NAME);
            let waits = ring.waits.iter().map(|said| format!("{name}: {}", printable(said)));
            let unreadable = ring.unreadable_tables.iter();
            let tables = unreadable.map(|UnreadableReport { table, state, problem }| {
                printable(&format!("{name}: the table `{table}` is {state}: {problem}"))
            });
            waits.chain(tables).collect()
        };
        self.rings.iter().flat_map(of_ring)
    }

    /// Returns a line for each fleet, then one for each set of parameters, and for each table and
    /// reader of a ring.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let fleets = self.fleets.iter().map(|fleet| fleet.line(self.at_unix_ns));
        let of_ring = |ring: &'_ RingFrame| -> Vec<String> {
            let tables = ring.tables.iter().map(|table| table.line(&ring.name));
            tables.chain(ring.reader_ages.iter().map(|reader| reader.line(&ring.name))).collect()
        };
        let of_rings = self.rings.iter().flat_map(of_ring);
        fleets.chain(self.params.iter().map(ParamsFrame::line)).chain(of_rings)
    }

    /// Returns the ring of that name, if it still exists.
    pub(crate) fn ring(&self, name: &str) -> Option<&RingFrame> {
        self.rings.iter().find(|ring| ring.name == name)
    }
}

/// Finds the earlier reading of the same ring. Another ring may have taken its name.
fn same<'a>(before: &'a Reading, seen: &RingReading) -> Option<&'a RingStats> {
    let stats = seen.stats.as_deref()?;
    let earlier = before.rings.iter().find(|earlier| earlier.name == seen.name)?;
    let earlier = earlier.stats.as_deref()?;
    (earlier.created_unix_ns == stats.created_unix_ns && earlier.lanes == stats.lanes)
        .then_some(earlier)
}

impl RingFrame {
    fn of(seen: &RingReading, unix_ms: u64, before: Option<(&RingStats, Duration)>) -> Self {
        let locked = &seen.distributions.locked;
        let mut row = Self {
            name: seen.name.clone(),
            state: seen.state,
            error: seen.error.clone(),
            allocated_bytes: seen.size_bytes,
            capacity_rows: 0,
            rows: 0,
            transitions: 0,
            fill: 0.0,
            publish_rate_per_s: None,
            batch_rate_per_s: None,
            sample_rate_per_s: None,
            oldest_row_age_s: None,
            readers: 0,
            pins: 0,
            rows_awaited: false,
            release_awaited: false,
            limited_writers: None,
            limited_samplers: None,
            waits: Vec::new(),
            stalls: 0,
            dropped_rows: 0,
            persist_behind_rows: seen.persist.as_ref().map(|persist| persist.behind_rows),
            persist_behind_s: seen.persist.as_ref().map(|persist| persist.behind_s),
            persist_error: seen.persist.as_ref().and_then(|persist| persist.error.clone()),
            tables: TableFrame::all_of(seen),
            locked_tables: locked.iter().map(LockedReport::from).collect(),
            unreadable_tables: seen.distributions.unreadable.clone(),
            reader_ages: ReaderFrame::all_of(seen),
            lanes: Vec::new(),
        };
        let Some(stats) = seen.stats.as_deref() else { return row };
        let sum = |of: fn(&LaneStats) -> u64| {
            stats.lane_stats.iter().map(of).fold(0_u64, u64::saturating_add)
        };
        row.allocated_bytes = stats.bytes_allocated;
        row.capacity_rows = stats.capacity;
        row.rows = sum(|lane| lane.rows);
        row.transitions = stats.transitions;
        row.fill = share(row.rows, stats.capacity);
        row.readers = stats.readers.len() as u64;
        row.pins = stats.pins.len() as u64;
        row.rows_awaited = stats.rows_awaited;
        row.release_awaited = stats.release_awaited;
        row.limited_writers = stats.limiter.as_ref().map(|limiter| limiter.writers.waiting);
        row.limited_samplers = stats.limiter.as_ref().map(|limiter| limiter.samplers.waiting);
        row.waits = waits::sentences(stats, locked, unix_ms);
        row.stalls = sum(|lane| lane.stalls);
        row.dropped_rows = sum(|lane| lane.dropped);
        row.lanes = stats.lane_stats.iter().map(|lane| LaneFrame::of(lane, before)).collect();
        if let Some((earlier, apart)) = before {
            let published = row.lanes.iter().filter_map(|lane| lane.publish_rate_per_s).sum();
            row.publish_rate_per_s = Some(published);
            row.batch_rate_per_s = Some(drawn(stats, earlier, apart, |r| r.sampled_batches));
            row.sample_rate_per_s = Some(drawn(stats, earlier, apart, |r| r.sampled_rows));
            row.oldest_row_age_s = oldest(&row.lanes);
        }
        row
    }
}

impl LaneFrame {
    fn of(lane: &LaneStats, before: Option<(&RingStats, Duration)>) -> Self {
        let rate = before.and_then(|(earlier, apart)| {
            let earlier = earlier.lane_stats.iter().find(|other| other.lane == lane.lane)?;
            // A hostile peer may decrease its counter.
            Some(per_second(lane.head.checked_sub(earlier.head)?, apart))
        });
        Self {
            lane: lane.lane,
            head_seq: lane.head,
            rows: lane.rows,
            publish_rate_per_s: rate,
            episodes: lane.episodes,
            held: lane.held,
            writer_pid: lane.pid.filter(|_| lane.held),
            stalls: lane.stalls,
            dropped_rows: lane.dropped,
        }
    }
}

/// Returns the rate at which a counter of all readers grew between the readings. A new reader has
/// drawn all that it counts. The last draws of a reader that left are unknown.
fn drawn(
    now: &RingStats,
    before: &RingStats,
    apart: Duration,
    counter: fn(&ReaderStats) -> u64,
) -> f64 {
    let drawn = now.readers.iter().map(|reader| {
        let same = |other: &&ReaderStats| other.slot == reader.slot && other.pid == reader.pid;
        let earlier = before.readers.iter().find(same).map_or(0, counter);
        // A reader that reopened within the interval restarted at zero.
        counter(reader).checked_sub(earlier).unwrap_or_else(|| counter(reader))
    });
    per_second(drawn.fold(0, u64::saturating_add), apart)
}

/// Returns the maximum age of a lane's oldest row in seconds: its readable rows over its publish
/// rate. Ignores lanes that are not written.
fn oldest(lanes: &[LaneFrame]) -> Option<f64> {
    lanes
        .iter()
        .filter_map(|lane| {
            let rate = lane.publish_rate_per_s.filter(|rate| *rate > 0.0)?;
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            Some(lane.rows as f64 / rate)
        })
        .reduce(f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three figures")]
pub(super) fn per_second(count: u64, apart: Duration) -> f64 {
    count as f64 / apart.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "shown as a percentage")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
}

/// Invented readings for tests.
#[cfg(test)]
pub(crate) mod made_up {
    use backcast_core::{DType, LanePolicy, Ring, RingOptions, Schema};

    use super::super::reading::Limit;
    use super::*;
    use crate::objects::table_distributions::TableDistributions;

    /// Returns a ring of two lanes of 100 rows, with `head` rows published in lane 0.
    pub(crate) fn ring(name: &str, head: u64) -> RingReading {
        let schema = Schema::builder().column("x", DType::F32, &[]).build().unwrap();
        let blank = Ring::heap(&schema, RingOptions::with_capacity(200_u64).lanes(2)).unwrap();
        let mut stats = blank.stats();
        stats.name = Some(name.to_owned());
        stats.created_unix_ns = 7;
        stats.lane_policy = LanePolicy::default();
        stats.bytes_allocated = 1 << 20;
        stats.lane_stats[0].head = head;
        stats.lane_stats[0].rows = head.min(100);
        stats.lane_stats[0].held = true;
        stats.lane_stats[0].pid = Some(4_242);
        let stats = Some(Box::new(stats));
        RingReading {
            name: name.to_owned(),
            state: ObjectState::Held,
            size_bytes: 1,
            stats,
            error: None,
            persist: None,
            fleet: None,
            distributions: TableDistributions::default(),
        }
    }

    pub(crate) fn reader(slot: u32, pid: u64, batches: u64) -> ReaderStats {
        let sampled_rows = batches * 256;
        let (leases, lapped, stalls) = (0, 0, 0);
        let (sampled_batches, ages) = (batches, Vec::new());
        ReaderStats { slot, pid, sampled_rows, sampled_batches, lapped, leases, stalls, ages }
    }

    pub(crate) fn reading(at_s: u64, rings: Vec<RingReading>) -> Reading {
        let limits = vec![Limit { name: "/dev/shm".to_owned(), used: 1 << 30, most: 8 << 30 }];
        Reading { at: Duration::from_secs(at_s), unix_ns: at_s, rings, params: Vec::new(), limits }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::{reader, reading, ring};
    use super::*;

    fn stats(seen: &mut RingReading) -> &mut RingStats {
        seen.stats.as_mut().expect("made up with statistics")
    }

    #[test]
    fn one_look_has_sizes_and_no_rates() {
        let frame = Frame::of(&reading(3, vec![ring("pong", 50)]), None);
        let row = &frame.rings[0];
        assert_eq!((row.rows, row.capacity_rows, row.allocated_bytes), (50, 200, 1 << 20));
        assert!((row.fill - 0.25).abs() < 1e-12, "{row:?}");
        assert_eq!(
            (row.publish_rate_per_s, row.oldest_row_age_s, frame.interval_s),
            (None, None, None)
        );
        assert_eq!(row.lanes[0].writer_pid, Some(4_242));
        assert_eq!(row.lanes[1].writer_pid, None);
    }

    #[test]
    fn two_looks_give_rates_per_lane_and_in_all() {
        let (before, now) = (ring("pong", 50), ring("pong", 450));
        let frame = Frame::of(&reading(5, vec![now]), Some(&reading(3, vec![before])));
        let row = &frame.rings[0];
        assert_eq!(frame.interval_s, Some(2.0));
        assert_eq!(row.publish_rate_per_s, Some(200.0));
        assert_eq!(row.lanes[0].publish_rate_per_s, Some(200.0));
        assert_eq!(row.lanes[1].publish_rate_per_s, Some(0.0));
        // 100 rows at 200 a second; a lane that is not written has no age.
        assert_eq!(row.oldest_row_age_s, Some(0.5));
    }

    #[test]
    fn rings_without_a_comparable_reading_have_no_rate() {
        let mut another = ring("pong", 450);
        stats(&mut another).created_unix_ns += 1;
        let mut wider = ring("pong", 450);
        stats(&mut wider).lanes += 1;
        for (id, seen) in [("made again", another), ("wider", wider), ("new", ring("pang", 9))] {
            let before = reading(3, vec![ring("pong", 50)]);
            let frame = Frame::of(&reading(5, vec![seen]), Some(&before));
            assert_eq!(frame.rings[0].publish_rate_per_s, None, "{id}");
        }
        let same_moment = Frame::of(
            &reading(3, vec![ring("pong", 60)]),
            Some(&reading(3, vec![ring("pong", 50)])),
        );
        assert_eq!(same_moment.rings[0].publish_rate_per_s, None);
        let backwards = Frame::of(
            &reading(5, vec![ring("pong", 40)]),
            Some(&reading(3, vec![ring("pong", 50)])),
        );
        assert_eq!(backwards.rings[0].lanes[0].publish_rate_per_s, None);
        assert_eq!(backwards.rings[0].publish_rate_per_s, Some(0.0));
    }

    #[test]
    fn readers_come_and_go_and_count_from_zero() {
        let with = |readers: Vec<ReaderStats>| {
            let mut seen = ring("pong", 50);
            stats(&mut seen).readers = readers;
            seen
        };
        for (id, before, now, batches_per_s) in [
            ("the same", vec![reader(0, 1, 10)], vec![reader(0, 1, 30)], 10.0),
            ("new", vec![], vec![reader(0, 1, 30)], 15.0),
            ("gone", vec![reader(0, 1, 30)], vec![], 0.0),
            ("another in its slot", vec![reader(0, 1, 30)], vec![reader(0, 2, 4)], 2.0),
            ("come again", vec![reader(0, 1, 30)], vec![reader(0, 1, 6)], 3.0),
            (
                "two",
                vec![reader(0, 1, 1), reader(1, 2, 2)],
                vec![reader(0, 1, 3), reader(1, 2, 6)],
                3.0,
            ),
        ] {
            let before = reading(3, vec![with(before)]);
            let frame = Frame::of(&reading(5, vec![with(now)]), Some(&before));
            assert_eq!(frame.rings[0].batch_rate_per_s, Some(batches_per_s), "{id}");
            assert_eq!(frame.rings[0].sample_rate_per_s, Some(batches_per_s * 256.0), "{id}");
        }
    }

    #[test]
    fn locked_and_damaged_tables_are_said() {
        let mut seen = ring("pong", 0);
        let problem = "its header is cut".to_owned();
        let damaged =
            UnreadableReport { table: "queue".to_owned(), state: ObjectState::Damaged, problem };
        seen.distributions.unreadable = vec![damaged];
        let frame = Frame::of(&reading(3, vec![seen]), None);
        assert_eq!(frame.rings[0].waits, Vec::<String>::new());
        let lines: Vec<String> = frame.troubles().collect();
        assert_eq!(lines, ["pong: the table `queue` is damaged: its header is cut"]);
    }

    #[test]
    fn a_writer_that_waits_for_a_lease_names_its_process() {
        let mut seen = ring("pong", 50);
        stats(&mut seen).release_awaited = true;
        stats(&mut seen).rows_awaited = true;
        let frame = Frame::of(&reading(3, vec![seen]), None);
        let [lease, rows] = frame.rings[0].waits.as_slice() else { panic!("{frame:?}") };
        let ended = "a writer waits for a lease to end (it ended just now)";
        assert!(lease.starts_with(ended), "{lease}");
        let written = "a process waits for rows or transitions; it is written by process 4242";
        assert!(rows.starts_with(written), "{rows}");
    }

    #[test]
    fn a_ring_that_cannot_be_opened_is_a_row_all_the_same() {
        let mut damaged = ring("pong", 0);
        (damaged.stats, damaged.error) = (None, Some("torn".to_owned()));
        damaged.state = ObjectState::Damaged;
        let frame = Frame::of(&reading(3, vec![damaged]), Some(&reading(2, vec![ring("pong", 1)])));
        let row = &frame.rings[0];
        assert_eq!(
            (row.error.as_deref(), row.capacity_rows, row.lanes.len()),
            (Some("torn"), 0, 0)
        );
    }
}
