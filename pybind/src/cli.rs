//! The `backcast` command line inside a Python process.

use std::ffi::OsString;
use std::io;

use backcast_daemon::{DemoCall, Host, run_with};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Run the command line.
///
/// Parameters
/// ----------
/// argv : list of str
///     Arguments without the program's name. ``demo`` runs :mod:`backcast.demo` in this process.
///
/// Returns
/// -------
/// int
///     Exit status: 0 for done, 1 for problems found, 2 for wrong usage, 3 for no such object or an
///     export with missing rows, 128 plus the number of a signal that stopped the command.
#[pyfunction]
pub(crate) fn cli_main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<u8> {
    let (mut raised, mut ends_by_signal) = (None, false);
    // The executable may be a wrapper, so the path is taken from `sys.executable`.
    let python: Option<OsString> = py.import("sys")?.getattr("executable")?.extract()?;
    let python = python.filter(|python| !python.is_empty());
    let itself = python.map(|python| vec![python, "-m".into(), "backcast".into()]);
    let status = py.detach(|| {
        let arguments = std::iter::once(OsString::from("backcast")).chain(argv);
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let mut demo = |call: DemoCall<'_>, _: &mut dyn io::Write| {
            Python::attach(|py| demo(py, &call)).unwrap_or_else(|error| {
                raised = Some(error);
                1
            })
        };
        let itself = itself.unwrap_or_default();
        let host = Host { demo: &mut demo, itself, ends_by_signal: &mut ends_by_signal };
        run_with(arguments, &mut out, &mut err, host)
    });
    match py.check_signals() {
        // Python noted the signal too, but the command has handled it.
        Err(error) if ends_by_signal && error.is_instance_of::<PyKeyboardInterrupt>(py) => {}
        other => other?,
    }
    match raised {
        Some(error) => Err(error),
        None => Ok(status),
    }
}

fn demo(py: Python<'_>, call: &DemoCall<'_>) -> PyResult<u8> {
    if let Some(dir) = call.dir {
        // Sets the variable in Python's `os.environ`, which the demo's child processes inherit.
        py.import("os")?.getattr("environ")?.set_item("BACKCAST_DIR", dir.as_os_str())?;
    }
    let status = py.import("backcast.demo")?.call_method1("main", (call.args,))?;
    if status.is_none() { Ok(0) } else { status.extract() }
}
