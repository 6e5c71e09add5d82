//! `backcast stat`: describes a ring, panel, set of parameters or snapshot.

use std::path::PathBuf;

use backcast_core::plumbing::printable;
use backcast_core::{Base, ObjectInfo, object_holders, processes_in_words};
use backcast_persist::StoreError;
use serde::Serialize;

use crate::cli::args::KindArg;
use crate::cli::column_table::print_columns;
use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::replay::open_error::OpenError;
use crate::cli::replay::params_report::ParamsReport;
use crate::cli::replay::snapshots::{SnapshotReport, StoreArg, is_snapshot, note_damages};
use crate::objects::catalogue::{Content, Entry, ObjectState};
use crate::objects::find::{find, orphaned};
use crate::objects::geometry::yes_no;
use crate::objects::holders::held_by;
use crate::objects::panel_facts::PanelFacts;
use crate::objects::reader_ages::ages_in_words;
use crate::objects::ring_report::{
    ClaimReport, LaneReport, LearnedReport, PinReport, RingReport, TableReport,
};
use crate::objects::table_distributions::{LockedReport, TableScan, UnreadableReport, in_words};
use crate::text::units;

/// Describe a ring, panel, set of parameters or snapshot.
///
/// A ring: sizes asked and allocated, columns, every lane (next sequence number, readable rows,
/// episodes, generation, writer), every table of priorities and every reader; tables that a process
/// keeps locked, and damaged ones. AGES of a reader are
/// those of the rows it drew, in newer rows of their lane, for every 64th batch. A panel: days,
/// tickers, columns. Parameters: versions, sizes, publisher, pulls and views. A snapshot: time of
/// the save, columns, rows of every lane, files. Objects in memory name the processes that hold
/// them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast stat pong
  backcast stat prices --kind panel
  backcast stat pong@epoch-10
  backcast --json stat pong | jq .transitions")]
pub(crate) struct Args {
    /// Name of the object, or NAME@LABEL of a snapshot.
    name: String,
    /// Needed when objects of two kinds share the name.
    #[arg(long)]
    kind: Option<KindArg>,
    #[command(flatten)]
    store: StoreArg,
}

/// JSON of a panel.
#[derive(Debug, Serialize)]
struct PanelReport {
    kind: &'static str,
    name: String,
    path: PathBuf,
    state: ObjectState,
    holder_pids: Vec<u32>,
    persistent: bool,
    size_bytes: u64,
    #[serde(skip)]
    calendar: String,
    days: usize,
    first_date: Option<String>,
    last_date: Option<String>,
    tickers: Vec<String>,
    macro_tickers: Vec<String>,
    columns: Vec<String>,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if is_snapshot(&args.name) && args.kind.is_none() {
        let store = args.store.open()?;
        note_damages(&store, &args.name, console);
        match store.snapshot(&args.name) {
            // A snapshot that is not in the store may be in shared memory.
            Err(StoreError::NotFound { .. }) if find(base, &args.name, None).is_ok() => {}
            found => {
                SnapshotReport::from(found?).print(console);
                return Ok(Exit::Done);
            }
        }
    }
    let info = find(base, &args.name, args.kind.map(Into::into))?;
    // Look up the holders first: opening a panel makes this process a holder.
    let holder_pids = object_holders(std::slice::from_ref(&info)).remove(0);
    let entry = Entry::open_counted(base, info, TableScan::Whole);
    let Some(Entry { info, state, content, persist, distributions, .. }) = entry else {
        // The object was removed between look-up and opening. The second look-up reports that,
        // unless the name is taken again.
        find(base, &args.name, args.kind.map(Into::into))?;
        return Err(OpenError::Replaced { name: args.name.clone() }.into());
    };
    match content {
        Content::Ring(stats) => {
            let report = RingReport::new(&stats, state, persist, &distributions);
            ring(&RingReport { holder_pids, ..report }, console);
        }
        Content::Panel(opened) => {
            panel(&PanelReport::new(&info, state, holder_pids, *opened), console);
        }
        Content::Params(stats) => {
            ParamsReport::new(&info, state, holder_pids, *stats).print(console);
        }
        Content::Unopenable(obstacle, why) => {
            return Err(OpenError::of(obstacle, info, why).into());
        }
        Content::Unopened => return Err(orphaned(info).into()),
    }
    Ok(Exit::Done)
}

fn ring(report: &RingReport, console: &mut Console<'_>) {
    if console.json() {
        return console.object(report);
    }
    let mut facts = report.geometry.facts();
    let fact = |name: &str, value: String| vec![name.to_owned(), value];
    facts.insert(2, fact("state", report.state.to_string()));
    facts.insert(3, fact("held by", held_by(report.state, &report.holder_pids)));
    facts.push(fact("created", units::since(report.created_unix_ns)));
    if let Some(limiter) = &report.limiter {
        facts.extend(limiter.facts().into_iter().map(|(name, value)| fact(name, value)));
    }
    if let Some(persist) = &report.persist {
        facts.extend(persist.facts().into_iter().map(|(name, value)| fact(name, value)));
    }
    for LockedReport { table, pids } in &report.locked_tables {
        let holders = processes_in_words(pids);
        facts.push(fact("locked", format!("table {table}, by {holders}")));
    }
    for UnreadableReport { table, state, problem } in &report.unreadable_tables {
        let problem = printable(&format!("table {table}: {problem}"));
        facts.push(fact(&state.to_string(), problem));
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
    print_columns(&report.geometry.columns, console);
    console.text("");
    let writer = |lane: &LaneReport| match (lane.held, lane.writer_pid) {
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
    claims(&report.claims, console);
    learned(&report.learned, console);
    if !report.tables.is_empty() {
        console.text("");
        tables(&report.tables, console);
    }
    readers(report, console);
}

/// Prints the readers that hold a slot, if there are any.
fn readers(report: &RingReport, console: &mut Console<'_>) {
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
            ("AGES", Align::Left),
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
                    ages_in_words(&reader.ages),
                ]
            })
            .collect::<Vec<_>>(),
    );
}

