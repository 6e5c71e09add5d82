//! Sampling as a learner sees it: ends of episodes, n-step returns, prefetched batches, and reused
//! memory. The model suite covers the rest.

mod age;
mod ahead;
mod alpha;
mod blocks;
mod columns;
mod ends;
mod memory;
mod priorities;
mod ranks;
mod returns;
mod scene;
mod sequences;
mod strides;
mod young_rows;

use backcast_core::{
    AutoresetMode, Batch, DType, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions,
};

/// Returns the schema: `obs` counts the rows of the ring from 1, and `reward` is a tenth of it.
fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::F64, &[])
        .column("reward", DType::F64, &[])
        .build()
        .unwrap()
}

fn ring(capacity: u64) -> Ring {
    Ring::heap(&schema(), RingOptions::with_capacity(capacity)).unwrap()
}

/// How an episode ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Terminated,
    Truncated,
    /// The episode goes on.
    Open,
}

/// Writes episodes. Every observation, final ones included, is one more than the one before.
struct Actor {
    writer: Writer,
    count: f64,
}

impl Actor {
    fn of(ring: &Ring) -> Self {
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
        Self { writer: ring.writer(options).unwrap(), count: 0.0 }
    }

    fn step(&mut self, end: End) {
        self.count += 1.0;
        let (obs, reward, last) = ([self.count], [self.count / 10.0], [self.count + 1.0]);
        let schema = schema();
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let mut columns = columns.with("reward", &reward).unwrap();
        let ended = end != End::Open;
        if ended {
            columns = columns.with_final("obs", &last).unwrap();
            self.count += 1.0;
        }
        let flags = ([end == End::Terminated], [end == End::Truncated]);
        self.writer.append(&columns.step(&flags.0, &flags.1).unwrap()).unwrap();
    }

    fn episode(&mut self, steps: usize, end: End) {
        (1..steps).for_each(|_| self.step(End::Open));
        self.step(end);
    }
}

fn floats(batch: &Batch, key: &str) -> Vec<f64> {
    batch.column::<f64>(key).unwrap().iter().copied().collect()
}

fn bools(batch: &Batch, key: &str) -> Vec<bool> {
    batch.column::<bool>(key).unwrap().iter().copied().collect()
}
