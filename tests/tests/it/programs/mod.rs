//! The generated programs of `pybind/tests/programs`, taken with the Rust API.
//!
//! `run_rust.py` makes the programs, sends their steps as JSON lines, and compares each outcome
//! with its model, as it does for Python. [`actor`] turns steps into calls. Steps that Rust lacks,
//! or that need a second process, are left out there.
//!
//! `BACKCAST_PYTHON` names an interpreter that has the package; without it the test is skipped.

mod actor;
mod arrays;
mod errors;
mod options;

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use backcast_budget::{BoundedChild, budget, skipped};
use serde_json::{Value, json};

use self::actor::Actor;
use self::errors::Failure;

/// Programs of a run. Half of their seeds are fixed.
const PROGRAMS: u64 = 300;

#[test]
fn rust_does_what_the_model_says() -> Result<(), Box<dyn Error>> {
    let Some(python) = env::var_os("BACKCAST_PYTHON") else {
        skipped("programs", "BACKCAST_PYTHON names no interpreter that has the backcast package");
        return Ok(());
    };
    let place = tempfile::tempdir()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../pybind/tests/programs/run_rust.py");
    let mut command = Command::new(python);
    command.arg(script).arg(place.path()).arg(budget(PROGRAMS).to_string());
    let mut model = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut answers, steps) = (model.stdin.take(), model.stdout.take());
    let mut actor = Actor::default();
    for step in BufReader::new(steps.ok_or("no pipe")?).lines() {
        let step: Value = serde_json::from_str(&step?)?;
        let outcome = actor.take(&step).unwrap_or_else(
            |Failure { class, message }| json!({"error": class, "message": message}),
        );
        let answers = answers.as_mut().ok_or("no pipe")?;
        writeln!(answers, "{outcome}")?;
    }
    drop(answers);
    // It prints no step more: that it runs on is a mistake of the runner.
    assert!(model.wait_bounded()?.success(), "a program fails; its shrunk form is printed above");
    Ok(())
}
