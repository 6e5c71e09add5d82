//! Draws from a ring that changes between their steps: each race is made to happen at its point.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{DrawPoints, Point};
use crate::sampler::Sampler;
use crate::{
    AutoresetMode, Base, Batch, DType, LanePolicy, PriorityOptions, Ring, RingOptions, RowIndex,
    Schema, StepColumns, Writer, WriterOptions,
};

mod ahead;
mod blocks;
mod claims;
mod forms;
mod goals;
mod limiter;
mod priorities;

/// Transitions of an episode. Its rows are one more.
const LENGTH: u64 = 5;
/// Points of every draw, whatever it draws.
const POINTS: [Point; 5] =
    [Point::Read, Point::Chosen, Point::Selected, Point::Copied, Point::Gathered];

impl DrawPoints {
    /// Runs `run` at every point.
    fn run(&mut self, run: impl FnMut(Point) + Send + 'static) {
        self.run = Some(Box::new(run));
    }
}

/// Tells whether a change was made.
#[derive(Clone, Debug, Default)]
struct Made(Arc<AtomicBool>);

impl Made {
    fn is_made(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Makes a change once, when the sampler reaches a point for the first time.
fn change_at(sampler: &mut Sampler, point: Point, change: impl FnOnce() + Send + 'static) -> Made {
    let made = Made::default();
    let (told, mut change) = (made.clone(), Some(change));
    sampler.points.run(move |reached| {
        if let Some(change) = change.take_if(|_| reached == point) {
            change();
            told.0.store(true, Relaxed);
        }
    });
    made
}

/// A ring of one lane with episodes of [`LENGTH`] transitions, and its writer. Every column of a
/// row is computed from its number.
struct Source {
    ring: Ring,
    writer: Option<Writer>,
    /// Number of the next row.
    row: u64,
}

fn schema() -> Schema {
    Schema::builder()
        .column("obs/row", DType::U64, &[4])
        .column("obs/achieved", DType::F64, &[])
        .column("obs/desired", DType::F64, &[])
        .column("reward", DType::F64, &[])
        .build()
        .unwrap()
}

fn options(capacity: u64) -> RingOptions {
    RingOptions::with_capacity(capacity).lane_policy(LanePolicy::Overwrite)
}

/// Returns the observation of a row, whose words lie apart if the row is torn.
fn obs(row: u64) -> [u64; 4] {
    [row, !row, row.wrapping_mul(0x9E37_79B9_7F4A_7C15), row]
}

#[expect(clippy::cast_precision_loss, reason = "few rows")]
fn real(row: u64) -> f64 {
    row as f64
}

/// Returns the step of a row in its episode. That of a FINAL row is [`LENGTH`].
fn step(row: u64) -> u64 {
    row % (LENGTH + 1)
}

impl Source {
    /// Returns a ring in private memory.
    fn heap(options: RingOptions) -> Self {
        Self::of(Ring::heap(&schema(), options).unwrap())
    }

    /// Returns a ring of files, which can be resized.
    fn in_files(capacity: u64) -> (tempfile::TempDir, Self) {
        let dir = tempfile::tempdir().unwrap();
        let options = options(capacity).base(Base::at(dir.path()));
        let ring = Ring::create("changes", &schema(), options).unwrap();
        (dir, Self::of(ring))
    }

    fn of(ring: Ring) -> Self {
        Self { ring, writer: None, row: 0 }
    }

    /// Returns the source after it has written `rows` rows and more, up to the end of an episode.
    fn filled(mut self, rows: u64) -> Self {
        self.append(rows);
        while step(self.row) != 0 {
            self.append(1);
        }
        self
    }

    /// Writes `rows` rows; one more if the last of them ends an episode.
    fn append(&mut self, rows: u64) {
        let mode = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
        let ring = &self.ring;
        let writer = self.writer.get_or_insert_with(|| ring.writer(mode).unwrap());
        let (schema, end) = (schema(), self.row + rows);
        while self.row < end {
            let (row, next) = (self.row, self.row + 1);
            let ends = step(next) == LENGTH;
            let (now, last) = (obs(row), obs(next));
            let (achieved, last_achieved) = ([real(row)], [real(next)]);
            let (desired, reward) = ([-1.0_f64], [1.5 * real(row)]);
            let mut columns = StepColumns::of(&schema).with("obs/row", &now).unwrap();
            columns = columns.with("obs/achieved", &achieved).unwrap();
            columns = columns.with("obs/desired", &desired).unwrap();
            columns = columns.with("reward", &reward).unwrap();
            if ends {
                columns = columns.with_final("obs/row", &last).unwrap();
                columns = columns.with_final("obs/achieved", &last_achieved).unwrap();
                columns = columns.with_final("obs/desired", &desired).unwrap();
            }
            writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
            self.row += if ends { 2 } else { 1 };
        }
    }

    /// Overwrites every row, one and a half times.
    fn overwrite_all(&mut self) {
        self.append(self.ring.slots() + self.ring.slots() / 2);
    }

    /// Overwrites the older half of the rows.
    fn overwrite_half(&mut self) {
        self.append(self.ring.slots() - self.ring.lane_capacity() / 2);
    }

    /// Drops every row.
    fn empty(&mut self) {
        self.ring.clear().unwrap();
    }

    /// Overwrites every row, and drops what took their place.
    fn lose_all(&mut self) {
        self.overwrite_all();
        self.empty();
    }

    /// Drops every row, and writes two episodes.
    fn clear(&mut self) {
        self.empty();
        self.append(2 * (LENGTH + 1));
    }

    /// Returns the rows that may have priorities: the newest has no successor yet.
    fn prioritised_rows(&self) -> Range<u64> {
        let rows = self.ring.lane_span(0).unwrap();
        rows.start..rows.end - 1
    }

    /// Enlarges the ring. Its lane moves at once, since its writer is gone.
    fn grow(&mut self) {
        self.writer = None;
        let mut go_on = |_| ControlFlow::Continue(());
        let capacity = 4 * self.ring.capacity();
        self.ring.resize(capacity, None, &mut go_on).unwrap();
    }
}

/// Checks the transitions of a batch against their numbers. Returns the numbers.
fn check(batch: &Batch) -> Vec<u64> {
    let rows: Vec<u64> = batch.index().into_iter().map(RowIndex::seq).collect();
    let [now, next] = ["obs/row", "next_obs/row"].map(|key| batch.column::<u64>(key).unwrap());
    let rewards = batch.column::<f64>("reward").unwrap();
    let terminated = batch.column::<bool>("terminated").unwrap();
    for (item, row) in rows.iter().enumerate() {
        let found = [&now, &next].map(|of| [0, 1, 2, 3].map(|word| of[[item, word]]));
        assert_eq!(found, [obs(*row), obs(row + 1)], "item {item}");
        assert_eq!(rewards[[item]].to_bits(), (1.5 * real(*row)).to_bits(), "item {item}");
        assert!(step(*row) < LENGTH, "row {row} begins no transition");
        assert_eq!(terminated[[item]], step(row + 1) == LENGTH, "item {item}");
    }
    rows
}

/// Returns options under which a leaf is the priority, and a weight the ratio to the least leaf.
fn linear() -> PriorityOptions {
    PriorityOptions::alpha(1.0).eps(0.0).beta(1.0)
}

/// Sets the priorities of the rows in a range, as another learner does.
fn prioritise(ring: &Ring, rows: Range<u64>, priority: impl Fn(u64) -> f64) {
    let starts = rows.filter(|row| step(*row) < LENGTH);
    let (index, priorities): (Vec<i64>, Vec<f64>) =
        starts.map(|row| (row.cast_signed(), priority(row))).unzip();
    ring.priorities(&linear()).unwrap().update(&index, &priorities).unwrap();
}
