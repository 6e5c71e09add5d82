//! The `backcast` command line inside a Python process.

use std::ffi::OsString;
use std::io;

use backcast_daemon::{Host, PageSettings, PythonCall, run_with};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Run the command line.
///
/// Parameters
/// ----------
/// argv : list of str
///     Arguments without the program's name. ``demo`` and ``ui`` run :mod:`backcast.demo` and
///     :mod:`backcast.ui` in this process.
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
        let mut launch = |call: PythonCall<'_>, _: &mut dyn io::Write| {
            Python::attach(|py| in_python(py, call)).unwrap_or_else(|error| {
                raised = Some(error);
                1
            })
        };
        let itself = itself.unwrap_or_default();
        let host = Host { python: &mut launch, itself, ends_by_signal: &mut ends_by_signal };
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

fn in_python(py: Python<'_>, call: PythonCall<'_>) -> PyResult<u8> {
    let status = match call {
        PythonCall::Demo { args, dir } => {
            if let Some(dir) = dir {
                // Sets the variable in Python's `os.environ`, which the demo's children inherit.
                let environ = py.import("os")?.getattr("environ")?;
                environ.set_item("BACKCAST_DIR", dir.as_os_str())?;
            }
            py.import("backcast.demo")?.call_method1("main", (args,))?
        }
        PythonCall::Page(settings) => {
            let settings = page(py, settings)?;
            py.import("backcast.ui")?.call_method("main", (), Some(&settings))?
        }
    };
    if status.is_none() { Ok(0) } else { status.extract() }
}

/// Returns the keywords of `backcast.ui.main`.
fn page<'py>(py: Python<'py>, settings: &PageSettings) -> PyResult<Bound<'py, PyDict>> {
    let PageSettings { listen, token, needs_token, hosts, interval, shards, dir } = settings;
    let keywords = PyDict::new(py);
    keywords.set_item("host", listen.ip().to_string())?;
    keywords.set_item("port", listen.port())?;
    keywords.set_item("token", token)?;
    keywords.set_item("needs_token", needs_token)?;
    keywords.set_item("hosts", hosts)?;
    keywords.set_item("interval_s", interval.as_secs_f64())?;
    keywords.set_item("shards", shards)?;
    keywords.set_item("dir", dir.as_ref().map(|dir| dir.as_os_str()))?;
    Ok(keywords)
}
