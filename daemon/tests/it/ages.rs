//! Ages of drawn rows, read by other processes than the one that draws.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use backcast_budget::{BoundedChild, Lines};
use backcast_core::{Base, Ring, SamplerOptions, StepColumns, WriterOptions};
use serde_json::{Value, json};

use crate::serve::metrics::scrape;
use crate::serve::running::Running;
use crate::shelf::{Shelf, role, schema, set_by_the_parent};

/// Set in a process that [`Learner::spawn`] started: the directory of its ring.
const DRAW_IN: &str = "BACKCAST_TEST_DRAW_IN";
/// Rows of a batch of a learner.
const BATCH: usize = 32;
/// First byte of the ages of the first reader's slot in `ring.rdr`, and their size.
const AGES_AT: (u64, usize) = (384 + 64, 400);

/// A process that draws from the ring `pong` when it is told to.
struct Learner {
    child: Child,
    orders: ChildStdin,
    lines: Lines,
}

impl Learner {
    fn spawn(shelf: &Shelf) -> Self {
        let mut child = role("ages::a_process_that_draws")
            .env(DRAW_IN, shelf.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary runs");
        let orders = child.stdin.take().expect("piped");
        let lines = Lines::of(child.stdout.take().expect("piped"));
        Self { child, orders, lines }
    }

    /// Draws batches, and returns the ages that its own statistics report.
    fn draw(&mut self, batches: u32) -> Value {
        writeln!(self.orders, "{batches}").expect("the learner lives");
        let line = self.lines.wait_for("ages ");
        serde_json::from_str(line.trim_start_matches("ages ")).expect("JSON")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait_bounded().expect("it is a child");
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_draws() {
    let base = Base::at(PathBuf::from(set_by_the_parent(DRAW_IN)));
    let ring = Ring::attach_in(&base, "pong").expect("a ring");
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).expect("a sampler");
    for line in std::io::stdin().lines() {
        for _ in 0..line.expect("readable").parse().expect("a number") {
            sampler.sample(BATCH).expect("a batch");
        }
        let ages = sampler.stats().expect("statistics").ages;
        let ages: Vec<Value> =
            ages.iter().map(|bin| json!({"from": bin.from, "rows": bin.rows})).collect();
        println!("\nages {}", Value::from(ages));
    }
}

fn fill(ring: &Ring, rows: usize) {
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let (obs, action) = ([0.5_f32; 6], [1_i32]);
    for _ in 0..rows {
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}

fn readers(shelf: &Shelf) -> Vec<Value> {
    shelf.json(&["stat", "pong"])[0]["readers"].as_array().unwrap().clone()
}

fn rows(ages: &Value) -> u64 {
    ages.as_array().unwrap().iter().map(|bin| bin["rows"].as_u64().unwrap()).sum()
}

/// Returns the metrics of the ages of the ring's rows, by the youngest age of their bin.
fn metrics(daemon: &Running) -> BTreeMap<u64, f64> {
    let from = |series: &str| {
        let from = series.strip_prefix("backcast_sampled_age_rows_total{ring=\"pong\",from=\"")?;
        from.strip_suffix("\"}")?.parse().ok()
    };
    scrape(daemon).into_iter().filter_map(|(series, n)| Some((from(&series)?, n))).collect()
}

fn as_metrics(ages: &Value) -> BTreeMap<u64, f64> {
    let bins = ages.as_array().unwrap().iter();
    bins.map(|bin| (bin["from"].as_u64().unwrap(), bin["rows"].as_f64().unwrap())).collect()
}

#[test]
fn other_processes_see_the_ages_that_a_learner_counts() {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options()).unwrap();
    fill(&ring, 300);
    let mut learner = Learner::spawn(&shelf);
    assert_eq!(learner.draw(0), json!([]));
    assert_eq!(readers(&shelf)[0]["ages"], json!([]));
    let top = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
    assert!(!top.contains("reader"), "{top}");
    for (batches, counted) in [(1, 1), (63, 1), (1, 2), (128, 4)] {
        let own = learner.draw(batches);
        assert_eq!(rows(&own), counted * BATCH as u64);
        let seen = readers(&shelf);
        assert_eq!((seen.len(), &seen[0]["ages"]), (1, &own));
    }
    let pid = learner.pid();
    let stat = shelf.run(&["stat", "pong"]).expect(0).out;
    assert!(stat.contains("AGES") && stat.contains(", all <= 511"), "{stat}");
    let top = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
    let line = format!(
        "reader 0 (pid {pid}) of pong: ages of drawn rows, in newer rows of the lane: half <= "
    );
    assert!(top.contains(&line) && top.contains(", all <= 511"), "{top}");
    let shown = shelf.json(&["top", "--once", "--interval", "0.05"]).remove(0);
    let own = learner.draw(0);
    let expected = json!([{"slot": 0, "pid": pid, "ages": own}]);
    assert_eq!(shown["rings"][0]["reader_ages"], expected);
}

#[test]
fn metrics_of_ages_stay_when_a_learner_is_killed_and_another_has_its_slot() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
    let (ring, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    fill(&ring, 300);
    let mut first = Learner::spawn(&shelf);
    assert_eq!(metrics(&daemon), BTreeMap::new());
    let of_first = first.draw(65);
    assert_eq!(metrics(&daemon), as_metrics(&of_first));
    first.kill();
    assert!(readers(&shelf).is_empty());
    assert_eq!(metrics(&daemon), as_metrics(&of_first));
    let mut second = Learner::spawn(&shelf);
    assert_eq!(second.draw(0), json!([]));
    assert_eq!((&readers(&shelf)[0]["slot"], &readers(&shelf)[0]["ages"]), (&json!(0), &json!([])));
    assert_eq!(metrics(&daemon), as_metrics(&of_first));
    let of_second = second.draw(1);
    assert_eq!(readers(&shelf)[0]["ages"], of_second);
    let mut sums = as_metrics(&of_first);
    for (from, rows) in as_metrics(&of_second) {
        *sums.entry(from).or_default() += rows;
    }
    assert_eq!(metrics(&daemon), sums);
}

#[test]
fn any_bytes_in_place_of_ages_are_numbers() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
    let (ring, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    fill(&ring, 300);
    let (mut learner, mut other) = (Learner::spawn(&shelf), Learner::spawn(&shelf));
    let own = learner.draw(1);
    other.draw(1);
    let path = shelf.object("pong.ring").join("ring.rdr");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let mut last = BTreeMap::new();
    for byte in [0x01, 0xff, 0x00, 0x80, 0xff] {
        let (at, size) = AGES_AT;
        file.write_all_at(&vec![byte; size], at).unwrap();
        let expected = if byte == 0 { 0 } else { 50 };
        let ages = readers(&shelf)[0]["ages"].clone();
        assert_eq!(ages.as_array().unwrap().len(), expected);
        for bin in ages.as_array().unwrap() {
            assert_eq!(bin["rows"], u64::from_ne_bytes([byte; 8]));
        }
        let stat = shelf.run(&["stat", "pong"]).expect(0).out;
        assert!(stat.contains("AGES"), "{stat}");
        shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0);
        let seen = metrics(&daemon);
        for (from, rows) in &last {
            assert!(seen[from] >= *rows, "{from}: {rows} and then {seen:?}");
        }
        last = seen;
    }
    // The learner adds to what it finds, and its own statistics are not those of the slot.
    let further = learner.draw(64);
    assert_eq!(rows(&further), rows(&own) + BATCH as u64);
    assert_eq!(readers(&shelf).len(), 2);
}
