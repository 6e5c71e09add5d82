//! Pipes that close, disks that are full, colours, and Ctrl-C: every command at its edges.

use std::fs::File;
use std::io::pipe;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use backcast_budget::{BoundedChild, BoundedCommand};

use crate::shelf::pty::Pty;
use crate::shelf::{Shelf, commands};
use rustix::process::{Pid, Signal, kill_process};

/// Every command except `demo`, `ui`, `serve` and `sim`, with arguments that succeed on a stocked
/// shelf.
const ANSWERED: &[&str] = &[
    "create new --column x:f4 --capacity 100",
    "--json create newer --column x:f4 --capacity 100",
    "ls",
    "--json ls",
    "stat pong",
    "--json stat prices",
    "top --interval 0.05",
    "--json top --interval 0.05",
    "panel stat prices",
    "--json panel stat prices",
    "save pong kept",
    "--json save pong later",
    "verify pong",
    "--json verify pong@kept",
    "stat pong@kept",
    "load pong@kept --as old",
    "rm old",
    "--json load pong@kept --as older",
    "rm older",
    "rm pong@kept",
    "--json rm pong@later",
    "export pong pong.parquet",
    "--json export pong pong.csv",
    "import pong.parquet in",
    "--json import pong.parquet inn",
    "rm in",
    "rm inn",
    "create held --column x:f4 --capacity 100 --queue 5 --no-learner pass",
    "limiter held",
    "--json limiter held --off",
    "rm held",
    "record --ring drawn --seeds 1 --ticks 120",
    "--json record --ring drawn2 --seeds 1 --ticks 120",
    "rm drawn",
    "rm drawn2",
    "resize new --capacity 5000",
    "--json resize newer --capacity 5000",
    "clear new",
    "--json clear newer",
    "gc --dry-run",
    "doctor",
    "--json doctor",
    "bench --seconds 0.02",
    "--json bench --seconds 0.02 --lanes 2",
    "completions zsh",
    "man",
    "help",
    "help stat",
    "--help",
    "--version",
    "rm new",
    "--json rm newer",
];

fn arguments(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// `| head -0`: the reader has gone before the first byte.
#[test]
fn a_reader_that_has_gone_is_no_error_for_any_command() {
    let shelf = Shelf::stocked();
    for line in ANSWERED {
        // The doctor's findings about the machine do not concern the pipe.
        let expected = if line.contains("doctor") { shelf.run(&["doctor"]).status } else { 0 };
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = shelf.command();
        command.args(arguments(line)).stdout(writer).stderr(Stdio::piped());
        let output = command.spawn().unwrap().output_bounded().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{line}: {err}");
        assert!(!err.contains("error") && !err.contains("panicked"), "{line}: {err}");
    }
    let names: Vec<String> = shelf.states().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["pong", "twin", "prices", "twin"], "what was made was removed");
}

#[test]
fn every_command_is_among_those_answered() {
    // These have tests of their own: demo and page are other programs, the daemon does not end, and
    // `sim facts` may exit with 1.
    let apart = ["demo", "ui", "serve", "sim"];
    for command in commands(&Shelf::new()).iter().filter(|name| !apart.contains(&name.as_str())) {
        let among = ANSWERED.iter().any(|line| arguments(line).contains(&command.as_str()));
        assert!(among, "{command} is missing");
    }
}

#[test]
fn a_refusal_without_a_reader_keeps_its_status() {
    let shelf = Shelf::stocked();
    for (line, status) in [("lss", 2), ("stat zebra", 3), ("stat twin", 2), ("man --into /no", 2)] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let ended = shelf.command().args(arguments(line)).stderr(writer).status_bounded().unwrap();
        assert_eq!(ended.code(), Some(status), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_problem_of_every_command() {
    let shelf = Shelf::stocked();
    for line in ANSWERED {
        // `gc` prints nothing to stdout if there is nothing to collect.
        if line.starts_with("gc") {
            continue;
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = shelf.command();
        command.args(arguments(line)).stdout(full).stderr(Stdio::piped());
        let output = command.spawn().unwrap().output_bounded().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {err}");
        assert!(err.contains("cannot write the result to stdout"), "{line}: {err}");
    }
}

/// Returns whether anything on the screen is bold, underlined or coloured.
fn is_styled(screen: &vt100::Screen) -> bool {
    let (rows, columns) = screen.size();
    (0..rows.get()).any(|row| {
        (0..columns.get()).any(|column| {
            screen.cell(row, column).is_some_and(|cell| {
                cell.bold() || cell.underline() || cell.fgcolor() != vt100::Color::Default
            })
        })
    })
}

#[test]
fn help_and_refusals_are_styled_on_a_terminal_by_default() {
    let shelf = Shelf::new();
    for (line, says) in [("stat --help", "Usage"), ("lss", "unrecognized"), ("create", "required")]
    {
        for (name, value, styled) in
            [("LANG", "C", true), ("NO_COLOR", "1", false), ("NO_COLOR", "", true)]
        {
            let mut command = shelf.command();
            command.env_remove("NO_COLOR").args(arguments(line)).env(name, value);
            let mut pty = Pty::spawn(command, 60, 100);
            pty.wait_for(line, |screen| screen.contents().contains(says));
            let (_, screen) = pty.finish();
            assert_eq!(is_styled(&screen), styled, "{line} with {name}={value}");
        }
        let piped = shelf.run(&arguments(line));
        assert!(!piped.out.contains('\u{1b}') && !piped.err.contains('\u{1b}'), "{line}");
    }
}

#[test]
fn tables_are_plain_on_a_terminal() {
    let shelf = Shelf::stocked();
    for line in ["ls", "stat pong", "doctor"] {
        let mut command = shelf.command();
        command.env_remove("NO_COLOR").args(arguments(line));
        let (_, screen) = Pty::spawn(command, 60, 200).finish();
        assert!(!is_styled(&screen) && !screen.contents().is_empty(), "{line}");
    }
}

/// Both commands wait for the content of a pipe, which never comes, until Ctrl-C ends them.
#[test]
fn a_command_that_is_interrupted_dies_by_the_signal_and_leaves_nothing() {
    let shelf = Shelf::stocked();
    let before = shelf.states();
    let fifo = shelf.path().join("fifo.csv");
    let made = Command::new("mkfifo").arg(&fifo).status_bounded().expect("mkfifo is everywhere");
    assert!(made.success());
    let path = fifo.to_str().unwrap();
    for args in
        [&["create", "new", "--schema", path, "--capacity", "100"][..], &["panel", "stat", path]]
    {
        let mut command = shelf.command();
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Opening this end waits until the command has opened the other.
        let writer = File::options().write(true).open(&fifo).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        // A command that outlives the signal reads an empty file, and does not wait for ever.
        drop(writer);
        let output = child.output_bounded().unwrap();
        assert_eq!(output.status.signal(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
    assert_eq!(shelf.states(), before);
}
