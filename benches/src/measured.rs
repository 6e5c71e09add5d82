//! Figures other than the time of an iteration: rates of several threads or processes, latencies.
//!
//! They are printed, and appended as JSON lines to `target/measured.jsonl`, from which
//! `benches/python/criterion.py` collects them together with Criterion's own.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::json;

/// Filter of the command line.
#[derive(Debug)]
pub struct Measured {
    filter: Option<String>,
}

impl Measured {
    /// Reads the filter, the first argument that is not a flag.
    #[must_use]
    pub fn from_args() -> Self {
        Self { filter: env::args().skip(1).find(|arg| !arg.starts_with('-')) }
    }

    /// Returns whether a metric is to be measured.
    #[must_use]
    pub fn wants(&self, metric: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| metric.contains(filter))
    }

    /// Prints and keeps all runs of a contender. A unit that ends in `/s` is better when larger.
    ///
    /// # Panics
    /// If there are no runs, or the file cannot be written.
    pub fn keep(&self, metric: &str, unit: &str, contender: &str, runs: &[f64]) {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 1_000];
        println!(
            "{metric} [{unit}]: {contender}: median {:.4}, p99 {:.4}, from {:.4} to {:.4}, {} runs",
            at(500),
            at(990),
            at(0),
            at(1_000),
            runs.len()
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/measured.jsonl");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("target/");
        let line = json!({ "metric": metric, "unit": unit, "contender": contender, "runs": runs });
        writeln!(file, "{line}").expect("room on the disk");
    }
}

/// This program as a child process. It ends when its standard input closes, and so does not outlive
/// its parent.
#[derive(Debug)]
pub struct Role(Child);

impl Role {
    /// Starts the child, in which [`role`] returns these words.
    ///
    /// # Panics
    /// If the child cannot be started.
    #[must_use]
    pub fn start(words: &[&str]) -> Self {
        let program = env::current_exe().expect("a program with a path");
        let mut command = Command::new(program);
        command.env("BACKCAST_ROLE", words.join("\n"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(child.expect("the program starts again"))
    }

    /// Returns the child process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Takes the child's standard input, which the caller must keep open.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn stdin(&mut self) -> ChildStdin {
        self.0.stdin.take().expect("not taken yet")
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the words that this process was started with as a [`Role`], if it was.
#[must_use]
pub fn role() -> Option<Vec<String>> {
    env::var("BACKCAST_ROLE").ok().map(|words| words.lines().map(str::to_owned).collect())
}

/// Ends the process when its standard input ends: its parent is gone.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}
