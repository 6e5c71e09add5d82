//! `backcast demo`: runs the demo of the Python package.

use std::ffi::OsString;
use std::path::Path;

use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::python::{PythonCall, PythonLauncher};

/// Run the demo: actors trade in simulated markets while a learner improves their policy.
///
/// Runs `python3 -m backcast.demo` with the interpreter named by `BACKCAST_PYTHON`, else of the
/// active virtual environment, else `python3`. All further options are the demo's own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast demo
  backcast demo --seconds 10 --actors 4 --envs 8
  backcast demo --seconds 10 --kill
  backcast demo -- --help      all options of the demo")]
pub(crate) struct Args {
    /// Options of the demo.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Error of `--json` before `demo`.
#[derive(Debug, Error)]
#[error(
    "`backcast demo` prints a summary and writes its numbers to out/demo.json; leave --json out"
)]
struct DemoJson;

impl Fails for DemoJson {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

pub(crate) fn run(
    args: &Args,
    dir: Option<&Path>,
    console: &mut Console<'_>,
    launcher: PythonLauncher<'_>,
) -> Result<Exit, CommandError> {
    if console.json() {
        return Err(DemoJson.into());
    }
    let call = PythonCall::Demo { args: &args.args, dir };
    Ok(Exit::Status(launcher(call, console.messages()?)))
}
