//! Saves beside writers in other processes that never stop: every row saved is whole and in order.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use backcast_budget::{BoundedChild, Lines, WATCHDOG};
use backcast_core::{
    AutoresetMode, Base, DType, Exist, LanePolicy, Ring, RingOptions, Schema, StepColumns,
    WriterOptions,
};
use backcast_persist::{LoadOptions, SaveOptions};

use crate::rings::Place;

/// Environment variable of a process that writes: the directory of the ring.
const WRITE_IN: &str = "BACKCAST_TEST_WRITE_IN";
const LANES: u32 = 4;
/// Rows of a lane.
const CAPACITY: u64 = 40_000;

fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::U64, &[16])
        .column("twice", DType::U64, &[])
        .column("odd", DType::Bool, &[])
        .build()
        .expect("a good schema")
}

/// Writes in the other process of the test below.
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_process_that_writes() {
    let dir = std::env::var_os(WRITE_IN).expect("a role, started by the test below");
    let ring = Ring::attach_in(&Base::at(PathBuf::from(dir)), "busy").expect("the ring");
    let mut writer = ring
        .writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep))
        .expect("two free lanes");
    println!("writing");
    std::io::stdout().flush().expect("a pipe");
    let schema = schema();
    // Append until the parent kills this process. One number determines all columns of a row.
    for number in 0_u64.. {
        let (mut obs, twice) = ([number; 32], [2 * number, 2 * number + 2]);
        obs[16..].fill(number + 1);
        let odd = [number % 2 == 1, number % 2 == 0];
        let columns = StepColumns::of(&schema)
            .with("obs", &obs)
            .and_then(|c| c.with("twice", &twice))
            .and_then(|c| c.with("odd", &odd))
            .expect("the columns fit");
        let ends = [number % 50 == 49; 2];
        let step = columns.step(&ends, &[false; 2]).expect("a step");
        writer.append(&step).expect("appended");
    }
}

struct Writer(Child);

impl Writer {
    fn start(place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "beside_writers::a_process_that_writes", "--ignored", "--nocapture"])
            .env(WRITE_IN, place.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary runs");
        Lines::of(child.stdout.take().expect("piped")).wait_for("writing");
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Checks that every row is whole and in order. Returns the number of rows.
fn check(ring: &Ring) -> u64 {
    let mut rows_seen = 0;
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).expect("a lane");
        let rows = ring.rows(lane, span.clone()).expect("readable");
        let seq = rows.column::<u64>("seq").expect("seq");
        assert!(seq.iter().copied().eq(span.clone()), "lane {lane}");
        let (obs, twice) =
            (rows.column::<u64>("obs").unwrap(), rows.column::<u64>("twice").unwrap());
        let (odd, flags) =
            (rows.column::<bool>("odd").unwrap(), rows.column::<u32>("flags").unwrap());
        let (episode, t) =
            (rows.column::<u64>("episode").unwrap(), rows.column::<u32>("t").unwrap());
        for at in 0..rows.len() {
            // A FINAL row has zeros in the columns that are no observation.
            let last = flags[at] & backcast_core::FINAL != 0;
            let number = obs[at * 16];
            assert!(obs[at * 16..][..16].iter().all(|n| *n == number), "lane {lane} row {at}");
            assert_eq!(twice[at], if last { 0 } else { 2 * number }, "lane {lane} row {at}");
            assert_eq!(odd[at], !last && number % 2 == 1, "lane {lane} row {at}");
            if at > 0 {
                assert_eq!(number, obs[(at - 1) * 16] + 1, "lane {lane} row {at}");
                let begins = flags[at - 1] & backcast_core::FINAL != 0;
                assert_eq!(episode[at] - episode[at - 1], u64::from(begins));
                assert_eq!(t[at], if begins { 0 } else { t[at - 1] + 1 });
            }
        }
        rows_seen += rows.len() as u64;
    }
    rows_seen
}

#[test]
fn rows_saved_beside_running_writers_are_whole_and_in_order() {
    let place = Place::new();
    let store = place.store();
    let options = RingOptions::with_capacity(CAPACITY * u64::from(LANES))
        .lanes(LANES)
        .lane_policy(LanePolicy::Overwrite)
        .base(place.base());
    let ring = Ring::create("busy", &schema(), options).unwrap();
    let _writers = [Writer::start(&place), Writer::start(&place)];
    let heads = || (0..LANES).map(|lane| ring.lane_span(lane).unwrap().end).min().unwrap();
    let (mut rows, mut lapped) = (0, 0);
    for attempt in 0..6 {
        let mut first = true;
        let options = SaveOptions::default().sizes(100_000, 1_000_000).on_progress(|_| {
            // In every other save the writers overwrite the lanes twice before the second batch.
            let (cut, since) = (heads(), Instant::now());
            while attempt % 2 == 1 && first && heads() < cut + 2 * CAPACITY {
                assert!(since.elapsed() < WATCHDOG, "the writers have stopped");
                std::hint::spin_loop();
            }
            first = false;
            ControlFlow::Continue(())
        });
        let report = store.save(&ring, &format!("s{attempt}"), options).unwrap();
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        let loaded = store.load(&format!("busy@s{attempt}"), options.base(place.base())).unwrap();
        assert_eq!(check(&loaded), report.rows);
        if attempt % 2 == 1 {
            assert!(report.rows_lapped > 0, "{report:?}");
        }
        (rows, lapped) = (rows + report.rows, lapped + report.rows_lapped);
    }
    println!("{rows} rows saved beside writers, {lapped} lapped, {} written", heads());
    assert!(rows > 0);
    assert!(store.verify("busy", |_| ControlFlow::Continue(())).unwrap().is_whole());
}
