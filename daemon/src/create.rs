//! `backcast create`: make a persistent ring.

use std::path::PathBuf;
use std::time::Duration;

use backcast_core::{
    Base, Capacity, Exist, LanePolicy, MAX_LANES, MAX_READER_SLOTS, Ring, RingOptions,
};
use backcast_persist::Mode;

use crate::client::Client;
use crate::columns::{self, ColumnSpec};
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::geometry::Geometry;
use crate::persist;
use crate::typed::{one_of, whole};
use crate::units;

/// What `--exist`, `--lane-policy` and `--persist` take.
pub(crate) const EXIST: [&str; 3] = ["error", "attach", "replace"];
pub(crate) const POLICIES: [&str; 4] = ["block", "drop_new", "fail", "overwrite"];
pub(crate) const MODES: [&str; 4] = ["off", "periodic", "continuous", "block"];

/// Create a ring that lives until `backcast rm`.
///
/// The ring is persistent: nobody holds it when this command ends, so it stays until it is removed
/// by name (rings made by a program go away with their last user unless it asks otherwise). Its
/// memory is paid for now; too little space is an error here, not a crash later.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast create pong --column obs:u1:84x84 --column action:i4 --column reward:f4 \\
      --capacity 1_000_000 --lanes 8
  backcast create trades --column day:i4::obs --column shares:i4:30:obs --column action:f4:30 \\
      --capacity 8GiB --lanes 64 --exist replace
  backcast create pong --schema pong.json --capacity 512MiB --persist continuous
with pong.json: {\"obs\": [\"u1\", [84, 84]], \"action\": \"i4\", \"day\": [\"i4\", [], \"obs\"]}")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// A column, NAME:DTYPE[:SHAPE[:ROLE]]; once per column.
    ///
    /// DTYPE: bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8. SHAPE: sizes with x between them, empty for a
    /// scalar. ROLE: obs or step; without it `obs` and names below `obs/` are observations.
    #[arg(long = "column", value_name = "SPEC", required_unless_present = "schema")]
    columns: Vec<ColumnSpec>,
    /// Read the columns from a JSON file instead.
    #[arg(long, value_name = "FILE", conflicts_with = "columns")]
    schema: Option<PathBuf>,
    /// Rows over all lanes (`1_000_000`) or memory to allocate (`8GiB`, `512MiB`).
    #[arg(long, value_name = "ROWS|BYTES")]
    capacity: Capacity,
    /// Single-writer lanes: one per environment.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=MAX_LANES))]
    lanes: u32,
    /// When the name is taken: error, attach or replace.
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = one_of::<Exist>(&EXIST))]
    exist: Exist,
    /// When a lease freezes the rows a writer would overwrite: block, `drop_new`, fail or
    /// overwrite.
    ///
    /// block: wait for the lease, once and for the lease time-out at most, then drop the new row
    /// and mark a gap. overwrite: the ring grants no leases.
    #[arg(long, value_name = "WHAT", default_value = "block",
          value_parser = one_of::<LanePolicy>(&POLICIES))]
    lane_policy: LanePolicy,
    /// Longest that a writer waits for a lease, in seconds [default: 1]. Only with block.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    lease_timeout: Option<f64>,
    /// Samplers and handles with leases that there is room for at a time, over all processes.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole(1..=MAX_READER_SLOTS))]
    reader_slots: u32,
    /// Have a daemon bring it to disk by itself: periodic, continuous, or block (continuous, and
    /// writers wait rather than overwrite what is not on disk); or off.
    ///
    /// It stays with the ring: every daemon that looks after its directory does so (`backcast serve`).
    #[arg(long, value_name = "MODE", value_parser = one_of::<Mode>(&MODES))]
    persist: Option<Mode>,
    /// Have the daemon make it, within its budget (`backcast serve`).
    #[arg(long)]
    daemon: bool,
    /// Do not ask the system for huge pages, which make draws faster.
    #[arg(long)]
    no_huge_pages: bool,
    /// Put the ring into sealed memory, which no process can cut short, instead of files. Linux.
    ///
    /// The daemon keeps it: if that is killed, it goes with the last process that has it.
    #[arg(long, requires = "daemon")]
    memfd: bool,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let from_file;
    let columns = match &args.schema {
        Some(path) => {
            from_file = columns::read_schema_file(path)?;
            &from_file
        }
        None => &args.columns,
    };
    let schema = columns::schema(columns)?;
    let options = RingOptions::with_capacity(args.capacity)
        .lanes(args.lanes)
        .exist(args.exist)
        .persistent(true)
        .lane_policy(policy(args)?)
        .reader_slots(args.reader_slots)
        .huge_pages(!args.no_huge_pages)
        .memfd(args.memfd)
        .base(base.clone());
    let ring = if args.daemon {
        let client = Client::of(base);
        let (ring, granted) = match args.persist {
            Some(mode) => client.create_persisted(&args.name, &schema, &options, mode)?,
            None => client.create(&args.name, &schema, &options)?,
        };
        if granted.shrunk() {
            console.note(&format!(
                "warning: {} allocated, {} asked: the daemon's budget has no more left",
                units::bytes(granted.allocated_bytes),
                units::bytes(granted.asked_bytes)
            ));
        }
        ring
    } else {
        let ring = Ring::create(&args.name, &schema, options)?;
        if let (Some(mode), Some(dir)) = (args.persist, ring.path()) {
            persist::ask(dir, mode)?;
        }
        ring
    };
    let geometry = Geometry::from(&ring.stats());
    if console.json() {
        console.object(&geometry);
    } else {
        console.facts(&geometry.facts());
    }
    if let Some(warning) = geometry.warning() {
        console.note(&warning);
    }
    Ok(Exit::Done)
}

fn policy(args: &Args) -> Result<LanePolicy, CliError> {
    let Some(seconds) = args.lease_timeout else { return Ok(args.lane_policy) };
    let policy = args.lane_policy;
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if timeout <= LanePolicy::MAX_TIMEOUT => match policy {
            LanePolicy::Block(_) => Ok(LanePolicy::Block(timeout)),
            _ => Err(CliError::NeverWaits { seconds, policy }),
        },
        _ => Err(CliError::BadLeaseTimeout { seconds }),
    }
}
