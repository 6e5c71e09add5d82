//! Prints results and messages as tables or JSON lines.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Stderr, StderrLock, Stdout, StdoutLock, Write};

pub(crate) use backcast_core::plumbing::printable;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::cli::exit_status::{Exit, OutputError};

/// Output stream of results or messages.
pub trait Stream: Write {
    /// Returns whether the stream is a terminal, which allows colours and live views.
    fn is_terminal(&self) -> bool {
        false
    }
}

impl Stream for Vec<u8> {}

macro_rules! standard_streams {
    ($($stream:ty),*) => {
        $(impl Stream for $stream {
            fn is_terminal(&self) -> bool {
                IsTerminal::is_terminal(self)
            }
        })*
    };
}

standard_streams!(Stdout, StdoutLock<'_>, Stderr, StderrLock<'_>);

/// JSON of a message.
#[derive(Debug, Serialize)]
struct Line<'a> {
    level: &'static str,
    message: &'a str,
    /// `None` for a note or a warning.
    exit_status: Option<u8>,
}

/// Serialises a value as one line without control characters. `serde_json` escapes those below
/// U+0020; terminals also obey those from U+007F to U+009F.
fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    let mut line = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        // JSON has control characters only in strings.
        if c.is_control() {
            let _ = write!(line, "\\u{:04x}", u32::from(c));
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    Ok(line)
}

/// Output streams of a command and the format of its results.
pub(crate) struct Console<'a> {
    out: Outlet<'a>,
    err: Outlet<'a>,
    json: bool,
}

impl<'a> Console<'a> {
    pub(crate) fn new(out: &'a mut dyn Stream, err: &'a mut dyn Stream, json: bool) -> Self {
        Self { out: Outlet::new(out), err: Outlet::new(err), json }
    }

    /// Returns whether results are JSON lines.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Prints a line of a result.
    pub(crate) fn text(&mut self, line: &str) {
        self.text_raw(&printable(line));
        self.text_raw("\n");
    }

    /// Prints formatted text, such as help, as a result.
    pub(crate) fn text_raw(&mut self, text: &str) {
        self.out.write(text);
    }

    /// Prints a note, or a warning that begins with `warning: `.
    pub(crate) fn note(&mut self, line: &str) {
        let (level, message) = match line.strip_prefix("warning: ") {
            Some(warning) => ("warning", warning),
            None => ("note", line),
        };
        self.message(line, &Line { level, message, exit_status: None });
    }

    /// Prints the error that stops the command, with its exit status.
    pub(crate) fn error(&mut self, why: &str, exit_status: u8) {
        let line = format!("error: {why}");
        let message = Line { level: "error", message: why, exit_status: Some(exit_status) };
        self.message(&line, &message);
    }

    fn message(&mut self, line: &str, message: &Line<'_>) {
        match json_line(message) {
            Ok(json) if self.json => self.err.write(&json),
            _ => self.err.write(&(printable(line) + "\n")),
        }
    }

    /// Prints formatted text, such as a usage error, as a message.
    pub(crate) fn note_raw(&mut self, text: &str) {
        self.err.write(text);
    }

    /// Prints a result as a JSON line.
    pub(crate) fn object(&mut self, value: &impl Serialize) {
        match json_line(value) {
            Ok(line) => self.out.write(&line),
            Err(error) => self.out.failure = Some(error.into()),
        }
    }

