//! Figures that are no time per iteration: rates of several threads or processes, latencies.
//!
//! They are printed, and added as JSON lines to `target/measured.jsonl`, where
//! `benches/python/criterion.py` takes them up with criterion's own.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::json;

/// What was asked for on the command line.
#[derive(Debug)]
pub struct Measured {
    filter: Option<String>,
}

impl Measured {
    /// A filter, as criterion takes one; flags are cargo's.
    #[must_use]
    pub fn from_args() -> Self {
        Self { filter: env::args().skip(1).find(|arg| !arg.starts_with('-')) }
    }

    /// Whether a metric is to be measured.
    #[must_use]
    pub fn wants(&self, metric: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| metric.contains(filter))
    }

    /// Prints and keeps all runs of a contender. A unit that ends in `/s` is better when larger.
    ///
    /// # Panics
    /// If there are none, or the file cannot be written.
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

/// This program again, as a child that does not outlive its parent: it ends when its standard input
/// does.
#[derive(Debug)]
pub struct Role(Child);

impl Role {
    /// Starts it; [`role`] returns these words there.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(words: &[&str]) -> Self {
        let program = env::current_exe().expect("a program with a path");
        let mut command = Command::new(program);
        command.env("BACKCAST_ROLE", words.join("\n"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(child.expect("the program starts again"))
    }

    /// Its process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Its standard input, to be kept.
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

/// What this process is to be, if another one started it.
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
