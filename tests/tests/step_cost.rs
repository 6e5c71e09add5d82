//! A step of portfolios neither looks up nor copies names: its cost does not depend on the names of
//! tickers and indicators.
//!
//! Counts the instructions of a step called from Python, which do not depend on the machine's load.
//! `BACKCAST_PYTHON` names an interpreter that has the package.
#![cfg(target_os = "linux")]

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use backcast_budget::{BoundedChild, skipped};
use backcast_tests::steps::Traced;
use rustix::process::Pid;
use tempfile::TempDir;

/// Characters in the common prefix of all names.
const SHORT: u64 = 1;
const LONG: u64 = 1_500;
/// Instructions that long names may add to a step. A step that looked up or copied names would read
/// tens of thousands of characters more.
const MOST: u64 = 1_000;
/// Most runs. Occasional work of the interpreter and its allocator adds instructions to some runs;
/// names that are looked up or copied would add to all.
const ROUNDS: usize = 3;

/// Returns the instructions of one step of some portfolios, or `None` if tracing is not permitted.
fn instructions(
    python: &OsStr,
    portfolios: u64,
    chars: u64,
) -> Result<Option<u64>, Box<dyn Error>> {
    let dir = TempDir::new()?;
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/stepper.py"))
        .arg(dir.path())
        .args([portfolios, chars].map(|number| number.to_string()))
        // Makes hashes of names equal in every process.
        .env("PYTHONHASHSEED", "0")
        .stdin(Stdio::piped())
        .spawn()?;
    let traced = match Traced::seize(Pid::from_child(&child)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            child.kill()?;
            child.wait_bounded()?;
            return Ok(None);
        }
        traced => traced?,
    };
    child.stdin.take().ok_or("a pipe")?.write_all(b"go\n")?;
    let steps = traced.count()?;
    drop(traced);
    assert!(child.wait_bounded()?.success(), "the stepper failed after its marks");
    Ok(Some(steps))
}

#[test]
fn defect_24_a_step_costs_the_same_whatever_its_numbers_are_called() -> Result<(), Box<dyn Error>> {
    let Some(python) = env::var_os("BACKCAST_PYTHON") else {
        skipped("step_cost", "BACKCAST_PYTHON names no interpreter that has the backcast package");
        return Ok(());
    };
    // Few portfolios read the panel directly; many read a copy of the day's rows.
    for portfolios in [2, 8] {
        let (mut short, mut long) = (u64::MAX, u64::MAX);
        for _ in 0..ROUNDS {
            for (least, chars) in [(&mut short, SHORT), (&mut long, LONG)] {
                let Some(counted) = instructions(&python, portfolios, chars)? else {
                    skipped("step_cost", "this system lets no process trace its child");
                    return Ok(());
                };
                *least = counted.min(*least);
            }
            println!(
                "{portfolios} portfolios: {short} instructions a step, {long} with long names"
            );
            if long.abs_diff(short) <= MOST {
                break;
            }
        }
        assert!(long.abs_diff(short) <= MOST, "{short} instructions, {long} with long names");
    }
    Ok(())
}
