//! Commands with few free descriptors: each does all of its work or says what it lacks, and calls
//! nothing damaged.

use std::process::{Command, Stdio};

use backcast_core::{
    AutoresetMode, DType, LearnedOptions, PriorityOptions, Ring, SamplerOptions, Selector,
    StepColumns, TableOptions, WriterOptions,
};
use serde_json::Value;

use crate::shelf::{Ran, Shelf, Started, schema};

/// Descriptors with which every command does its work.
const MOST: u32 = 64;
/// Rows of the ring.
const ROWS: u8 = 20;

/// Returns a shelf with a persistent ring `pong` that has a table of every kind, and a snapshot
/// `pong@one` of it.
fn stocked() -> Shelf {
    let shelf = Shelf::new();
    let options = shelf.options().lanes(1).persistent(true);
    let ring = Ring::create("pong", &schema(), options).unwrap();
    let options = WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep);
    let mut writer = ring.writer(options).unwrap();
    for row in 0..ROWS {
        let (obs, action) = ([f32::from(row); 6], [i32::from(row)]);
        let columns = StepColumns::of(ring.schema()).with("obs", &obs);
        let columns = columns.and_then(|columns| columns.with("action", &action)).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    ring.priorities(&PriorityOptions::alpha(0.6)).unwrap().update(&[3], &[5.0]).unwrap();
    let learned = LearnedOptions::new("learned").column("value", DType::F32);
    ring.learned(&learned).unwrap().update("value", &[3], &[0.5_f32]).unwrap();
    let queue = Selector::Table(TableOptions::consume("queue"));
    ring.sampler(SamplerOptions::seeded(1).selector(queue)).unwrap().sample(4).unwrap();
    drop((writer, ring));
    shelf.run(&["save", "pong", "one"]).expect(0);
    shelf
}

/// Runs the binary with at most `limit` descriptors.
fn run(shelf: &Shelf, limit: u32, args: &[&str]) -> Ran {
    let binary = shelf.command();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$1\" && shift && exec \"$@\"", "sh"]);
    command.arg(limit.to_string()).arg(binary.get_program()).args(args);
    for (name, value) in binary.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.current_dir(shelf.path()).stdin(Stdio::null());
    Started::spawn(command).ended()
}

/// Runs a command with more and more descriptors until it succeeds, and returns what it printed.
fn first_success(shelf: &Shelf, args: &[&str]) -> Vec<Value> {
    // Fewer do not start a program.
    let least = 4;
    for limit in least..MOST {
        let ran = run(shelf, limit, &[&["--json"], args].concat());
        for wrong in ["damaged", "corrupt", "backup", "is not in the store", "no ring"] {
            assert!(!ran.err.contains(wrong), "{args:?} with {limit}: {}", ran.err);
        }
        if ran.status == 0 {
            assert!(limit > least, "{args:?}: it needs no descriptors");
            return ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
    }
    panic!("{args:?}: it never succeeds");
}

#[test]
fn a_list_has_every_object_or_fails() {
    let shelf = stocked();
    let names: Vec<String> = first_success(&shelf, &["ls"])
        .iter()
        .map(|object| object["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["pong", "pong@one"]);
}

#[test]
fn statistics_have_every_table_or_fail() {
    let shelf = stocked();
    let stat = first_success(&shelf, &["stat", "pong"]).remove(0);
    for (key, name) in [("tables", "priority"), ("claims", "queue"), ("learned", "learned")] {
        assert_eq!(stat[key][0]["name"], name, "{stat}");
    }
    assert_eq!(stat["unreadable_tables"], Value::Array(Vec::new()));
}

#[test]
fn a_snapshot_has_every_table_or_is_not_made() {
    let shelf = stocked();
    let saved = first_success(&shelf, &["save", "pong", "two"]).remove(0);
    assert_eq!(saved["left_out"], Value::Array(Vec::new()), "{saved}");
    assert_eq!(saved["rows"], ROWS);
    shelf.run(&["load", "pong@two", "--as", "again"]).expect(0);
    let again = shelf.json(&["stat", "again"]).remove(0);
    for key in ["tables", "claims", "learned"] {
        assert_eq!(again[key].as_array().unwrap().len(), 1, "{key}: {again}");
    }
}

#[test]
fn a_check_and_a_load_call_nothing_damaged() {
    let shelf = stocked();
    assert_eq!(first_success(&shelf, &["verify", "pong@one"]).len(), 1);
    assert_eq!(first_success(&shelf, &["load", "pong@one", "--as", "again"]).len(), 1);
}
