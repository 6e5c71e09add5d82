//! A writer in a process of its own, and a learner in this one: the same program is started again.

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
use super::work::{Bench, Rows};
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::signals::Signals;

/// What the writer says when it has its lanes.
const READY: &str = "ready";
/// Appends between two looks whether to go on.
const APPENDS: u64 = 64;
/// An interpreter may take seconds to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PIECE: Duration = Duration::from_millis(20);

/// Why there was no second process.
#[derive(Debug, Error)]
pub(crate) enum PairError {
    #[error(
        "cannot start a second process: this one does not know its own program; run the binary \
             `backcast`, or `python -m backcast`"
    )]
    NoProgram,
    #[error("cannot start {program} as a second process: {source}; see that it can be executed")]
    Start { program: String, source: std::io::Error },
    #[error(
        "the writer's process {how}, and said `{said}`; run the bench again, and look for what \
             ends processes here (`backcast doctor`)"
    )]
    Writer { how: String, said: String },
}

/// What both did meanwhile.
pub(super) struct Both {
    pub(super) written_per_s: f64,
    pub(super) sampled_per_s: f64,
}

/// What the writer says at the end.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    rows: u64,
    nanos: u64,
}

/// Ends with this value, whatever became of it, so that this process is the ring's last holder.
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
            // Ends with the pipe, which ends with the process.
            std::thread::spawn(move || {
                BufReader::new(out).lines().map_while(Result::ok).try_for_each(|l| say.send(l))
            });
        }
        Ok(Self { process, lines })
    }

    /// The next line that it says.
    fn line(&mut self, signals: &Signals) -> Result<String, CliError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(PIECE) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.process.wait()?;
                    return Err(self.gone(&how(ended)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if signals.status().is_some() {
                return Err(CliError::Interrupted);
            }
            if Instant::now() > until {
                return Err(self.gone(&format!("was silent for {} s", PATIENCE.as_secs())));
            }
        }
    }

    /// Fails if it has ended.
    fn look(&mut self) -> Result<(), CliError> {
        match self.process.try_wait()? {
            Some(ended) => Err(self.gone(&how(ended))),
            None => Ok(()),
        }
    }

    fn gone(&self, how: &str) -> CliError {
        let said = self.lines.try_iter().last().unwrap_or_default();
        PairError::Writer { how: how.to_owned(), said }.into()
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // It may have ended already, and is nobody else's.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn how(ended: ExitStatus) -> String {
    format!("ended ({ended})")
}

/// A writer and a learner at once, for a while.
pub(super) fn run(
    bench: &Bench,
    base: &Base,
    seconds: f64,
    signals: &Signals,
    itself: &[OsString],
) -> Result<Both, CliError> {
    let (mut sampler, mut drawn) = bench.learner()?;
    let mut second = Second::start(bench, base, itself)?;
    let ready = second.line(signals)?;
    if ready != READY {
        return Err(PairError::Writer { how: "did not begin".to_owned(), said: ready }.into());
    }
    let mut input = second.process.stdin.take();
    if let Some(input) = &mut input {
        // A writer that is gone is found out about below.
        let _ = input.write_all(b"go\n").and_then(|()| input.flush());
    }
    let (begin, time) = (Instant::now(), Duration::from_secs_f64(seconds));
    let (before, mut looked) = (sampler.sampled(), begin);
    while begin.elapsed() < time {
        sampler.sample_over(&mut drawn)?;
        if signals.status().is_some() {
            return Err(CliError::Interrupted);
        }
        if looked.elapsed() > PIECE {
            second.look()?;
            looked = Instant::now();
        }
    }
    let sampled_per_s = per_second(sampler.sampled() - before, begin.elapsed());
    drop(input);
    let said = second.line(signals)?;
    let written: Written = serde_json::from_str(&said)
        .map_err(|_| PairError::Writer { how: "ended early".to_owned(), said })?;
    let took = Duration::from_nanos(written.nanos);
    Ok(Both { written_per_s: per_second(written.rows, took), sampled_per_s })
}

/// The other side: writes from the first byte on its input to the end of it.
pub(super) fn write(base: &Base, name: &str, console: &mut Console<'_>) -> Result<Exit, CliError> {
    // Ctrl-C is for the process that looks at the input's other end.
    let _signals = Signals::listen()?;
    let ring = Ring::attach_in(base, name)?;
    let mut writer =
        ring.writer(WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::NextStep))?;
    let mut rows = Rows::of(&ring);
    // Every page once: this process has not seen them yet.
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
        // ORDERING: relaxed; a step more or less is written.
        ended.store(true, Relaxed);
    });
    let (begin, mut count) = (Instant::now(), 0);
    while !over.load(Relaxed) {
        count += rows.append(&mut writer, APPENDS)?;
    }
    let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    console.object(&Written { rows: count, nanos });
    Ok(Exit::Done)
}
