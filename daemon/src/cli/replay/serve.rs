//! `backcast serve`: runs the daemon until a signal.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use backcast_core::Base;
use sd_notify::NotifyState;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::serve::{Daemon, GivenSettings, Log, ServeError, ServeOptions, Settings};
use crate::text::units;

/// Run the daemon of a directory: memory budget, orphans, persistence, metrics.
///
/// One daemon per directory. Writers and readers never wait for it, and go on when it ends or is
/// killed. Runs until SIGTERM or Ctrl-C; SIGHUP reads the --config file again. Prints one line when
/// it is ready, and logs to stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast serve --budget 8GiB
  backcast serve --budget 50% --when-full shrink --metrics 127.0.0.1:9464 --log json
  backcast serve --config backcast.toml
with backcast.toml, the flags' names as keys:
  budget = \"8GiB\"
  metrics = \"127.0.0.1:9464\"")]
pub(crate) struct Args {
    #[command(flatten)]
    given: GivenSettings,
    /// Read settings from a TOML file; flags win.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// JSON that says that the daemon is ready.
#[derive(Debug, Serialize)]
struct Started<'a> {
    ready: bool,
    pid: u32,
    base: &'a std::path::Path,
    socket: &'a std::path::Path,
    budget_bytes: u64,
    metrics: Option<String>,
}

impl Fails for ServeError {
    fn exit(&self) -> Exit {
        if self.is_usage() { Exit::WrongUsage } else { Exit::FoundProblems }
    }
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let settings = args.given.settle(args.config.as_deref())?;
    // Listens before the daemon starts, so that a signal during the start stops it in order too.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(ServeError::system("listen for signals"))?;
    let log = Log::begin(settings.log, settings.log_level)
        .map_err(ServeError::system("write to stderr"))?;
    raise_descriptors();
    let daemon = Daemon::start(base, &settings.options)?;
    tell(&daemon, base, console);
    std::thread::scope(|threads| {
        let (ends, ended) = mpsc::channel();
        if let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) {
            let daemon = &daemon;
            let works = move || daemon.maintains(limit);
            let beat = || drop(sd_notify::notify(&[NotifyState::Watchdog]));
            threads.spawn(move || report_life(works, beat, limit, &ended));
        }
        follow(&mut signals, &daemon, args, &settings, &log);
        drop(ends);
    });
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    daemon.stop();
    Ok(Exit::Done)
}

/// Reads the settings again at each SIGHUP, until another signal ends the daemon.
fn follow(signals: &mut Signals, daemon: &Daemon, args: &Args, settings: &Settings, log: &Log) {
    for signal in signals {
        if signal != SIGHUP {
            tracing::info!(signal, "ending");
            break;
        }
        match args.given.settle(args.config.as_deref()) {
            Ok(again) => {
                log.set_level(again.log_level);
                let taken = daemon.reload(&again.options);
                let fixed = |o: &ServeOptions| (o.socket.clone(), o.metrics);
                if fixed(&again.options) != fixed(&settings.options) {
                    tracing::warn!("socket and metrics change with a restart only");
                }
                match taken {
                    Ok(()) => tracing::info!(
                        budget_bytes = daemon.budget_bytes(),
                        "read the settings again"
                    ),
                    Err(error) => tracing::error!(%error, "kept the settings"),
                }
            }
            Err(error) => tracing::error!(%error, "kept the settings"),
        }
    }
}

/// Calls `beat` twice within `limit` while the daemon `works`, until `ended` closes. The service
/// manager restarts a daemon from which it hears no beat for `limit`.
fn report_life(works: impl Fn() -> bool, beat: impl Fn(), limit: Duration, ended: &Receiver<()>) {
    let pause = (limit / 2).max(Duration::from_millis(1));
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
        if works() {
            beat();
        }
    }
}

/// Raises the limit on descriptors, since a ring in memfds takes one for each lane.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "cannot have more descriptors");
    }
}

/// Prints that the daemon is ready, and tells the service manager.
fn tell(daemon: &Daemon, base: &Base, console: &mut Console<'_>) {
    let metrics = daemon.metrics_address().map(|address| format!("http://{address}/metrics"));
    let started = Started {
        ready: true,
        pid: std::process::id(),
        base: base.path(),
        socket: daemon.socket(),
        budget_bytes: daemon.budget_bytes(),
        metrics: metrics.clone(),
    };
    if console.json() {
        console.object(&started);
    } else {
        let metrics = metrics.map_or_else(String::new, |url| format!(", metrics at {url}"));
        console.text(&format!(
            "ready: {}, budget {}{metrics}",
            base.path().display(),
            units::bytes(started.budget_bytes)
        ));
    }
    console.flush();
    let status = format!("looking after {}", base.path().display());
    match sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]) {
        Ok(()) => {}
        Err(error) => tracing::warn!(%error, "cannot tell the service manager"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_daemon_that_does_not_work_is_silent() {
        for (works, expected) in [(true, 3), (false, 0)] {
            let (ends, ended) = mpsc::channel();
            let ends = Cell::new(Some(ends));
            let (asked, beats) = (Cell::new(0), Cell::new(0));
            let works = || {
                asked.set(asked.get() + 1);
                if asked.get() == 3 {
                    ends.take();
                }
                works
            };
            let beat = || beats.set(beats.get() + 1);
            report_life(works, beat, Duration::from_nanos(1), &ended);
            assert_eq!((asked.get(), beats.get()), (3, expected));
        }
    }
}
