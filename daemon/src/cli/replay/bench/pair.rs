//! Measures a writer in another process, started from the same program, beside a learner in this
//! one.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use backcast_core::{AutoresetMode, Base, Ring, WriterOptions};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rate::per_second;
use super::work::{AppendedRows, Bench};
use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::signals::Signals;

/// Line that the writer's process prints when it is ready to append.
const READY: &str = "ready";
/// Appends between two checks whether stdin is closed.
const APPENDS: u64 = 64;
/// Time-out for each line of the writer's process. An interpreter may have to start before the
/// first line, which takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PIECE: Duration = Duration::from_millis(20);

/// Error of the second process.
#[derive(Debug, Error)]
pub(crate) enum PairError {
    #[error(
        "cannot start a second process: this one does not know its own program; run the binary \
             `backcast`, or `python -m backcast`"
    )]
    NoProgram,
    #[error("cannot start {program} as a second process: {source}; see that it can be executed")]
    Start { program: String, source: std::io::Error },
    #[error("cannot tell whether the writer's process has ended: {0}; run the bench again")]
    Unknown(std::io::Error),
    #[error(
        "the writer's process {how}, and said `{said}`; run the bench again, and look for what \
             ends processes here (`backcast doctor`)"
    )]
    Writer { how: String, said: String },
}

impl Fails for PairError {
    fn exit(&self) -> Exit {
        Exit::FoundProblems
    }
}

/// Rates of both processes.
pub(super) struct PairRates {
    pub(super) written_per_s: f64,
    pub(super) sampled_per_s: f64,
}

/// JSON of the writer's last line: rows appended, and the time for them in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    rows: u64,
    nanos: u64,
}

/// The writer's process. It is killed on drop, so that the present process is the last holder of
/// the ring.
struct Second {
    process: Child,
    lines: Receiver<String>,
}

impl Second {
    fn start(bench: &Bench, base: &Base, itself: &[OsString]) -> Result<Self, PairError> {
        let Some((program, first)) = itself.split_first() else { return Err(PairError::NoProgram) };
        let dir = base.path().parent().unwrap_or(base.path());
        let mut process = Command::new(program)
            .args(first)
            .arg("--dir")
            .arg(dir)
            .args(["bench", "--writer", bench.ring.name().unwrap_or_default()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| {
                let program = program.to_string_lossy().into_owned();
                PairError::Start { program, source }
            })?;
        let (say, lines) = channel();
        if let Some(out) = process.stdout.take() {
            // The thread ends when the pipe closes, which the end of the process causes.
            std::thread::spawn(move || {
                BufReader::new(out).lines().map_while(Result::ok).try_for_each(|l| say.send(l))
            });
        }
        Ok(Self { process, lines })
    }

    /// Waits for the writer's next line, at most [`PATIENCE`]. Fails on a signal, and if the
    /// process ends first.
    fn line(&mut self, signals: &Signals) -> Result<String, CommandError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(PIECE) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.process.wait().map_err(PairError::Unknown)?;
                    return Err(self.gone(&how(ended)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if signals.status().is_some() {
                return Err(signals.interrupted());
            }
            if Instant::now() > until {
                return Err(self.gone(&format!("was silent for {} s", PATIENCE.as_secs())));
            }
        }
    }

    /// Fails if the process has ended.
    fn look(&mut self) -> Result<(), CommandError> {
        match self.process.try_wait().map_err(PairError::Unknown)? {
            Some(ended) => Err(self.gone(&how(ended))),
            None => Ok(()),
        }
    }

    fn gone(&self, how: &str) -> CommandError {
        let said = self.lines.try_iter().last().unwrap_or_default();
        PairError::Writer { how: how.to_owned(), said }.into()
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn how(ended: ExitStatus) -> String {
    format!("ended ({ended})")
}

/// Runs a writer and a learner at the same time.
pub(super) fn run(
    bench: &Bench,
    base: &Base,
    seconds: f64,
    signals: &Signals,
    itself: &[OsString],
) -> Result<PairRates, CommandError> {
    let (mut sampler, mut drawn) = bench.learner()?;
    let mut second = Second::start(bench, base, itself)?;
    let ready = second.line(signals)?;
    if ready != READY {
        return Err(PairError::Writer { how: "did not begin".to_owned(), said: ready }.into());
    }
    let mut input = second.process.stdin.take();
    if let Some(input) = &mut input {
        // A dead writer is noticed below.
        let _ = input.write_all(b"go\n").and_then(|()| input.flush());
    }
    let (begin, time) = (Instant::now(), Duration::from_secs_f64(seconds));
    let (before, mut looked) = (sampler.sampled(), begin);
    // Draws at least once, even if the kernel does not run this process within `time`.
    loop {
        sampler.sample_over(&mut drawn)?;
        if signals.status().is_some() {
            return Err(signals.interrupted());
        }
        if looked.elapsed() > PIECE {
            second.look()?;
            looked = Instant::now();
        }
        if begin.elapsed() >= time {
            break;
        }
    }
    let sampled_per_s = per_second(sampler.sampled() - before, begin.elapsed());
    drop(input);
    let said = second.line(signals)?;
    let written: Written = serde_json::from_str(&said)
        .map_err(|_| PairError::Writer { how: "ended early".to_owned(), said })?;
    let took = Duration::from_nanos(written.nanos);
    Ok(PairRates { written_per_s: per_second(written.rows, took), sampled_per_s })
}

/// Runs the writer's process. Appends rows once a byte has arrived on stdin, until stdin closes.
pub(super) fn write(
    base: &Base,
    name: &str,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    // The parent handles Ctrl-C and closes stdin.
    let _signals = Signals::listen()?;
    let ring = Ring::attach_in(base, name)?;
    let mut writer =
        ring.writer(WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::NextStep))?;
    let mut rows = AppendedRows::of(&ring);
    // Touch every page once in this process.
    rows.append(&mut writer, ring.slots())?;
    console.text(READY);
    console.flush();
    let mut input = std::io::stdin();
    if !matches!(input.read(&mut [0; 8]), Ok(1..)) {
        return Ok(Exit::FoundProblems);
    }
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        // ORDERING: relaxed; a later stop only adds steps.
        ended.store(true, Relaxed);
    });
    let (begin, mut count) = (Instant::now(), 0);
    // Appends at least once, as the learner draws at least once.
    loop {
        count += rows.append(&mut writer, APPENDS)?;
        if over.load(Relaxed) {
            break;
        }
    }
    let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    console.object(&Written { rows: count, nanos });
    Ok(Exit::Done)
}