/// Prints the tables of claims, if there are any.
fn claims(tables: &[ClaimReport], console: &mut Console<'_>) {
    if tables.is_empty() {
        return;
    }
    console.text("");
    let row = |table: &ClaimReport| {
        let order = if table.shuffled { "shuffled" } else { "oldest first" };
        vec![
            table.name.clone(),
            table.selector.to_owned(),
            order.to_owned(),
            table.max_times_sampled.to_string(),
            units::count(table.passes),
            units::count(table.drawn_transitions),
            units::count(table.left_rows),
            units::count(table.overwritten_rows),
            table.times_sampled.as_deref().map_or_else(|| "-".to_owned(), in_words),
        ]
    };
    console.table(
        &[
            ("TABLE", Align::Left),
            ("SELECTOR", Align::Left),
            ("ORDER", Align::Left),
            ("TIMES", Align::Right),
            ("PASSES", Align::Right),
            ("DRAWN", Align::Right),
            ("LEFT", Align::Right),
            ("OVERWRITTEN", Align::Right),
            ("TIMES SAMPLED", Align::Left),
        ],
        &tables.iter().map(row).collect::<Vec<_>>(),
    );
}

/// Prints the tables of learned columns, if there are any.
fn learned(tables: &[LearnedReport], console: &mut Console<'_>) {
    if tables.is_empty() {
        return;
    }
    console.text("");
    let row = |LearnedReport { name, values }: &LearnedReport| {
        vec![
            name.clone(),
            values.columns_in_words(),
            units::bytes(values.size_bytes),
            units::count(values.updated_values),
            units::count(values.stale_values),
        ]
    };
    console.table(
        &[
            ("TABLE", Align::Left),
            ("LEARNED COLUMNS", Align::Left),
            ("SIZE", Align::Right),
            ("SET", Align::Right),
            ("DROPPED", Align::Right),
        ],
        &tables.iter().map(row).collect::<Vec<_>>(),
    );
}

/// Prints the tables of priorities.
fn tables(tables: &[TableReport], console: &mut Console<'_>) {
    let row = |table: &TableReport| {
        let effective = table.priorities.as_ref().map(|found| found.effective_rows);
        vec![
            table.name.clone(),
            // A step of a schedule may have more digits than anyone reads.
            ((table.exponent * 1e6).round() / 1e6).to_string(),
            table.initial.to_owned(),
            table.stride.map_or_else(|| "episode".to_owned(), |stride| stride.to_string()),
            units::bytes(table.size_bytes),
            units::count(table.entered_rows),
            units::count(table.updated_priorities),
            units::count(table.stale_priorities),
            units::count(table.repairs),
            effective.map_or_else(|| "-".to_owned(), |rows| format!("{rows:.1}")),
        ]
    };
    console.table(
        &[
            ("TABLE", Align::Left),
            ("EXPONENT", Align::Right),
            ("INITIAL", Align::Left),
            ("STRIDE", Align::Right),
            ("MEMORY", Align::Right),
            ("ENTERED", Align::Right),
            ("UPDATED", Align::Right),
            ("STALE", Align::Right),
            ("REPAIRS", Align::Right),
            ("EFFECTIVE", Align::Right),
        ],
        &tables.iter().map(row).collect::<Vec<_>>(),
    );
}

/// Describes the leases of a reader: `lane 3 from 1,024`.
fn pins(pins: &[PinReport], slot: u32) -> String {
    let of = pins.iter().filter(|pin| pin.slot == slot);
    let shown: Vec<String> =
        of.map(|pin| format!("lane {} from {}", pin.lane, units::exact(pin.start_seq))).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(", ") }
}

impl PanelReport {
    fn new(
        info: &ObjectInfo,
        state: ObjectState,
        holder_pids: Vec<u32>,
        panel: PanelFacts,
    ) -> Self {
        let PanelFacts { calendar, days, first_date, last_date, tickers, macro_tickers, columns } =
            panel;
        Self {
            kind: "panel",
            name: info.name.clone(),
            path: info.path.clone(),
            state,
            holder_pids,
            persistent: info.persistent,
            size_bytes: info.bytes,
            calendar,
            days,
            first_date,
            last_date,
            tickers,
            macro_tickers,
            columns,
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
        fact("held by", held_by(report.state, &report.holder_pids)),
        fact("persistent", yes_no(report.persistent)),
        fact("memory", units::bytes(report.size_bytes)),
        fact(&report.calendar, format!("{}: {dates}", units::exact(report.days as u64))),
        fact("columns", report.columns.join(" ")),
        fact("tickers", format!("{}: {}", report.tickers.len(), report.tickers.join(" "))),
        fact("macro", macros),
    ]);
}
