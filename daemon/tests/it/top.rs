//! `backcast top` against rings that another process fills: as lines, and in a terminal.

use std::io::Read;
use std::process::{Child, Stdio};

use crate::shelf::pty::Pty;
use crate::shelf::{Shelf, role, schema, set_by_the_parent};
use backcast_budget::{BoundedChild, Lines, until};
use backcast_core::{AutoresetMode, Base, Ring, SamplerOptions, StepColumns, WriterOptions};
use rustix::process::Signal;
use serde_json::Value;

/// Set in a process that [`Filler::spawn`] started: the directory of its ring.
const FILL_IN: &str = "BACKCAST_TEST_FILL_IN";

/// A process that makes the ring `fast`, fills lane 0 and draws from it until it is killed.
struct Filler {
    child: Child,
}

impl Filler {
    /// Starts the process. Returns once there are rows and batches.
    fn spawn(shelf: &Shelf) -> Self {
        let mut child = role("top::a_process_that_fills_a_ring")
            .env(FILL_IN, shelf.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Lines::of(child.stdout.take().unwrap()).wait_for("filling");
        Self { child }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

/// The role of [`Filler`].
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_fills_a_ring() {
    let dir = set_by_the_parent(FILL_IN);
    let options = backcast_core::RingOptions::with_capacity(1_000_u64).lanes(2);
    let base = Base::at(std::path::PathBuf::from(dir));
    let ring = Ring::create("fast", &schema(), options.base(base)).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    let mut sampler = ring.sampler(SamplerOptions::seeded(7)).unwrap();
    // Ends with the parent, whose end of the pipe closes.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    for round in 0_u32.. {
        for t in 0..50_u8 {
            let (obs, action) = ([0.25_f32; 6], [i32::from(t)]);
            let columns = StepColumns::of(ring.schema());
            let columns = columns.with("obs", &obs).and_then(|c| c.with("action", &action));
            writer.append(&columns.unwrap().step(&[t == 49], &[false]).unwrap()).unwrap();
        }
        sampler.sample(32).unwrap();
        if round == 0 {
            println!("filling");
        }
        // Leaves processor time to the tested program.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn live(shelf: &Shelf, args: &[&str]) -> Pty {
    let mut command = shelf.command();
    command.arg("top").args(args).args(["--interval", "0.1"]).env_remove("NO_COLOR");
    Pty::spawn(command, 24, 120)
}

#[test]
fn without_a_terminal_one_table_comes_with_rates() {
    let shelf = Shelf::stocked();
    let _filler = Filler::spawn(&shelf);
    let ran = shelf.run(&["top", "--interval", "0.2"]).expect(0);
    assert!(ran.err.is_empty() && !ran.out.contains('\u{1b}'), "{}", ran.out);
    for text in ["rings take", "RING", "ROWS/S", "BATCH/S", "fast", "pong", "twin", "held", "idle"]
    {
        assert!(ran.out.contains(text), "`{text}` is missing:\n{}", ran.out);
    }
    assert!(!ran.out.contains("prices"), "panels are no rings:\n{}", ran.out);
    let named = shelf.run(&["top", "fast", "--once", "--interval", "0.1"]).expect(0).out;
    assert!(named.contains("LANE") && !named.contains("pong"), "{named}");
}

#[test]
fn json_is_one_frame_per_interval_until_the_reader_leaves() {
    let shelf = Shelf::stocked();
    let filler = Filler::spawn(&shelf);
    let mut command = shelf.command();
    command.args(["--json", "top", "fast", "--interval", "0.1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(child.stdout.take().unwrap());
    let mut frame = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut first = frame();
    // Rates are 0 in a frame during which the filler did not run.
    until("a frame with rates", || {
        let rates = ["publish_rate_per_s", "batch_rate_per_s", "sample_rate_per_s"];
        let is_filled = rates.iter().all(|rate| first["rings"][0][*rate].as_f64().unwrap() > 0.0);
        if !is_filled {
            first = frame();
        }
        is_filled
    });
    let ring = &first["rings"][0];
    assert_eq!((&ring["name"], &ring["state"]), (&"fast".into(), &"held".into()));
    assert_eq!(ring["readers"], 1);
    assert_eq!(ring["lanes"][0]["writer_pid"], filler.child.id());
    assert!(ring["lanes"][0]["publish_rate_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(ring["lanes"][1]["publish_rate_per_s"], 0.0);
    let second = frame();
    assert!(second["at_unix_ns"].as_u64() > first["at_unix_ns"].as_u64());
    assert!(second["limits"][0]["limit_bytes"].as_u64().unwrap() > 0);
    drop(lines);
    let output = child.output_bounded().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn watching_keeps_no_ring_alive() {
    let shelf = Shelf::new();
    let filler = Filler::spawn(&shelf);
    let mut command = shelf.command();
    command.args(["--json", "top", "--interval", "0.05"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = Lines::of(child.stdout.take().unwrap());
    let mut states = || -> Vec<Value> {
        let frame: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        frame["rings"].as_array().unwrap().iter().map(|ring| ring["state"].clone()).collect()
    };
    assert_eq!(states(), ["held"]);
    drop(filler);
    // If `top` had the ring open when the filler died, `top` may have closed it last and removed
    // it.
    until("it is let go", || states().first().is_none_or(|state| state != "held"));
    let after = states();
    assert!(after.is_empty() || after == ["orphaned"], "{after:?}");
    shelf.run(&["gc"]).expect(0);
    until("it is gone", || states().is_empty());
    child.kill().unwrap();
    child.wait_bounded().unwrap();
    assert_eq!(shelf.states(), []);
}

#[test]
fn a_person_looks_at_rings_lanes_and_rows_and_leaves_a_clean_terminal() {
    let shelf = Shelf::stocked();
    let _filler = Filler::spawn(&shelf);
    let mut pty = live(&shelf, &[]);
    pty.wait_for("rings with rates", |screen| {
        let text = screen.contents();
        let row = text.lines().find(|line| line.starts_with("fast")).map(str::to_owned);
        screen.alternate_screen()
            && text.contains("RINGv")
            && row.is_some_and(|row| row.contains(" s ") && row.contains("held"))
    });
    assert!(pty.is_raw());
    pty.send("?");
    pty.wait_for("help", |screen| screen.contents().contains("reverse the order"));
    pty.send("?");
    pty.wait_for("rings again", |screen| screen.contents().contains("twin"));
    pty.send(">");
    pty.wait_for("the order", |screen| screen.contents().contains("FILLv"));
    pty.send("r");
    pty.wait_for("the other order", |screen| screen.contents().contains("FILL^"));
    pty.send("<rk\x1b[5~\r");
    pty.wait_for("the lanes of the first ring", |screen| {
        let text = screen.contents();
        text.contains("ring fast: held") && text.contains("WRITER") && text.contains("pid ")
    });
    pty.send("\r");
    pty.wait_for("rows", |screen| {
        let text = screen.contents();
        text.contains("lane 0: the newest rows")
            && text.contains("[0.25 0.25 0.25 0.25 .. 6 in all]")
    });
    pty.send("\x1b");
    pty.wait_for("lanes again", |screen| screen.contents().contains("WRITER"));
    pty.send("q");
    let (status, screen) = pty.finish();
    assert_eq!(status.code(), Some(0));
    assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
    assert!(!screen.contents().contains("WRITER"), "the other screen is gone");
}

#[test]
fn rings_that_come_and_go_are_followed_at_any_size() {
    let shelf = Shelf::new();
    let mut pty = live(&shelf, &[]);
    pty.wait_for("nothing", |screen| screen.contents().contains("no rings here"));
    let create = ["create", "late", "--column", "x:f4", "--capacity", "100"];
    shelf.run(&create).expect(0);
    pty.wait_for("the new one", |screen| {
        screen.contents().contains("late") && screen.contents().contains("DROPPED")
    });
    pty.resize(10, 40);
    pty.wait_for("a narrow table", |screen| {
        let text = screen.contents();
        text.contains("late") && !text.contains("DROPPED") && text.contains("ROWS/S")
    });
    pty.resize(24, 120);
    pty.wait_for("a wide table", |screen| screen.contents().contains("DROPPED"));
    shelf.run(&["rm", "late"]).expect(0);
    pty.wait_for("nothing again", |screen| screen.contents().contains("no rings here"));
    pty.send("\x03");
    let (status, screen) = pty.finish();
    assert_eq!(status.code(), Some(0), "Ctrl-C is a key here");
    assert!(!screen.alternate_screen());
}

#[test]
fn signals_give_the_terminal_back() {
    let shelf = Shelf::stocked();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut pty = live(&shelf, &["pong"]);
        pty.wait_for("the ring", |screen| {
            screen.contents().contains("pong") && screen.alternate_screen()
        });
        pty.signal(signal);
        let (ended, screen) = pty.finish();
        assert_eq!(ended.code(), Some(status), "{signal:?}");
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{signal:?}");
    }
    // Lines end in order, too.
    let mut command = shelf.command();
    command.args(["--json", "top", "--interval", "0.05"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = Lines::of(child.stdout.take().unwrap());
    lines.next().unwrap().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert!(lines.all(|line| line.is_ok_and(|line| line.ends_with('}'))), "whole lines");
    assert_eq!(child.wait_bounded().unwrap().code(), Some(130));
}

#[test]
fn a_terminal_that_closes_ends_the_view() {
    let shelf = Shelf::stocked();
    let mut pty = live(&shelf, &[]);
    pty.wait_for("the rings", |screen| screen.contents().contains("pong"));
    assert_eq!(pty.close().code(), Some(129), "as SIGHUP, which comes to a session's leader alone");
}

#[test]
fn a_signal_ends_the_view_while_its_terminal_takes_nothing() {
    let shelf = Shelf::stocked();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut pty = live(&shelf, &[]);
        pty.wait_for("the rings", |screen| screen.contents().contains("pong"));
        pty.fill_up();
        pty.signal(signal);
        assert_eq!(pty.end_unread().code(), Some(status), "{signal:?}");
    }
}

#[test]
fn nohup_keeps_it_going_when_its_terminal_is_hung_up() {
    let shelf = Shelf::stocked();
    let mut command = std::process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_backcast")).env("BACKCAST_DIR", shelf.path());
    command.args(["--json", "top", "--interval", "0.05"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = Lines::of(child.stdout.take().unwrap());
    lines.next().unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    for _ in 0..3 {
        lines.next().expect("it goes on").unwrap();
    }
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!((lines.count(), child.wait_bounded().unwrap().code()).1, Some(143));
}

#[test]
fn no_color_means_none() {
    let shelf = Shelf::stocked();
    for (value, coloured) in [(None, true), (Some("1"), false)] {
        // A damaged ring is red where colours are wanted.
        std::fs::write(shelf.object("pong.ring").join("ring.ctl"), "").unwrap();
        let mut command = shelf.command();
        command.args(["top", "--interval", "0.1"]).env_remove("NO_COLOR");
        if let Some(value) = value {
            command.env("NO_COLOR", value);
        }
        let mut pty = Pty::spawn(command, 24, 100);
        pty.wait_for("the ring", |screen| screen.contents().contains("damaged"));
        let red = |screen: &vt100::Screen| {
            (0..24).any(|row| {
                (0..100).any(|column| {
                    screen.cell(row, column).is_some_and(|c| c.fgcolor() != vt100::Color::Default)
                })
            })
        };
        if coloured {
            pty.wait_for("colours", red);
        }
        pty.send("q");
        pty.wait_for("the end", |screen| {
            assert!(coloured || !red(screen), "colours");
            !screen.alternate_screen()
        });
        pty.finish();
    }
}
