//! `backcast create`: creates a persistent ring.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use backcast_core::{
    Base, Capacity, Exist, LanePolicy, MAX_LANES, MAX_READER_SLOTS, Ring, RingOptions,
};
use backcast_persist::PersistMode;
use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::limiter::LimitArgs;
use crate::client::Client;
use crate::objects::geometry::GeometryReport;
use crate::objects::persist;
use crate::protocol::{ColumnSpec, ColumnSpecError, SchemaFileError, read_schema_file, schema};
use crate::text::parse::{one_of, whole};
use crate::text::units;

/// Words of `--exist`, `--lane-policy` and `--persist`.
const EXIST: [&str; 3] = ["error", "attach", "replace"];
const POLICIES: [&str; 4] = ["block", "drop_new", "fail", "overwrite"];
const MODES: [&str; 4] = ["off", "periodic", "continuous", "block"];

/// Create a ring that lives until `backcast rm`.
///
/// The ring is persistent: it stays when this command ends, until it is removed by name. (By
/// default a ring that a program creates is removed with its last holder.) All memory is allocated
/// now: too little space is an error here and not a crash later.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast create pong --column obs:u1:84x84 --column action:i4 --column reward:f4 \\
      --capacity 1_000_000 --lanes 8
  backcast create trades --column day:i4::obs --column shares:i4:30:obs --column action:f4:30 \\
      --capacity 8GiB --lanes 64 --exist replace
  backcast create pong --schema pong.json --capacity 512MiB --persist continuous
  backcast create pong --schema pong.json --capacity 512MiB --samples-per-insert 8 \\
      --min-size 1_000 --error-buffer 800
with pong.json: {\"obs\": [\"u1\", [84, 84]], \"action\": \"i4\", \"day\": [\"i4\", [], \"obs\"]}")]
pub(crate) struct Args {
    /// Name of the ring.
    name: String,
    /// A column, NAME:DTYPE[:SHAPE[:ROLE]]; repeat for each column.
    ///
    /// DTYPE: bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 bfloat16. SHAPE: sizes with x between them,
    /// empty for a scalar. ROLE: obs or step; without it `obs` and names below `obs/` are
    /// observations.
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
    #[arg(long, value_name = "WHAT", default_value = "error",
          value_parser = one_of::<Exist>(&EXIST))]
    exist: Exist,
    /// When a lease pins the rows that a writer would overwrite: block, `drop_new`, fail or
    /// overwrite.
    ///
    /// block: wait for the lease once, at most the lease time-out, then drop the new row and mark a
    /// gap. overwrite: the ring grants no leases.
    #[arg(long, value_name = "WHAT", default_value = "block",
          value_parser = one_of::<LanePolicy>(&POLICIES))]
    lane_policy: LanePolicy,
    /// Maximum wait of a writer for a lease, in seconds [default: 1]. Only with block.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    lease_timeout: Option<f64>,
    /// Maximum samplers and handles with leases at a time, over all processes.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole(1..=MAX_READER_SLOTS))]
    reader_slots: u32,
    #[command(flatten)]
    limits: LimitArgs,
    /// Have a daemon persist the ring: periodic, continuous, or block (continuous, and writers wait
    /// rather than overwrite rows that are not on disk); or off.
    ///
    /// The mode stays with the ring, for every daemon of its directory (`backcast serve`).
    #[arg(long, value_name = "MODE", value_parser = one_of::<PersistMode>(&MODES))]
    persist: Option<PersistMode>,
    /// Have the daemon create it within its budget (`backcast serve`).
    #[arg(long)]
    daemon: bool,
    /// Do not ask the system for huge pages, which make draws faster.
    #[arg(long)]
    no_huge_pages: bool,
    /// Put the ring into sealed memory, which no process can truncate, instead of files. Linux.
    ///
    /// The daemon keeps it; if the daemon is killed, it goes with the last process that has it.
    #[arg(long, requires = "daemon")]
    memfd: bool,
}

/// Error of `--persist`.
#[derive(Debug, Error)]
#[error(
    "cannot write into {}: {source}; free space there, or leave --persist out",
    path.display()
)]
struct PersistError {
    path: PathBuf,
    source: io::Error,
}

impl Fails for PersistError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

/// Error of `--lease-timeout`.
#[derive(Debug, Error)]
enum LeaseTimeoutError {
    #[error(
        "--lease-timeout is {seconds}; give seconds from 0 to {}",
        LanePolicy::MAX_TIMEOUT.as_secs()
    )]
    OutOfRange { seconds: f64 },
    #[error(
        "--lease-timeout is {seconds}, but --lane-policy {policy} never waits; leave one of them \
         out"
    )]
    NeverWaits { seconds: f64, policy: LanePolicy },
}

impl Fails for LeaseTimeoutError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

impl Fails for ColumnSpecError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

impl Fails for SchemaFileError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let from_file;
    let columns = match &args.schema {
        Some(path) => {
            from_file = read_schema_file(path)?;
            &from_file
        }
        None => &args.columns,
    };
    let schema = schema(columns)?;
    let options = RingOptions::with_capacity(args.capacity)
        .lanes(args.lanes)
        .exist(args.exist)
        .persistent(true)
        .lane_policy(policy(args)?)
        .reader_slots(args.reader_slots)
        .huge_pages(!args.no_huge_pages)
        .memfd(args.memfd)
        .base(base.clone());
    let options = match args.limits.limits() {
        Some(limits) => {
            let limits = limits.no_learner(args.limits.no_learner.unwrap_or_default());
            options.limiter(limits.no_writer(args.limits.no_writer.unwrap_or_default()))
        }
        None => options,
    };
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
            persist::ask(dir, mode)
                .map_err(|source| PersistError { path: dir.to_owned(), source })?;
        }
        ring
    };
    let geometry = GeometryReport::from(&ring.stats());
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

fn policy(args: &Args) -> Result<LanePolicy, LeaseTimeoutError> {
    let Some(seconds) = args.lease_timeout else { return Ok(args.lane_policy) };
    let policy = args.lane_policy;
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if timeout <= LanePolicy::MAX_TIMEOUT => match policy {
            LanePolicy::Block(_) => Ok(LanePolicy::Block(timeout)),
            _ => Err(LeaseTimeoutError::NeverWaits { seconds, policy }),
        },
        _ => Err(LeaseTimeoutError::OutOfRange { seconds }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_offered_are_those_that_are_taken() {
        assert!(EXIST.iter().all(|word| word.parse::<Exist>().is_ok()));
        assert!(POLICIES.iter().all(|word| word.parse::<LanePolicy>().is_ok()));
        assert!(MODES.iter().all(|word| word.parse::<PersistMode>().is_ok()));
    }
}
