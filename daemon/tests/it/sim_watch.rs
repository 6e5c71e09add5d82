//! `backcast sim watch`: as text, as JSON, and in a terminal.

use std::process::Stdio;

use crate::shelf::Shelf;
use crate::shelf::pty::Pty;
use backcast_budget::{BoundedChild, Lines};
use rustix::process::Signal;
use serde_json::Value;

fn watch(shelf: &Shelf, args: &[&str]) -> crate::shelf::Ran {
    shelf.run(&[&["sim", "watch"], args].concat())
}

#[test]
fn frames_are_text_where_there_is_no_terminal() {
    let shelf = Shelf::new();
    let ran = watch(&shelf, &["--frames", "2", "--seed", "5", "--ticks", "600"]).expect(0);
    assert!(ran.err.is_empty() && !ran.out.contains('\u{1b}'), "{}", ran.out);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2 * 23);
    assert!(lines.iter().all(|line| line.chars().count() <= 80 && line.trim_end() == *line));
    assert!(lines[0].starts_with("backcast sim watch  normal seed 5  tick 600"), "{}", lines[0]);
    assert!(lines[23].contains("tick 606"), "{}", lines[23]);
    for text in ["mid 1", "PRICE  SHARES", "AGENTS", "executor", "TRADE", "ticks ago"] {
        assert!(ran.out.contains(text), "`{text}` is missing:\n{}", ran.out);
    }
    let again = watch(&shelf, &["--frames", "2", "--seed", "5", "--ticks", "600", "--plain"]);
    assert_eq!(again.expect(0).out, ran.out, "equal seeds show equal markets");
}

#[test]
fn json_frames_go_on_until_the_reader_leaves() {
    let shelf = Shelf::new();
    let mut command = shelf.command();
    command.args(["--json", "sim", "watch", "--symbols", "2", "--speed", "50"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(child.stdout.take().unwrap());
    let mut frame = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let frames: Vec<Value> = (0..6).map(|_| frame()).collect();
    let place =
        |frame: &Value| (frame["tick"].as_u64().unwrap(), frame["symbol"].as_u64().unwrap());
    let places: Vec<_> = frames.iter().map(place).collect();
    assert_eq!(places, [(1_200, 0), (1_200, 1), (1_205, 0), (1_205, 1), (1_210, 0), (1_210, 1)]);
    assert!(frames[0]["best_bid"].as_f64() < frames[0]["best_ask"].as_f64());
    drop(lines);
    assert_eq!(child.wait_bounded().unwrap().code(), Some(0));
}

#[test]
fn wrong_usage_is_one_clear_error() {
    let shelf = Shelf::new();
    for (args, named) in [
        (&[][..], "stdout is not a terminal; give --frames COUNT"),
        (&["--plain"], "--frames"),
        (&["--preset", "stresed"], "did you mean stressed?"),
        (&["--symbols", "65"], "from 1 to 64"),
    ] {
        let ran = watch(&shelf, args).expect(2);
        assert!(ran.err.contains(named) && ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_person_watches_a_market_and_leaves_a_clean_terminal() {
    let shelf = Shelf::new();
    let mut command = shelf.command();
    command.args(["sim", "watch", "--symbols", "2", "--speed", "200"]).env_remove("NO_COLOR");
    let mut pty = Pty::spawn(command, 24, 80);
    pty.wait_for("a market that runs", |screen| {
        let text = screen.contents();
        let tick = text.split("tick ").nth(1).and_then(|rest| rest.split(' ').next());
        let tick = tick.and_then(|tick| tick.replace(',', "").parse::<u64>().ok());
        screen.alternate_screen() && tick.is_some_and(|tick| tick > 1_240)
    });
    assert!(pty.is_raw());
    pty.send(">");
    pty.wait_for("the other symbol", |screen| screen.contents().contains("symbol 1/2"));
    pty.send("k");
    pty.wait_for("twice the speed", |screen| screen.contents().contains("400 ticks/s"));
    pty.send("\r");
    pty.wait_for("the pause", |screen| screen.contents().contains("paused"));
    pty.resize(40, 120);
    pty.wait_for("the larger view", |screen| {
        screen.contents().lines().nth(39).is_some_and(|line| line.contains("q quit"))
    });
    pty.resize(20, 60);
    pty.wait_for("the needed size", |screen| screen.contents().contains("needs 80 x 24"));
    pty.send("q");
    let (status, screen) = pty.finish();
    assert!(status.success() && !screen.alternate_screen() && !screen.hide_cursor());
}

#[test]
fn a_signal_ends_the_view_and_restores_the_terminal() {
    let shelf = Shelf::new();
    let mut command = shelf.command();
    command.args(["sim", "watch"]);
    let mut pty = Pty::spawn(command, 24, 80);
    pty.wait_for("the view", |screen| screen.contents().contains("AGENTS"));
    pty.signal(Signal::TERM);
    let (status, screen) = pty.finish();
    assert_eq!(status.code(), Some(143));
    assert!(!screen.alternate_screen());
}
