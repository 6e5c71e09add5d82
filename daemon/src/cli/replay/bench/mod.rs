//! `backcast bench`: measures this machine against plain memory copies in the same run.

mod machine;
mod pair;
mod rate;
mod work;

use std::ffi::OsString;
use std::time::Duration;

use backcast_core::Base;
use serde::Serialize;

use self::machine::MachineReport;
use self::rate::{Pace, RateComparison};
use self::work::Bench;
use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::signals::Signals;
use crate::text::parse;
use crate::text::units;

/// Measure publishing, sampling and windows on this machine.
///
/// The first three rows of the table alternate with a plain copy of the same bytes in the same run.
/// So the ratio holds on a busy machine too. The last two rows are a writer in another process and
/// a learner in this one at the same time, compared with each alone. Takes about 200 MiB of memory;
/// the ring is removed afterwards, also after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast bench
  backcast bench --seconds 5 --row-bytes 7062 --lanes 8
  backcast --json bench --seconds 0.2 | jq '.measured[] | {what, ratio}'")]
pub(crate) struct Args {
    /// Seconds for each of the five rows, 0.01 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, allow_negative_numbers = true,
          value_parser = seconds)]
    seconds: f64,
    /// Bytes of a row over all its columns, 16 to 1048576.
    #[arg(long, value_name = "BYTES", default_value_t = 700,
          value_parser = parse::whole(16..=1_048_576_u32))]
    row_bytes: u32,
    /// Lanes written together, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = parse::whole(1..=64_u32))]
    lanes: u32,
    /// Run as the writer of the last two rows, on this ring.
    #[arg(long, value_name = "RING", hide = true)]
    writer: Option<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds from 0.01 to 600".to_owned())
}

/// JSON of a run.
#[derive(Debug, Serialize)]
struct Report {
    machine: MachineReport,
    seconds: f64,
    row_bytes: u32,
    lane_count: u32,
    ring_bytes: u64,
    measured: Vec<Row>,
}

/// JSON of one measurement.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    /// Rows of an append or items of a batch.
    batch: u64,
    rate_per_s: f64,
    bytes_per_s: f64,
    against: &'static str,
    against_rate_per_s: f64,
    /// Ratio of times: 1 is as fast, 2 takes twice as long.
    ratio: f64,
}

impl Row {
    fn new(
        what: &'static str,
        against: &'static str,
        batch: u64,
        bytes: f64,
        rate: RateComparison,
    ) -> Self {
        let (rate_per_s, against_rate_per_s) = (rate.work, rate.against);
        let ratio = against_rate_per_s / rate_per_s;
        let bytes_per_s = rate_per_s * bytes;
        Self { what, batch, rate_per_s, bytes_per_s, against, against_rate_per_s, ratio }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
    itself: &[OsString],
) -> Result<Exit, CommandError> {
    if let Some(name) = &args.writer {
        return pair::write(base, name, console);
    }
    let signals = Signals::listen()?;
    let measured = measure(args, base, &signals, itself);
    // A signal outweighs every error that it may have caused.
    if let Some(status) = signals.status() {
        return Ok(Exit::Status(status));
    }
    print(&measured?, console);
    Ok(Exit::Done)
}

fn measure(
    args: &Args,
    base: &Base,
    signals: &Signals,
    itself: &[OsString],
) -> Result<Report, CommandError> {
    let machine = MachineReport::look();
    let pace = Pace { slice: Duration::from_secs_f64(args.seconds) / 20, signals };
    let bench = Bench::new(base, args.row_bytes, args.lanes)?;
    let row = bench.row_bytes();
    let both = pair::run(&bench, base, args.seconds, signals, itself)?;
    let publish = bench.publish(&pace)?;
    let sample = bench.sample(&pace)?;
    let windows = bench.windows(&pace)?;
    let mut measured = vec![
        Row::new("publish", "memcpy of its columns", args.lanes.into(), row, publish),
        Row::new("sample", "memcpy of as many bytes", sample.batch, sample.bytes, sample.rate),
        Row::new(
            "windows of 20+5",
            "memcpy of as many bytes",
            windows.batch,
            windows.bytes,
            windows.rate,
        ),
    ];
    let writer = RateComparison { work: both.written_per_s, against: publish.work };
    let learner = RateComparison { work: both.sampled_per_s, against: sample.rate.work };
    measured.push(Row::new(
        "publish beside a learner",
        "publish alone",
        args.lanes.into(),
        row,
        writer,
    ));
    measured.push(Row::new(
        "sample beside a writer",
        "sample alone",
        sample.batch,
        sample.bytes,
        learner,
    ));
    Ok(Report {
        machine,
        seconds: args.seconds,
        row_bytes: args.row_bytes,
        lane_count: args.lanes,
        ring_bytes: bench.ring_bytes(),
        measured,
    })
}

fn print(report: &Report, console: &mut Console<'_>) {
    if console.json() {
        return console.object(report);
    }
    let machine = &report.machine;
    console.text(&machine.line());
    console.text(&format!(
        "rows of {} B, lanes: {}, a ring of {}, {} s each",
        units::exact(report.row_bytes.into()),
        report.lane_count,
        units::bytes(report.ring_bytes),
        report.seconds,
    ));
    console.text("");
    let columns = [
        ("WHAT", Align::Left),
        ("BATCH", Align::Right),
        ("PER SECOND", Align::Right),
        ("BYTES", Align::Right),
        ("TIME", Align::Right),
        ("AGAINST", Align::Left),
    ];
    let rows: Vec<Vec<String>> = report
        .measured
        .iter()
        .map(|row| {
            vec![
                row.what.to_owned(),
                units::exact(row.batch),
                units::count(whole(row.rate_per_s)),
                format!("{}/s", units::bytes(whole(row.bytes_per_s))),
                format!("{:.2}x", row.ratio),
                row.against.to_owned(),
            ]
        })
        .collect();
    console.table(&columns, &rows);
    if !machine.optimised {
        console.note("this is a debug build: the figures say nothing about a release");
    }
    if machine.is_busy() {
        console.note("other programs use this machine, which affects rates more than ratios");
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive, and far below 2^64"
)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}
