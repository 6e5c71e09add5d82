//! `backcast demo`: runs the demo of the Python package.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};

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

/// Arguments of the demo.
#[derive(Clone, Copy, Debug)]
pub struct DemoCall<'a> {
    /// Arguments after `demo`.
    pub args: &'a [OsString],
    /// `--dir`, if given; the demo reads it from `BACKCAST_DIR`.
    pub dir: Option<&'a Path>,
}

/// Runs the demo and returns its exit status; messages go to the writer.
pub type DemoLauncher<'a> = &'a mut dyn FnMut(DemoCall<'_>, &mut dyn Write) -> u8;

pub(crate) fn run(
    args: &Args,
    dir: Option<&Path>,
    console: &mut Console<'_>,
    launcher: DemoLauncher<'_>,
) -> Result<Exit, CommandError> {
    if console.json() {
        return Err(DemoJson.into());
    }
    let call = DemoCall { args: &args.args, dir };
    Ok(Exit::Status(launcher(call, console.messages()?)))
}

/// Replaces this process by `backcast.demo` in the chosen interpreter; returns only on failure.
pub(crate) fn exec_python(call: DemoCall<'_>, err: &mut dyn Write) -> u8 {
    let python = interpreter(std::env::var_os);
    let shown = python.display();
    let mut say = |message: String| {
        // If stderr is gone, the message cannot be shown.
        let _ = writeln!(err, "error: {message}");
        Exit::FoundProblems.status()
    };
    let found = Command::new(&python)
        .args([
            "-c",
            "import importlib.util as u; raise SystemExit(u.find_spec('backcast') is None)",
        ])
        .stdin(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => {}
        Ok(_) => {
            return say(format!(
                "{shown} cannot import `backcast`; install the package for it \
                 ({shown} -m pip install backcast), activate the environment that has it, or name \
                 its interpreter in BACKCAST_PYTHON"
            ));
        }
        Err(error) => {
            return say(format!(
                "cannot run {shown}: {error}; install Python 3.11 or newer, or name an \
                 interpreter in BACKCAST_PYTHON"
            ));
        }
    }
    let mut command = Command::new(&python);
    command.args(["-m", "backcast.demo"]).args(call.args);
    if let Some(dir) = call.dir {
        command.env("BACKCAST_DIR", dir);
    }
    // Replaces this process instead of spawning one, so that signals and the exit status are the
    // demo's own.
    let error = command.exec();
    say(format!("cannot run {shown}: {error}"))
}

fn interpreter(variable: impl Fn(&'static str) -> Option<OsString>) -> PathBuf {
    let set = |name| variable(name).filter(|value: &OsString| !value.is_empty());
    set("BACKCAST_PYTHON")
        .map(PathBuf::from)
        .or_else(|| set("VIRTUAL_ENV").map(|root| Path::new(&root).join("bin/python")))
        .unwrap_or_else(|| PathBuf::from(OsStr::new("python3")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_named_one_then_the_environments_then_the_systems() {
        for (named, environment, expected) in [
            (Some("/opt/py"), Some("/venv"), "/opt/py"),
            (None, Some("/venv"), "/venv/bin/python"),
            (Some(""), Some("/venv"), "/venv/bin/python"),
            (None, None, "python3"),
        ] {
            let variable = |name| match name {
                "BACKCAST_PYTHON" => named.map(OsString::from),
                _ => environment.map(OsString::from),
            };
            assert_eq!(interpreter(variable), PathBuf::from(expected));
        }
    }
}
