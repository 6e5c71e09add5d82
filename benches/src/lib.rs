//! Code shared by the benchmarks: records of the measured sizes, rings filled with them, and the
//! same bytes in private memory for the baselines.

pub mod c_draws;
pub mod c_gather;
pub mod c_rows;
pub mod measured;
pub mod record;

use std::time::Duration;

use backcast_core::{AutoresetMode, Base, Ring, RingOptions, StepColumns, WriterOptions};
use criterion::Criterion;
use record::Record;

/// Returns Criterion with short rounds, so that all suites take a few minutes.
#[must_use]
pub fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

/// Returns a directory in memory for the rings of one benchmark.
///
/// # Panics
/// If `/dev/shm` has no room for one.
#[must_use]
pub fn base() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let base = Base::at(dir.path());
    (dir, base)
}

/// Creates a full named ring in memory, with episodes of 200 steps.
///
/// # Panics
/// If `/dev/shm` has no room.
#[must_use]
pub fn filled(base: &Base, name: &str, record: Record, capacity: u64, lanes: u32) -> Ring {
    let options = RingOptions::with_capacity(capacity).lanes(lanes).base(base.clone());
    let ring = Ring::create(name, &record.schema(), options).expect("room for the ring");
    fill(&ring, record);
    ring
}

/// Writes every slot of a ring, and an eighth of them again.
///
/// # Panics
/// If a lane is taken.
pub fn fill(ring: &Ring, record: Record) {
    let lanes = ring.lanes();
    let mut writer = ring
        .writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep))
        .expect("free lanes");
    let rows = record.rows(lanes as usize);
    let (quiet, ends) = (vec![false; lanes as usize], vec![true; lanes as usize]);
    for t in 0..ring.slots() + ring.slots() / 8 {
        let columns = StepColumns::of(ring.schema())
            .with("obs", &rows.obs)
            .and_then(|c| c.with("action", &rows.action))
            .and_then(|c| c.with("reward", &rows.reward))
            .expect("columns of the schema");
        let truncated = if t % 200 == 199 { &ends } else { &quiet };
        let step = columns.step(&quiet, truncated).expect("every column");
        writer.append(&step).expect("a step of the schema");
    }
}
