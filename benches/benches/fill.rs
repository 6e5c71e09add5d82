//! Whether a sampled row takes longer the more a ring holds: rows out of rings of ten thousand to twenty
//! million, and of one lane to 64, against gathers in C of the same rows out of the same memory, which
//! pay for caches and page tables as we do. All take turns.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use backcast_benches::c_rows::{MappedRing, RECORD, Rows, Widths};
use backcast_benches::measured::Measured;
use backcast_benches::{base, filled};
use backcast_core::{Base, Sampler, SamplerOptions};

const ROUNDS: usize = 51;
const BATCH: usize = 256;
/// Batches that are timed together.
const BATCHES: usize = 256;
/// As many more before, in which the caches and the branch predictor find their ways.
const BEFORE: usize = 16;
/// More than the caches hold: read between turns, so that nobody finds what another one left there.
const SWEPT_BYTES: usize = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let measured = Measured::from_args();
    let (times, quotients) = (
        "sample 256 rows of 64 B, and gather the same in C, a row",
        [
            "sample 256 rows of 64 B, time over a gather of the same in C",
            "sample 256 rows of 64 B, time over a gather in C of compiled widths",
        ],
    );
    if !measured.wants(times) && !quotients.iter().any(|metric| measured.wants(metric)) {
        return Ok(());
    }
    let (_dir, base) = base();
    let million = 1_000_000;
    let mut rings = [
        Contest::new(&base, "10 k rows, 1 lane", 10_000, 1)?,
        Contest::new(&base, "1 M rows, 1 lane", million, 1)?,
        Contest::new(&base, "20 M rows, 1 lane", 20 * million, 1)?,
        Contest::new(&base, "1 M rows, 8 lanes", million, 8)?,
        Contest::new(&base, "1 M rows, 64 lanes", million, 64)?,
    ];
    let sweep = vec![1_u8; SWEPT_BYTES];
    // What is done once is done in a round that does not count: pages find their places.
    for contest in &mut rings {
        contest.round(&sweep, 0);
        contest.forget();
    }
    for round in 0..ROUNDS {
        for contest in &mut rings {
            contest.round(&sweep, round);
        }
    }
    for Contest { of, ours, told, compiled, .. } in &rings {
        measured.keep(times, "ns", &format!("backcast, {of}"), ours);
        measured.keep(times, "ns", &format!("C-like gather, {of}"), told);
        measured.keep(times, "ns", &format!("C-like gather of compiled widths, {of}"), compiled);
    }
    for (number, metric) in quotients.into_iter().enumerate() {
        for contest in &rings {
            let theirs = [&contest.told, &contest.compiled][number];
            measured.keep(metric, "times", contest.of, &contest.times_of(theirs));
        }
    }
    Ok(())
}

/// A ring, and who takes rows from it.
struct Contest {
    of: &'static str,
    sampler: Sampler,
    memory: Vec<Vec<u8>>,
    mapped: MappedRing,
    rows: Rows,
    /// Of the same seed as the sampler: draws first, to tell which rows it will be.
    scout: Sampler,
    index: Vec<i64>,
    /// Nanoseconds a row, by rounds.
    ours: Vec<f64>,
    /// Those of gathers, by how they know the widths of columns.
    told: Vec<f64>,
    compiled: Vec<f64>,
}

impl Contest {
    fn new(base: &Base, of: &'static str, rows: u64, lanes: u32) -> Result<Self, Box<dyn Error>> {
        let name = format!("fill-{rows}-{lanes}");
        let ring = filled(base, &name, RECORD, rows, lanes);
        let mapped = MappedRing::of(&ring, base, &name)?;
        let mut sampler = ring.sampler(SamplerOptions::seeded(7))?;
        let scout = ring.sampler(SamplerOptions::seeded(7))?;
        let plan = sampler.plan(BATCH)?;
        let memory = plan.arenas().iter().map(|arena| vec![0; arena.bytes()]).collect();
        let (rows, index) = (Rows::new(BATCH), Vec::new());
        let [ours, told, compiled] = [(); 3].map(|()| Vec::new());
        Ok(Self { of, sampler, memory, mapped, rows, scout, index, ours, told, compiled })
    }

    fn forget(&mut self) {
        for times in [&mut self.ours, &mut self.told, &mut self.compiled] {
            times.clear();
        }
    }

    /// A turn of each, who begins by the number of the round.
    fn round(&mut self, sweep: &[u8], number: usize) {
        self.index.clear();
        for _ in 0..BEFORE + BATCHES {
            let batch = self.scout.sample(BATCH).expect("a full ring");
            self.index.extend_from_slice(&batch.index());
        }
        for turn in 0..3 {
            black_box(sweep.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
            match (number + turn) % 3 {
                0 => {
                    self.draw(BEFORE);
                    let time = self.draw(BATCHES);
                    self.ours.push(time);
                }
                1 => {
                    let time = self.gather(Widths::Told);
                    self.told.push(time);
                }
                _ => {
                    let time = self.gather(Widths::Compiled);
                    self.compiled.push(time);
                }
            }
        }
        let last = self.index.len() - BATCH;
        for widths in [Widths::Told, Widths::Compiled] {
            self.rows = Rows::new(BATCH);
            assert!(self.mapped.gather(widths, &self.index[last..], &mut self.rows));
            let alike = self.memory.iter().eq(self.rows.arenas().iter());
            assert!(alike, "{}: all have the same last batch", self.of);
        }
    }

    /// Samples so many batches: nanoseconds a row.
    fn draw(&mut self, batches: usize) -> f64 {
        let plan = self.sampler.plan(BATCH).expect("a valid batch");
        let begin = Instant::now();
        for _ in 0..batches {
            let mut arenas: Vec<&mut [u8]> =
                self.memory.iter_mut().map(Vec::as_mut_slice).collect();
            self.sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        }
        per_row(begin, batches * BATCH)
    }

    /// Gathers the rows that the scout found, batch by batch: nanoseconds a row.
    fn gather(&mut self, widths: Widths) -> f64 {
        let (before, timed) = self.index.split_at(BEFORE * BATCH);
        let mut begin = Instant::now();
        for rows in [before, timed] {
            begin = Instant::now();
            for batch in rows.chunks_exact(BATCH) {
                let whole = self.mapped.gather(widths, batch, black_box(&mut self.rows));
                assert!(whole, "nobody writes");
            }
        }
        per_row(begin, timed.len())
    }

    /// Our time over another one's, round by round.
    fn times_of(&self, theirs: &[f64]) -> Vec<f64> {
        self.ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
    }
}

fn per_row(begin: Instant, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a time per row")]
    let rows = rows as f64;
    begin.elapsed().as_secs_f64() * 1e9 / rows
}
