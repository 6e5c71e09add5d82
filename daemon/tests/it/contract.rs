//! Contracts with other programs: meaning of the numbers in JSON, and the help.

use std::fs;

use crate::shelf::{Shelf, commands, commands_of, schema};
use backcast_core::{Ring, StepColumns};
use serde_json::Value;

#[test]
fn numbers_mean_what_their_keys_say() {
    let shelf = Shelf::new();
    let args = "create pong --column obs:f4:2x3 --column day:i4::obs --column action:i8 \
                --capacity 10_000 --lanes 4";
    let created = shelf.json(&args.split_whitespace().collect::<Vec<_>>());
    let pick = |key: &str| created[0][key].as_u64().unwrap();
    assert_eq!((pick("lane_count"), pick("lane_capacity_rows")), (4, 2_500));
    assert_eq!(pick("capacity_rows"), 10_000);
    // 24 + 4 + 8 bytes of the ring's own columns, and the built-in seq u64, episode u64, t u32,
    // flags u32.
    assert_eq!(pick("row_bytes"), 60);
    assert!(pick("lane_slots_rows") >= 2_500);
    assert!(pick("allocated_bytes") >= pick("asked_bytes"));
    let columns: Vec<String> = created[0]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {} {} {}", c["name"], c["dtype"], c["shape"], c["role"]))
        .collect();
    assert_eq!(
        columns,
        [r#""obs" "f4" [2,3] "obs""#, r#""day" "i4" [] "obs""#, r#""action" "i8" [] "step""#]
    );
}

#[test]
fn a_schema_file_and_the_same_columns_on_the_line_make_the_same_ring() {
    let shelf = Shelf::new();
    let file = shelf.path().join("schema.json");
    fs::write(&file, r#"{"reward": "f4", "obs": {"x": ["u1", [8, 8]]}, "day": ["i4", [], "obs"]}"#)
        .unwrap();
    let path = file.to_str().unwrap();
    let from_file = shelf.json(&["create", "a", "--schema", path, "--capacity", "1000"]);
    let args = "create b --column reward:f4 --column obs/x:u1:8x8 --column day:i4::obs \
                --capacity 1000";
    let from_line = shelf.json(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!(from_file[0]["columns"], from_line[0]["columns"]);
    assert_eq!(from_file[0]["columns"].as_array().unwrap().len(), 3);
}

#[test]
fn a_panel_is_described_by_its_days_tickers_and_columns() {
    let shelf = Shelf::stocked();
    let panel = &shelf.json(&["stat", "prices"])[0];
    assert_eq!(panel["days"], 2);
    assert_eq!(
        (&panel["first_date"], &panel["last_date"]),
        (&Value::from("2024-01-02"), &Value::from("2024-01-03"))
    );
    assert_eq!(panel["tickers"], Value::from(vec!["AAPL", "VIX"]));
    assert_eq!(panel["macro_tickers"], Value::from(vec!["VIX"]));
    assert_eq!(
        panel["columns"],
        Value::from(vec!["open", "high", "low", "close", "volume", "rsi"])
    );
}

#[test]
fn tables_speak_human_and_hold_the_same_facts() {
    let shelf = Shelf::stocked();
    let ls = shelf.run(&["ls"]).expect(0);
    for text in ["NAME", "STATE", "SIZE", "LANES", "pong", "idle", "KiB", "2 days of 2 tickers"] {
        assert!(ls.out.contains(text), "`{text}` is missing:\n{}", ls.out);
    }
    let ring = shelf.run(&["stat", "pong"]).expect(0);
    for text in ["capacity", "1,000 rows", "COLUMN", "obs", "2x3", "scalar", "LANE", "WRITER"] {
        assert!(ring.out.contains(text), "`{text}` is missing:\n{}", ring.out);
    }
    let panel = shelf.run(&["stat", "prices"]).expect(0);
    for text in ["2024-01-02 .. 2024-01-03", "AAPL VIX", "open high low close volume rsi"] {
        assert!(panel.out.contains(text), "`{text}` is missing:\n{}", panel.out);
    }
    for ran in [ls, ring, panel] {
        assert!(ran.err.is_empty(), "{}", ran.err);
        assert!(!ran.out.contains('\u{1b}'), "no colours");
        assert!(ran.out.lines().all(|line| line.trim_end() == line), "no trailing blanks");
    }
}

#[test]
fn a_ring_that_is_held_names_the_writer_of_each_lane_and_its_readers() {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options()).unwrap();
    let mut writer = ring.writer(backcast_core::WriterOptions::lanes(1)).unwrap();
    let _sampler = ring.sampler(backcast_core::SamplerOptions::seeded(7)).unwrap();
    let (obs, action) = ([0.5_f32; 6], [1_i32]);
    for _ in 0..8 {
        let columns = StepColumns::of(ring.schema());
        let columns = columns.with("obs", &obs).and_then(|c| c.with("action", &action));
        writer.append(&columns.unwrap().step(&[false], &[false]).unwrap()).unwrap();
    }
    let _lease = ring.lease(0, 2..6).unwrap();
    let stat = &shelf.json(&["stat", "pong"])[0];
    assert_eq!(stat["state"], "held");
    assert_eq!(stat["lanes"][0]["held"], true);
    assert_eq!(stat["lanes"][0]["writer_pid"], std::process::id());
    assert_eq!(stat["lanes"][1]["held"], false);
    assert_eq!(stat["readers"][0]["pid"], std::process::id());
    let table = shelf.run(&["stat", "pong"]).expect(0).out;
    assert!(table.contains("READER") && table.contains("pid "), "{table}");
    assert_eq!((&stat["pins"][0]["start_seq"], &stat["pins"][0]["lane"]), (&2.into(), &0.into()));
    assert_eq!(stat["readers"][1]["leases"], 1);
    assert!(table.contains("lane 0 from 2"), "{table}");
}

#[test]
fn an_allocation_above_twice_the_asked_is_warned_about_on_stderr() {
    let shelf = Shelf::new();
    let tiny = ["create", "tiny", "--column", "x:u1", "--capacity", "8", "--lanes", "4"];
    let ran = shelf.run(&tiny).expect(0);
    assert!(ran.err.contains("warning") && ran.err.contains("allocated"), "{}", ran.err);
    assert!(!ran.out.contains("warning"));
}

#[test]
fn help_shows_statuses_and_examples_of_every_command() {
    let shelf = Shelf::new();
    let top = shelf.run(&["--help"]).expect(0);
    for text in ["0 done", "1 found problems", "2 wrong usage", "3 no such object"] {
        assert!(top.out.contains(text), "`{text}` is missing:\n{}", top.out);
    }
    let listed = commands(&shelf);
    assert!(listed.len() > 8, "{listed:?}");
    let below = ["panel", "sim"].into_iter().flat_map(|above| {
        let below = commands_of(&shelf, &[above]);
        below.into_iter().map(move |below| format!("{above} {below}"))
    });
    for command in listed.iter().cloned().chain(below) {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = shelf.run(&args).expect(0);
        let example = format!("Examples:\n  backcast {command}");
        assert!(help.out.contains(&example), "{}", help.out);
        assert!(help.err.is_empty());
        // An example may be in JSON; whatever it shows, its command exists.
        let examples = help.out.split("Examples:\n").nth(1).unwrap_or_default().lines();
        for example in examples.filter_map(|line| line.trim_start().strip_prefix("backcast ")) {
            let typed = example.split(' ').find(|word| !word.starts_with('-'));
            assert!(listed.iter().any(|name| Some(name.as_str()) == typed), "{example}");
        }
    }
    assert!(shelf.run(&["--version"]).expect(0).out.starts_with("backcast "));
}
