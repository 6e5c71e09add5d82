//! Processes of this binary that draw, and print the rows of their batches.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use backcast_budget::{BoundedChild, Lines};
use backcast_core::RowIndex;

/// A process that draws; it is killed if the test fails.
pub(crate) struct LearnerProcess(Child);

impl LearnerProcess {
    /// Starts the test `name` of this binary, with entries of its environment.
    pub(crate) fn start(name: &str, given: &[(&str, &OsStr)]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .envs(given.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Takes the lines that the process prints.
    pub(crate) fn lines(&mut self) -> Lines {
        Lines::of(self.0.stdout.take().unwrap())
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait_bounded().unwrap();
    }

    pub(crate) fn wait_bounded(&mut self) -> ExitStatus {
        self.0.wait_bounded().unwrap()
    }
}

impl Drop for LearnerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Prints the rows of a batch as one line, which ends with a semicolon.
pub(crate) fn print_rows(rows: &[RowIndex]) {
    let rows: Vec<String> = rows.iter().map(RowIndex::to_string).collect();
    io::stdout().write_all((rows.join(" ") + " ;\n").as_bytes()).unwrap();
}

/// Returns the rows of the whole lines that a process printed.
pub(crate) fn printed_rows(lines: impl Iterator<Item = io::Result<String>>) -> Vec<i64> {
    let lines = lines.map_while(Result::ok).filter(|line| line.ends_with(';'));
    let numbers = |line: String| {
        let words = line.split_whitespace().filter_map(|word| word.parse().ok());
        words.collect::<Vec<i64>>()
    };
    lines.flat_map(numbers).collect()
}
