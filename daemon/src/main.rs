//! The `backcast` command.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    ExitCode::from(backcast_daemon::run(std::env::args_os(), &mut out, &mut err))
}
