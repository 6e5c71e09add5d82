//! `backcast stat` as a person sees it: in a terminal, wide and narrow, with colours allowed and
//! not.

use crate::shelf::pty::Pty;
use crate::shelf::{Holder, Shelf, schema};
use backcast_core::{AutoresetMode, Ring, RingOptions, StepColumns, Writer, WriterOptions};

const LANES: u32 = 40;

/// A shelf with a ring of many lanes, each of which has another number of digits in its counters.
fn with_many_lanes() -> (Shelf, Vec<Writer>) {
    let shelf = Shelf::new();
    let options = RingOptions::with_capacity(u64::from(LANES) * 64).lanes(LANES);
    let ring = Ring::create("many", &schema(), options.base(shelf.base())).unwrap();
    let mut writers = Vec::new();
    for lane in 0..LANES {
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for row in 0..(lane * lane) {
            let (obs, action) = ([0.5_f32; 6], [i32::from(row % 2 == 0)]);
            let columns = StepColumns::of(ring.schema());
            let columns = columns.with("obs", &obs).and_then(|c| c.with("action", &action));
            writer.append(&columns.unwrap().step(&[row % 7 == 6], &[false]).unwrap()).unwrap();
        }
        writers.push(writer);
    }
    (shelf, writers)
}

/// Returns the screen of a terminal of this size, which wraps wider lines.
fn seen(shelf: &Shelf, rows: u16, columns: u16, set: (&str, &str)) -> vt100::Screen {
    let mut command = shelf.command();
    command.env_remove("NO_COLOR").args(["stat", "many"]).env(set.0, set.1);
    let (status, screen) = Pty::spawn(command, rows, columns).finish();
    assert!(status.success(), "{}", screen.contents());
    screen
}

/// Returns the lines without the age, which grows, and without the holders, since a program that is
/// ending may still be one.
fn lines(text: &str) -> Vec<String> {
    let changes = |line: &String| line.starts_with("created") || line.starts_with("held by");
    let lines = text.lines().map(|line| line.trim_end().to_owned());
    lines.filter(|line| !changes(line)).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn processes_that_merely_hold_a_ring_are_named() {
    let shelf = Shelf::stocked();
    let holder = Holder::spawn(&shelf);
    let pids = |line: &serde_json::Value| line["holder_pids"].clone();
    assert_eq!(pids(&shelf.json(&["stat", "held"])[0]), serde_json::json!([holder.pid()]));
    for object in shelf.json(&["ls"]) {
        let held = object["name"] == "held";
        let expected = if held { vec![holder.pid()] } else { Vec::new() };
        assert_eq!(pids(&object), serde_json::json!(expected), "{object}");
    }
    let text = shelf.run(&["stat", "held"]).expect(0).out;
    let line = format!("held by     pid {} (", holder.pid());
    assert!(text.contains(&line), "{text}");
    assert!(shelf.run(&["stat", "pong"]).expect(0).out.contains("held by     -\n"));
    let listed = shelf.run(&["ls"]).expect(0).out;
    let of_ring = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(of_ring("held").ends_with(&format!("  {}", holder.pid())), "{listed}");
    assert!(of_ring("pong").ends_with("  -"), "{listed}");
}

#[test]
fn a_terminal_shows_what_a_pipe_gets_whatever_its_width() {
    let (shelf, _writers) = with_many_lanes();
    let piped = shelf.run(&["stat", "many"]).expect(0).out;
    assert!(!piped.contains('\u{1b}'), "{piped}");
    for (rows, columns) in [(80, 160), (200, 60), (400, 30)] {
        for set in [("LANG", "C"), ("NO_COLOR", "1"), ("COLUMNS", "20")] {
            let screen = seen(&shelf, rows, columns, set);
            assert_eq!(lines(&screen.contents()), lines(&piped), "{columns} columns, {set:?}");
        }
    }
}

#[test]
fn the_rows_of_a_long_table_stand_under_their_titles() {
    let (shelf, _writers) = with_many_lanes();
    let screen = seen(&shelf, 80, 160, ("LANG", "C"));
    let text = screen.contents();
    let shown: Vec<&str> = text.lines().collect();
    let titles = shown.iter().position(|line| line.trim_start().starts_with("LANE")).unwrap();
    let ends = |title: &str| shown[titles].find(title).unwrap() + title.len();
    let writer = shown[titles].find("WRITER").unwrap();
    let said = shelf.json(&["stat", "many"]).remove(0);
    let lanes = said["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), LANES as usize);
    for (lane, row) in lanes.iter().zip(&shown[titles + 1..]) {
        // Flush right under its title, however long it is.
        for (title, key) in [("LANE", "lane"), ("HEAD", "head_seq"), ("ROWS", "rows")] {
            let cells = row.get(..ends(title)).unwrap_or_default();
            let last = cells.split_whitespace().last().unwrap();
            assert_eq!(last.replace(',', ""), lane[key].to_string(), "{title} in {row:?}");
        }
        let holder = format!("pid {}", std::process::id());
        assert_eq!(row.get(writer..).map(str::trim), Some(&*holder), "{row:?}");
    }
    assert!(shown.iter().all(|line| line.chars().count() < 160), "{text}");
}
