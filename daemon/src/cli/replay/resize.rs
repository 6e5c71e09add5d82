//! `backcast resize`: makes a ring larger while it is in use.

use std::time::Duration;

use backcast_core::{Base, Capacity, Observed, ResizeProgress};
use backcast_files::Progress;
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::watch::Watch;
use crate::client::{Client, ClientError};
use crate::objects::find::join;
use crate::protocol::{Grown, Holder};
use crate::text::parse::whole;
use crate::text::units;

/// Make a ring larger while it is written and read.
///
/// No row is lost. Each writer relocates its lane to the larger memory at its next append, and
/// readers follow. The lane of a paused writer is relocated later. Old and new memory exist at the
/// same time. The same command again finishes a resize that was stopped. A daemon of the directory
/// does the resize within its budget.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast resize pong --capacity 2_000_000
  backcast resize pong --capacity 16GiB --timeout 60
  backcast resize pong --capacity 16GiB --direct")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// Rows over all lanes (`2_000_000`) or memory to allocate (`16GiB`); not less than now.
    #[arg(long, value_name = "ROWS|BYTES")]
    capacity: Capacity,
    /// Maximum wait for writers to relocate their lanes, in seconds; the other lanes follow later.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, allow_negative_numbers = true,
          value_parser = whole(0..=u32::MAX))]
    timeout: u32,
    /// Do not ask a daemon. Its budget counts the larger ring but does not stop it.
    #[arg(long)]
    direct: bool,
}

/// JSON of a resize.
#[derive(Debug, Serialize)]
struct Done<'a> {
    action: &'static str,
    #[serde(flatten)]
    grown: &'a Grown,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let grown = match through_daemon(args, base)? {
        Some(grown) => grown,
        None => directly(args, base)?,
    };
    print(&grown, base, console);
    Ok(Exit::Done)
}

/// Requests the resize from the daemon. Returns `None` if no daemon runs, or with `--direct`.
fn through_daemon(args: &Args, base: &Base) -> Result<Option<Grown>, CommandError> {
    if args.direct || Holder::of(base).is_none() {
        return Ok(None);
    }
    let wait = Duration::from_secs(args.timeout.into());
    match Client::of(base).resize(&args.name, args.capacity, wait) {
        // The daemon ended meanwhile.
        Err(ClientError::NotRunning { .. }) => Ok(None),
        grown => Ok(Some(grown?)),
    }
}

fn directly(args: &Args, base: &Base) -> Result<Grown, CommandError> {
    let ring = join(base, &args.name)?;
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
    let resized = ring.resize(args.capacity, Some(timeout), &mut shown);
    let resized = watch.end(resized)?;
    Ok(Grown {
        name: args.name.clone(),
        capacity_rows: resized.capacity,
        lane_capacity_rows: resized.lane_capacity,
        allocated_bytes: ring.stats().bytes_allocated,
        copied_rows: resized.rows_copied,
        waiting_lanes: resized.lanes_waiting,
        shrunk: false,
    })
}

fn print(grown: &Grown, base: &Base, console: &mut Console<'_>) {
    if console.json() {
        console.object(&Done { action: "resized", grown });
    } else {
        console.text(&format!(
            "resized {}: {} rows, {} allocated",
            grown.name,
            units::exact(grown.capacity_rows),
            units::bytes(grown.allocated_bytes),
        ));
    }
    if grown.shrunk {
        console.note("warning: smaller than asked for: the daemon's budget has no more left");
    }
    if grown.waiting_lanes.is_empty() {
        return;
    }
    let stats = Observed::open(base, &grown.name).map(|ring| ring.stats()).ok();
    let writer = |lane: &u32| {
        let of_lane = stats.as_ref().and_then(|stats| stats.lane_stats.get(*lane as usize));
        let pid = of_lane.and_then(|lane| lane.pid);
        pid.map_or_else(|| lane.to_string(), |pid| format!("{lane} (process {pid})"))
    };
    let lanes: Vec<String> = grown.waiting_lanes.iter().map(writer).collect();
    console.note(&format!(
        "lanes that move when their writers append next, or end: {}",
        lanes.join(", ")
    ));
}
