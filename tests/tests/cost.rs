//! Instructions of a sampled row do not grow with the ring: within 3 % they are the same for ten
//! thousand rows and for millions, for one lane and for sixty-four. Also counts the instructions of
//! a row appended from Python by keywords, and those that `next_obs` adds. `BACKCAST_PYTHON` names
//! an interpreter that has the package.
//!
//! Run by `make cost` on optimised code, since each instruction takes two context switches.
#![cfg(target_os = "linux")]

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

use backcast_budget::BoundedChild;
use backcast_tests::steps::Traced;
use rustix::process::Pid;
use tempfile::TempDir;

const BATCH: u64 = 256;
/// Batches counted: enough that about the same share of windows holds an episode's end in each run.
const BATCHES: u64 = 8;
/// Largest deviation from the mean of the extremes, in thousandths.
const OFF: u64 = 30;

/// Returns the instructions of a sampled row, in thousandths.
fn cost(rows: u64, lanes: u32) -> Result<u64, Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let mut child = Command::new(env!("CARGO_BIN_EXE_cost_sampler"))
        .arg(dir.path())
        .args([rows, lanes.into(), BATCHES].map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .spawn()?;
    let traced = Traced::seize(Pid::from_child(&child))?;
    child.stdin.take().ok_or("a pipe")?.write_all(b"go\n")?;
    let steps = traced.count()?;
    drop(traced);
    assert!(child.wait_bounded()?.success(), "the sampler failed after its marks");
    let cost = steps * 1_000 / (BATCHES * BATCH);
    println!(
        "{rows} rows, {lanes} lanes: {}.{} instructions a row",
        cost / 1_000,
        cost % 1_000 / 100
    );
    Ok(cost)
}

#[test]
#[ignore = "minutes, and worth something in optimised code only: make cost"]
fn a_sampled_row_costs_the_same_whatever_the_ring_holds() -> Result<(), Box<dyn Error>> {
    let million = 1_000_000;
    let rings = [(10_000, 1), (million, 1), (20 * million, 1), (million, 8), (million, 64)];
    let costs: Vec<u64> =
        rings.into_iter().map(|(rows, lanes)| cost(rows, lanes)).collect::<Result<_, _>>()?;
    let (least, largest) = (costs.iter().min(), costs.iter().max());
    let (Some(least), Some(largest)) = (least.copied(), largest.copied()) else {
        return Err("nothing was counted".into());
    };
    assert!(least > 0);
    let off = (largest - least) * 1_000 / (largest + least);
    println!("within {}.{} % of the middle", off / 10, off % 10);
    let within = (largest - least) * 1_000 <= OFF * (largest + least);
    assert!(within, "{costs:?} thousandths of instructions");
    Ok(())
}

/// Appended rows that are counted: enough to average out occasional work of the interpreter.
const APPENDED: u64 = 1_000;
/// Instructions that `next_obs` may add to an append, in thousandths. It adds less time, since
/// comparing and copying take few cycles.
const ADDED: u64 = 400;

/// Returns the instructions of an appended row, in thousandths, those of the interpreter included.
fn append_cost(python: &OsStr, kind: &str) -> Result<u64, Box<dyn Error>> {
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/appender.py"))
        .args([&APPENDED.to_string(), kind])
        .env("PYTHONHASHSEED", "0")
        .stdin(Stdio::piped())
        .spawn()?;
    let traced = Traced::seize(Pid::from_child(&child))?;
    child.stdin.take().ok_or("a pipe")?.write_all(b"go\n")?;
    let steps = traced.count()?;
    drop(traced);
    assert!(child.wait_bounded()?.success(), "the appender failed after its marks");
    let cost = steps * 1_000 / APPENDED;
    println!("append, {kind}: {}.{} instructions a row", cost / 1_000, cost % 1_000 / 100);
    Ok(cost)
}

#[test]
#[ignore = "worth something in optimised code only: make cost"]
fn an_appended_row_costs_little_more_with_what_it_led_to() -> Result<(), Box<dyn Error>> {
    let python = env::var_os("BACKCAST_PYTHON").ok_or("BACKCAST_PYTHON names no interpreter")?;
    let (plain, next) = (append_cost(&python, "plain")?, append_cost(&python, "next")?);
    assert!(plain > 0 && next > plain, "next_obs is compared and kept");
    assert!((next - plain) * 1_000 <= ADDED * plain, "{plain} and {next} thousandths");
    Ok(())
}
