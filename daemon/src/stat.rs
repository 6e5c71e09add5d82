//! `backcast stat`: everything about one ring, panel or snapshot.

use std::path::PathBuf;

use backcast_core::{Base, ObjectInfo, RingStats};
use backcast_market::Panel;
use backcast_persist::StoreError;
use serde::Serialize;

use crate::catalogue::{self, Content, Entry, State};
use crate::cli::KindArg;
use crate::console::{Align, Console};
use crate::error::{CliError, Exit};
use crate::geometry::{Geometry, yes_no};
use crate::persist::PersistReport;
use crate::serve::Caller;
use crate::snapshots::{SnapshotReport, StoreArg, is_snapshot, note_damages};
use crate::units;

/// Show one ring, panel or snapshot in full.
///
/// A ring: sizes asked and allocated, columns, every lane (next sequence number, readable rows,
/// episodes, generation, writer) and every reader. A panel: days, tickers, columns. A snapshot: when it was saved, columns, the rows
/// of every lane, files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast stat pong
  backcast stat prices --kind panel
  backcast stat pong@epoch-10
  backcast --json stat pong | jq .transitions")]
pub(crate) struct Args {
    /// Name of the ring or panel, or NAME@LABEL of a snapshot.
    name: String,
    /// Needed when a ring and a panel share the name.
    #[arg(long)]
    kind: Option<KindArg>,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of a ring.
#[derive(Debug, Serialize)]
pub(crate) struct RingReport {
    #[serde(flatten)]
    geometry: Geometry,
    state: State,
    created_unix_ns: u64,
    rows: u64,
    rows_published: u64,
    transitions: u64,
    lanes: Vec<LaneRow>,
    readers: Vec<ReaderRow>,
    pins: Vec<PinRow>,
    /// The process that asked a daemon for it, while it is there.
    asked_by_pid: Option<u32>,
    /// `None`: it is not brought to disk by itself.
    persist: Option<PersistReport>,
}

/// JSON of one lane.
#[derive(Debug, Serialize)]
struct LaneRow {
    lane: u32,
    head_seq: u64,
    reserved_seq: u64,
    rows: u64,
    transitions: u64,
    episodes: u64,
    generation: u64,
    held: bool,
    writer_pid: Option<u64>,
    dropped_rows: u64,
    stalls: u64,
}

/// JSON of one reader.
#[derive(Debug, Serialize)]
struct ReaderRow {
    slot: u32,
    pid: u64,
    sampled_rows: u64,
    sampled_batches: u64,
    lapped_reads: u64,
    leases: u64,
    stalls: u64,
}

/// JSON of the rows that one reader has leased on one lane.
#[derive(Debug, Serialize)]
struct PinRow {
    slot: u32,
    pid: u64,
    lane: u32,
    start_seq: u64,
}

/// JSON of a panel.
#[derive(Debug, Serialize)]
struct PanelReport {
    kind: &'static str,
    name: String,
    path: PathBuf,
    state: State,
    persistent: bool,
    size_bytes: u64,
    days: usize,
    first_date: Option<String>,
    last_date: Option<String>,
    tickers: Vec<String>,
    macro_tickers: Vec<String>,
    columns: Vec<String>,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    if is_snapshot(&args.name) && args.kind.is_none() {
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        match store.snapshot(&args.name) {
            // One that is gone from the store may still be in shared memory.
            Err(StoreError::NotFound { .. }) if catalogue::find(base, &args.name, None).is_ok() => {
            }
            found => {
                SnapshotReport::from(found?).print(console);
                return Ok(Exit::Done);
            }
        }
    }
    let info = catalogue::find(base, &args.name, args.kind.map(Into::into))?;
    let Some(Entry { info, state, content, persist }) = Entry::open(base, info) else {
        // Removed between the look-up and the opening: the second look-up says so.
        catalogue::find(base, &args.name, args.kind.map(Into::into))?;
        return Err(CliError::Replaced { name: args.name.clone() });
    };
    match content {
        Content::Ring(stats) => ring(&RingReport::new(&stats, state, persist), console),
        Content::Panel(opened) => panel(&PanelReport::new(&info, state, &opened), console),
        Content::Damaged(why) => {
            return Err(CliError::Damaged { kind: info.kind, name: info.name, why });
        }
        Content::Denied(why) => {
            return Err(CliError::Denied { kind: info.kind, name: info.name, why });
        }
        Content::Unopened => return Err(catalogue::orphaned(info)),
    }
    Ok(Exit::Done)
}

impl RingReport {
    pub(crate) fn new(ring: &RingStats, state: State, persist: Option<PersistReport>) -> Self {
        let asked_by = ring.path.as_deref().and_then(Caller::that_asked_for);
        Self {
            geometry: Geometry::from(ring),
            state,
            created_unix_ns: ring.created_unix_ns,
            rows: ring.lane_stats.iter().map(|lane| lane.rows).sum(),
            rows_published: ring.rows_published,
            transitions: ring.transitions,
            lanes: ring
                .lane_stats
                .iter()
                .map(|lane| LaneRow {
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
                .map(|reader| ReaderRow {
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
                .map(|pin| PinRow {
                    slot: pin.slot,
                    pid: pin.pid,
                    lane: pin.lane,
                    start_seq: pin.start,
                })
                .collect(),
            asked_by_pid: asked_by.and_then(Caller::pid),
            persist,
        }
    }
}

fn ring(report: &RingReport, console: &mut Console<'_>) {
    if console.json() {
        return console.object(report);
    }
    let mut facts = report.geometry.facts();
    let fact = |name: &str, value: String| vec![name.to_owned(), value];
    facts.insert(2, fact("state", report.state.to_string()));
    facts.push(fact("created", units::since(report.created_unix_ns)));
    if let Some(pid) = report.asked_by_pid {
        facts.push(fact("asked for by", format!("process {pid}, of the daemon")));
    }
    if let Some(persist) = &report.persist {
        facts.extend(persist.facts().into_iter().map(|(name, value)| fact(name, value)));
    }
    facts.push(fact(
        "rows",
        format!(
            "{} readable, {} published, {} transitions",
            units::exact(report.rows),
            units::exact(report.rows_published),
            units::exact(report.transitions)
        ),
    ));
    console.facts(&facts);
    console.text("");
    report.geometry.print_columns(console);
    console.text("");
    let writer = |lane: &LaneRow| match (lane.held, lane.writer_pid) {
        (false, _) => "-".to_owned(),
        (true, Some(pid)) => format!("pid {pid}"),
        (true, None) => "held".to_owned(),
    };
    console.table(
        &[
            ("LANE", Align::Right),
            ("HEAD", Align::Right),
            ("ROWS", Align::Right),
            ("TRANSITIONS", Align::Right),
            ("EPISODES", Align::Right),
            ("GENERATION", Align::Right),
            ("DROPPED", Align::Right),
            ("STALLS", Align::Right),
            ("WRITER", Align::Left),
        ],
        &report
            .lanes
            .iter()
            .map(|lane| {
                vec![
                    lane.lane.to_string(),
                    units::exact(lane.head_seq),
                    units::exact(lane.rows),
                    units::exact(lane.transitions),
                    units::exact(lane.episodes),
                    units::exact(lane.generation),
                    units::exact(lane.dropped_rows),
                    units::exact(lane.stalls),
                    writer(lane),
                ]
            })
            .collect::<Vec<_>>(),
    );
    if report.readers.is_empty() {
        return;
    }
    console.text("");
    console.table(
        &[
            ("READER", Align::Right),
            ("HELD BY", Align::Left),
            ("SAMPLED ROWS", Align::Right),
            ("BATCHES", Align::Right),
            ("LAPPED", Align::Right),
            ("LEASES", Align::Right),
            ("STALLS", Align::Right),
            ("PINS", Align::Left),
        ],
        &report
            .readers
            .iter()
            .map(|reader| {
                vec![
                    reader.slot.to_string(),
                    format!("pid {}", reader.pid),
                    units::count(reader.sampled_rows),
                    units::count(reader.sampled_batches),
                    units::count(reader.lapped_reads),
                    units::count(reader.leases),
                    units::count(reader.stalls),
                    pins(&report.pins, reader.slot),
                ]
            })
            .collect::<Vec<_>>(),
    );
}

/// What a reader has leased: `lane 3 from 1,024`.
fn pins(pins: &[PinRow], slot: u32) -> String {
    let of = pins.iter().filter(|pin| pin.slot == slot);
    let shown: Vec<String> =
        of.map(|pin| format!("lane {} from {}", pin.lane, units::exact(pin.start_seq))).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(", ") }
}

impl PanelReport {
    fn new(info: &ObjectInfo, state: State, panel: &Panel) -> Self {
        let tickers = panel.tickers();
        Self {
            kind: "panel",
            name: info.name.clone(),
            path: info.path.clone(),
            state,
            persistent: info.persistent,
            size_bytes: info.bytes,
            days: panel.days(),
            first_date: panel.dates().first().cloned(),
            last_date: panel.dates().last().cloned(),
            tickers: tickers.to_vec(),
            macro_tickers: (0..tickers.len())
                .filter(|&ticker| panel.is_macro(ticker))
                .map(|ticker| tickers[ticker].clone())
                .collect(),
            columns: panel.columns().to_vec(),
        }
    }
}

fn panel(report: &PanelReport, console: &mut Console<'_>) {
    if console.json() {
        return console.object(report);
    }
    let fact = |name: &str, value: String| vec![name.to_owned(), value];
    let dates = match (&report.first_date, &report.last_date) {
        (Some(first), Some(last)) => format!("{first} .. {last}"),
        _ => "-".to_owned(),
    };
    let macros = if report.macro_tickers.is_empty() {
        "-".to_owned()
    } else {
        report.macro_tickers.join(" ")
    };
    console.facts(&[
        fact("panel", report.name.clone()),
        fact("path", report.path.display().to_string()),
        fact("state", report.state.to_string()),
        fact("persistent", yes_no(report.persistent)),
        fact("memory", units::bytes(report.size_bytes)),
        fact("days", format!("{}: {dates}", units::exact(report.days as u64))),
        fact("columns", report.columns.join(" ")),
        fact("tickers", format!("{}: {}", report.tickers.len(), report.tickers.join(" "))),
        fact("macro", macros),
    ]);
}
