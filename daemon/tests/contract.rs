//! What other programs rely on: the keys and types of every command's JSON, and the help.

mod shelf;

use std::fs;

use backcast_core::{Ring, StepColumns};
use serde_json::Value;
use shelf::{Shelf, schema};

/// Key and type, in the order of the alphabet.
fn keys(object: &Value) -> String {
    let object = object.as_object().expect("an object");
    let name = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let keys: Vec<String> = object.iter().map(|(key, v)| format!("{key}:{}", name(v))).collect();
    keys.join(" ")
}

const GEOMETRY: &str = "allocated_bytes:number asked_bytes:number capacity_rows:number \
    columns:array huge_bytes:number kind:string lane_capacity_rows:number lane_count:number lane_policy:string \
    lane_slots_rows:number lease_timeout_s:number \
    name:string path:string persistent:bool row_bytes:number";
const RING: &str = "allocated_bytes:number asked_bytes:number capacity_rows:number \
    columns:array created_unix_ns:number huge_bytes:number kind:string lane_capacity_rows:number lane_count:number \
    lane_policy:string lane_slots_rows:number lanes:array lease_timeout_s:number name:string \
    path:string persistent:bool pins:array readers:array \
    row_bytes:number rows:number rows_published:number state:string transitions:number";
const COLUMN: &str = "dtype:string name:string role:string row_bytes:number shape:array";
const LANE: &str = "dropped_rows:number episodes:number generation:number head_seq:number held:bool lane:number \
    reserved_seq:number rows:number stalls:number transitions:number writer_pid:null";
const READER: &str = "lapped_reads:number leases:number pid:number sampled_batches:number \
    sampled_rows:number slot:number stalls:number";
const PANEL: &str = "columns:array days:number first_date:string kind:string last_date:string \
    macro_tickers:array name:string path:string persistent:bool size_bytes:number state:string \
    tickers:array";
const PANEL_STAT: &str = "columns:array coverage:array data_bytes:number days:number \
    fingerprint:string first_date:string indicators:array kind:string last_date:string \
    macro_tickers:array masked_rows:number max_price:number min_price:number name:string \
    path:string persistent:bool rows:number state:string tickers:array";
const PANEL_FILE: &str = "columns:array coverage:array data_bytes:number days:number \
    fingerprint:string first_date:string indicators:array kind:string last_date:string \
    macro_tickers:array masked_rows:number max_price:number min_price:number name:null \
    path:string persistent:null rows:number state:null tickers:array";
const COVERAGE: &str = "first_date:string first_day:number is_macro:bool last_date:string \
    last_day:number max_price:number min_price:number missing_days:number rows:number \
    ticker:string";
const LISTED_RING: &str = "days:null error:null kind:string lane_count:number name:string \
    path:string persistent:bool rows:number size_bytes:number state:string tickers:null \
    transitions:number";
const LISTED_PANEL: &str = "days:number error:null kind:string lane_count:null name:string \
    path:string persistent:bool rows:null size_bytes:number state:string tickers:number \
    transitions:null";
const REMOVED: &str = "action:string kind:string name:string path:string size_bytes:number";

#[test]
fn each_command_prints_the_keys_it_has_always_printed() {
    let shelf = Shelf::new();
    shelf.panel("prices");
    let create =
        ["create", "pong", "--column", "obs:u1:84x84", "--column", "a:i4", "--capacity", "4_000"];
    let one = |args: &[&str]| {
        let mut lines = shelf.json(args);
        assert_eq!(lines.len(), 1, "{args:?}: {lines:?}");
        lines.remove(0)
    };
    let created = one(&create);
    assert_eq!(keys(&created), GEOMETRY);
    let ring = one(&["stat", "pong"]);
    assert_eq!(keys(&ring), RING);
    assert_eq!(keys(&ring["columns"][0]), COLUMN);
    assert_eq!(keys(&ring["lanes"][0]), LANE);
    assert_eq!(keys(&one(&["stat", "prices"])), PANEL);
    let panel = one(&["panel", "stat", "prices"]);
    assert_eq!(keys(&panel), PANEL_STAT);
    assert_eq!(keys(&panel["coverage"][0]), COVERAGE);
    let file = shelf.file("prices.csv", shelf::PRICES);
    assert_eq!(keys(&one(&["panel", "stat", &file])), PANEL_FILE);
    let listed = shelf.json(&["ls"]);
    let kinds: Vec<String> = listed.iter().map(keys).collect();
    assert_eq!(kinds, [LISTED_RING, LISTED_PANEL]);
    assert_eq!(keys(&one(&["rm", "prices"])), REMOVED);
}

#[test]
fn numbers_mean_what_their_keys_say() {
    let shelf = Shelf::new();
    let args = "create pong --column obs:f4:2x3 --column day:i4::obs --column action:i8 \
                --capacity 10_000 --lanes 4";
    let created = shelf.json(&args.split_whitespace().collect::<Vec<_>>());
    let pick = |key: &str| created[0][key].as_u64().unwrap();
    assert_eq!((pick("lane_count"), pick("lane_capacity_rows")), (4, 2_500));
    assert_eq!(pick("capacity_rows"), 10_000);
    // 24 + 4 + 8 of ours, and the built-in seq u64, episode u64, t u32, flags u32.
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
    assert_eq!(keys(&stat["readers"][0]), READER);
    assert_eq!(stat["readers"][0]["pid"], std::process::id());
    let table = shelf.run(&["stat", "pong"]).expect(0).out;
    assert!(table.contains("READER") && table.contains("pid "), "{table}");
    assert_eq!(keys(&stat["pins"][0]), "lane:number pid:number slot:number start_seq:number");
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
fn help_shows_examples_statuses_and_only_what_exists() {
    let shelf = Shelf::new();
    let top = shelf.run(&["--help"]).expect(0);
    for text in ["0 done", "1 found problems", "2 wrong usage", "3 no such object"] {
        assert!(top.out.contains(text), "`{text}` is missing:\n{}", top.out);
    }
    for later in ["export", "import", "verify", "bench"] {
        assert!(!top.out.contains(&format!("\n  {later}")), "{later} does not exist yet");
    }
    for command in [
        "create",
        "ls",
        "stat",
        "rm",
        "top",
        "gc",
        "panel",
        "serve",
        "doctor",
        "demo",
        "completions",
        "man",
    ] {
        assert!(top.out.contains(&format!("\n  {command}")), "{command} is not listed");
        let help = shelf.run(&[command, "--help"]).expect(0);
        let example = format!("Examples:\n  backcast {command}");
        assert!(help.out.contains(&example), "{}", help.out);
        assert!(help.err.is_empty());
    }
    assert!(shelf.run(&["--version"]).expect(0).out.starts_with("backcast "));
}