    /// Prints a table without borders, which `cut` and `awk` can parse.
    pub(crate) fn table(&mut self, columns: &[(&str, Align)], rows: &[Vec<String>]) {
        let mut table = Table::new();
        table.force_no_tty().load_style(presets::NOTHING);
        if columns.iter().any(|(title, _)| !title.is_empty()) {
            table.set_header(columns.iter().map(|(title, _)| *title));
        }
        table.add_rows(rows.iter().map(|row| row.iter().map(|cell| printable(cell))));
        for (column, (_, align)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2)).set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        for line in table.lines() {
            self.text_raw(line.trim_end());
            self.text_raw("\n");
        }
    }

    /// Prints names and values, one pair per line.
    pub(crate) fn facts(&mut self, facts: &[Vec<String>]) {
        self.table(&[("", Align::Left), ("", Align::Left)], facts);
    }

    /// Returns whether results go to a terminal.
    pub(crate) fn out_is_terminal(&self) -> bool {
        self.out.stream.is_terminal()
    }

    /// Returns whether results may be coloured.
    pub(crate) fn colours(&self) -> bool {
        self.out.colours()
    }

    /// Returns whether messages may be coloured.
    pub(crate) fn styled_notes(&self) -> bool {
        self.err.colours()
    }

    /// Returns the terminal of the results, for a full-screen view.
    pub(crate) fn terminal(&mut self) -> &mut dyn Stream {
        self.out.stream
    }

    /// Flushes the results. Returns false if they can no longer be written, such as to a closed
    /// pipe.
    pub(crate) fn flush(&mut self) -> bool {
        self.out.flush();
        !self.out.closed
    }

    /// Flushes both streams. Returns the stream of messages for another writer, such as the demo.
    pub(crate) fn messages(&mut self) -> Result<&mut dyn Write, OutputError> {
        self.out.stream.flush().map_err(OutputError)?;
        self.err.stream.flush().map_err(OutputError)?;
        Ok(self.err.stream)
    }

    /// Flushes both streams, and returns the exit status. If a result could not be written, "done"
    /// becomes "found problems"; a closed pipe does not count.
    pub(crate) fn finish(mut self, status: u8) -> u8 {
        self.out.flush();
        let lost = self.out.failure.take();
        let status = if lost.is_some() && status == Exit::Done.status() {
            Exit::FoundProblems.status()
        } else {
            status
        };
        if let Some(error) = &lost {
            self.error(&format!("cannot write the result to stdout: {error}"), status);
        }
        self.err.flush();
        status
    }
}

/// Alignment of a table column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A stream that ignores a closed pipe: `backcast ls | head -1` is not an error.
struct Outlet<'a> {
    stream: &'a mut dyn Stream,
    closed: bool,
    failure: Option<io::Error>,
}

impl<'a> Outlet<'a> {
    fn new(stream: &'a mut dyn Stream) -> Self {
        Self { stream, closed: false, failure: None }
    }

    fn colours(&self) -> bool {
        self.stream.is_terminal() && colours_wanted(|name| std::env::var_os(name))
    }

    fn write(&mut self, text: &str) {
        if !self.closed {
            let result = self.stream.write_all(text.as_bytes());
            self.note(result);
        }
    }

    fn flush(&mut self) {
        if !self.closed {
            let result = self.stream.flush();
            self.note(result);
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        self.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.failure = Some(error);
        }
    }
}

/// Returns whether the environment allows colours: `NO_COLOR` is unset or empty, and `TERM` names
/// a terminal other than `dumb`.
fn colours_wanted(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_json_where_results_are() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::new(&mut out, &mut err, true);
        console.note("nothing to collect");
        console.note("warning: larger than asked");
        console.error("no `a\u{1b}\u{9b}\u{7f}`\nat all", 3);
        console.object(&"\u{9b}ü");
        assert_eq!(console.finish(3), 3);
        assert_eq!(String::from_utf8(out).unwrap(), "\"\\u009bü\"\n");
        let lines = String::from_utf8(err).unwrap();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"level":"note","message":"nothing to collect","exit_status":null}"#,
                r#"{"level":"warning","message":"larger than asked","exit_status":null}"#,
                r#"{"level":"error","message":"no `a\u001b\u009b\u007f`\nat all","exit_status":3}"#,
            ]
        );
    }

    #[test]
    fn no_control_sequence_reaches_a_terminal() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::new(&mut out, &mut err, false);
        console.facts(&[vec!["name".to_owned(), "\u{1b}[31mred\u{7}".to_owned()]]);
        console.note("\u{1b}]0;title");
        assert_eq!(console.finish(0), 0);
        for (stream, text) in [(out, "[31mred"), (err, "]0;title")] {
            let stream = String::from_utf8(stream).unwrap();
            assert!(stream.contains(text) && !stream.contains(['\u{1b}', '\u{7}']), "{stream:?}");
        }
    }
}
