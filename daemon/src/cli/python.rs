//! Hands commands to the Python package, which is in this process or in an interpreter.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cli::exit_status::Exit;

/// A command that the Python package runs.
#[derive(Clone, Copy, Debug)]
pub enum PythonCall<'a> {
    /// `backcast demo`.
    Demo {
        /// Arguments after `demo`.
        args: &'a [OsString],
        /// `--dir`, if given; the demo reads it from `BACKCAST_DIR`.
        dir: Option<&'a Path>,
    },
    /// `backcast ui`.
    Page(&'a PageSettings),
}

/// Settings of the page that `backcast ui` serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSettings {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Secret that every request needs. Without one, a random one is made if `needs_token`.
    pub token: Option<String>,
    /// Whether requests need a token. Always true beyond the loopback interface.
    pub needs_token: bool,
    /// Names that requests may give this machine, besides those of the loopback interface.
    pub hosts: Vec<String>,
    /// Time between two readings.
    pub interval: Duration,
    /// Shards on Ray to show.
    pub shards: Vec<String>,
    /// `--dir`, if given.
    pub dir: Option<PathBuf>,
}

/// Runs a command of the Python package and returns its exit status. Messages go to the writer.
pub type PythonLauncher<'a> = &'a mut dyn FnMut(PythonCall<'_>, &mut dyn Write) -> u8;

/// Replaces this process by the Python package in the chosen interpreter. `line` is the command
/// line, the program's name first. Returns only on failure.
pub(crate) fn exec(call: PythonCall<'_>, line: &[OsString], err: &mut dyn Write) -> u8 {
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
    let (name, package) = match call {
        PythonCall::Demo { .. } => ("demo", "backcast"),
        PythonCall::Page(_) => ("ui", "\"backcast[ui]\""),
    };
    match found {
        Ok(status) if status.success() => {}
        Ok(_) => {
            return say(format!(
                "`backcast {name}` comes with the Python package, and {shown} cannot import \
                 `backcast`; install the package for it ({shown} -m pip install {package}), \
                 activate the environment that has it, or name its interpreter in BACKCAST_PYTHON"
            ));
        }
        Err(error) => {
            return say(format!(
                "`backcast {name}` comes with the Python package, and {shown} cannot run: {error}; \
                 install Python 3.11 or newer and then {package}, or name an interpreter in \
                 BACKCAST_PYTHON"
            ));
        }
    }
    let mut command = Command::new(&python);
    match call {
        PythonCall::Demo { args, dir } => {
            command.args(["-m", "backcast.demo"]).args(args);
            command.envs(dir.map(|dir| ("BACKCAST_DIR", dir)));
        }
        // The package has this command line too.
        PythonCall::Page(_) => {
            command.args(["-m", "backcast"]).args(line.iter().skip(1));
        }
    }
    // Replaces this process instead of spawning one, so that signals and the exit status are those
    // of the Python program.
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
