//! `backcast resize`: a larger ring in the place of a smaller one, under its writers and readers.

use std::time::Duration;

use backcast_core::{Base, Capacity, Kind, ResizeProgress, Resized, Ring, RingStats};
use backcast_files::Progress;
use serde::Serialize;

use crate::catalogue;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::interrupt::Watch;
use crate::units;

/// Make a ring larger while it is written and read.
///
/// No row is lost, and nobody has to do anything: each writer moves its lane to the larger memory with
/// its next append, readers follow. A lane whose writer pauses moves later. Old and new memory exist
/// at the same time. A resize that was broken off is finished by asking for the same again; that does
/// no harm if it was not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast resize pong --capacity 2_000_000
  backcast resize pong --capacity 16GiB --timeout 60")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// Rows over all lanes (`2_000_000`) or memory to allocate (`16GiB`): more than there is.
    #[arg(long, value_name = "ROWS|BYTES")]
    capacity: Capacity,
    /// Longest wait for writers to move their lanes, in seconds; they move later by themselves.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u32,
}

/// JSON of what was done.
#[derive(Debug, Serialize)]
struct Done {
    action: &'static str,
    name: String,
    capacity_rows: u64,
    lane_capacity_rows: u64,
    allocated_bytes: u64,
    copied_rows: u64,
    waiting_lanes: Vec<u32>,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let info = catalogue::find(base, &args.name, Some(Kind::Ring))?;
    let ring = Ring::attach_in(base, &info.name)?;
    let watch = Watch::start("resizing")?;
    let lane_bytes = ring.stats().bytes_allocated / u64::from(ring.lanes().max(1));
    let mut shown = |progress: ResizeProgress| {
        watch.step(&Progress {
            bytes: lane_bytes * u64::from(progress.lanes_copied),
            total_bytes: lane_bytes * u64::from(progress.lanes),
            ..Progress::default()
        })
    };
    let timeout = Duration::from_secs(args.timeout.into());
    let resized = ring.resize(args.capacity, Some(timeout), &mut shown)?;
    drop(watch);
    print(&info.name, &resized, &ring.stats(), console);
    Ok(Exit::Done)
}

fn print(name: &str, resized: &Resized, stats: &RingStats, console: &mut Console<'_>) {
    if console.json() {
        console.object(&Done {
            action: "resized",
            name: name.to_owned(),
            capacity_rows: resized.capacity,
            lane_capacity_rows: resized.lane_capacity,
            allocated_bytes: stats.bytes_allocated,
            copied_rows: resized.rows_copied,
            waiting_lanes: resized.lanes_waiting.clone(),
        });
    } else {
        console.text(&format!(
            "resized {name}: {} rows, {} allocated",
            units::exact(resized.capacity),
            units::bytes(stats.bytes_allocated),
        ));
    }
    if resized.lanes_waiting.is_empty() {
        return;
    }
    let writer = |lane: &u32| {
        let pid = stats.lane_stats.get(*lane as usize).and_then(|lane| lane.pid);
        pid.map_or_else(|| lane.to_string(), |pid| format!("{lane} (process {pid})"))
    };
    let lanes: Vec<String> = resized.lanes_waiting.iter().map(writer).collect();
    console.note(&format!(
        "lanes that move when their writers append next, or end: {}",
        lanes.join(", ")
    ));
}
